//! Progress of work that may take over a second, on standard error where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);

/// Shows that something is going on until what is returned is dropped.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn start(what: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Replaces the text.
    pub(crate) fn update(&self, what: &str) {
        if self.0.message() != what {
            self.0.set_message(what.to_owned());
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
