//! Settings that change when another one is written.
//!
//! The kernel keeps some limits in two files of which one is always zero, and starting or stopping
//! khugepaged recomputes `min_free_kbytes`, even one that a person has set. To take such a change
//! back byte for byte, the other file's content has to be saved as well.

/// Two files for one limit: writing one zeroes the other.
pub const PARTNERS: [(&str, &str); 3] = [
    ("/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"),
    ("/proc/sys/vm/dirty_background_ratio", "/proc/sys/vm/dirty_background_bytes"),
    ("/proc/sys/vm/overcommit_ratio", "/proc/sys/vm/overcommit_kbytes"),
];

const THP_DIR: &str = "/sys/kernel/mm/transparent_hugepage/";
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";

/// The other file of a limit that has two.
pub fn partner_of(path: &str) -> Option<&'static str> {
    PARTNERS.iter().find_map(|&(one, other)| {
        (path == one).then_some(other).or_else(|| (path == other).then_some(one))
    })
}

/// True if writing one of the two settles the other.
pub(crate) fn same_limit(left: &str, right: &str) -> bool {
    left == right || partner_of(left) == Some(right)
}

/// True if writing this file recomputes `min_free_kbytes`.
pub(crate) fn moves_min_free(path: &str) -> bool {
    path.starts_with(THP_DIR) && path.ends_with("/enabled")
}

/// The files that the kernel may change when this one is written.
pub fn affected_by(path: &str) -> Option<&'static str> {
    partner_of(path).or_else(|| moves_min_free(path).then_some(MIN_FREE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partners_know_each_other() {
        for (one, other) in PARTNERS {
            assert_eq!(affected_by(one), Some(other));
            assert_eq!(affected_by(other), Some(one));
            assert!(same_limit(one, other) && same_limit(other, one));
        }
        assert_eq!(affected_by("/proc/sys/vm/swappiness"), None);
        assert_eq!(affected_by("/sys/kernel/mm/transparent_hugepage/enabled"), Some(MIN_FREE));
        assert_eq!(affected_by("/sys/kernel/mm/transparent_hugepage/defrag"), None);
        assert_eq!(affected_by(MIN_FREE), None);
    }
}
