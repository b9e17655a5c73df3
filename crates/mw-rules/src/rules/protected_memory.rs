//! # protected-memory
//!
//! Cgroups keep a large part of memory from reclaim.
//!
//! ## What it finds
//! What cgroups below the root have within their `memory.low` or `memory.min` is at least half of memory.
//!
//! ## Why it hurts
//! Reclaim leaves this memory to them, page cache that nobody reads included, and takes what is outside instead: the
//! machine's own services are swapped out, and read their files again. MemAvailable counts the page cache of such
//! cgroups as available all the same. Where everything that could be reclaimed is within `memory.min`, the OOM killer runs.
//!
//! ## What it looks like
//! Services of the host refault and swap while `free` shows much page cache, which belongs to containers. LXD writes 90%
//! of a container's limit into `memory.low`, Kubernetes with MemoryQoS the requests of pods into `memory.min`.
//!
//! ## How to fix it
//! Lower the protection to what has to stay in memory (`MemoryLow=`, `MemoryMin=` of a unit). A limit belongs into
//! `memory.max` or `memory.high`.
//!
//! ## Threshold
//! Half of memory is a note: it may be meant so. A warning if at least half of what MemAvailable says is page cache
//! within a protection. The protection of a cgroup goes as far as that of those above it, so that those directly
//! below the root are counted.
//!
//! ## References
//! Linux, Documentation/admin-guide/cgroup-v2.rst, memory.min and memory.low; mm/page_counter.c,
//! `page_counter_calculate_protection()`; mm/vmscan.c, `shrink_node_memcgs()`.

use crate::protection::{ProtectedMemory, is_top, within};
use crate::share::percent;
use mw_model::{
    Cgroup, Finding, Missing, Quantity, Remedy, Severity, Step, Subject, Window, derived,
    format_bytes,
};

const NOTE_PERCENT: f64 = 50.0;

/// Share of MemAvailable.
const CACHE_PERCENT: f64 = 50.0;

/// Groups that are named as evidence.
const MAX_SHOWN: usize = 3;

/// A group and what it has within its protection.
struct ProtectedGroup<'a> {
    group: &'a Cgroup,
    /// The file with the larger protection, and its value.
    file: &'static str,
    protection: u64,
    memory: ProtectedMemory,
}

impl<'a> ProtectedGroup<'a> {
    fn new(group: &'a Cgroup) -> Self {
        let (file, protection) = match group.min_bytes >= group.low_bytes {
            true => ("memory.min", group.min_bytes),
            false => ("memory.low", group.low_bytes),
        };
        Self { group, file, protection, memory: within(group, protection) }
    }

    fn bytes(&self) -> u64 {
        self.memory.cache.saturating_add(self.memory.anonymous)
    }
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let cgroups = snapshot.cgroups.required()?;
    let tops = cgroups.limited.iter().filter(|group| is_top(group));
    let mut groups: Vec<ProtectedGroup<'_>> = tops.map(ProtectedGroup::new).collect();
    groups.retain(|group| group.bytes() > 0);
    groups.sort_by_key(|group| std::cmp::Reverse(group.bytes()));
    let Some(largest) = groups.first() else {
        return cgroups.whole().map(|()| Vec::new());
    };
    let bytes = derived::total(groups.iter().map(ProtectedGroup::bytes));
    let share = percent(bytes, derived::memory_bytes(&snapshot.sample)?);
    if share < NOTE_PERCENT {
        return cgroups.whole().map(|()| Vec::new());
    }
    let cache = derived::total(groups.iter().map(|group| group.memory.cache));
    let available = derived::available_bytes(snapshot)?;
    let severity = match percent(cache, available) >= CACHE_PERCENT {
        true => Severity::Warning,
        false => Severity::Note,
    };
    let who = match groups.len().saturating_sub(1) {
        0 => format!("cgroup {} keeps", largest.group.path),
        1 => format!("cgroup {} and another keep", largest.group.path),
        more => format!("cgroup {} and {more} others keep", largest.group.path),
    };
    let headline = format!(
        "{who} {} from reclaim ({share:.0}% of memory), {} of it page cache",
        format_bytes(bytes),
        format_bytes(cache)
    );
    let mut finding =
        Finding::new(severity, Subject::Cgroup(Some(largest.group.path.clone())), headline)
            .with_evidence("MemAvailable", Quantity::Bytes(available), "/proc/meminfo");
    for ProtectedGroup { group, file, protection, .. } in groups.iter().take(MAX_SHOWN) {
        let source = cgroups.file(group, file);
        let quantity = match protection {
            &u64::MAX => Quantity::Text("max".to_owned()),
            bytes => Quantity::Bytes(*bytes),
        };
        finding = finding.with_evidence(format!("{file} of {}", group.path), quantity, source);
    }
    let step = format!("echo SIZE > {}", cgroups.file(largest.group, largest.file));
    Ok(vec![
        finding
            .with_impact(
                "What is outside of them is reclaimed and swapped out first; their page cache is not available to others.",
            )
            .with_remedy(Remedy::named(
                "lower memory.low and memory.min to what has to stay in memory; a limit belongs into memory.max or memory.high",
                vec![Step::manual(step)],
            )),
    ])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{Cgroups, Reading, Snapshot};
    use mw_proc::cgroup::MemoryStat;
    use mw_proc::meminfo::Meminfo;

    const GIB: u64 = 1 << 30;

    fn group(path: &str, low_gib: u64, cache_gib: u64) -> Cgroup {
        let stat = MemoryStat {
            inactive_file_bytes: Some(cache_gib * GIB),
            inactive_anon_bytes: Some(GIB),
            ..MemoryStat::default()
        };
        let current_bytes = Some((cache_gib + 1) * GIB);
        Cgroup {
            path: path.to_owned(),
            current_bytes,
            low_bytes: low_gib * GIB,
            stat,
            ..Cgroup::default()
        }
    }

    fn found(limited: Vec<Cgroup>) -> Option<Finding> {
        let mut snapshot = Snapshot::default();
        snapshot.sample.meminfo = Reading::Value(Meminfo {
            mem_total_bytes: Some(32 * GIB),
            mem_free_bytes: Some(GIB),
            mem_available_bytes: Some(20 * GIB),
            ..Meminfo::default()
        });
        snapshot.cgroups = Reading::Value(Cgroups { limited, ..Cgroups::default() });
        hazard(&Window::new(snapshot)).unwrap().pop()
    }

    /// Promise (Findings): Memory that cgroups keep from reclaim is reported where it is half of the machine's, with the
    /// page cache in it, which is not available to others.
    #[test]
    fn what_cgroups_have_within_their_protection_counts() {
        let finding = found(vec![group("/a", 10, 9), group("/b", 10, 7)]).unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        let headline = "cgroup /a and another keep 18 GiB from reclaim (56% of memory), 16 GiB of it page cache";
        assert_eq!(finding.headline, headline);
        assert_eq!(found(vec![group("/a", 30, 9)]), None, "it has 10 GiB");
        assert_eq!(found(vec![group("/a", 5, 20)]), None, "the rest is reclaimed");
        assert_eq!(found(vec![group("/all/a", 30, 20)]), None, "those above protect nothing");
        let anonymous = |path: &str| {
            let mut group = group(path, 10, 0);
            group.stat.inactive_anon_bytes = Some(9 * GIB);
            Cgroup { current_bytes: Some(9 * GIB), ..group }
        };
        let finding = found(vec![anonymous("/a"), anonymous("/b")]).unwrap();
        assert_eq!(finding.severity, Severity::Note);
    }
}
