//! The list of all rules. Nothing registers itself: what is not in this list does not exist.

use crate::rules::*;
use crate::stall::Stall;
use mw_model::{Cause, Finding, Missing, Window};

/// A rule: its id, its page, and what it looks for: a hazard, the cause of a stall, or both.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its id in kebab-case, named after the bad condition.
    pub id: &'static str,
    /// The source file, whose head is the page.
    source: &'static str,
    hazard: Option<Hazard>,
    cause: Option<WhyStalled>,
}

/// What is wrong with a machine.
type Hazard = fn(&Window) -> Result<Vec<Finding>, Missing>;

/// Why a stall happened.
type WhyStalled = fn(&Stall<'_>) -> Result<Option<Cause>, Missing>;

macro_rules! rule {
    ($id:literal, $module:ident: $($finds:ident),+) => {
        Rule {
            $($finds: Some($module::$finds),)+
            ..Rule::without(
                $id,
                include_str!(concat!("rules/", stringify!($module), ".rs")),
            )
        }
    };
}

/// All rules, in the order of their ids.
pub const RULES: &[Rule] = &[
    rule!("cgroup-limit", cgroup_limit: hazard, cause),
    rule!("dirty-limit-too-high", dirty_limit_too_high: hazard, cause),
    rule!("dirty-throttle", dirty_throttle: hazard, cause),
    rule!("fragmented-node", fragmented_node: hazard, cause),
    rule!("hugepage-hoard", hugepage_hoard: hazard, cause),
    rule!("hugepage-shortage", hugepage_shortage: hazard, cause),
    rule!("khugepaged-churn", khugepaged_churn: hazard, cause),
    rule!("memlock-limit", memlock_limit: hazard),
    rule!("min-free-too-high", min_free_too_high: hazard, cause),
    rule!("min-free-too-low", min_free_too_low: hazard, cause),
    rule!("not-memory", not_memory: cause),
    rule!("numa-node-exhausted", numa_node_exhausted: hazard, cause),
    rule!("oom-kill", oom_kill: hazard, cause),
    rule!("overcommit-refusal", overcommit_refusal: hazard, cause),
    rule!("page-cache-flood", page_cache_flood: hazard, cause),
    rule!("reclaim-storm", reclaim_storm: hazard, cause),
    rule!("shm-limit", shm_limit: hazard),
    rule!("slab-bloat", slab_bloat: hazard, cause),
    rule!("swap-thrash", swap_thrash: hazard, cause),
    rule!("thp-compaction", thp_compaction: hazard, cause),
    rule!("tmpfs-full", tmpfs_full: hazard, cause),
    rule!("unreclaimable-ramfs", unreclaimable_ramfs: hazard, cause),
    rule!("zone-reclaim", zone_reclaim: hazard, cause),
];

/// The rule of this id.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}

impl Rule {
    /// A rule that finds nothing yet.
    const fn without(id: &'static str, source: &'static str) -> Self {
        Self { id, source, hazard: None, cause: None }
    }

    /// Whether it knows a hazard: a condition that can be seen before anything stalls.
    pub fn has_hazard(&self) -> bool {
        self.hazard.is_some()
    }

    /// Whether it explains stalls.
    pub fn has_cause(&self) -> bool {
        self.cause.is_some()
    }

    /// Looks for the hazard; a rule without one finds nothing.
    ///
    /// # Errors
    /// What the rule needs was not seen, and why.
    pub fn hazard(&self, window: &Window) -> Result<Vec<Finding>, Missing> {
        let Some(hazard) = self.hazard else { return Ok(Vec::new()) };
        let mut findings = hazard(window)?;
        for finding in &mut findings {
            self.id.clone_into(&mut finding.rule);
        }
        Ok(findings)
    }

    /// Looks whether it explains a stall; a rule without causes does not.
    ///
    /// # Errors
    /// What the rule needs was not seen, and why.
    pub(crate) fn cause(&self, stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
        let Some(cause) = self.cause else { return Ok(None) };
        let mut found = cause(stall)?;
        if let Some(cause) = &mut found {
            self.id.clone_into(&mut cause.finding.rule);
        }
        Ok(found)
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
