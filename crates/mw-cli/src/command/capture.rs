//! `memwright capture`: the kernel's memory state in one file.

use crate::args::CaptureArgs;
use crate::progress::Spinner;
use crate::{Exit, Failure, terminal};
use mw_collect::Source;
use mw_collect::capture::{self, Captured};
use mw_model::format_bytes;
use mw_model::visible::shell_word;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const STANDARD_OUTPUT: &str = "-";

pub(crate) fn run(args: &CaptureArgs) -> Result<Exit, Failure> {
    let source = Source::live().map_err(|error| Failure::new(Exit::CouldNotLook, error))?;
    let output = args.output.clone().unwrap_or_else(default_name);
    let spinner = Spinner::start("looking at memory twice, one second apart");
    let captured = write(&source, args.redact, &output)
        .map_err(|error| Failure::new(Exit::CouldNotLook, failed(&output, &error)))?;
    drop(spinner);
    // On standard error: standard output may be the capture itself.
    terminal::say(&format!(
        "{}: {} files, {} before compression",
        output.display(),
        captured.files,
        format_bytes(captured.bytes as u64)
    ));
    for missing in &captured.missing {
        terminal::say(&format!("left out {missing}"));
    }
    if output != Path::new(STANDARD_OUTPUT)
        && let Some(file) = shell_word(&output.display().to_string())
    {
        terminal::say(&format!("look at it with: memwright check --root {file}"));
    }
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
    // Under its own name only when it is whole.
    let dir = output.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    let captured = capture::write(source, redact, &mut file)?;
    file.flush()?;
    file.persist(output)?;
    Ok(captured)
}
