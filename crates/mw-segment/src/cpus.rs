//! The CPUs that workers may use.

use mw_sys::AffinityGuard;
use rustix::thread::CpuSet;

/// The CPUs that an operation's workers run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// The CPU numbers, at least one.
    usable: Vec<u32>,
    /// Number of them that the cgroups' quota allows, at least one.
    count: usize,
    /// True if workers are pinned to them: they are fewer than the caller may use.
    pinned: bool,
}

impl Cpus {
    /// The CPUs of the caller's affinity (and so its cpuset), as many as its cgroups' quota allows.
    pub(crate) fn allowed() -> Self {
        let mut usable = affinity();
        if usable.is_empty() {
            // More CPUs than the call supports: the numbers are only used to share them.
            let all = std::thread::available_parallelism().map_or(1, usize::from);
            usable = (0..u32::try_from(all).unwrap_or(1)).collect();
        }
        let quota = crate::cgroup::cpu_quota().unwrap_or(usize::MAX);
        let count = quota.min(usable.len()).max(1);
        Self { usable, count, pinned: false }
    }

    #[cfg(test)]
    pub(crate) fn from_numbers(usable: Vec<u32>) -> Self {
        let count = usable.len();
        Self { usable, count, pinned: false }
    }

    /// Those that belong to `nodes`; all if none does.
    pub(crate) fn on_nodes(self, nodes: &[u32]) -> Self {
        let near: Vec<u32> =
            nodes.iter().flat_map(|node| crate::machine::node_cpus(*node)).collect();
        let usable: Vec<u32> =
            self.usable.iter().copied().filter(|cpu| near.contains(cpu)).collect();
        if usable.is_empty() || usable.len() == self.usable.len() {
            return self;
        }
        let count = self.count.min(usable.len());
        Self { usable, count, pinned: true }
    }

    pub(crate) fn usable(&self) -> &[u32] {
        &self.usable
    }

    /// Number of them that can run at the same time.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Pins this thread to them until the guard is dropped; without effect if the kernel refuses.
    pub(crate) fn pin(&self) -> Option<AffinityGuard> {
        if self.pinned { mw_sys::pin_thread_to_cpus(&self.usable).ok() } else { None }
    }
}

/// Empty if the kernel has more CPUs than the call can report.
fn affinity() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    let numbers = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    numbers.filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_limits_the_workers() {
        let all = Cpus::allowed();
        assert!(all.count() >= 1);
        let first = all.usable()[0];
        let _guard = mw_sys::pin_thread_to_cpus(&[first]).unwrap();
        let one = Cpus::allowed();
        assert_eq!((one.usable(), one.count()), (&[first][..], 1));
    }

    #[test]
    fn the_cpu_quota_agrees_with_the_standard_library() {
        let all = std::thread::available_parallelism().unwrap().get();
        assert_eq!(Cpus::allowed().count(), all);
    }

    #[test]
    fn a_node_without_usable_cpus_changes_nothing() {
        assert_eq!(Cpus::allowed().on_nodes(&[999]), Cpus::allowed());
        assert_eq!(Cpus::allowed().on_nodes(&[]), Cpus::allowed());
    }
}
