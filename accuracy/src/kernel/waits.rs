//! Stacks of processes that wait by construction (lab/waits), recorded in each kernel and judged by the table of waits.

use super::package::KernelName;
use super::store::{STACKS, StoredKernel};
use mw_critical_path::{Wait, wait_of};
use xtask::workspace::{read, root};

pub(crate) const PAGE: &str = "docs/kernels.md";

/// Nothing on this machine says for what the peer takes so long.
const PEER: &[&str] = &["network-or-service", "network-wait", "service-itself", "slow-dependency"];

/// The service's own code waits for its own timer, signal, child or thread.
const OWN: &[&str] = &["service-itself"];

/// A disk that completes nothing.
const DISK: &[&str] = &["slow-disk", "hung-device"];

/// A disk that completes no sync.
const SYNC: &[&str] = &["journal-commit", "slow-disk", "hung-device"];

/// A lock whose holder is not on the path.
const LOCK: &[&str] = &["lock-wait", "service-itself"];

/// No rule is about it.
const NONE: &[&str] = &[];

/// Kinds, what a process of each waits for, and rules of which one is right as the first cause. Two waits are given where both
/// are true.
pub(crate) const KINDS: &[(&str, &[Wait], &[&str])] = &[
    ("accept", &[Wait::Socket], PEER),
    ("aio", &[Wait::AsyncIo], DISK),
    ("cgroup-fork", &[Wait::Semaphore], &["cgroup-migration"]),
    ("cgroup-move", &[Wait::Semaphore], &["cgroup-migration"]),
    ("child", &[Wait::Child], OWN),
    ("core-dump", &[Wait::Exit], OWN),
    ("cpu-quota", &[Wait::CpuQuota], &["cpu-throttled"]),
    ("datagram", &[Wait::Socket], PEER),
    ("device-flush", &[Wait::FileWrite, Wait::Writeback], SYNC),
    ("device-read", &[Wait::FileRead], DISK),
    ("direct-read", &[Wait::Disk], DISK),
    ("direct-write", &[Wait::Disk], DISK),
    ("directory-lock", &[Wait::Semaphore], LOCK),
    ("directory-read", &[Wait::Disk], DISK),
    ("dirty-limit", &[Wait::DirtyThrottling], &["dirty-throttle"]),
    ("dirty-limit-of-cgroup", &[Wait::DirtyThrottling], &["dirty-throttle"]),
    ("disk-fault", &[Wait::FileRead], DISK),
    ("disk-read", &[Wait::FileRead], DISK),
    ("epoll", &[Wait::Poll], PEER),
    ("eventfd", &[Wait::Pipe], PEER),
    ("exec-threads", &[Wait::Exit], OWN),
    ("fifo", &[Wait::Pipe], PEER),
    ("file-position", &[Wait::Mutex], LOCK),
    ("flock", &[Wait::FileLock], LOCK),
    ("frozen", &[Wait::CgroupFrozen], &["frozen-cgroup"]),
    ("frozen-file-create", &[Wait::FilesystemFrozen], &["frozen-filesystem"]),
    ("frozen-file-fault", &[Wait::FilesystemFrozen], &["frozen-filesystem"]),
    ("frozen-file-write", &[Wait::FilesystemFrozen], &["frozen-filesystem"]),
    ("fsync", &[Wait::FileWrite, Wait::Writeback], SYNC),
    ("fuse-fault", &[Wait::Fuse], &["fuse-server"]),
    ("fuse-flush", &[Wait::Fuse], &["fuse-server"]),
    ("fuse-inode-lock", &[Wait::Semaphore], LOCK),
    ("fuse-open", &[Wait::Fuse], &["fuse-server"]),
    ("fuse-read", &[Wait::Fuse], &["fuse-server"]),
    ("fuse-read-ahead", &[Wait::Fuse], &["fuse-server"]),
    ("fuse-stat", &[Wait::Fuse], &["fuse-server"]),
    ("fuse-write", &[Wait::Fuse], &["fuse-server"]),
    ("futex", &[Wait::Futex], LOCK),
    ("futex-pi", &[Wait::Futex], LOCK),
    ("inode-lock", &[Wait::Semaphore], LOCK),
    ("inotify", &[Wait::Poll], PEER),
    ("invalidate-lock-fault", &[Wait::Semaphore], LOCK),
    ("invalidate-lock-read", &[Wait::Semaphore], LOCK),
    ("io-limit", &[Wait::IoLimit], &["io-limit"]),
    ("io-uring", &[Wait::AsyncIo], DISK),
    ("journal", &[Wait::Journal], &["journal-commit"]),
    ("journal-buffer", &[Wait::Journal], &["journal-commit"]),
    ("journal-thread", &[Wait::Journal], &["journal-commit"]),
    ("memory-high", &[Wait::MemoryHigh], &["cgroup-throttled"]),
    ("memory-max", &[Wait::CgroupReclaim], &["cgroup-limit"]),
    ("message", &[Wait::Pipe], PEER),
    ("message-room", &[Wait::Pipe], PEER),
    ("mmap-lock-brk", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-cmdline", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-fault", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-fork", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-holder", &[Wait::Fuse], &["fuse-server"]),
    ("mmap-lock-madvise", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-mlock", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-mlockall", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-mmap", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-mprotect", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-mremap", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-munmap", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-readv", &[Wait::Semaphore], &["mmap-lock"]),
    ("mmap-lock-rollup", &[Wait::Semaphore], &["mmap-lock"]),
    ("netlink", &[Wait::Socket], PEER),
    ("page-lists", &[Wait::Worker], &["page-list-drain"]),
    ("pause", &[Wait::Signal], OWN),
    ("pipe", &[Wait::Pipe], PEER),
    ("pipe-mutex", &[Wait::Mutex], LOCK),
    ("pipe-room", &[Wait::Pipe], PEER),
    ("poll", &[Wait::Poll], PEER),
    ("posix-message", &[Wait::Pipe], PEER),
    ("range-lock", &[Wait::FileLock], LOCK),
    ("rcu", &[Wait::Rcu], NONE),
    ("select", &[Wait::Poll], PEER),
    ("semaphore", &[Wait::Futex], LOCK),
    ("signalfd", &[Wait::Signal], OWN),
    ("sigsuspend", &[Wait::Signal], OWN),
    ("sigtimedwait", &[Wait::Signal], OWN),
    ("sleep", &[Wait::Sleep], OWN),
    ("swap-in", &[Wait::SwapIn], &["swap-thrash"]),
    ("swap-in-shared", &[Wait::SwapIn], &["swap-thrash"]),
    ("sync", &[Wait::FileWrite, Wait::Writeback], &["sync-of-all"]),
    ("tcp-accept", &[Wait::Socket], PEER),
    ("tcp-receive", &[Wait::Socket], PEER),
    ("tcp-room", &[Wait::Socket], PEER),
    ("terminal", &[Wait::Terminal], PEER),
    ("terminal-room", &[Wait::Terminal], PEER),
    ("timerfd", &[Wait::Sleep], OWN),
    ("truncate", &[Wait::Writeback], DISK),
    ("unix-connect", &[Wait::Socket], PEER),
    ("unix-room", &[Wait::Socket], PEER),
    ("unix-socket", &[Wait::Socket], PEER),
    ("userfault", &[Wait::Userfault], NONE),
    ("userfault-huge", &[Wait::Userfault], NONE),
    ("userfault-read", &[Wait::Userfault], NONE),
    ("vfork", &[Wait::Child], OWN),
    ("writeback", &[Wait::Writeback], DISK),
];

/// Where a stack is from.
pub(crate) struct StackSource {
    /// The file of a stored kernel.
    file: &'static str,
    name: &'static str,
    /// Kinds that it does not tell on every kernel, with the reason.
    untold: &'static [(&'static str, &'static str)],
}

pub(crate) const PROC: StackSource =
    StackSource { file: STACKS[0], name: "/proc/PID/stack", untold: UNTOLD };
/// The scheduler's tracepoint, which the recorder takes its stacks from.
pub(crate) const TRACE: StackSource =
    StackSource { file: STACKS[1], name: "the trace", untold: UNTRACED };

const UNTRACED: &[(&str, &str)] = &[
    ("cpu-quota", "the task is preempted, wherever it runs; counters of its cgroup tell"),
    (
        "fuse-read-ahead",
        "the reader waits for the page, as for a disk; whose wake-up ends the wait tells",
    ),
    ("io-limit", "the request is delayed and not the task; whose wake-up ends the wait tells"),
];

const UNTOLD: &[(&str, &str)] = &[
    (
        "fuse-read-ahead",
        "the reader waits for the page, as for a disk; whose wake-up ends the wait tells",
    ),
    ("cgroup-move", "with PREEMPT_RT the reading may interrupt the task as it goes to sleep"),
    (
        "cpu-quota",
        "newer kernels throttle in work of the task whose function ends in a tail call, and leaves no frame",
    ),
    ("io-limit", "the request is delayed and not the task, which waits as for a disk"),
    (
        "pipe-mutex",
        "stacks of /proc omit the mutex's functions; who waits for room sleeps in the same function",
    ),
];

/// A kind's stack in a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitOutcome {
    Right,
    NotTold,
    Wrong,
    /// The process did not wait there.
    NotThere,
    NotAsked,
}

impl WaitOutcome {
    fn label(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::NotTold => "**not told**",
            Self::Wrong => "**wrong**",
            Self::NotThere => "–",
            Self::NotAsked => "not asked",
        }
    }
}

impl StackSource {
    /// Kinds of which a kernel has stacks, and their functions, a line each.
    fn asked<'a>(&self, kernel: &'a StoredKernel) -> impl Iterator<Item = (&'a str, &'a str)> {
        kernel.file(self.file).split("== ").filter_map(|section| section.split_once('\n'))
    }

    pub(crate) fn stack_of(&self, kernel: &StoredKernel, kind: &str) -> Option<Vec<String>> {
        let (_, functions) = self.asked(kernel).find(|(name, _)| *name == kind)?;
        Some(functions.lines().map(str::to_owned).collect())
    }

    fn outcome(&self, kernel: &StoredKernel, kind: &str, expected: &[Wait]) -> WaitOutcome {
        let Some(stack) = self.stack_of(kernel, kind) else { return WaitOutcome::NotAsked };
        if stack.is_empty() {
            return WaitOutcome::NotThere;
        }
        match wait_of(&stack) {
            Some(wait) if expected.contains(&wait) => WaitOutcome::Right,
            _ if self.is_untold(kind) => WaitOutcome::NotTold,
            _ => WaitOutcome::Wrong,
        }
    }

    pub(crate) fn is_untold(&self, kind: &str) -> bool {
        self.untold.iter().any(|(untold, _)| *untold == kind)
    }

    fn of_kind(&self, kernel: &StoredKernel, kind: &str) -> WaitOutcome {
        let known = KINDS.iter().find(|(name, ..)| *name == kind);
        known.map_or(WaitOutcome::NotAsked, |(_, expected, _)| self.outcome(kernel, kind, expected))
    }

    /// Waits that the table takes for others, and what is no longer true of the declarations.
    fn problems(&self, kernels: &[StoredKernel]) -> Vec<String> {
        let mut problems = Vec::new();
        for kernel in kernels {
            for (kind, expected, _) in KINDS {
                if self.outcome(kernel, kind, expected) == WaitOutcome::Wrong {
                    let stack = self.stack_of(kernel, kind).unwrap_or_default();
                    problems.push(format!(
                        "{}: by {}, a wait of kind {kind} is {:?}, not {expected:?}: {}",
                        kernel.name,
                        self.name,
                        wait_of(&stack),
                        stack.join(" < ")
                    ));
                }
            }
            problems.extend(self.strangers(kernel));
        }
        for (kind, _) in self.untold {
            let is_untold = |kernel| self.of_kind(kernel, kind) == WaitOutcome::NotTold;
            if !kernels.iter().any(is_untold) {
                let name = self.name;
                problems.push(format!("{kind}: declared untold by {name}, and every kernel tells"));
            }
        }
        problems
    }

    /// Kinds of the program for which nothing is expected.
    fn strangers(&self, kernel: &StoredKernel) -> Vec<String> {
        let is_known = |name: &str| KINDS.iter().any(|(kind, ..)| *kind == name);
        let unknown = self.asked(kernel).filter(|(name, _)| !is_known(name));
        unknown.map(|(name, _)| format!("{}: unknown kind of wait {name}", kernel.name)).collect()
    }

    /// The share that is right of those that waited.
    fn total(&self, kernel: &StoredKernel) -> Option<String> {
        let outcomes: Vec<WaitOutcome> =
            KINDS.iter().map(|(kind, expected, _)| self.outcome(kernel, kind, expected)).collect();
        let count =
            |which: WaitOutcome| outcomes.iter().filter(|outcome| **outcome == which).count();
        let right = count(WaitOutcome::Right);
        let all = right + count(WaitOutcome::NotTold) + count(WaitOutcome::Wrong);
        (all > 0).then(|| format!("{right} of {all}"))
    }
}

/// Waits that the table takes for others, and what is no longer true of the declarations and of the page.
pub(crate) fn problems(kernels: &[StoredKernel]) -> anyhow::Result<Vec<String>> {
    let mut problems = PROC.problems(kernels);
    problems.extend(TRACE.problems(kernels));
    let table = table(kernels);
    if !read(&root().join(PAGE))?.contains(&table) {
        problems.push(format!("{PAGE}: the table of waits should be\n{table}"));
    }
    Ok(problems)
}

/// Kernels that were stored before some kinds existed, a line each.
pub(crate) fn unasked(kernels: &[StoredKernel]) -> Vec<String> {
    let mut lines = Vec::new();
    for kernel in kernels {
        let is_unasked = |kind: &&str| PROC.of_kind(kernel, kind) == WaitOutcome::NotAsked;
        let kinds: Vec<&str> = KINDS.iter().map(|(kind, ..)| *kind).filter(is_unasked).collect();
        if !kinds.is_empty() {
            lines.push(format!("{}: {} kinds of waits not asked", kernel.name, kinds.len()));
        }
    }
    lines
}

/// Outcomes by kind and kernel, in Markdown. Kernels that have no stacks are left out.
fn table(kernels: &[StoredKernel]) -> String {
    let kernels: Vec<&StoredKernel> =
        kernels.iter().filter(|kernel| !kernel.file(PROC.file).is_empty()).collect();
    let names: Vec<String> = kernels.iter().map(|kernel| column(&kernel.name)).collect();
    let mut lines = vec![format!("| | {} |", names.join(" | "))];
    lines.push(format!("|---{}|", "|---".repeat(kernels.len())));
    for (kind, expected, _) in KINDS {
        let cells: Vec<String> =
            kernels.iter().map(|kernel| cell(kernel, kind, expected)).collect();
        lines.push(format!("| {kind} | {} |", cells.join(" | ")));
    }
    for source in [PROC, TRACE] {
        let totals = kernels.iter().map(|kernel| source.total(kernel));
        let totals: Vec<String> = totals.map(|total| total.unwrap_or("–".to_owned())).collect();
        lines.push(format!("| right by {} | {} |", source.name, totals.join(" | ")));
    }
    lines.join("\n")
}

/// What /proc/PID/stack tells, and after it what the trace does where that differs.
fn cell(kernel: &StoredKernel, kind: &str, expected: &[Wait]) -> String {
    let [told, traced] = [PROC, TRACE].map(|source| source.outcome(kernel, kind, expected));
    if told == traced || traced == WaitOutcome::NotAsked {
        return told.label().to_owned();
    }
    format!("{}; traced: {}", told.label(), traced.label())
}

pub(crate) fn column(name: &KernelName) -> String {
    name.to_string().replace("-amd64", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn kinds_are_sorted_and_untold_ones_known() {
        let names: Vec<&str> = KINDS.iter().map(|(kind, ..)| *kind).collect();
        assert!(names.is_sorted());
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for (kind, _) in UNTOLD.iter().chain(UNTRACED) {
            assert!(names.contains(kind), "{kind}");
        }
    }
}
