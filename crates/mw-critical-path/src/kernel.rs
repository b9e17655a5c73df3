//! Kernel functions by what they do, and how their names are matched: one list for the stacks of a trace, of
//! /proc/PID/stack and of the profile.
//!
//! Names are matched by prefix, since suffixes (`_noprof`, `.constprop`, `.part`, `+0x12/0x90`) differ between builds and
//! sources. They are compared with the symbols of the kernels in kernels/ (docs/kernels.md), and were with the sources since
//! 2.6.32. A function that the compiler inlines on one of them stands beside the one that it is inlined into.
//!
//! A function that only one condition has is in the row of that condition (`conditions.rs`).

/// Behind a name that is no prefix: others begin with it that mean something else.
const WHOLE: char = '$';

/// True for what a build or a source adds to a name: `.isra.0`, `+0x12/0x90`, `_noprof`.
fn is_suffix(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['.', '+']) || rest.starts_with("_noprof")
}

/// A function's name, or a beginning that several have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionName(&'static str);

impl FunctionName {
    /// True if a function has this name or begins with it.
    pub fn is_of(self, function: &str) -> bool {
        match self.0.strip_suffix(WHOLE) {
            Some(name) => function.strip_prefix(name).is_some_and(is_suffix),
            None => function.starts_with(self.0),
        }
    }

    pub fn as_str(self) -> &'static str {
        self.0.trim_end_matches(WHOLE)
    }
}

/// Functions that do the same.
#[derive(Debug, Clone, Copy)]
pub struct FunctionSet(&'static [&'static str]);

impl FunctionSet {
    pub const fn new(prefixes: &'static [&'static str]) -> Self {
        Self(prefixes)
    }

    pub fn names(self) -> impl Iterator<Item = FunctionName> {
        self.0.iter().copied().map(FunctionName)
    }

    /// True if a function is one of these.
    pub fn has(self, function: &str) -> bool {
        self.names().any(|name| name.is_of(function))
    }

    /// True if a stack has one of these.
    pub fn are_in(self, stack: &[impl AsRef<str>]) -> bool {
        stack.iter().any(|function| self.has(function.as_ref()))
    }
}

/// True if a function is in one of the groups.
pub fn is_of(groups: &[FunctionSet], function: &str) -> bool {
    groups.iter().any(|group| group.has(function))
}

/// True if a stack has a function of one of the groups.
pub fn is_in(stack: &[impl AsRef<str>], groups: &[FunctionSet]) -> bool {
    groups.iter().any(|group| group.are_in(stack))
}

/// Defines sets, and a list of all of them: `cargo xtask kernel` compares each with the kernels.
macro_rules! function_sets {
    ($($(#[$doc:meta])* $vis:vis const $name:ident = [$($function:literal),* $(,)?];)*) => {
        $($(#[$doc])* $vis const $name: FunctionSet = FunctionSet(&[$($function),*]);)*

        /// Every set of this file, by its name.
        pub(crate) const SETS: &[(&str, FunctionSet)] = &[$((stringify!($name), $name)),*];
    };
}

function_sets! {
    /// An allocation that reclaims by itself, and what makes it wait.
    pub const DIRECT_RECLAIM = [
        "try_to_free_pages",
        "throttle_direct_reclaim",
        "__alloc_pages_direct_reclaim",
        "__perform_reclaim",
    ];

    /// Reclaim within a node, for zone_reclaim_mode.
    pub const NODE_RECLAIM = [
        "node_reclaim$",
        "__node_reclaim$",
        "zone_reclaim$",
        "__zone_reclaim$",
    ];

    /// Reclaim by any task, kswapd included.
    pub const SHRINKING = ["balance_pgdat", "shrink_node", "shrink_lruvec", "reclaim_throttle"];

    /// The work of reclaim, which no blocked task is told from others by.
    const RECLAIM_WORK = [
        "kswapd$",
        "do_try_to_free_pages",
        "shrink_zone",
        "try_to_shrink_lruvec",
        "evict_folios",
        "shrink_inactive_list",
        "shrink_folio_list",
        "shrink_page_list",
    ];

    /// The wait of a task whose cgroup is over memory.high.
    pub const MEMORY_HIGH = ["mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"];

    /// Reclaim within a memory cgroup's limit.
    pub const CGROUP_RECLAIM = [
        "try_to_free_mem_cgroup_pages",
        "mem_cgroup_reclaim",
        "reclaim_high",
        "mem_cgroup_out_of_memory",
        "mem_cgroup_oom_synchronize",
    ];

    /// Compaction by the task that allocates.
    pub const DIRECT_COMPACTION = ["try_to_compact_pages", "__alloc_pages_direct_compact"];

    const COMPACT_ZONE = ["compact_zone"];

    /// Scanners of compaction; allocations of contiguous ranges use them as well.
    const COMPACTION_SCANNERS = ["compaction_alloc", "isolate_migratepages", "isolate_freepages"];

    /// Making pages for a pool of huge pages.
    pub const HUGE_POOL = [
        "set_max_huge_pages",
        "__nr_hugepages_store_common",
        "alloc_pool_huge_folio",
        "alloc_pool_huge_page",
        "alloc_fresh_hugetlb_folio",
        "only_alloc_fresh_hugetlb_folio",
        "alloc_fresh_huge_page",
    ];

    /// Writers that are held to the speed of their device.
    pub const DIRTY_THROTTLING = ["balance_dirty_pages"];

    pub const SWAP_IN = [
        "swap_readpage",
        "swap_read_folio",
        "swapin_",
        "swap_cluster_readahead",
        "swap_vma_readahead",
        "do_swap_page",
        "shmem_swapin",
        "read_swap_cache_async",
    ];

    /// Writing pages to swap.
    pub const SWAP_OUT = ["swap_writepage", "swap_writeout"];

    /// Freeing the kernel's own objects.
    pub const SLAB_RECLAIM = [
        "shrink_slab",
        "do_shrink_slab",
        "super_cache_scan",
        "prune_dcache_sb",
        "prune_icache_sb",
        "shrink_dentry_list",
    ];

    /// Collecting huge pages in the background.
    pub const COLLAPSE = [
        "khugepaged$",
        "khugepaged_scan",
        "hpage_collapse_scan",
        "collapse_huge_page",
        "collapse_scan_",
        "collapse_single_pmd",
        "collapse_file",
        "madvise_collapse",
    ];

    /// The slow paths of a semaphore.
    pub const SEMAPHORE = [
        "rwsem_down_read_slowpath",
        "rwsem_down_write_slowpath",
        "rwsem_down_read_failed",
        "rwsem_down_write_failed",
    ];

    /// Functions that take mmap_lock: page faults and calls that change the address space. `/proc/PID/stack` and `wchan` omit
    /// the scheduler's functions, to which those of semaphores and mutexes belong: where one of these is the innermost function,
    /// its task waits for that lock.
    const MMAP_LOCK_TAKERS = [
        "lock_mm_and_find_vma",
        "do_user_addr_fault",
        "exc_page_fault",
        "vm_mmap_pgoff",
        "__vm_munmap",
        "vm_munmap",
        "vm_brk_flags",
        "do_page_fault",
        "do_madvise",
        "madvise_lock",
        "do_mprotect_pkey",
        "__do_sys_brk",
        "__x64_sys_brk",
        "__arm64_sys_brk",
        "__do_sys_mremap",
        "__x64_sys_mremap",
        "__arm64_sys_mremap",
        "do_mremap",
        "do_mlock$",
        "__do_sys_mlockall",
        "__x64_sys_mlockall",
        "__arm64_sys_mlockall",
        "__do_sys_munlock",
        "__x64_sys_munlock",
        "__arm64_sys_munlock",
        "__get_user_pages_locked",
        "get_user_pages_unlocked",
        "__gup_longterm_locked",
        "fixup_user_fault",
        "do_mbind",
        "do_pages_move",
        "ksys_shmdt",
        "do_shmat",
        "show_smaps_rollup",
        "m_start$",
        "__mm_populate",
        "dup_mmap",
        "exit_mmap",
        "__access_remote_vm",
        "process_vm_rw_core",
    ];

    /// Functions that take another semaphore: that of an inode or a directory, invalidate_lock of a file's pages, that of a
    /// frozen file system. Where one of these is the innermost function, its task waits for it.
    pub(crate) const SEMAPHORE_TAKERS = [
        "filemap_fault",
        "ext4_filemap_fault",
        "do_page_cache_ra",
        "page_cache_ra_unbounded",
        "page_cache_ra_order",
        // The lock of all mappings of a file.
        "unlink_file_vma",
        "vma_link_file",
        // The compiler inlines what takes the lock of an inode.
        "ext4_file_write_iter",
        // And dup_mmap, which takes i_mmap_rwsem as well as mmap_lock.
        "copy_process",
        "dup_mmap",
        "fuse_file_write_iter",
    ];

    /// Functions that take a mutex, and of which the innermost waits for nothing else.
    pub(crate) const MUTEX_TAKERS = ["__fdget_pos", "fdget_pos"];

    /// Functions in which a task sleeps for a semaphore, whichever it is; PREEMPT_RT has others.
    const SEMAPHORE_SLEEP = [
        "schedule",
        "__schedule",
        "rwsem_",
        "down_read",
        "down_write",
        "rwbase_",
        "__rwbase_",
        "rt_mutex_",
        "__rt_mutex_",
    ];

    /// Functions in which a task sleeps for a semaphore that is counted per CPU or for a mutex, or spins for one that
    /// sleeps.
    const OTHER_LOCK_SLEEP = [
        "percpu_rwsem_wait",
        "__percpu_down_read",
        "percpu_down_write",
        "__mutex_lock",
        "mutex_lock",
        "mutex_spin_on_owner",
        "osq_lock",
    ];

    /// The function that fork(2) takes mmap_lock in where `dup_mmap()` is inlined.
    pub(crate) const FORKS_ADDRESS_SPACE = ["copy_process"];

    /// fork(2) takes mmap_lock so, and i_mmap_rwsem of mapped files by `down_write()` (kernel/fork.c, `dup_mmap()`).
    pub(crate) const KILLABLE_WRITE = ["down_write_killable"];

    /// Functions that read the mappings of another process, and hold its mmap_lock meanwhile.
    pub const MMAP_LOCK_READERS = [
        "show_map",
        "show_smap",
        "show_numa_map",
        "pagemap_read",
        "do_pagemap_scan",
        "clear_refs_write",
        "__access_remote_vm",
        "process_vm_rw",
    ];

    /// Finding pages on other nodes than their task's, and moving them.
    pub const NUMA_BALANCING = [
        "do_numa_page",
        "do_huge_pmd_numa_page",
        "numa_migrate_prep",
        "numa_migrate_check",
        "migrate_misplaced_page",
        "migrate_misplaced_folio",
        "task_numa_work",
        "change_prot_numa",
    ];

    /// A wait for a page that is being moved.
    pub const MIGRATION_WAIT = [
        "migration_entry_wait",
        "__migration_entry_wait",
        "pmd_migration_entry_wait",
        "softleaf_entry_wait",
    ];

    /// Bringing a page back from a device's memory, in a fault on it (heterogeneous memory management).
    pub const DEVICE_PAGES = [
        "svm_migrate_to_ram",
        "nouveau_dmem_migrate_to_ram",
        "drm_pagemap_migrate_to_ram",
        "dmirror_devmem_fault",
    ];

    /// Populating memory, page faults, and unmapping.
    pub const POPULATE = [
        "populate_vma_page_range",
        "__mm_populate",
        "faultin_page_range",
        "madvise_populate",
    ];

    pub const PAGE_FAULT = [
        "handle_mm_fault",
        "do_user_addr_fault",
        "exc_page_fault",
        "do_page_fault",
    ];

    pub const UNMAP = [
        "unmap_vmas",
        "zap_page",
        "zap_pte",
        "zap_pmd",
        "zap_pud",
        "zap_huge",
        "zap_vma",
        "__vm_munmap",
        "do_munmap",
    ];

    /// Stopped by a debugger.
    pub const TRACED_STOP = ["ptrace_stop"];

    /// Writing back a file's pages for fsync(2), fdatasync(2) or a synchronous write.
    pub const FILE_SYNC = [
        "file_write_and_wait_range",
        "vfs_fsync",
    ];

    /// Functions that wait for a block device or a journal on it.
    pub const BLOCK_LAYER = [
        "blk_",
        "bio_",
        "submit_bio",
        "rq_qos_",
        "wbt_",
        "jbd2_",
        "ext4_",
        "xfs_",
        "xlog_",
        "btrfs_",
        "f2fs_",
        "nvme_",
        "scsi_",
        "dm_",
        "io_schedule",
        "folio_wait_bit",
        "folio_wait_writeback",
        "folio_wait_stable",
        "wait_on_page_",
        "__wait_on_buffer",
        "sync_dirty_buffer",
    ];

    /// Frees an address space.
    pub(crate) const EXIT = ["exit_mmap"];

    /// Functions that wake the other end of a socket because there is room again: its data was read, not answered.
    pub(crate) const ROOM = ["unix_write_space", "sock_def_write_space", "sk_stream_write_space"];

    /// Functions beneath which a task sends to another, although the wake-up comes from a softirq.
    pub(crate) const SENDERS = [
        "tcp_sendmsg",
        "udp_sendmsg",
        "sock_sendmsg",
        "__sock_sendmsg",
        "sock_write_iter",
        "__sys_send",
        "__x64_sys_sendto",
        "__x64_sys_sendm",
        "unix_stream",
        "inet_shutdown",
        "tcp_close",
        "__sock_release",
        "__sys_connect",
        "inet_stream_connect",
    ];

    /// Functions by which a task opens a connection.
    pub(crate) const CONNECTS = ["__inet_stream_connect", "unix_stream_connect", "__sys_connect"];

    /// Functions by which a task sends a signal of its own accord.
    pub(crate) const KILLS = [
        "kill_something_info",
        "kill_pid_info",
        "kill_proc_info",
        "do_send_specific",
        "do_tkill",
        "__do_sys_pidfd_send_signal",
        "__x64_sys_pidfd_send_signal",
        "__arm64_sys_pidfd_send_signal",
    ];

    /// Functions of an interrupt that completes disk I/O.
    pub(crate) const DISK_COMPLETIONS = [
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

    /// Functions by which a frozen task is thawed where it slept: it does not enter the freezer's own wait (version 1,
    /// and suspend, from 6.1 on).
    pub(crate) const THAWS = ["__thaw_task", "thaw_task", "unfreeze_cgroup"];

    /// Functions by which a stopped task is continued: SIGCONT wakes what is stopped there, and what is traced
    /// (kernel/signal.c).
    pub(crate) const CONTINUES = ["prepare_signal"];

    /// Functions by which a file system is thawed (fs/super.c).
    pub(crate) const THAWS_FILESYSTEM = ["thaw_super"];

    /// Functions that enter a file system to write, and sleep below no other lock that is counted per CPU.
    pub const FILESYSTEM_WRITERS = ["vfs_write", "mnt_want_write", "ext4_page_mkwrite", "filemap_page_mkwrite"];

    /// Functions in which a task sleeps for a lock that is counted per CPU.
    pub const PER_CPU_LOCK = ["percpu_rwsem_wait", "__percpu_down_read"];

    /// Functions of the memory manager's own threads, which no program's stack has.
    pub(crate) const RECLAIM_THREADS = ["kswapd", "kcompactd"];

    /// In these a thread of the kernel waits for work.
    pub(crate) const IDLE_THREADS = [
        "worker_thread",
        "rescuer_thread",
        "kthread_worker_fn",
        "smpboot_thread_fn",
        "io_wq_worker",
        "kjournald2",
        "kswapd_try_to_sleep",
        "kcompactd",
    ];

    /// A thread of the kernel is woken by these when it is given work.
    pub(crate) const QUEUES_WORK = [
        "__queue_work$",
        "delayed_work_timer_fn",
        "kthread_insert_work$",
        "kthread_delayed_work_timer_fn",
    ];

    /// Functions of an interval timer's signal.
    pub(crate) const TIMER_SIGNALS = ["it_real_fn", "posix_timer_fn", "posix_timer_event"];

    /// Functions of an interrupt of a timer.
    pub(crate) const TIMERS = [
        "hrtimer_wakeup",
        "process_timeout",
        "call_timer_fn",
        "it_real_fn",
        "posix_timer_fn",
        "timerfd_",
        "alarm_",
    ];

    /// Functions of an interrupt that delivers a packet.
    pub(crate) const PACKETS = [
        "net_rx_action",
        "__netif_receive_skb",
        "tcp_v4_rcv",
        "tcp_v6_rcv",
        "udp_queue_rcv",
    ];
}

pub const RECLAIM: &[FunctionSet] = &[DIRECT_RECLAIM, SHRINKING, RECLAIM_WORK];

/// Compaction by any task, kcompactd included.
pub const COMPACTION: &[FunctionSet] = &[DIRECT_COMPACTION, COMPACT_ZONE, COMPACTION_SCANNERS];

pub const SWAP: &[FunctionSet] = &[SWAP_IN, SWAP_OUT];

/// True for a task that waits for mmap_lock: the innermost function that is not of the semaphore itself takes it. Other
/// semaphores are taken below the same calls (invalidate_lock in a fault, i_mmap_rwsem in munmap and fork).
pub fn is_wait_for_mmap_lock(stack: &[String]) -> bool {
    let is_fork = |function| FORKS_ADDRESS_SPACE.has(function) && KILLABLE_WRITE.are_in(stack);
    lock_taker(stack).is_some_and(|taker| MMAP_LOCK_TAKERS.has(taker) || is_fork(taker))
}

/// True for a task that waits for a lock which one of these functions takes: the innermost function that is not of a lock
/// itself is one of them. `/proc/PID/stack` omits most functions of locks, so that they need not be there.
pub fn is_wait_for_lock_of(stack: &[String], takers: FunctionSet) -> bool {
    let is_of_lock =
        |function: &&String| SEMAPHORE_SLEEP.has(function) || OTHER_LOCK_SLEEP.has(function);
    stack.iter().find(|function| !is_of_lock(function)).is_some_and(|function| takers.has(function))
}

/// True for a task that waits to write to a frozen file system.
pub fn is_wait_for_frozen_filesystem(stack: &[String]) -> bool {
    PER_CPU_LOCK.are_in(stack) && is_wait_for_lock_of(stack, FILESYSTEM_WRITERS)
}

/// The innermost function that is not of the scheduler or of a semaphore.
pub(crate) fn lock_taker(stack: &[String]) -> Option<&String> {
    stack.iter().find(|function| !SEMAPHORE_SLEEP.has(function))
}
