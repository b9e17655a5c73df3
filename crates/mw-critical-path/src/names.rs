//! All names of functions that stacks are recognized by, for the comparison with the kernels' symbols (`cargo xtask
//! kernel`).

use crate::conditions::{WAITS, WORKS};
use crate::kernel::{self, FunctionSet};
use crate::wait::{REMOTE_COMPLETIONS, Wait};

/// A set of functions and where it is from.
#[derive(Debug, Clone, Copy)]
pub struct ListedSet {
    /// The label of a condition, or the name of a set in `kernel.rs`.
    pub list: &'static str,
    /// The wait that is recognized by it.
    pub wait: Option<Wait>,
    pub functions: FunctionSet,
}

/// Every set of functions. A set of `kernel.rs` that a condition uses is listed twice.
pub fn listed_sets() -> Vec<ListedSet> {
    let waits = WAITS.iter().flat_map(|row| {
        let set = |functions: &FunctionSet| ListedSet {
            list: row.wait.label(),
            wait: Some(row.wait),
            functions: *functions,
        };
        row.functions.iter().map(set)
    });
    let works = WORKS.iter().flat_map(|row| {
        let list = row.label;
        row.functions.iter().map(move |functions| ListedSet {
            list,
            wait: None,
            functions: *functions,
        })
    });
    let completions = REMOTE_COMPLETIONS.iter().map(|(wait, functions)| (wait.label(), *functions));
    let others = kernel::SETS.iter().copied().chain(completions);
    let others = others.map(|(list, functions)| ListedSet { list, wait: None, functions });
    waits.chain(works).chain(others).collect()
}

/// Waits that a blocked task's stack shows, in the order of their variants.
pub fn listed_waits() -> Vec<Wait> {
    let mut waits: Vec<Wait> = listed_sets().iter().filter_map(|set| set.wait).collect();
    waits.sort_unstable();
    waits.dedup();
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_of_conditions_and_of_rules_are_listed() {
        let lists = |name: &str| {
            let sets = listed_sets();
            let found = sets.iter().filter(|set| set.functions.has(name));
            found.map(|set| set.list).collect::<Vec<_>>()
        };
        assert_eq!(lists("try_to_free_pages"), ["direct reclaim", "DIRECT_RECLAIM"]);
        assert_eq!(lists("xprt_complete_rqst"), ["the NFS server"]);
        assert_eq!(lists("queued_write_lock_slowpath"), ["spinning for a lock"]);
    }

    #[test]
    fn the_network_has_no_stack() {
        assert!(!listed_waits().contains(&Wait::Network));
        assert!(listed_waits().contains(&Wait::Futex));
    }
}
