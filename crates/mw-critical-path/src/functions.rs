//! Kernel functions that tell what a task waits for or does, and who sent a wake-up.
//!
//! Names are matched by prefix, since suffixes (`_noprof`, `.constprop`, `.part`) differ between builds. They were
//! compared with the symbols of Debian's kernels 6.1 and 6.12 and of 6.18. A function that the compiler inlines on
//! one of them stands beside the one that it is inlined into.

use crate::kinds::{KernelWork, Wait};

/// What takes mmap_lock: page faults and calls that change the address space. `/proc/PID/stack` and `wchan` omit the
/// scheduler's functions, to which those of semaphores and mutexes belong: where one of these is the innermost function, its
/// task waits for that lock.
pub const MMAP_LOCK_TAKERS: &[&str] = &[
    "lock_mm_and_find_vma",
    "do_user_addr_fault",
    "exc_page_fault",
    "vm_mmap_pgoff",
    "__vm_munmap",
    "do_madvise",
    "madvise_lock",
    "do_mprotect_pkey",
    "__do_sys_brk",
    "__mm_populate",
    "dup_mmap",
    "exit_mmap",
];

/// What a blocked task waits for, by its stack. What causes others comes first.
pub(crate) const WAITS: &[(Wait, &[&str])] = &[
    (Wait::CgroupFrozen, &["do_freezer_trap", "cgroup_enter_frozen", "__refrigerator"]),
    (Wait::CpuQuota, &["throttle_cfs_rq_work"]),
    (Wait::MemoryHigh, &["mem_cgroup_handle_over_high", "__mem_cgroup_handle_over_high"]),
    (
        Wait::CgroupReclaim,
        &["try_to_free_mem_cgroup_pages", "mem_cgroup_out_of_memory", "mem_cgroup_oom_synchronize"],
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
            "__alloc_pages_may_oom",
            "out_of_memory",
            "node_reclaim",
        ],
    ),
    (
        Wait::BackgroundReclaim,
        &["balance_pgdat", "shrink_node", "shrink_lruvec", "reclaim_throttle"],
    ),
    // A fault on a page that is being moved enters do_swap_page as well.
    (Wait::Migration, &["migration_entry_wait", "pmd_migration_entry_wait", "softleaf_entry_wait"]),
    (
        Wait::SwapIn,
        &[
            "swap_readpage",
            "swap_read_folio",
            "swapin_",
            "do_swap_page",
            "shmem_swapin",
            "read_swap_cache_async",
        ],
    ),
    // An allocation that neither reclaims nor compacts waits to try again.
    (Wait::DirectReclaim, &["__alloc_pages_slowpath"]),
    (Wait::DirtyThrottling, &["balance_dirty_pages"]),
    (
        Wait::Migration,
        &["migrate_pages", "do_numa_page", "do_huge_pmd_numa_page", "task_numa_work"],
    ),
    (
        Wait::Fuse,
        &[
            "request_wait_answer",
            "fuse_simple_request",
            "__fuse_simple_request",
            "fuse_wait_on_",
            "fuse_get_req",
            "fuse_direct_io",
        ],
    ),
    (
        Wait::Nfs,
        &[
            "rpc_wait_bit_killable",
            "nfs_wait_",
            "nfs_file_direct_",
            "nfs4_",
            "__rpc_wait_for_completion_task",
        ],
    ),
    (
        Wait::RemoteFs,
        &[
            "compound_send_recv",
            "wait_for_response",
            "cifs_",
            "ceph_osdc_wait_request",
            "ceph_mdsc_wait_request",
            "p9_client_",
            "netfs_wait",
        ],
    ),
    (Wait::IoLimit, &["blkcg_maybe_throttle_current", "blkcg_iolatency_", "ioc_rqos_throttle"]),
    (
        Wait::Journal,
        &[
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
            "zil_commit",
        ],
    ),
    (Wait::FileLock, &["locks_lock_inode_wait", "fcntl_setlk"]),
    (Wait::Userfault, &["handle_userfault"]),
    (
        Wait::Semaphore,
        &[
            "rwsem_down_read_slowpath",
            "rwsem_down_write_slowpath",
            "down_read",
            "down_write",
            "__down",
            "percpu_rwsem_wait",
            "__percpu_down_read",
            "__vma_start_write",
            "xfs_buf_lock",
        ],
    ),
    (
        Wait::Mutex,
        &[
            "__mutex_lock",
            "mutex_lock",
            "ww_mutex_lock",
            "rt_mutex_slowlock",
            "__rt_mutex_slowlock",
        ],
    ),
    (Wait::Writeback, &["folio_wait_writeback", "wait_on_page_writeback", "folio_wait_stable"]),
    (
        Wait::FileRead,
        &[
            "filemap_get_pages",
            "filemap_read",
            "filemap_fault",
            "generic_file_read",
            "do_read_cache_folio",
            "page_cache_ra_",
            "read_pages",
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
            "btrfs_start_ordered_extent",
            "btrfs_wait_ordered_",
        ],
    ),
    (
        Wait::Disk,
        &[
            "rq_qos_wait",
            "wbt_wait",
            "blk_mq_get_tag",
            "blk_mq_freeze_queue_wait",
            "blk_execute_rq",
            "__bio_queue_enter",
            "blk_queue_enter",
            "io_schedule",
            "bit_wait_io",
            "wait_on_buffer",
            "__wait_on_buffer",
            "wait_for_completion_io",
            "__iomap_dio_rw",
            "iomap_dio",
            "__blkdev_direct_IO",
            "xfs_buf_iowait",
            "xfs_buf_read_map",
            "dm_wait_",
            "sync_io",
            "md_write_start",
            "md_flush_request",
            "wait_barrier",
            "_wait_barrier",
            "raid1_",
            "raid10_",
            "raid5_",
            "zio_wait",
        ],
    ),
    (
        Wait::Sleep,
        &["hrtimer_nanosleep", "do_nanosleep", "alarm_timer_nsleep", "msleep", "timerfd_read"],
    ),
    (Wait::Futex, &["futex_wait", "__futex_wait", "do_futex", "do_semtimedop", "__do_semtimedop"]),
    (
        Wait::Poll,
        &[
            "ep_poll",
            "do_epoll_wait",
            "do_poll",
            "do_sys_poll",
            "poll_schedule_timeout",
            "do_select",
            "core_sys_select",
            "inotify_read",
            "fuse_dev_do_read",
        ],
    ),
    (
        Wait::AsyncIo,
        &[
            "io_cqring_wait",
            "read_events",
            "do_io_getevents",
            "__do_sys_io_uring_enter",
            "__x64_sys_io_uring_enter",
            "__arm64_sys_io_uring_enter",
            "io_wq_worker",
            "io_sq_thread",
        ],
    ),
    (Wait::Terminal, &["n_tty_read", "n_tty_write"]),
    (
        Wait::Pipe,
        &[
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
            "wq_sleep",
        ],
    ),
    (
        Wait::Socket,
        &[
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
            "vsock_",
        ],
    ),
    (Wait::Child, &["do_wait", "zap_pid_ns_processes", "kernel_clone", "wait_for_vfork_done"]),
    (
        Wait::Signal,
        &[
            "do_sigtimedwait",
            "sigsuspend",
            "signalfd",
            "do_pause",
            "__x64_sys_pause",
            "__do_sys_pause",
        ],
    ),
    (Wait::Rcu, &["__wait_rcu_gp", "synchronize_rcu", "synchronize_srcu", "rcu_barrier"]),
    (
        Wait::Worker,
        &[
            "worker_thread",
            "kthread_worker_fn",
            "kthread_flush_work",
            "flush_work",
            "__flush_work",
            "wait_for_completion",
            "smpboot_thread_fn",
            "rcu_",
            "kthread",
        ],
    ),
    (Wait::Exit, &["do_coredump", "vfs_coredump", "coredump_", "do_exit"]),
    // The freezer's wait is inlined from 6.12 on. What else waits there is stopped.
    (Wait::CgroupFrozen, &["get_signal"]),
];

/// Frees an address space.
pub(crate) const EXIT: &str = "exit_mmap";

/// What a running task does in the kernel. What a fork, an exit or a copy on write spins for is its own.
pub(crate) const WORKS: &[(KernelWork, &[&str])] = &[
    (KernelWork::Fork, &["copy_page_range", "dup_mm", "copy_process", "wake_up_new_task"]),
    (
        KernelWork::CopyOnWrite,
        &["do_wp_page", "wp_page_copy", "do_huge_pmd_wp_page", "hugetlb_wp", "hugetlb_cow"],
    ),
    (KernelWork::Exit, &[EXIT]),
    (
        KernelWork::LockContention,
        &[
            "native_queued_spin_lock_slowpath",
            "__pv_queued_spin_lock_slowpath",
            "queued_spin_lock_slowpath",
            "queued_write_lock_slowpath",
            "queued_read_lock_slowpath",
            "osq_lock",
            "mutex_spin_on_owner",
            "rwsem_spin_on_owner",
        ],
    ),
    (
        KernelWork::OtherCpus,
        &["smp_call_function_many_cond", "smp_call_function_single", "csd_lock_wait"],
    ),
    (KernelWork::Unmap, &["unmap_vmas", "zap_", "__vm_munmap", "do_munmap"]),
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

/// Functions that wake the other end of a socket because there is room again: its data was read, not answered.
pub(crate) const ROOM: &[&str] =
    &["unix_write_space", "sock_def_write_space", "sk_stream_write_space"];

/// Functions beneath which a task sends to another, although the wake-up comes from a softirq.
pub(crate) const SENDERS: &[&str] = &[
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

/// Functions by which a task opens a connection.
pub(crate) const CONNECTS: &[&str] =
    &["__inet_stream_connect", "unix_stream_connect", "__sys_connect"];

/// Functions by which a task sends a signal of its own accord.
pub(crate) const KILLS: &[&str] = &[
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
pub(crate) const DISK_COMPLETIONS: &[&str] = &[
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

/// Functions of a file system that send the wake-up at the end of its I/O.
pub(crate) const REMOTE_COMPLETIONS: &[(Wait, &[&str])] = &[
    (Wait::Fuse, &["fuse_dev_", "fuse_request_end", "virtio_fs_"]),
    (Wait::Nfs, &["rpc_", "nfs_", "nfs4_", "xprt_"]),
    (Wait::RemoteFs, &["cifs_", "smb2_", "ceph_", "p9_", "netfs_"]),
];

/// Functions by which a frozen task is thawed where it slept: it does not enter the freezer's own wait (version 1,
/// and suspend, from 6.1 on).
pub(crate) const THAWS: &[&str] = &["__thaw_task", "thaw_task", "unfreeze_cgroup"];

/// Functions of the memory manager's own threads, which no program's stack has.
pub(crate) const RECLAIM_THREADS: &[&str] = &["kswapd", "kcompactd"];

/// In these a thread of the kernel waits for work.
pub(crate) const IDLE_THREADS: &[&str] = &[
    "worker_thread",
    "rescuer_thread",
    "kthread_worker_fn",
    "smpboot_thread_fn",
    "io_wq_worker",
    "kjournald2",
    "kswapd_try_to_sleep",
    "kcompactd",
];

/// Functions of an interval timer's signal.
pub(crate) const TIMER_SIGNALS: &[&str] = &["it_real_fn", "posix_timer_fn", "posix_timer_event"];

/// Functions of an interrupt of a timer.
pub(crate) const TIMERS: &[&str] = &[
    "hrtimer_wakeup",
    "process_timeout",
    "call_timer_fn",
    "it_real_fn",
    "posix_timer_fn",
    "timerfd_",
    "alarm_",
];

/// Functions of an interrupt that delivers a packet.
pub(crate) const PACKETS: &[&str] =
    &["net_rx_action", "__netif_receive_skb", "tcp_v4_rcv", "tcp_v6_rcv", "udp_queue_rcv"];
