//! Waits of a path whose stack was not taken, named by the kernel's own events of the same time.

use mw_critical_path::{PathPart, PathSummary, TimeKind, Wait};
use mw_model::{KernelWait, WaitKind};

/// Names waits that are known only to have ended with a disk's interrupt: a task that reclaims waits for the disk of swap or of
/// dirty pages, as one does that reads.
pub(crate) fn name_waits(path: &mut PathSummary, events: &[KernelWait]) {
    for part in &mut path.parts {
        if let Some(wait) = told(part, events) {
            part.kind = TimeKind::Waiting(wait);
        }
    }
}

/// The wait in which the kernel saw the task for as long as the part lasts, and not for much longer.
fn told(part: &PathPart, events: &[KernelWait]) -> Option<Wait> {
    const MOST_TIMES: u64 = 2;
    if part.kind != TimeKind::Waiting(Wait::Disk) || !part.stack.is_empty() {
        return None;
    }
    let is_it = |event: &&KernelWait| {
        let longest_ns = event.max_us.saturating_mul(1000);
        let most_ns = part.total_ns.saturating_mul(MOST_TIMES);
        event.pid == part.task.tid && (part.total_ns..=most_ns).contains(&longest_ns)
    };
    let wait = |event: &KernelWait| match event.kind {
        WaitKind::DirectReclaim => Some(Wait::DirectReclaim),
        WaitKind::CgroupReclaim => Some(Wait::CgroupReclaim),
        WaitKind::Compaction => Some(Wait::Compaction),
        _ => None,
    };
    events.iter().filter(is_it).find_map(wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_critical_path::{PathTask, UserPlace};

    fn part(total_ms: u64, stack: &[&str]) -> PathPart {
        PathPart {
            kind: TimeKind::Waiting(Wait::Disk),
            total_ns: total_ms * 1_000_000,
            task: PathTask { tid: 400, ..PathTask::default() },
            inferred: false,
            holder: None,
            holders: Vec::new(),
            work: None,
            stack: stack.iter().map(|&function| function.to_owned()).collect(),
            waker_stack: Vec::new(),
            user: UserPlace::default(),
        }
    }

    /// Promise (Watching): A wait whose stack was not taken, and that ended with a disk's interrupt, is reclaim where the
    /// kernel's events say so of this task and this time.
    #[test]
    fn a_wait_within_reclaim_is_no_wait_for_the_disk() {
        let named = |part: PathPart, pid: u32, kind: WaitKind, max_ms: u64| {
            let mut path = PathSummary { parts: vec![part], ..PathSummary::default() };
            let event = KernelWait { pid, kind, max_us: max_ms * 1000, ..KernelWait::default() };
            name_waits(&mut path, &[event]);
            path.parts[0].kind
        };
        let (reclaim, disk) = (WaitKind::DirectReclaim, TimeKind::Waiting(Wait::Disk));
        assert_eq!(
            named(part(2084, &[]), 400, reclaim, 2197),
            TimeKind::Waiting(Wait::DirectReclaim)
        );
        assert_eq!(named(part(2084, &["io_schedule"]), 400, reclaim, 2197), disk, "its stack");
        assert_eq!(named(part(2084, &[]), 401, reclaim, 2197), disk, "of another task");
        assert_eq!(named(part(2084, &[]), 400, reclaim, 200), disk, "much shorter");
        assert_eq!(named(part(84, &[]), 400, reclaim, 2197), disk, "much longer");
        assert_eq!(named(part(2084, &[]), 400, WaitKind::Swap, 2197), disk, "a page was read");
    }
}
