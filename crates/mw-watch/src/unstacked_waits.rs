//! Waits of a path whose stack was not taken, named by the kernel's own events of the same stall.

use mw_critical_path::{PathPart, PathSummary, RunMode, TimeKind, Wait};
use mw_model::{KernelWait, WaitKind};

/// Names waits that are known only to have ended with a disk's interrupt: a task that reclaims waits for the disk of swap or of
/// dirty pages, as one does that reads.
pub(crate) fn name_waits(path: &mut PathSummary, events: &[KernelWait]) {
    let named: Vec<Option<Wait>> = path.parts.iter().map(|part| told(part, path, events)).collect();
    for (part, wait) in path.parts.iter_mut().zip(named) {
        if let Some(wait) = wait {
            part.kind = TimeKind::Waiting(wait);
        }
    }
}

/// The work of which samples show the task in the same request, and which an event says it did once for about as long.
fn told(part: &PathPart, path: &PathSummary, events: &[KernelWait]) -> Option<Wait> {
    const MOST_TIMES: u64 = 2;
    let tid = part.task.tid;
    if part.kind != TimeKind::Waiting(Wait::Disk) || !part.stack.is_empty() || tid == 0 {
        return None;
    }
    let most_ns = part.total_ns.saturating_mul(MOST_TIMES);
    let is_as_long = |event: &&KernelWait| {
        event.pid == tid && (part.total_ns..=most_ns).contains(&event.max_us.saturating_mul(1000))
    };
    let wait = |event: &KernelWait| match event.kind {
        WaitKind::DirectReclaim => Some(Wait::DirectReclaim),
        WaitKind::CgroupReclaim => Some(Wait::CgroupReclaim),
        WaitKind::Compaction => Some(Wait::Compaction),
        _ => None,
    };
    let is_sampled = |wait: &Wait| {
        let kind = TimeKind::Running(RunMode::In(*wait));
        path.parts.iter().any(|other| other.task.tid == tid && other.kind == kind)
    };
    events.iter().filter(is_as_long).filter_map(wait).find(is_sampled)
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

    /// Promise (The recorder): A wait whose stack was not taken, and that ended with a disk's interrupt, is reclaim where the
    /// kernel's events say so of this task and this time.
    #[test]
    fn a_wait_within_reclaim_is_no_wait_for_the_disk() {
        let in_reclaim = TimeKind::Running(RunMode::In(Wait::DirectReclaim));
        let sampled = PathPart { kind: in_reclaim, ..part(18, &["shrink_node"]) };
        let named_beside =
            |part: PathPart, sampled: Option<PathPart>, pid: u32, kind: WaitKind, max_ms: u64| {
                let parts = [part].into_iter().chain(sampled).collect();
                let mut path = PathSummary { parts, ..PathSummary::default() };
                let event =
                    KernelWait { pid, kind, max_us: max_ms * 1000, ..KernelWait::default() };
                name_waits(&mut path, &[event]);
                path.parts[0].kind
            };
        let named = |part: PathPart, pid: u32, kind: WaitKind, max_ms: u64| {
            named_beside(part, Some(sampled.clone()), pid, kind, max_ms)
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
        let alone = named_beside(part(2084, &[]), None, 400, reclaim, 2197);
        assert_eq!(alone, disk, "no sample shows it in reclaim");
    }
}
