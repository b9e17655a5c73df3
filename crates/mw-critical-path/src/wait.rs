//! What a task waits for, and what it does in the kernel, by the functions on its stack.
//!
//! Each table is searched in order for the first entry of which any function is anywhere on the stack.
//! Entries that cause others come first: a task that waits for the disk while it swaps pages out in direct
//! reclaim waits in direct reclaim.

use serde::{Deserialize, Serialize};

/// What a blocked task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    CgroupFrozen,
    CpuQuota,
    MemoryHigh,
    CgroupReclaim,
    SwapIn,
    Compaction,
    DirectReclaim,
    BackgroundReclaim,
    DirtyThrottling,
    Migration,
    Journal,
    Writeback,
    FileRead,
    FileWrite,
    Fuse,
    Nfs,
    Disk,
    Semaphore,
    Mutex,
    Sleep,
    Futex,
    Poll,
    Socket,
    Pipe,
    Child,
    Signal,
    Worker,
    Network,
    Unknown,
}

/// What a running task does in the kernel, where that is no [`Wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelWork {
    Fork,
    Unmap,
    Populate,
    PageFault,
    FileIo,
    Network,
    Other,
}

/// Entries of the table of waits.
const WAITS: &[(Wait, &[&str])] = &[
    (Wait::CgroupFrozen, &["do_freezer_trap", "cgroup_enter_frozen", "__refrigerator"]),
    (Wait::CpuQuota, &["throttle_cfs_rq_work"]),
    (Wait::MemoryHigh, &["mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"]),
    (Wait::CgroupReclaim, &["try_to_free_mem_cgroup_pages", "mem_cgroup_out_of_memory"]),
    (
        Wait::SwapIn,
        &["swap_readpage", "swap_read_folio", "swapin_readahead", "do_swap_page", "shmem_swapin"],
    ),
    (
        Wait::Compaction,
        &["compact_zone", "try_to_compact_pages", "__alloc_pages_direct_compact", "kcompactd"],
    ),
    (
        Wait::DirectReclaim,
        &[
            "try_to_free_pages",
            "throttle_direct_reclaim",
            "__alloc_pages_direct_reclaim",
            "node_reclaim",
        ],
    ),
    (Wait::BackgroundReclaim, &["balance_pgdat", "shrink_node", "shrink_lruvec"]),
    (Wait::DirtyThrottling, &["balance_dirty_pages"]),
    (Wait::Migration, &["migrate_pages", "do_numa_page", "migration_entry_wait"]),
    (Wait::Fuse, &["request_wait_answer", "fuse_simple_request", "__fuse_simple_request"]),
    (Wait::Nfs, &["rpc_wait_bit_killable", "nfs_wait_", "nfs4_", "__rpc_wait_for_completion_task"]),
    (
        Wait::Journal,
        &[
            "jbd2_log_wait_commit",
            "jbd2_journal_commit_transaction",
            "wait_transaction_locked",
            "start_this_handle",
            "add_transaction_credits",
            "xlog_",
            "xfs_log_force",
        ],
    ),
    (
        Wait::Semaphore,
        &["rwsem_down_read_slowpath", "rwsem_down_write_slowpath", "down_read", "down_write"],
    ),
    (Wait::Mutex, &["__mutex_lock", "mutex_lock"]),
    (Wait::Writeback, &["folio_wait_writeback", "wait_on_page_writeback", "folio_wait_stable"]),
    (
        Wait::FileRead,
        &[
            "filemap_get_pages",
            "filemap_read",
            "filemap_fault",
            "generic_file_read",
            "folio_wait_bit",
        ],
    ),
    (
        Wait::FileWrite,
        &[
            "submit_bio_wait",
            "blkdev_issue_flush",
            "__filemap_fdatawait_range",
            "file_write_and_wait",
        ],
    ),
    (
        Wait::Disk,
        &[
            "rq_qos_wait",
            "wbt_wait",
            "blk_mq_get_tag",
            "io_schedule",
            "bit_wait_io",
            "wait_on_buffer",
            "__wait_on_buffer",
            "iomap_dio",
            "__blkdev_direct_IO",
        ],
    ),
    (Wait::Sleep, &["hrtimer_nanosleep", "do_nanosleep", "msleep"]),
    (Wait::Futex, &["futex_wait", "__futex_wait", "do_futex"]),
    (
        Wait::Poll,
        &["ep_poll", "do_epoll_wait", "do_poll", "do_sys_poll", "do_select", "io_cqring_wait"],
    ),
    (
        Wait::Pipe,
        &[
            "pipe_read",
            "pipe_write",
            "anon_pipe_read",
            "anon_pipe_write",
            "fifo_open",
            "wait_for_partner",
        ],
    ),
    (
        Wait::Socket,
        &[
            "unix_stream",
            "unix_wait_for_peer",
            "unix_dgram",
            "__unix_dgram",
            "sk_wait_data",
            "sk_stream_wait",
            "wait_woken",
            "tcp_recvmsg",
            "inet_csk_accept",
            "inet_stream_connect",
            "__skb_wait_for_more_packets",
            "inet_wait_for_connect",
        ],
    ),
    (Wait::Child, &["do_wait", "vfork", "kernel_clone", "wait_for_vfork_done"]),
    (
        Wait::Signal,
        &["sigtimedwait", "do_sigtimedwait", "rt_sigsuspend", "sigsuspend", "signalfd", "do_pause"],
    ),
    (
        Wait::Worker,
        &[
            "worker_thread",
            "kthread_worker_fn",
            "flush_work",
            "__flush_work",
            "wait_for_completion",
            "smpboot_thread_fn",
            "rcu_",
            "synchronize_rcu",
            "eventfd_read",
            "do_semtimedop",
            "kthread",
        ],
    ),
];

/// Entries of the table of kernel work.
const WORKS: &[(KernelWork, &[&str])] = &[
    (KernelWork::Fork, &["copy_page_range", "dup_mm", "copy_process"]),
    (KernelWork::Unmap, &["exit_mmap", "unmap_vmas", "zap_", "__vm_munmap", "do_munmap"]),
    (
        KernelWork::Populate,
        &["populate_vma_page_range", "__mm_populate", "faultin_page_range", "madvise_populate"],
    ),
    (
        KernelWork::PageFault,
        &["handle_mm_fault", "do_user_addr_fault", "exc_page_fault", "do_page_fault"],
    ),
    (
        KernelWork::FileIo,
        &["vfs_read", "vfs_write", "vfs_fsync", "ksys_read", "ksys_write", "do_writev", "do_readv"],
    ),
    (KernelWork::Network, &["__sys_send", "__sys_recv", "net_rx_action", "tcp_", "sock_"]),
];

/// Functions beneath which a task sends to another, although the wake-up comes from a softirq.
const SENDERS: &[&str] = &[
    "tcp_sendmsg",
    "udp_sendmsg",
    "sock_sendmsg",
    "__sock_sendmsg",
    "sock_write_iter",
    "__sys_send",
    "__x64_sys_send",
    "unix_stream",
    "inet_shutdown",
    "tcp_close",
    "__sock_release",
    "__sys_connect",
    "inet_stream_connect",
];

/// Functions of an interrupt that completes disk I/O.
const DISK_COMPLETIONS: &[&str] = &[
    "blk_mq_",
    "blk_done",
    "blk_complete",
    "nvme_",
    "bio_endio",
    "end_page_writeback",
    "folio_end_writeback",
    "virtblk_",
    "scsi_",
    "ata_",
];

/// Functions of an interrupt of a timer.
const TIMERS: &[&str] = &[
    "hrtimer_wakeup",
    "process_timeout",
    "call_timer_fn",
    "it_real_fn",
    "posix_timer_fn",
    "timerfd_",
    "alarm_",
];

/// Functions of an interrupt that delivers a packet.
const PACKETS: &[&str] =
    &["net_rx_action", "__netif_receive_skb", "tcp_v4_rcv", "tcp_v6_rcv", "udp_queue_rcv"];

/// What sent a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The current task itself.
    Task,
    Timer,
    Disk,
    Network,
    Interrupt,
}

impl Wait {
    /// The wait is for a resource, which ends the path; other waits are for another task.
    pub fn is_for_resource(self) -> bool {
        !self.is_for_task()
    }

    fn is_for_task(self) -> bool {
        matches!(
            self,
            Self::Journal
                | Self::Fuse
                | Self::Semaphore
                | Self::Mutex
                | Self::Futex
                | Self::Poll
                | Self::Socket
                | Self::Pipe
                | Self::Child
                | Self::Signal
                | Self::Worker
                | Self::Unknown
        )
    }

    /// The wait may have a time limit of the program's own.
    pub(crate) fn may_time_out(self) -> bool {
        matches!(self, Self::Futex | Self::Poll | Self::Socket | Self::Signal | Self::Unknown)
    }

    /// In words, to follow "waiting for" or "waiting in".
    pub fn label(self) -> &'static str {
        match self {
            Self::CgroupFrozen => "frozen by its cgroup",
            Self::CpuQuota => "throttled by the cgroup's CPU quota",
            Self::MemoryHigh => "throttled over the cgroup's memory.high",
            Self::CgroupReclaim => "reclaim within the cgroup",
            Self::SwapIn => "swap-in",
            Self::Compaction => "compaction",
            Self::DirectReclaim => "direct reclaim",
            Self::BackgroundReclaim => "background reclaim",
            Self::DirtyThrottling => "dirty throttling",
            Self::Migration => "page migration",
            Self::Journal => "the file system's journal",
            Self::Writeback => "writeback of a page",
            Self::FileRead => "file read from disk",
            Self::FileWrite => "file write to disk",
            Self::Fuse => "a FUSE daemon",
            Self::Nfs => "the NFS server",
            Self::Disk => "the disk",
            Self::Semaphore => "mmap_lock or another semaphore",
            Self::Mutex => "a kernel mutex",
            Self::Sleep => "sleep (its own timer)",
            Self::Futex => "a lock (futex)",
            Self::Poll => "poll",
            Self::Socket => "a socket",
            Self::Pipe => "a pipe",
            Self::Child => "a child process",
            Self::Signal => "a signal",
            Self::Worker => "a kernel worker",
            Self::Network => "the network",
            Self::Unknown => "an unknown event",
        }
    }
}

impl KernelWork {
    /// In words, to follow "running in the kernel:".
    pub fn label(self) -> &'static str {
        match self {
            Self::Fork => "fork (copying page tables)",
            Self::Unmap => "unmapping memory",
            Self::Populate => "populating memory",
            Self::PageFault => "page faults",
            Self::FileIo => "file I/O",
            Self::Network => "network",
            Self::Other => "other work",
        }
    }
}

/// What a task with this stack waits for; `None` where no function is known.
pub(crate) fn wait(stack: &[String]) -> Option<Wait> {
    first(WAITS, stack)
}

/// What a running task with this stack does.
pub(crate) fn work(stack: &[String]) -> KernelWork {
    first(WORKS, stack).unwrap_or(KernelWork::Other)
}

/// The current task sent the wake-up although it comes from a softirq: loopback delivers on the sender's stack.
pub(crate) fn is_sender(stack: &[String]) -> bool {
    has_any(stack, SENDERS)
}

/// Which interrupt sent a wake-up.
pub(crate) fn interrupt(stack: &[String]) -> Source {
    if has_any(stack, DISK_COMPLETIONS) {
        Source::Disk
    } else if has_any(stack, TIMERS) {
        Source::Timer
    } else if has_any(stack, PACKETS) {
        Source::Network
    } else {
        Source::Interrupt
    }
}

fn first<T: Copy>(table: &[(T, &[&str])], stack: &[String]) -> Option<T> {
    table.iter().find(|(_, functions)| has_any(stack, functions)).map(|(found, _)| *found)
}

fn has_any(stack: &[String], prefixes: &[&str]) -> bool {
    stack.iter().any(|function| prefixes.iter().any(|prefix| function.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(functions: &str) -> Vec<String> {
        functions.split(" < ").map(str::to_owned).collect()
    }

    #[test]
    fn a_disk_wait_in_reclaim_is_reclaim() {
        let swap_out = "io_schedule < rq_qos_wait < __swap_writepage < shrink_folio_list < \
                        shrink_node < do_try_to_free_pages < try_to_free_pages < \
                        __alloc_pages_slowpath.constprop.0 < handle_mm_fault";
        assert_eq!(wait(&stack(swap_out)), Some(Wait::DirectReclaim));
        let limited = swap_out.replace("< try_to_free_pages", "< try_to_free_mem_cgroup_pages");
        assert_eq!(wait(&stack(&limited)), Some(Wait::CgroupReclaim));
    }

    #[test]
    fn suffixes_of_a_kernel_build_do_not_matter() {
        assert_eq!(wait(&stack("schedule < shmem_swapin_folio.constprop.0")), Some(Wait::SwapIn));
        assert_eq!(
            wait(&stack("schedule < __alloc_pages_direct_compact_noprof")),
            Some(Wait::Compaction)
        );
    }

    #[test]
    fn loopback_is_sent_by_a_task() {
        let reply = "try_to_wake_up < sock_def_readable < tcp_rcv_established < tcp_v4_rcv < \
                     net_rx_action < do_softirq < tcp_sendmsg < __sys_sendto";
        assert!(is_sender(&stack(reply)));
        let remote =
            "try_to_wake_up < sock_def_readable < tcp_v4_rcv < net_rx_action < common_interrupt";
        assert!(!is_sender(&stack(remote)));
        assert_eq!(interrupt(&stack(remote)), Source::Network);
    }

    #[test]
    fn every_wait_has_a_label_of_its_own() {
        let labels: std::collections::BTreeSet<_> =
            WAITS.iter().map(|(wait, _)| wait.label()).collect();
        assert_eq!(labels.len(), WAITS.len());
    }
}
