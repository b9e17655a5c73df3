//! The largest request that preflight answers with yes.

use mw_model::{Answer, Cgroups, PageSize, Reading, Request, Snapshot, Window, derived};
use mw_rules::preflight;

/// Precision of the search, as a share of the machine's memory.
const RESOLUTION: u64 = 4096;

/// The window as a process sees it that has no limit of its own: neither those of the program that reads it, whose
/// service may have some, nor those of a shell.
#[must_use]
pub fn as_unlimited(window: &Window) -> Window {
    let mut window = window.clone();
    let snapshot = &mut window.now;
    snapshot.limits = Reading::Value(Default::default());
    let origin = &mut snapshot.origin;
    (origin.memory_nodes, origin.policy_nodes) = (None, None);
    let limited = match &snapshot.cgroups {
        Reading::Value(cgroups) => Cgroups {
            own: Vec::new(),
            hugetlb: Vec::new(),
            limit_above_bytes: None,
            above_unseen: None,
            unseen: Vec::new(),
            ..cgroups.clone()
        },
        Reading::Missing(_) => Cgroups::default(),
    };
    snapshot.cgroups = Reading::Value(limited);
    window
}

/// The largest request for such pages from `node` that is answered with yes, in bytes. None where preflight has no
/// answer.
#[must_use]
pub fn allocatable(window: &Window, node: u32, page: PageSize) -> Option<u64> {
    let snapshot = &window.now;
    let granule = page.granule_bytes(snapshot.origin.page_bytes).max(1);
    let memory = derived::memory_bytes(&snapshot.sample).ok()?;
    let step = granule.max((memory / RESOLUTION).next_multiple_of(granule));
    let is_yes = |steps: u64| {
        let size_bytes = steps.saturating_mul(step);
        let request = Request { size_bytes, lock: false, page, node: Some(node) };
        Some(preflight::assess(window, &request).ok()?.answer() == Answer::Yes)
    };
    let (mut yes, mut not) = (0, memory / step + 1);
    while not - yes > 1 {
        let middle = yes + (not - yes) / 2;
        if is_yes(middle)? {
            yes = middle;
        } else {
            not = middle;
        }
    }
    Some(yes.saturating_mul(step))
}

/// The kinds of pages of which there can be some here.
pub(crate) fn page_sizes(snapshot: &Snapshot) -> Vec<PageSize> {
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let mut sizes = vec![PageSize::Base];
    sizes.extend(snapshot.thp.value().map(|_| PageSize::Thp));
    sizes.extend(pools.iter().map(|pool| PageSize::Hugetlb(pool.page_bytes)));
    sizes
}
