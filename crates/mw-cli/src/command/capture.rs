//! `memwright capture`: the kernel's memory state in one file.

use crate::args::CaptureArgs;
use crate::output::{self, Readers, STANDARD_OUTPUT};
use crate::progress::Spinner;
use crate::{Exit, Failure, live, terminal};
use mw_collect::Source;
use mw_collect::capture::{self, CaptureSummary};
use mw_model::visible::shell_word;
use mw_model::{format_bytes, format_count};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Time limit of processes and groups, as a multiple of that in `check`: a capture takes a second anyway.
const PATIENCE: u32 = 10;

pub(crate) fn run(args: &CaptureArgs) -> Result<Exit, Failure> {
    let source = live::source()?.patient(PATIENCE);
    // Without it the capture would say nothing of the machine.
    source.read("/proc/meminfo").map_err(|missing| {
        Failure::new(Exit::CouldNotCheck, format!("nothing to capture: {missing}"))
    })?;
    let output = args.output.clone().unwrap_or_else(default_name);
    let captured = write(&source, args.redact, &output)?;
    // On standard error: standard output may be the capture itself.
    terminal::tell(format_args!(
        "{}: {}, {} before compression",
        output.display(),
        format_count(captured.files, "file"),
        format_bytes(captured.bytes as u64)
    ));
    for missing in &captured.missing {
        terminal::tell(format_args!("left out {missing}"));
    }
    if output != Path::new(STANDARD_OUTPUT)
        && let Some(file) = shell_word(&output.display().to_string())
    {
        terminal::tell(format_args!("check it with: memwright check --root {file}"));
    }
    Ok(Exit::Fine)
}

fn failed(output: &Path, error: &io::Error) -> Failure {
    Failure::of_output(output, error, "--output")
}

fn default_name() -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y%m%dT%H%M%S").to_string();
    PathBuf::from(format!("memwright-{now}.tar.zst"))
}

fn write(source: &Source, redact: bool, output: &Path) -> Result<CaptureSummary, Failure> {
    if output == Path::new(STANDARD_OUTPUT) {
        terminal::check_output()?;
        let captured = looking(|| {
            let mut out = io::stdout().lock();
            let captured = capture::write(source, redact, &mut out)?;
            out.flush().map(|()| captured)
        });
        return captured.map_err(|error| terminal::lost(&error));
    }
    let failed = |error: &io::Error| failed(output, error);
    output::write(output, Readers::Owner, &failed, |file| {
        looking(|| capture::write(source, redact, file)).map_err(|error| failed(&error))
    })
}

fn looking<T>(capture: impl FnOnce() -> T) -> T {
    let _spinner = Spinner::start("sampling memory twice, one second apart");
    capture()
}
