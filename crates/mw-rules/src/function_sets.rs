//! Functions that rules recognize stacks by, for the comparison with the kernels' symbols (`cargo xtask kernel`).

use crate::forced_work;
use crate::rules::mmap_lock;
use crate::{RULES, Rule};
use mw_critical_path::ListedSet;
use mw_critical_path::kernel::FunctionSet;

/// Every set of functions of the rules' own; the others are those of mw-critical-path.
pub fn listed_sets() -> Vec<ListedSet> {
    let of_rules = RULES.iter().flat_map(|rule| rule.functions.iter().map(|set| (rule.id, *set)));
    let sets = forced_work::sets().chain(mmap_lock::sets()).chain(of_rules);
    sets.map(|(list, functions)| ListedSet { list, wait: None, functions }).collect()
}

impl Rule {
    /// Returns the functions on stacks that this rule explains: its own, and those of the waits whose time it explains.
    pub fn functions_of_stalls(&self) -> Vec<FunctionSet> {
        let waits = mw_critical_path::listed_sets();
        let explained = waits
            .iter()
            .filter(|set| set.wait.is_some_and(|wait| self.explains.contains(&wait.time_class())));
        self.functions.iter().copied().chain(explained.map(|set| set.functions)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_of_each_file_are_listed() {
        let has = |name: &str| listed_sets().iter().any(|set| set.functions.has(name));
        for name in ["drop_slab", "kcompactd_do_work", "do_mprotect_pkey", "show_smaps_rollup"] {
            assert!(has(name), "{name}");
        }
    }
}
