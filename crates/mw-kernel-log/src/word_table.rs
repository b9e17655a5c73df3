//! Tables of words that lines are searched for, in one pass over a line.

/// Words with what each means; those that come first count where a line has several.
#[derive(Debug)]
pub(crate) struct WordTable<T: 'static> {
    words: &'static [(&'static str, T)],
    /// The words that begin with each byte, a bit each.
    by_first_byte: [u128; 256],
}

impl<T: Copy> WordTable<T> {
    /// Of at most 128 words, none of them empty: a longer table does not compile.
    #[allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "evaluated by the compiler, which refuses what is out of bounds"
    )]
    pub(crate) const fn new(words: &'static [(&'static str, T)]) -> Self {
        let mut by_first_byte = [0; 256];
        let mut at = 0;
        while at < words.len() {
            by_first_byte[words[at].0.as_bytes()[0] as usize] |= 1 << at;
            at += 1;
        }
        Self { words, by_first_byte }
    }

    /// The first word of the table that a line has anywhere.
    pub(crate) fn find(&self, line: &str) -> Option<(&'static str, T)> {
        let bytes = line.as_bytes();
        let mut best = self.words.len();
        for (at, byte) in bytes.iter().enumerate() {
            let mut left = self.by_first_byte.get(usize::from(*byte)).copied().unwrap_or(0);
            while left != 0 {
                let place = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                let rest = bytes.get(at..).unwrap_or_default();
                let is_it =
                    |(word, _): &(&str, T)| rest.starts_with(word.as_bytes()) && place < best;
                if self.words.get(place).is_some_and(is_it) {
                    best = place;
                }
            }
        }
        self.words.get(best).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: WordTable<u8> = WordTable::new(&[("too many files", 1), ("many", 2), ("é", 3)]);

    #[test]
    fn the_first_word_of_the_table_counts_wherever_it_stands() {
        assert_eq!(TABLE.find("many, too many files"), Some(("too many files", 1)));
        assert_eq!(TABLE.find("as many"), Some(("many", 2)));
        assert_eq!(TABLE.find("caf\u{e9}"), Some(("é", 3)));
        assert_eq!(TABLE.find("man"), None);
        assert_eq!(TABLE.find(""), None);
    }
}
