//! The table as an SVG chart.

use crate::output::{self, Readers};
use crate::{Exit, Failure};
use mw_model::BenchReport;
use mw_render::plot;
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
    let drawn = plot::bench(report).map_err(|error| failure(path, &error))?;
    let failed = |error: &io::Error| Failure::of_output(path, error, "--svg");
    output::write(path, Readers::Everybody, &failed, |file| {
        file.write_all(drawn.as_bytes()).map_err(|error| failed(&error))
    })
}

fn failure(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::CouldNotCheck, format!("{}: {error}", path.display()))
}
