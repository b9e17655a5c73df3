//! Waits of blocked tasks, by the functions of their call traces.

use crate::report::{KernelReport, ReportKind};
use schemars::JsonSchema;
use serde::Serialize;

/// Thing that a blocked task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockedOn {
    /// A block device that did not complete a request.
    Device,
    /// A server of a network file system.
    NetworkFileSystem,
    /// A program that serves a FUSE file system.
    Fuse,
    /// Reclaim or compaction of memory.
    Reclaim,
    /// A limit of dirty page cache.
    DirtyThrottling,
    /// The journal of a file system, which another task writes.
    Journal,
    /// A lock that another task holds.
    Lock,
    /// A lock that the task holds itself.
    OwnLock,
    /// An RCU grace period.
    Rcu,
    /// A kernel thread that was made and never woken (kernel/kthread.c, `kthread()`).
    ThreadStart,
    /// The call trace does not say.
    Unknown,
}

/// Functions by the beginning of their names, the most telling first.
const FUNCTIONS: &[(BlockedOn, &[&str])] = &[
    (
        BlockedOn::NetworkFileSystem,
        &["rpc_wait_bit_killable", "nfs_wait", "nfs4_wait", "ceph_", "cifs_", "smb2_", "nfs_"],
    ),
    (BlockedOn::Fuse, &["fuse_wait", "request_wait_answer", "fuse_request", "__fuse_simple"]),
    (
        BlockedOn::Reclaim,
        &[
            "try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "shrink_",
            "throttle_direct_reclaim",
            "reclaim_throttle",
            "compact_zone",
            "__alloc_pages_direct",
            "congestion_wait",
            "wait_iff_congested",
            "mem_cgroup_handle_over_high",
        ],
    ),
    (BlockedOn::DirtyThrottling, &["balance_dirty_pages"]),
    (
        BlockedOn::Device,
        &[
            "jbd2_journal_commit_transaction",
            "io_schedule",
            "blk_mq_get_tag",
            "get_request",
            "submit_bio_wait",
            "blkdev_issue_flush",
            "blk_execute_rq",
            "wait_on_buffer",
            "__wait_on_buffer",
            "sleep_on_buffer",
            "sleep_on_page",
            "wait_on_page_",
            "folio_wait_",
            "md_write_start",
            "md_flush_request",
            "raid5_get_active_stripe",
            "raid5_make_request",
            "xfs_buf_iowait",
            "xlog_wait_on_iclog",
            "txg_wait_",
            "cv_wait_common",
            "zio_wait",
            "dio_await",
            "__iomap_dio_rw",
            "blk_mq_freeze_queue",
            "scsi_",
            "nvme_",
        ],
    ),
    (
        BlockedOn::Journal,
        &[
            "jbd2_log_wait_commit",
            "jbd2_complete_transaction",
            "wait_transaction_locked",
            "start_this_handle",
            "xfs_log_force",
            "_xfs_log_force",
            "xlog_grant_head",
            "btrfs_commit_transaction",
            "wait_current_trans",
            "wait_for_commit",
        ],
    ),
    (BlockedOn::Rcu, &["synchronize_rcu", "rcu_barrier", "wait_rcu_gp", "__wait_rcu_gp"]),
    (
        BlockedOn::Lock,
        &[
            "__mutex_lock",
            "mutex_lock",
            "rwsem_down",
            "down_read",
            "down_write",
            "__down",
            "call_rwsem",
            "rt_mutex",
            "percpu_down",
        ],
    ),
];

/// Functions that are called with the lock of the network configuration held (`ASSERT_RTNL()` in net/core).
const WITH_RTNL: &[&str] = &[
    "__dev_change_flags",
    "__dev_close_many",
    "__dev_open",
    "do_setlink",
    "register_netdevice",
    "unregister_netdevice_many",
];

/// True for a task that asks for the lock of the network configuration once more.
fn asks_twice(report: &KernelReport) -> bool {
    let mut outwards = waiting_functions(report).skip_while(|function| *function != "rtnl_lock");
    outwards.any(|function| WITH_RTNL.contains(&function))
}

impl BlockedOn {
    /// The wait of a task. For a CPU that does not schedule, its work.
    pub(crate) fn of(report: &KernelReport) -> Self {
        let is_in = |names: &[&str]| names.iter().any(|name| report.has_trace(name));
        let found = FUNCTIONS.iter().find(|(_, names)| is_in(names)).map(|(wait, _)| *wait);
        match found {
            Some(Self::Lock) if report.kind == ReportKind::HungTask && asks_twice(report) => {
                Self::OwnLock
            }
            Some(wait) if report.kind == ReportKind::HungTask => wait,
            None if is_thread_start(report) => Self::ThreadStart,
            Some(Self::Reclaim) => Self::Reclaim,
            _ => Self::Unknown,
        }
    }
}

/// The functions with which each wait begins.
pub(crate) const SCHEDULER: &[&str] = &[
    "__switch_to",
    "__schedule",
    "schedule",
    "schedule_timeout",
    "schedule_preempt_disabled",
    "io_schedule",
    "io_schedule_timeout",
];

/// Functions of a trace above the scheduler's, the innermost first.
pub(crate) fn waiting_functions(report: &KernelReport) -> impl Iterator<Item = &str> {
    let functions = report.trace.iter().map(String::as_str);
    functions.skip_while(|function| SCHEDULER.contains(function))
}

/// `kthread()` itself waits, and not the function of the thread.
fn is_thread_start(report: &KernelReport) -> bool {
    report.kind == ReportKind::HungTask && waiting_functions(report).next() == Some("kthread")
}

/// The device that the name of a kernel thread has: `jbd2/sda1-8`, `kworker/u8:1+flush-8:16`, `xfsaild/dm-0`.
pub(crate) fn device_of(task: &str) -> Option<&str> {
    if let Some(rest) = task.strip_prefix("jbd2/") {
        return Some(rest.rsplit_once('-').map_or(rest, |(device, _)| device));
    }
    if let Some((_, device)) = task.split_once("flush-") {
        return Some(device);
    }
    const THREADS: [&str; 9] = [
        "xfsaild/",
        "xfs-",
        "dmcrypt_write/",
        "loop",
        "md",
        "bcache_",
        "drbd_w_",
        "jfsCommit/",
        "ext4lazyinit/",
    ];
    let prefix = THREADS.iter().find(|prefix| task.starts_with(**prefix))?;
    match *prefix {
        "loop" | "md" => {
            let name = task.split('_').next()?;
            name.ends_with(|c: char| c.is_ascii_digit()).then_some(name)
        }
        "xfs-" => task.split_once('/').map(|(_, device)| device),
        prefix => task.strip_prefix(prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_name_their_device() {
        for (task, device) in [
            ("jbd2/vda1-8", Some("vda1")),
            ("kworker/u8:1+flush-8:16", Some("8:16")),
            ("xfsaild/dm-0", Some("dm-0")),
            ("xfs-conv/sdb1", Some("sdb1")),
            ("md127_raid6", Some("md127")),
            ("loop7", Some("loop7")),
            ("mdadm", None),
            ("postgres", None),
        ] {
            assert_eq!(device_of(task), device, "{task}");
        }
    }

    #[test]
    fn a_wait_is_named_by_its_functions() {
        let wait = |functions: &[&str]| {
            let mut report = KernelReport::new(ReportKind::HungTask);
            report.trace = functions.iter().map(|name| (*name).to_owned()).collect();
            BlockedOn::of(&report)
        };
        assert_eq!(wait(&["io_schedule", "jbd2_journal_commit_transaction"]), BlockedOn::Device);
        assert_eq!(wait(&["schedule", "jbd2_log_wait_commit"]), BlockedOn::Journal);
        assert_eq!(wait(&["schedule", "rpc_wait_bit_killable"]), BlockedOn::NetworkFileSystem);
        assert_eq!(wait(&["schedule", "rwsem_down_write_slowpath"]), BlockedOn::Lock);
        assert_eq!(wait(&["schedule", "shrink_node"]), BlockedOn::Reclaim);
        assert_eq!(wait(&["schedule"]), BlockedOn::Unknown);
        let network = |outer| wait(&["schedule", "__mutex_lock", "rtnl_lock", "igb_resume", outer]);
        assert_eq!(network("__dev_open"), BlockedOn::OwnLock);
        assert_eq!(network("pci_pm_resume"), BlockedOn::Lock);
        assert_eq!(wait(&["schedule", "__mutex_lock", "__dev_open"]), BlockedOn::Lock);
    }
}
