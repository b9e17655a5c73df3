//! The list of all rules. Nothing registers itself: what is not in this list does not exist.

use crate::rules::*;
use mw_model::{Finding, Missing, Window};

/// A rule: its id, its page and what it looks for.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its id in kebab-case, named after the bad condition.
    pub id: &'static str,
    /// The source file, whose head is the page.
    source: &'static str,
    hazard: fn(&Window) -> Result<Vec<Finding>, Missing>,
}

macro_rules! rule {
    ($id:literal, $module:ident) => {
        Rule {
            id: $id,
            source: include_str!(concat!("rules/", stringify!($module), ".rs")),
            hazard: $module::hazard,
        }
    };
}

/// All rules, in the order of their ids.
pub const RULES: &[Rule] = &[
    rule!("cgroup-limit", cgroup_limit),
    rule!("dirty-limit-too-high", dirty_limit_too_high),
    rule!("dirty-throttle", dirty_throttle),
    rule!("fragmented-node", fragmented_node),
    rule!("hugepage-hoard", hugepage_hoard),
    rule!("hugepage-shortage", hugepage_shortage),
    rule!("khugepaged-churn", khugepaged_churn),
    rule!("memlock-limit", memlock_limit),
    rule!("min-free-too-high", min_free_too_high),
    rule!("min-free-too-low", min_free_too_low),
    rule!("numa-node-exhausted", numa_node_exhausted),
    rule!("oom-kill", oom_kill),
    rule!("overcommit-refusal", overcommit_refusal),
    rule!("page-cache-flood", page_cache_flood),
    rule!("reclaim-storm", reclaim_storm),
    rule!("shm-limit", shm_limit),
    rule!("slab-bloat", slab_bloat),
    rule!("swap-thrash", swap_thrash),
    rule!("thp-compaction", thp_compaction),
    rule!("tmpfs-full", tmpfs_full),
    rule!("unreclaimable-ramfs", unreclaimable_ramfs),
    rule!("zone-reclaim", zone_reclaim),
];

/// The rule of this id.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}

impl Rule {
    /// Looks for the hazard.
    ///
    /// # Errors
    /// What the rule needs was not seen, and why.
    pub fn hazard(&self, window: &Window) -> Result<Vec<Finding>, Missing> {
        let mut findings = (self.hazard)(window)?;
        for finding in &mut findings {
            self.id.clone_into(&mut finding.rule);
        }
        Ok(findings)
    }

    /// The rule's page in Markdown: what it finds, why it hurts, what it looks like, its threshold,
    /// how to fix it, references.
    pub fn page(&self) -> String {
        self.source
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .flat_map(|line| [line.strip_prefix(' ').unwrap_or(line), "\n"])
            .collect()
    }

    /// The page's first sentence.
    pub fn summary(&self) -> String {
        let page = self.page();
        let lines = page.lines().skip(1).skip_while(|line| line.is_empty());
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }
}
