//! Entries of the tree, and how one is divided.

use mw_memory::{Account, MemoryPart};
use mw_model::{AccountEntry, derived};

/// Number of holders of a part that are named; the others are one entry.
pub(super) const MOST_NAMED: usize = 32;

/// A part as the kernel counts it.
pub(super) fn leaf(account: &Account, part: MemoryPart, name: &str) -> AccountEntry {
    AccountEntry {
        id: part.id().to_owned(),
        name: name.to_owned(),
        bytes: account.bytes(part),
        source: part.source().to_owned(),
        ..AccountEntry::default()
    }
}

/// Parts under one heading, without those of no bytes.
pub(super) fn group(name: &str, mut parts: Vec<AccountEntry>) -> AccountEntry {
    parts.retain(|part| part.bytes > 0);
    let bytes = derived::total(parts.iter().map(|part| part.bytes));
    AccountEntry { name: name.to_owned(), bytes, parts, ..AccountEntry::default() }
}

/// Divides an entry among holders, the largest first, and what they leave is `rest`. Together they get no more
/// than the entry has: their counts are of another moment.
pub(super) fn split(entry: &mut AccountEntry, mut holders: Vec<(String, u64)>, rest: &str) {
    holders.retain(|(_, bytes)| *bytes > 0);
    holders.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let others = holders.split_off(holders.len().min(MOST_NAMED));
    let count = others.len();
    if count > 0 {
        let bytes = derived::total(others.into_iter().map(|(_, bytes)| bytes));
        holders.push((format!("{count} others"), bytes));
    }
    let mut left = entry.bytes;
    let mut parts = Vec::new();
    for (name, bytes) in holders {
        let bytes = bytes.min(left);
        left = left.saturating_sub(bytes);
        if bytes > 0 {
            parts.push(AccountEntry { name, bytes, ..AccountEntry::default() });
        }
    }
    if parts.is_empty() {
        return;
    }
    if left > 0 {
        parts.push(AccountEntry { name: rest.to_owned(), bytes: left, ..AccountEntry::default() });
    }
    entry.parts = parts;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(bytes: u64, holders: &[(&str, u64)]) -> Vec<(String, u64)> {
        let mut entry = AccountEntry { bytes, ..AccountEntry::default() };
        let holders = holders.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        split(&mut entry, holders, "rest");
        entry.parts.into_iter().map(|part| (part.name, part.bytes)).collect()
    }

    fn named(parts: &[(&str, u64)]) -> Vec<(String, u64)> {
        parts.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
    }

    #[test]
    fn the_largest_come_first_and_what_is_left_is_named() {
        assert_eq!(divided(10, &[("a", 2), ("b", 5)]), named(&[("b", 5), ("a", 2), ("rest", 3)]));
        assert_eq!(divided(10, &[("a", 0)]), []);
    }

    #[test]
    fn holders_get_no_more_than_there_is() {
        assert_eq!(divided(10, &[("a", 7), ("b", 6)]), named(&[("a", 7), ("b", 3)]));
    }

    #[test]
    fn few_are_named() {
        let many = vec![("x", 2); MOST_NAMED + 3];
        let parts = divided(100, &many);
        assert_eq!(parts.len(), MOST_NAMED + 2);
        assert_eq!(parts[MOST_NAMED..], named(&[("3 others", 6), ("rest", 30)]));
    }
}
