//! What standard output is.

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

/// Writes to standard output; a reader that has gone (`memwright check | head -1`) is no error.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}
