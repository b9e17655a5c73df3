//! Lines that are counted, of which the first is shown.

/// The most of a line that is kept.
const MAX_CHARS: usize = 120;

/// Lines of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct CountedLines {
    pub(crate) count: u64,
    /// The first of them, cut.
    pub(crate) first: String,
}

impl CountedLines {
    pub(crate) fn add(&mut self, message: &str) {
        if self.count == 0 {
            self.first = message.chars().take(MAX_CHARS).collect();
        }
        self.count = self.count.saturating_add(1);
    }
}
