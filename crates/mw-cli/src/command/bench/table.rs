//! The report for people: the verdict in one line, the table, the figures.

use super::report::{Measured, Report, Spread};
use mw_model::format_bytes;
use std::fmt::Write;

/// Processors that others may keep busy without a word of it.
const BUSY: f64 = 0.15;

/// A report as text.
pub(crate) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut out, report);
    out
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "{}\n", verdict(report))?;
    rows(out, report)?;
    for absent in &report.absent {
        writeln!(out, "  {} was left out: {}", absent.way, absent.why)?;
    }
    writeln!(out)?;
    for figure in &report.figures {
        writeln!(out, "  {:<46} {:>7.1}{}", figure.name, figure.value, figure.unit)?;
    }
    for (way, shares) in placed(report) {
        writeln!(out, "  where the pages of {way:<26} {shares}")?;
    }
    for latency in &report.mmap_beside {
        writeln!(
            out,
            "  another thread's mmap beside {:<17} {:>7.2} ms at the 99.9th percentile of {} \
             ({:.2} at most)",
            latency.way, latency.p99_9_ms, latency.calls, latency.max_ms
        )?;
    }
    if let Some(others) = report.others_processors.filter(|others| *others > BUSY) {
        writeln!(
            out,
            "\nOther programs kept {others:.1} CPUs busy: on an idle machine the results are \
             better, above all with several threads."
        )?;
    }
    writeln!(out, "\n{}; median (fastest to slowest)", machine(report))
}

/// What was measured where.
pub(crate) fn machine(report: &Report) -> String {
    let hypervisor = if report.hypervisor == Some(true) { ", under a hypervisor" } else { "" };
    format!(
        "{} CPUs{hypervisor}, kernel {}, {} rounds of {}",
        report.processors,
        report.kernel,
        report.rounds,
        format_bytes(report.size_bytes)
    )
}

/// The answer, in a sentence.
pub(crate) fn verdict(report: &Report) -> String {
    let size = format_bytes(report.size_bytes);
    let Some(best) = report.best() else { return "Nothing could be measured.".to_owned() };
    format!(
        "{size} of {}: {:.1} times as fast on {} pages with {} threads: {:.0} ms/GiB to create, \
         lock and destroy.",
        report.kind,
        best.speedup.unwrap_or(1.0),
        best.page,
        best.threads,
        best.total_ms_per_gib.median,
    )
}

fn rows(out: &mut String, report: &Report) -> std::fmt::Result {
    let width = report.rows.iter().map(|row| row.way.len()).max().unwrap_or(0);
    writeln!(
        out,
        "  {:<width$} {:>7} {:>8} {:>6} {:>8} {:>20} {:>8}",
        "ms/GiB", "threads", "create", "lock", "destroy", "together", "speed-up"
    )?;
    for row in &report.rows {
        writeln!(
            out,
            "  {:<width$} {:>7} {:>8.1} {:>6.1} {:>8.1} {:>20} {:>7.1}x",
            row.way,
            row.threads,
            row.create_ms_per_gib.median,
            row.lock_ms_per_gib.median,
            row.destroy_ms_per_gib.median,
            spread(&row.total_ms_per_gib),
            row.speedup.unwrap_or(1.0),
        )?;
    }
    let ceilings = [
        ("upper bound: zeroing only", report.ceiling_ms_per_gib),
        ("upper bound: zeroing with non-temporal stores", report.ceiling_uncached_ms_per_gib),
    ];
    for (name, ceiling) in ceilings {
        let Some(ceiling) = ceiling else { continue };
        writeln!(out, "  {name:<width$} {:>16.1} {:>36}", ceiling.median, spread(&ceiling))?;
    }
    Ok(())
}

/// Where pages came from, on a machine with several nodes.
fn placed(report: &Report) -> Vec<(String, String)> {
    let share = |(node, share): (&u32, &f64)| format!("{:.0}% on node {node}", share * 100.0);
    let line = |row: &Measured| {
        let shares: Vec<String> = row.node_shares.as_ref()?.iter().map(share).collect();
        Some((format!("{} are", row.way), shares.join(", ")))
    };
    let several = report.nodes > 1;
    report.rows.iter().filter(|row| several && row.slowed == 1).filter_map(line).collect()
}

fn spread(spread: &Spread) -> String {
    format!("{:.0} ({:.0}-{:.0})", spread.median, spread.min, spread.max)
}
