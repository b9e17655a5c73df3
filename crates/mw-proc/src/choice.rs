//! Files that offer words and mark the chosen one: `always [madvise] never`, as in
//! `/sys/kernel/mm/transparent_hugepage/{enabled,defrag,shmem_enabled}` (2.6.38 and later) and
//! `/sys/block/*/queue/scheduler`.

use crate::error::{ParseError, Problem};
use crate::scan;

/// The most options that a file may offer.
pub const MAX_OPTIONS: usize = 64;

/// The options of a file and the chosen one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The words on offer, in the file's order.
    pub options: Vec<String>,
    /// Index of the chosen one of [`Choice::options`]; `None` when the file marks none.
    pub selected: Option<usize>,
}

impl Choice {
    /// Reads `always [madvise] never`.
    ///
    /// # Errors
    /// When nothing is there, two words are marked, or more than [`MAX_OPTIONS`] are offered.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let fail = |problem| Err(ParseError::new(1, problem));
        let mut choice = Self::default();
        for field in scan::fields(text) {
            if choice.options.len() >= MAX_OPTIONS {
                return fail(Problem::TooMany("options"));
            }
            let marked = field.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
            if marked.is_some() && choice.selected.is_some() {
                return fail(Problem::TooMany("marked options"));
            }
            if marked.is_some() {
                choice.selected = Some(choice.options.len());
            }
            choice.options.push(scan::lossy(marked.unwrap_or(field)));
        }
        if choice.options.is_empty() { fail(Problem::Empty) } else { Ok(choice) }
    }

    #[must_use]
    pub fn selected(&self) -> Option<&str> {
        self.options.get(self.selected?).map(String::as_str)
    }

    /// True if this kernel knows the word.
    #[must_use]
    pub fn offers(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, selected: Option<&str>, count: usize) {
        let choice = Choice::parse(text.as_bytes()).unwrap();
        assert_eq!((choice.selected(), choice.options.len()), (selected, count), "{text}");
    }

    #[test]
    fn marks() {
        check("always defer defer+madvise [madvise] never\n", Some("madvise"), 5);
        check("always within_size advise [never] deny force\n", Some("never"), 6);
        check("[always] madvise never\n", Some("always"), 3);
        check("none\n", None, 1);
        assert!(Choice::parse(b"always [madvise] never").unwrap().offers("madvise"));
        assert!(!Choice::parse(b"always [madvise] never").unwrap().offers("defer"));
    }

    #[test]
    fn wrong() {
        let problem = |text: &[u8]| Choice::parse(text).unwrap_err().problem;
        assert_eq!(problem(b"\n"), Problem::Empty);
        assert_eq!(problem(b"[a] [b]"), Problem::TooMany("marked options"));
        assert_eq!(problem(&b"a ".repeat(65)), Problem::TooMany("options"));
    }
}
