//! The results of a bench as bars.

use super::{Bar, BarOutcome, Bars, Mark, PlotError};
use crate::plot::bars::bars;
use crate::text::{bench_machine, bench_verdict};
use mw_model::{BenchReport, VariantResult};

/// The results of a bench as an SVG chart.
///
/// # Errors
/// Too many variants.
pub fn bench(report: &BenchReport) -> Result<String, PlotError> {
    bars(&chart(report))
}

fn chart(report: &BenchReport) -> Bars {
    let measured = report.rows.iter().map(bar);
    let absent = report.absent.iter().map(|absent| Bar {
        name: absent.variant.clone(),
        outcome: BarOutcome::Missing(absent.reason.clone()),
    });
    let zeroing = report
        .zeroing_ms_per_gib
        .map(|zeroing| Mark { name: "zeroing bandwidth".to_owned(), at: zeroing.median });
    Bars {
        title: bench_verdict(report),
        axis: "ms/GiB, median of the rounds; lower is better".to_owned(),
        parts: ["create", "lock", "destroy"].map(str::to_owned).to_vec(),
        rows: measured.chain(absent).collect(),
        marks: zeroing.into_iter().collect(),
        footnote: vec![bench_machine(report)],
    }
}

fn bar(row: &VariantResult) -> Bar {
    let threads = if row.threads == 1 { "thread" } else { "threads" };
    let parts = [row.create_ms_per_gib, row.lock_ms_per_gib, row.destroy_ms_per_gib];
    Bar {
        name: format!("{}, {} {threads}", row.variant, row.threads),
        outcome: BarOutcome::Measured {
            parts: parts.map(|part| part.median).to_vec(),
            total: row.total_ms_per_gib,
            ratio: row.speedup,
        },
    }
}
