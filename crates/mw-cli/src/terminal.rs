//! What standard output is.

use mw_model::visible;
use mw_render::text::{Layout, USUAL_WIDTH};
use std::io::{self, IsTerminal, Write};

/// The layout for standard output: colour on a terminal alone, and not where NO_COLOR is set.
pub(crate) fn layout(verbose: bool) -> Layout {
    let terminal = io::stdout().is_terminal();
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let columns = rustix::termios::tcgetwinsize(rustix::stdio::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0);
    Layout { colour: terminal && wanted, width: columns.unwrap_or(USUAL_WIDTH), verbose }
}

/// Writes plain text to standard output: of names in it nothing steers the terminal.
pub(crate) fn print(text: &str) {
    print_page(&visible::lines(text));
}

/// Writes to standard output what is fit for it: a page of mw-render's, or a document. A reader that
/// has gone (`memwright check | head -1`) is no error.
pub(crate) fn print_page(page: &str) {
    let _ = io::stdout().lock().write_all(page.as_bytes());
}

/// Says one line on standard error, whatever names it has.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible::line(line));
}
