//! The tables of kernel functions, of all crates that have one.

use mw_critical_path::ListedSet;

/// Every set of functions that stacks are recognized by.
pub(super) fn listed_sets() -> Vec<ListedSet> {
    let mut sets = mw_critical_path::listed_sets();
    sets.extend(mw_rules::listed_sets());
    sets
}
