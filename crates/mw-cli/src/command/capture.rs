//! `memwright capture`: the kernel's memory state in one file.

use crate::args::CaptureArgs;
use crate::output::{Output, STANDARD_OUTPUT};
use crate::progress::Spinner;
use crate::{Exit, Failure};
use mw_collect::Source;
use mw_collect::capture::{self, Captured};
use mw_model::format_bytes;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &CaptureArgs) -> Result<Exit, Failure> {
    let source = Source::live().map_err(|error| Failure::new(Exit::CouldNotLook, error))?;
    let output = args.output.clone().unwrap_or_else(default_name);
    let spinner = Spinner::start("looking at memory twice, one second apart");
    let captured = write(&source, args.redact, &output)
        .map_err(|error| Failure::new(Exit::CouldNotLook, failed(&output, &error)))?;
    drop(spinner);
    let mut said = format!(
        "{}: {} files, {} before compression\n",
        output.display(),
        captured.files,
        format_bytes(captured.bytes as u64)
    );
    for missing in &captured.missing {
        said += &format!("left out {missing}\n");
    }
    if output != Path::new(STANDARD_OUTPUT) {
        said += &format!("look at it with: memwright check --root {}\n", output.display());
    }
    // Standard output may be the capture itself.
    eprint!("{said}");
    Ok(Exit::Fine)
}

fn failed(output: &Path, error: &io::Error) -> String {
    format!("{}: {error}; name another file with --output", output.display())
}

fn default_name() -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y%m%dT%H%M%S").to_string();
    PathBuf::from(format!("memwright-{now}.tar.zst"))
}

fn write(source: &Source, redact: bool, output: &Path) -> io::Result<Captured> {
    if output == Path::new(STANDARD_OUTPUT) {
        return capture::write(source, redact, io::stdout().lock());
    }
    let mut file = Output::create(output, None)?;
    let captured = capture::write(source, redact, file.file())?;
    file.finish()?;
    Ok(captured)
}
