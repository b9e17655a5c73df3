//! The table as an SVG chart.

use super::report::{BenchReport, VariantResult};
use super::sample::BenchSpread;
use super::table;
use crate::output::{self, Readers};
use crate::{Exit, Failure};
use mw_render::plot::{self, Bar, BarOutcome, Bars, Mark};
use mw_sys::guarded;
use std::io;
use std::path::Path;

/// Fails if the file cannot be created, before anything is measured.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !dir.is_dir() || path.is_dir() {
        return Err(failure(path, &"not a file in an existing directory"));
    }
    match guarded::place(path) {
        // A pipe or a device, which is opened when there is something to write.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        place => place.map(drop).map_err(|error| Failure::of_output(path, &error, "--svg")),
    }
}

/// Writes the chart of a report.
pub(crate) fn write(report: &BenchReport, path: &Path) -> Result<(), Failure> {
    let drawn = plot::bars(&bars(report)).map_err(|error| failure(path, &error))?;
    let failed = |error: &io::Error| Failure::of_output(path, error, "--svg");
    output::write(path, Readers::Everybody, &failed, |file| {
        file.write_all(drawn.as_bytes()).map_err(|error| failed(&error))
    })
}

fn failure(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::CouldNotCheck, format!("{}: {error}", path.display()))
}

fn bars(report: &BenchReport) -> Bars {
    let measured = report.rows.iter().map(bar);
    let absent = report.absent.iter().map(|absent| Bar {
        name: absent.variant.clone(),
        outcome: BarOutcome::Missing(absent.reason.clone()),
    });
    let zeroing = report
        .zeroing_ms_per_gib
        .map(|zeroing| Mark { name: "zeroing bandwidth".to_owned(), at: zeroing.median });
    Bars {
        title: table::verdict(report),
        axis: "ms/GiB, median of the rounds; lower is better".to_owned(),
        parts: ["create", "lock", "destroy"].map(str::to_owned).to_vec(),
        rows: measured.chain(absent).collect(),
        marks: zeroing.into_iter().collect(),
        footnote: vec![table::machine(report)],
    }
}

fn bar(row: &VariantResult) -> Bar {
    let threads = if row.threads == 1 { "thread" } else { "threads" };
    let spread = |spread: BenchSpread| plot::Spread {
        median: spread.median,
        min: spread.min,
        max: spread.max,
    };
    let parts = [row.create_ms_per_gib, row.lock_ms_per_gib, row.destroy_ms_per_gib];
    Bar {
        name: format!("{}, {} {threads}", row.variant, row.threads),
        outcome: BarOutcome::Measured {
            parts: parts.map(|part| part.median).to_vec(),
            total: spread(row.total_ms_per_gib),
            ratio: row.speedup,
        },
    }
}
