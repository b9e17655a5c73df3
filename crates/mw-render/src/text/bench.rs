//! The report as text: the result in one line, the table, the ratios.

use mw_model::{BenchReport, BenchSpread, VariantResult, format_bytes, format_count};
use std::fmt::Write;

/// CPUs that other programs may keep busy without a notice.
const BUSY_CPUS: f64 = 0.15;

/// A report as text.
pub fn bench(report: &BenchReport) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut out, report);
    out
}

fn write(out: &mut String, report: &BenchReport) -> std::fmt::Result {
    writeln!(out, "{}\n", bench_verdict(report))?;
    rows(out, report)?;
    for absent in &report.absent {
        writeln!(out, "  {} was not measured: {}", absent.variant, absent.reason)?;
    }
    writeln!(out)?;
    for figure in &report.figures {
        writeln!(out, "  {:<46} {:>7.1}{}", figure.name, figure.value, figure.unit)?;
    }
    for (variant, shares) in page_sizes(report).into_iter().chain(placement(report)) {
        writeln!(out, "  pages of {variant:<37} {shares}")?;
    }
    for latency in &report.mmap_latency {
        writeln!(
            out,
            "  mmap of another thread beside {:<16} {:>7.2} ms at the 99.9th percentile of {} \
             ({:.2} at most)",
            latency.variant, latency.p99_9_ms, latency.calls, latency.max_ms
        )?;
    }
    if let Some(others) = report.other_cpus.filter(|others| *others > BUSY_CPUS) {
        writeln!(
            out,
            "\nOther programs kept {others:.1} CPUs busy: on an idle machine the results are \
             better, above all with several threads."
        )?;
    }
    writeln!(out, "\n{}; median (fastest to slowest)", bench_machine(report))
}

/// The machine and the size of the measurement.
pub(crate) fn bench_machine(report: &BenchReport) -> String {
    let hypervisor = if report.hypervisor == Some(true) { ", under a hypervisor" } else { "" };
    format!(
        "{}{hypervisor}, kernel {}, {} of {}",
        format_count(report.cpus, "CPU"),
        report.kernel,
        format_count(report.rounds, "round"),
        format_bytes(report.size_bytes)
    )
}

/// The result in a sentence.
pub(crate) fn bench_verdict(report: &BenchReport) -> String {
    let size = format_bytes(report.size_bytes);
    let Some(best) = report.best() else { return "Nothing could be measured.".to_owned() };
    format!(
        "{size} of {}: {:.1} times as fast on {} pages with {}: {:.0} ms/GiB to create, \
         lock and destroy.",
        report.kind,
        best.speedup.unwrap_or(1.0),
        best.page,
        format_count(best.threads, "thread"),
        best.total_ms_per_gib.median,
    )
}

fn rows(out: &mut String, report: &BenchReport) -> std::fmt::Result {
    let zeroing = [
        ("zeroing bandwidth", report.zeroing_ms_per_gib),
        ("zeroing, non-temporal stores", report.zeroing_uncached_ms_per_gib),
    ];
    let names = report.rows.iter().map(|row| row.variant.as_str());
    let width = names.chain(zeroing.map(|(name, _)| name)).map(str::len).max().unwrap_or(0);
    writeln!(
        out,
        "  {:<width$} {:>7} {:>8} {:>6} {:>8} {:>20} {:>8}",
        "ms/GiB", "threads", "create", "lock", "destroy", "together", "speed-up"
    )?;
    for row in &report.rows {
        writeln!(
            out,
            "  {:<width$} {:>7} {:>8.1} {:>6.1} {:>8.1} {:>20} {:>7.1}x",
            row.variant,
            row.threads,
            row.create_ms_per_gib.median,
            row.lock_ms_per_gib.median,
            row.destroy_ms_per_gib.median,
            spread(&row.total_ms_per_gib),
            row.speedup.unwrap_or(1.0),
        )?;
    }
    for (name, zeroing) in zeroing {
        let Some(zeroing) = zeroing else { continue };
        writeln!(out, "  {name:<width$} {:>16.1} {:>36}", zeroing.median, spread(&zeroing))?;
    }
    Ok(())
}

/// Composition of each variant of folios.
fn page_sizes(report: &BenchReport) -> Vec<(String, String)> {
    let share = |(size, share): (&usize, &f64)| {
        format!("{:.0}% of {}", share * 100.0, format_bytes(*size as u64))
    };
    let line = |row: &VariantResult| {
        let shares: Vec<String> = row.page_shares.as_ref()?.iter().rev().map(share).collect();
        let why = row.no_folios.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        Some((
            format!("{}, {}", row.variant, format_count(row.threads, "thread")),
            shares.join(", ") + &why,
        ))
    };
    report.rows.iter().filter(|row| row.slowed == 1).filter_map(line).collect()
}

/// The nodes of each variant's pages, on a machine with several nodes.
fn placement(report: &BenchReport) -> Vec<(String, String)> {
    let share = |(node, share): (&u32, &f64)| format!("{:.0}% on node {node}", share * 100.0);
    let line = |row: &VariantResult| {
        let shares: Vec<String> = row.node_shares.as_ref()?.iter().map(share).collect();
        Some((row.variant.clone(), shares.join(", ")))
    };
    let several = report.nodes > 1;
    report.rows.iter().filter(|row| several && row.slowed == 1).filter_map(line).collect()
}

fn spread(spread: &BenchSpread) -> String {
    format!("{:.0} ({:.0}-{:.0})", spread.median, spread.min, spread.max)
}
