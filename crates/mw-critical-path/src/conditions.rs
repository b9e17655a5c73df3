//! The conditions in which a task waits or works in the kernel: a row for each, with all that other code uses of it.
//!
//! A new condition is a variant and a row here. A rule that explains it names its class of time, and functions that
//! rules use as well are in `kernel.rs`.

use crate::kernel::{self, FunctionSet};
use serde::{Deserialize, Serialize};

/// The resource or event that a blocked task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    CgroupFrozen,
    /// To write to a file system that is frozen: its stack has no function of its own.
    FilesystemFrozen,
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
    /// Held back by a limit or weight of its cgroup (io.cost, io.latency). `io.max` delays the completion instead.
    IoLimit,
    /// A file system over the network that is not NFS: SMB, Ceph, 9p.
    RemoteFs,
    /// Completions of io_uring or of AIO.
    AsyncIo,
    Userfault,
    FileLock,
    Terminal,
    Rcu,
    /// Its core dump, or the other threads' exit.
    Exit,
}

/// Work of a running task in the kernel, where that is no [`Wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelWork {
    Fork,
    /// The first write to a page that is shared since a fork.
    CopyOnWrite,
    /// Freeing an address space that nobody uses any more: its last task ended, or started another program.
    Exit,
    Unmap,
    Populate,
    PageFault,
    FileIo,
    Network,
    Other,
    /// Spinning for a lock that another CPU holds.
    LockContention,
    /// Waiting for other CPUs to answer an interrupt.
    OtherCpus,
}

/// A class of the time of a request, in the terms of causes. The row of a condition has the class by default; counters
/// over the same seconds refine it (mw-rules).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeClass {
    /// Direct or node reclaim, or a CPU that kswapd used.
    Reclaim,
    /// Reclaim within a cgroup's limit.
    CgroupReclaim,
    /// Throttled because the cgroup was over memory.high.
    MemoryHigh,
    Compaction,
    SwapIn,
    /// Swap-in of pages that a cgroup's limit had swapped out.
    GroupSwapIn,
    /// Reads of file pages that the machine had reclaimed shortly before.
    Refault,
    /// Reads of file pages that the limit of the task's cgroup had reclaimed shortly before.
    GroupRefault,
    FileRead,
    DirtyThrottling,
    Writeback,
    /// fsync, and writes that wait for the disk.
    FileWrite,
    /// A commit of the file system's journal.
    Journal,
    /// The queue of a block device.
    Disk,
    /// The I/O limit (io.max) of the task's own cgroup.
    IoLimit,
    /// Pages that are moved, for a reason that the kernel's stack does not show.
    Migration,
    /// NUMA balancing moved pages, or the task waited for one that it moved.
    NumaBalancing,
    /// Runnable while other tasks had the CPUs.
    CpuContention,
    /// Runnable while memwright had the CPU.
    Memwright,
    /// Throttled by the CPU quota of the task's cgroup.
    CpuQuota,
    Stopped,
    Frozen,
    /// Waiting to write to a frozen file system.
    FilesystemFrozen,
    /// Another thread of the process changed the address space under mmap_lock.
    AddressSpace,
    /// In fork, waiting for a thread that forks, or in what a fork costs later.
    Fork,
    /// Waiting for a process that ended, or for the CPU on which it freed its memory.
    Teardown,
    /// In page faults, or populating or unmapping memory.
    Population,
    /// Running otherwise.
    Computing,
    /// Runnable while a program had the CPU that dropped caches, compacted, had memory reclaimed by hand, or reserved
    /// huge pages.
    DroppingCaches,
    ForcedCompaction,
    ForcedReclaim,
    ReservingHugePages,
    /// A timer of a task's own.
    Sleep,
    /// A wait for something outside the trace, until a time limit of the task's own.
    TimeLimit,
    /// A lock between tasks of the service.
    Lock,
    /// A task that holds the request waited as it does for work.
    Idle,
    Network,
    Fuse,
    Nfs,
    /// Before the trace began, or while its records were lost: its cause is unknown.
    Untraced,
    Unknown,
}

/// A wait, and how the walk treats it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitRow {
    pub(crate) wait: Wait,
    /// In words, to follow "waiting for" or "waiting in".
    label: &'static str,
    time: TimeClass,
    pub(crate) functions: &'static [FunctionSet],
    is_for_task: bool,
    is_held_in_kernel: bool,
    is_memory_work: bool,
    is_lock: bool,
    is_for_work: bool,
    may_time_out: bool,
}

const fn wait(wait: Wait, label: &'static str, time: TimeClass) -> WaitRow {
    WaitRow {
        wait,
        label,
        time,
        functions: &[],
        is_for_task: false,
        is_held_in_kernel: false,
        is_memory_work: false,
        is_lock: false,
        is_for_work: false,
        may_time_out: false,
    }
}

impl WaitRow {
    /// The functions on the stack of a task that waits so.
    const fn by(self, functions: &'static [FunctionSet]) -> Self {
        Self { functions, ..self }
    }

    /// For another task; other waits are for a resource, which ends the path.
    const fn for_task(self) -> Self {
        Self { is_for_task: true, ..self }
    }

    /// In the kernel, for what another task holds or does.
    const fn held_in_kernel(self) -> Self {
        Self { is_for_task: true, is_held_in_kernel: true, ..self }
    }

    /// Work of a running task for itself, where others wait: to free memory, or to read it back from swap.
    const fn memory_work(self) -> Self {
        Self { is_memory_work: true, ..self }
    }

    /// Another thread of the process may hold what is waited for, or have it to do.
    const fn lock(self) -> Self {
        Self { is_for_task: true, is_lock: true, ..self }
    }

    /// As a server waits for work, and a client for an answer.
    const fn for_work(self) -> Self {
        Self { is_for_task: true, is_for_work: true, ..self }
    }

    /// The wait may have a time limit of the program's own.
    const fn may_time_out(self) -> Self {
        Self { may_time_out: true, ..self }
    }

    pub(crate) fn is_by(&self, function: &str) -> bool {
        kernel::is_of(self.functions, function)
    }
}

macro_rules! functions {
    ($($name:literal),+ $(,)?) => { FunctionSet::new(&[$($name),+]) };
}

/// Waits, in the order in which a stack is searched for their functions: those that cause others come first, so that a
/// task that waits for the disk while it swaps pages out in direct reclaim waits in direct reclaim. A wait that has
/// functions of lower precedence, too, has a second row for these.
pub(crate) const WAITS: &[WaitRow] = &[
    wait(Wait::CgroupFrozen, "frozen by its cgroup", TimeClass::Frozen).by(&[functions![
        "do_freezer_trap",
        "cgroup_enter_frozen",
        "__refrigerator"
    ]]),
    wait(Wait::CpuQuota, "throttled by the cgroup's CPU quota", TimeClass::CpuQuota)
        .by(&[functions!["throttle_cfs_rq_work"]]),
    wait(Wait::MemoryHigh, "throttled over the cgroup's memory.high", TimeClass::MemoryHigh)
        .memory_work()
        .by(&[kernel::MEMORY_HIGH]),
    wait(Wait::CgroupReclaim, "reclaim within the cgroup", TimeClass::CgroupReclaim)
        .memory_work()
        .by(&[kernel::CGROUP_RECLAIM]),
    wait(Wait::Compaction, "compaction", TimeClass::Compaction)
        .memory_work()
        .by(&[kernel::DIRECT_COMPACTION, functions!["compact_zone", "kcompactd"]]),
    wait(Wait::DirectReclaim, "direct reclaim", TimeClass::Reclaim).memory_work().by(&[
        kernel::DIRECT_RECLAIM,
        kernel::NODE_RECLAIM,
        functions!["__alloc_pages_may_oom", "out_of_memory"],
    ]),
    wait(Wait::BackgroundReclaim, "background reclaim", TimeClass::Reclaim)
        .memory_work()
        .by(&[kernel::SHRINKING]),
    // A fault that copies a page from swap may wait for a handler as well.
    wait(Wait::Userfault, "a userfaultfd handler", TimeClass::Unknown)
        .held_in_kernel()
        .lock()
        .by(&[functions!["handle_userfault"]]),
    // A fault on a page that is being moved enters do_swap_page as well.
    wait(Wait::Migration, "page migration", TimeClass::Migration)
        .memory_work()
        .by(&[kernel::MIGRATION_WAIT, kernel::DEVICE_PAGES]),
    wait(Wait::SwapIn, "swap-in", TimeClass::SwapIn).memory_work().by(&[kernel::SWAP_IN]),
    // Futexes with priority inheritance sleep in the functions of a kernel mutex.
    wait(Wait::Futex, "a lock (futex or semaphore)", TimeClass::Lock)
        .lock()
        .may_time_out()
        .by(&[functions!["futex_lock_pi", "futex_wait_requeue_pi"]]),
    // Spinlocks of PREEMPT_RT, which an allocation takes without reclaiming.
    wait(Wait::Mutex, "a kernel mutex", TimeClass::Lock)
        .held_in_kernel()
        .lock()
        .by(&[functions!["rt_spin_lock", "rtlock_slowlock"]]),
    // An allocation that neither reclaims nor compacts waits to try again; a mempool, until an element comes back.
    wait(Wait::DirectReclaim, "direct reclaim", TimeClass::Reclaim)
        .by(&[functions!["__alloc_pages_slowpath", "mempool_alloc"]]),
    wait(Wait::DirtyThrottling, "dirty throttling", TimeClass::DirtyThrottling)
        .by(&[kernel::DIRTY_THROTTLING]),
    wait(Wait::Migration, "page migration", TimeClass::Migration)
        .by(&[kernel::NUMA_BALANCING, functions!["migrate_pages"]]),
    wait(Wait::Fuse, "a FUSE daemon", TimeClass::Fuse).held_in_kernel().by(&[functions![
        "request_wait_answer",
        "fuse_simple_request",
        "__fuse_simple_request",
        "fuse_wait_on_",
        "fuse_get_req",
        "fuse_direct_io"
    ]]),
    wait(Wait::Nfs, "the NFS server", TimeClass::Nfs).by(&[functions![
        "rpc_wait_bit_killable",
        "nfs_wait_",
        "nfs_file_direct_",
        // Of the client alone: the server has functions of that prefix, too (fs/nfsd/nfs4state.c).
        "nfs4_call_sync",
        "nfs4_do_",
        "nfs4_proc_",
        "nfs4_wait_",
        "nfs4_handle_",
        "nfs4_file_",
        "nfs4_async_",
        "nfs4_run_state_manager",
        "nfs4_client_recover_",
        "__rpc_wait_for_completion_task"
    ]]),
    wait(Wait::RemoteFs, "a file server", TimeClass::Nfs).by(&[functions![
        "compound_send_recv",
        "wait_for_response",
        "wait_for_free_request",
        "cifs_",
        "ceph_osdc_wait_request",
        "ceph_mdsc_wait_request",
        "p9_client_",
        "netfs_wait",
        // Cluster file systems wait for a lock of another node as well.
        "gfs2_glock_",
        "__ocfs2_cluster_lock",
        "dlm_lock",
        "ptlrpc_",
        "ldlm_",
        "osc_extent_wait",
        "osc_enter_cache"
    ]]),
    wait(Wait::IoLimit, "the cgroup's share of the disk", TimeClass::IoLimit).by(&[functions![
        "blkcg_maybe_throttle_current",
        "blkcg_iolatency_",
        "ioc_rqos_throttle"
    ]]),
    wait(Wait::Journal, "the file system's journal", TimeClass::Journal).held_in_kernel().by(&[
        functions![
            "jbd2_log_wait_commit",
            "jbd2_log_do_checkpoint",
            "jbd2_journal_commit_transaction",
            "__jbd2_log_wait_for_space",
            "wait_transaction_locked",
            "wait_transaction_switching",
            "start_this_handle",
            "add_transaction_credits",
            "do_get_write_access",
            "xlog_",
            "xfs_log_force",
            "btrfs_commit_transaction",
            "btrfs_sync_log",
            "btrfs_wait_for_commit",
            "btrfs_reserve_",
            "wait_current_trans",
            "wait_log_commit",
            "f2fs_issue_checkpoint",
            "txg_wait_",
            "zil_commit"
        ],
    ]),
    wait(Wait::FileLock, "a file lock", TimeClass::Lock)
        .held_in_kernel()
        .by(&[functions!["locks_lock_inode_wait", "fcntl_setlk"]]),
    wait(Wait::Semaphore, "mmap_lock or another semaphore", TimeClass::Lock)
        .held_in_kernel()
        .lock()
        .by(&[
            kernel::SEMAPHORE,
            functions![
                "down_read",
                "down_write",
                "__down",
                "percpu_rwsem_wait",
                "percpu_down_write",
                "__percpu_down_read",
                // PREEMPT_RT.
                "__rwbase_read_lock",
                "rwbase_write_lock",
                "__vma_start_write",
                "xfs_buf_lock"
            ],
        ]),
    wait(Wait::Mutex, "a kernel mutex", TimeClass::Lock).by(&[functions![
        "__mutex_lock",
        "mutex_lock",
        "ww_mutex_lock",
        "rt_mutex_slowlock",
        "__rt_mutex_slowlock"
    ]]),
    wait(Wait::Writeback, "writeback of a page", TimeClass::Writeback).by(&[functions![
        "folio_wait_writeback",
        "wait_on_page_writeback",
        "folio_wait_stable"
    ]]),
    wait(Wait::FileRead, "file read from disk", TimeClass::FileRead).by(&[functions![
        "filemap_get_pages",
        "filemap_read",
        "filemap_fault",
        "generic_file_read",
        "generic_file_buffered_read",
        "do_read_cache_folio",
        "page_cache_ra_",
        "read_pages",
        "folio_wait_bit",
        // Before 5.16.
        "wait_on_page_bit",
        "__lock_page"
    ]]),
    wait(Wait::FileWrite, "file write to disk", TimeClass::FileWrite).by(&[functions![
        "blkdev_issue_flush",
        "__filemap_fdatawait_range",
        "file_write_and_wait",
        "wb_wait_for_completion",
        "__inode_wait_for_writeback",
        "inode_sleep_on_writeback",
        "btrfs_start_ordered_extent",
        "btrfs_wait_ordered_"
    ]]),
    wait(Wait::Disk, "the disk", TimeClass::Disk).by(&[functions![
        "rq_qos_wait",
        "wbt_wait",
        "blk_mq_get_tag",
        "blk_mq_freeze_queue_wait",
        "blk_execute_rq",
        "__bio_queue_enter",
        "blk_queue_enter",
        "io_schedule",
        "bit_wait_io",
        "__wait_on_buffer",
        "__ext4_find_entry",
        "wait_for_completion_io",
        "submit_bio_wait",
        "__iomap_dio",
        "iomap_dio",
        "__blkdev_direct_IO",
        "xfs_buf_iowait",
        "xfs_buf_read_map",
        "dm_wait_",
        "dm_bufio_",
        "__wait_for_free_buffer",
        // An inode that another task reads.
        "wait_on_new_inode",
        "sync_io",
        "bch_",
        "md_handle_request",
        "md_write_start",
        "md_flush_request",
        "wait_barrier",
        "_wait_barrier",
        "raid1_",
        "raid10_",
        "raid5_",
        "zio_wait"
    ]]),
    wait(Wait::Sleep, "sleep (its own timer)", TimeClass::Sleep).by(&[functions![
        "hrtimer_nanosleep",
        "do_nanosleep",
        "alarm_timer_nsleep",
        "msleep",
        "timerfd_read"
    ]]),
    wait(Wait::Futex, "a lock (futex or semaphore)", TimeClass::Lock).lock().may_time_out().by(&[
        functions![
            "futex_wait",
            "__futex_wait",
            "futex_do_wait",
            "do_futex",
            "do_semtimedop",
            "__do_semtimedop"
        ],
    ]),
    wait(Wait::Poll, "poll", TimeClass::Unknown).for_work().may_time_out().by(&[functions![
        "ep_poll",
        "do_epoll_wait",
        "do_poll",
        "do_sys_poll",
        "poll_schedule_timeout",
        "do_select",
        "core_sys_select",
        "inotify_read",
        "fuse_dev_do_read"
    ]]),
    wait(Wait::AsyncIo, "asynchronous I/O (io_uring or AIO)", TimeClass::Disk)
        .lock()
        .for_work()
        .may_time_out()
        .by(&[functions![
            "io_cqring_wait",
            "read_events",
            "do_io_getevents",
            "__do_sys_io_uring_enter",
            "__x64_sys_io_uring_enter",
            "__arm64_sys_io_uring_enter",
            "io_wq_worker",
            "io_sq_thread"
        ]]),
    wait(Wait::Terminal, "the terminal", TimeClass::Unknown)
        .by(&[functions!["n_tty_read", "n_tty_write"]]),
    wait(Wait::Pipe, "a pipe or message queue", TimeClass::Unknown).for_work().by(&[functions![
        "pipe_read",
        "pipe_write",
        "anon_pipe_read",
        "anon_pipe_write",
        "fifo_open",
        "wait_for_partner",
        "eventfd_read",
        "do_msgrcv",
        "do_msgsnd",
        "do_mq_timed",
        "wq_sleep"
    ]]),
    wait(Wait::Socket, "a socket", TimeClass::Unknown).for_work().may_time_out().by(&[functions![
        "unix_stream",
        "unix_wait_for_peer",
        "unix_accept",
        "unix_dgram",
        "__unix_dgram",
        "sk_wait_data",
        "sk_stream_wait",
        "__lock_sock",
        "sock_alloc_send_pskb",
        "wait_woken",
        "tcp_recvmsg",
        "inet_csk_accept",
        "inet_stream_connect",
        "__skb_wait_for_more_packets",
        "inet_wait_for_connect",
        "vsock_"
    ]]),
    wait(Wait::Child, "a child process", TimeClass::Unknown).for_task().by(&[functions![
        "do_wait",
        "zap_pid_ns_processes",
        "kernel_clone",
        "wait_for_vfork_done"
    ]]),
    wait(Wait::Signal, "a signal", TimeClass::Unknown).for_work().may_time_out().by(&[functions![
        "do_sigtimedwait",
        "sigsuspend",
        "signalfd",
        "__x64_sys_pause",
        "__do_sys_pause"
    ]]),
    wait(Wait::Rcu, "an RCU grace period", TimeClass::Unknown).by(&[functions![
        "__wait_rcu_gp",
        "synchronize_rcu",
        "synchronize_srcu",
        "rcu_barrier"
    ]]),
    // Who dumps core waits for the other threads as for a worker.
    wait(Wait::Exit, "a core dump or exit", TimeClass::Unknown).by(&[functions![
        "do_coredump",
        "vfs_coredump",
        "coredump_",
        // Starting another program ends the other threads.
        "begin_new_exec",
        "do_exit"
    ]]),
    wait(Wait::Worker, "a kernel worker", TimeClass::Unknown).held_in_kernel().by(&[functions![
        "worker_thread",
        "kthread_worker_fn",
        "kthread_flush_work",
        "flush_work",
        "__flush_work",
        "wait_for_completion",
        "smpboot_thread_fn",
        "rcu_",
        "kthread"
    ]]),
    // The freezer's wait is inlined from 6.12 on. What else waits there is stopped.
    wait(Wait::CgroupFrozen, "frozen by its cgroup", TimeClass::Frozen)
        .by(&[functions!["get_signal"]]),
    wait(Wait::FilesystemFrozen, "a frozen file system", TimeClass::FilesystemFrozen),
    wait(Wait::Network, "the network", TimeClass::Network),
    wait(Wait::Unknown, "an unknown event", TimeClass::Unknown).may_time_out().for_task(),
];

/// Work of a running task in the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkRow {
    pub(crate) work: KernelWork,
    /// In words, to follow "running in the kernel:".
    pub(crate) label: &'static str,
    time: TimeClass,
    pub(crate) functions: &'static [FunctionSet],
}

const fn work(
    work: KernelWork,
    label: &'static str,
    time: TimeClass,
    functions: &'static [FunctionSet],
) -> WorkRow {
    WorkRow { work, label, time, functions }
}

/// Work of a running task in the kernel, in the order in which a stack is searched. What a fork, an exit or a copy on
/// write spins for is its own.
pub(crate) const WORKS: &[WorkRow] = &[
    work(
        KernelWork::Fork,
        "fork (copying page tables)",
        TimeClass::Fork,
        &[functions!["copy_page_range", "dup_mm", "copy_process", "wake_up_new_task"]],
    ),
    work(
        KernelWork::CopyOnWrite,
        "copying pages on write",
        TimeClass::Computing,
        &[functions![
            "do_wp_page",
            "wp_page_copy",
            "do_huge_pmd_wp_page",
            "hugetlb_wp",
            "hugetlb_cow"
        ]],
    ),
    work(
        KernelWork::Exit,
        "freeing the memory of a process that ends",
        TimeClass::Teardown,
        &[kernel::EXIT],
    ),
    work(
        KernelWork::LockContention,
        "spinning for a lock",
        TimeClass::Computing,
        &[functions![
            "native_queued_spin_lock_slowpath",
            "__pv_queued_spin_lock_slowpath",
            "queued_spin_lock_slowpath",
            "queued_write_lock_slowpath",
            "queued_read_lock_slowpath",
            "osq_lock",
            "mutex_spin_on_owner",
            "rwsem_spin_on_owner"
        ]],
    ),
    work(
        KernelWork::OtherCpus,
        "waiting for other CPUs (TLB flush)",
        TimeClass::Computing,
        &[functions!["smp_call_function_many_cond", "smp_call_function_single"]],
    ),
    work(KernelWork::Unmap, "unmapping memory", TimeClass::Population, &[kernel::UNMAP]),
    work(KernelWork::Populate, "populating memory", TimeClass::Population, &[kernel::POPULATE]),
    // A fault in a mapped file reads, too.
    work(
        KernelWork::FileIo,
        "file I/O",
        TimeClass::Computing,
        &[functions!["page_cache_ra_unbounded", "page_cache_ra_order"]],
    ),
    work(KernelWork::PageFault, "page faults", TimeClass::Population, &[kernel::PAGE_FAULT]),
    work(
        KernelWork::FileIo,
        "file I/O",
        TimeClass::Computing,
        &[functions![
            "vfs_read",
            "vfs_write",
            "vfs_fsync",
            "ksys_read",
            "ksys_write",
            "do_writev",
            "do_readv"
        ]],
    ),
    work(
        KernelWork::Network,
        "network",
        TimeClass::Computing,
        &[functions!["__sys_send", "__sys_recv", "net_rx_action", "tcp_", "sock_"]],
    ),
];

impl WorkRow {
    pub(crate) fn is_by(&self, function: &str) -> bool {
        kernel::is_of(self.functions, function)
    }
}

impl Wait {
    /// The first row of the wait, which has all but the functions of lower precedence.
    fn row(self) -> &'static WaitRow {
        const FIRST: [usize; Wait::COUNT] = first_rows();
        &WAITS[FIRST[self as usize]]
    }

    const COUNT: usize = Self::Exit as usize + 1;

    /// The wait is for a resource, which ends the path; other waits are for another task.
    pub fn is_for_resource(self) -> bool {
        !self.row().is_for_task
    }

    pub(crate) fn is_held_in_kernel(self) -> bool {
        self.row().is_held_in_kernel
    }

    pub(crate) fn is_memory_work(self) -> bool {
        self.row().is_memory_work
    }

    pub(crate) fn is_lock(self) -> bool {
        self.row().is_lock
    }

    pub(crate) fn is_for_work(self) -> bool {
        self.row().is_for_work
    }

    pub(crate) fn may_time_out(self) -> bool {
        self.row().may_time_out
    }

    /// In words, to follow "waiting for" or "waiting in".
    pub fn label(self) -> &'static str {
        self.row().label
    }

    /// The class of the time that is spent so, before counters refine it.
    pub fn time_class(self) -> TimeClass {
        self.row().time
    }
}

/// The index of the first row of each wait. A wait without a row does not compile.
const fn first_rows() -> [usize; Wait::COUNT] {
    let mut first = [usize::MAX; Wait::COUNT];
    let mut row = WAITS.len();
    while row > 0 {
        row -= 1;
        first[WAITS[row].wait as usize] = row;
    }
    let mut wait = 0;
    while wait < Wait::COUNT {
        assert!(first[wait] < WAITS.len(), "each wait needs a row");
        wait += 1;
    }
    first
}

impl KernelWork {
    fn row(self) -> Option<&'static WorkRow> {
        WORKS.iter().find(|row| row.work == self)
    }

    /// In words, to follow "running in the kernel:".
    pub fn label(self) -> &'static str {
        self.row().map_or("other work", |row| row.label)
    }

    /// The class of the time that is spent so, before counters refine it.
    pub fn time_class(self) -> TimeClass {
        self.row().map_or(TimeClass::Computing, |row| row.time)
    }
}
