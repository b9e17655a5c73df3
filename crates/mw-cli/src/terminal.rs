//! Standard output and standard error: the one place that writes to them.
//!
//! The print macros are denied in this crate (lib.rs): they panic where nobody reads any more, and a
//! thread that others wait for takes the whole command with it. What could not be written to standard
//! output is remembered and ends the command with an error ([`written`]), so that no caller can
//! forget to look. A reader that has gone (`memwright check | head -1`) is no error: the command ends
//! with the exit code that it would have had.

use crate::{Exit, Failure};
use mw_model::visible;
use mw_render::text::{TextLayout, USUAL_WIDTH};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// The first error of a write to standard output.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// The layout for standard output: colour on a terminal alone, and not where NO_COLOR is set.
pub(crate) fn layout(verbose: bool) -> TextLayout {
    layout_of(io::stdout().is_terminal(), rustix::stdio::stdout(), verbose)
}

/// The same for standard error.
pub(crate) fn error_layout() -> TextLayout {
    layout_of(io::stderr().is_terminal(), rustix::stdio::stderr(), false)
}

fn layout_of(terminal: bool, fd: BorrowedFd<'_>, verbose: bool) -> TextLayout {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let columns = rustix::termios::tcgetwinsize(fd)
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0);
    TextLayout { colour: terminal && wanted, width: columns.unwrap_or(USUAL_WIDTH), verbose }
}

/// Writes plain text to standard output: of names in it nothing steers the terminal.
pub(crate) fn print(text: &str) {
    print_page(&visible::lines(text));
}

/// Writes to standard output what is fit for it: a page of mw-render's, or a document.
pub(crate) fn print_page(text: &str) {
    let mut out = io::stdout().lock();
    note(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints what clap has to say: help and the version on standard output, mistakes on standard error.
pub(crate) fn print_usage(said: &clap::Error) {
    let result = said.print().and_then(|()| io::stdout().flush());
    if !said.use_stderr() {
        note(result);
    }
}

/// Writes one line to standard error, whatever names it has. When that fails there is nobody left to
/// tell.
pub(crate) fn tell(line: impl Display) {
    let line = visible::line(&line.to_string()) + "\n";
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Writes a page of mw-render's to standard error. When that fails there is nobody left to tell.
pub(crate) fn tell_page(page: &str) {
    let _ = io::stderr().lock().write_all(page.as_bytes());
}

/// Whether all that was printed has been written.
///
/// # Errors
/// Standard output took less, for another reason than that its reader has gone.
pub(crate) fn written() -> Result<(), Failure> {
    FAILED.get().map_or(Ok(()), |error| Err(lost(error)))
}

/// Whether standard output can be the product of a command: a program that was started without one
/// (`>&-`) gets /dev/null for it from Rust's runtime, opened for reading as well.
///
/// # Errors
/// Standard output was closed.
pub(crate) fn check_output() -> Result<(), Failure> {
    let stdout = rustix::stdio::stdout();
    let null = Path::new("/dev/null").metadata().map(|null| null.rdev());
    let is_null =
        rustix::fs::fstat(stdout).is_ok_and(|stat| null.is_ok_and(|null| stat.st_rdev == null));
    let is_readable =
        rustix::fs::fcntl_getfl(stdout).is_ok_and(|flags| flags.contains(OFlags::RDWR));
    if is_null && is_readable { Err(lost(&Errno::BADF.into())) } else { Ok(()) }
}

/// The failure of a command whose product is standard output itself, where it cannot be written.
pub(crate) fn lost(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::silent(Exit::CouldNotCheck),
        _ => Failure::new(Exit::CouldNotCheck, format!("standard output: {error}")),
    }
}

fn note(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = FAILED.set(error);
    }
}
