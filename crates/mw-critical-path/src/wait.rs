//! Classifies waits and kernel work of tasks by the functions on their stacks.
//!
//! Each table is searched in order for the first entry of which any function is anywhere on the stack.
//! Entries that cause others come first: a task that waits for the disk while it swaps pages out in direct
//! reclaim waits in direct reclaim.

pub use crate::conditions::{KernelWork, TimeClass, Wait};
use crate::conditions::{WAITS, WORKS, WorkRow};
use crate::kernel::{
    CONNECTS, DISK_COMPLETIONS, EXIT, FunctionSet, IDLE_THREADS, KILLS, MUTEX_TAKERS, PACKETS,
    QUEUES_WORK, RECLAIM_THREADS, ROOM, SEMAPHORE_TAKERS, SENDERS, THAWS, THAWS_FILESYSTEM,
    TIMER_SIGNALS, TIMERS, is_wait_for_frozen_filesystem, is_wait_for_mmap_lock, lock_taker,
};
use hashbrown::HashMap;

/// Sender of a wake-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WakeSource {
    Timer,
    /// A signal of an interval timer, which interrupts a wait and does not end it.
    TimerSignal,
    Disk,
    Network,
    #[default]
    Interrupt,
}

/// Work of a running task with this stack.
pub(crate) fn work(stack: &[String]) -> KernelWork {
    let by_it = |row: &&WorkRow| stack.iter().any(|function| row.is_by(function));
    WORKS.iter().find(by_it).map_or(KernelWork::Other, |row| row.work)
}

/// The wake-up came by a signal that a task sent.
pub(crate) fn is_kill(stack: &[String]) -> bool {
    KILLS.are_in(stack)
}

/// True if the task that sent a wake-up opened a connection: it is a client of the task that it woke.
pub(crate) fn is_connect(waker_stack: &[String]) -> bool {
    CONNECTS.are_in(waker_stack)
}

/// True if the task that sent a wake-up sent it over a socket, or closed one.
pub(crate) fn is_socket(waker_stack: &[String]) -> bool {
    SENDERS.are_in(waker_stack)
}

/// Object of a wait, where the wake-up that ended it tells: the file system over which a file was read, or that
/// its task or a file system was frozen.
pub(crate) fn told_by_waker(wait: Wait, waker_stack: &[String]) -> Wait {
    if THAWS.are_in(waker_stack) {
        return Wait::CgroupFrozen;
    }
    if THAWS_FILESYSTEM.are_in(waker_stack) {
        return Wait::FilesystemFrozen;
    }
    let is_for_file =
        matches!(wait, Wait::FileRead | Wait::FileWrite | Wait::Writeback | Wait::Disk);
    let remote = || {
        let found = REMOTE_COMPLETIONS.iter().find(|(_, functions)| functions.are_in(waker_stack));
        found.map(|(wait, _)| *wait)
    };
    is_for_file.then(remote).flatten().unwrap_or(wait)
}

/// True if a thread of the kernel waits for work: what it sleeps in is its own loop, and nothing that it was called
/// for.
fn is_idle_thread(stack: &[String]) -> bool {
    let mut functions = stack.iter().skip_while(|function| function.contains("schedule"));
    let innermost = functions.next().map_or("", String::as_str);
    IDLE_THREADS.has(innermost)
}

/// True if a thread of the kernel was woken because it was given work.
pub(crate) fn is_queued_work(waker_stack: &[String]) -> bool {
    QUEUES_WORK.are_in(waker_stack)
}

/// The function that a workqueue's thread was called for, by its stack.
pub(crate) fn work_function(stack: &[String]) -> Option<&str> {
    let called = stack.iter().position(|function| function.starts_with("process_one_work"))?;
    stack.get(called.checked_sub(1)?).map(String::as_str)
}

/// Classification of a stack, without regard to the CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WaitClass {
    pub(crate) wait: Option<Wait>,
    /// The current task sent the wake-up although it comes from a softirq: loopback delivers on the sender's stack.
    pub(crate) is_sender: bool,
    /// The wake-up says that the other end of a socket has read, and may not be waited for.
    pub(crate) is_for_room: bool,
    /// Interrupt that sent the wake-up, where no task did.
    pub(crate) interrupt: WakeSource,
    pub(crate) is_reclaim_thread: bool,
    /// The stack is of freeing an address space.
    pub(crate) is_exit: bool,
    /// The stack is of a thread of the kernel that waits for work.
    pub(crate) is_idle_thread: bool,
}

impl WaitClass {
    /// Memory that a task with this stack frees, if it is on a CPU.
    pub(crate) fn reclaim(self) -> Option<Reclaim> {
        if self.is_reclaim_thread {
            return Some(Reclaim::Machine);
        }
        match self.wait? {
            Wait::CgroupReclaim | Wait::MemoryHigh => Some(Reclaim::Cgroup),
            Wait::Compaction | Wait::DirectReclaim | Wait::BackgroundReclaim => {
                Some(Reclaim::Machine)
            }
            _ => None,
        }
    }
}

/// Owner of the memory that is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reclaim {
    /// That of the machine, or of a node.
    Machine,
    /// That of a cgroup, because of its limit or because somebody asked for it.
    Cgroup,
}

/// Sources of an interrupt. The innermost function of a stack that is any of these counts: one interrupt comes in
/// the middle of another.
const INTERRUPTS: &[(WakeSource, FunctionSet)] = &[
    (WakeSource::Disk, DISK_COMPLETIONS),
    (WakeSource::TimerSignal, TIMER_SIGNALS),
    (WakeSource::Timer, TIMERS),
    (WakeSource::Network, PACKETS),
];

/// Functions of a file system that send the wake-up at the end of its I/O.
pub(crate) const REMOTE_COMPLETIONS: &[(Wait, FunctionSet)] = &[
    (Wait::Fuse, FunctionSet::new(&["fuse_dev_", "fuse_request_end", "virtio_fs_"])),
    (Wait::Nfs, FunctionSet::new(&["rpc_", "nfs_", "nfs4_", "xprt_"])),
    (Wait::RemoteFs, FunctionSet::new(&["cifs_", "smb2_", "ceph_", "p9_", "netfs_"])),
];

/// Indices of the first entries that have a function.
#[derive(Clone, Copy)]
struct FunctionClass {
    wait: usize,
    interrupt: usize,
    is_sender: bool,
    is_for_room: bool,
    is_reclaim_thread: bool,
    is_exit: bool,
}

/// Classes of stacks. Each function is looked up in the tables once: a trace has many stacks of few functions.
pub(crate) fn classes(stacks: &[Vec<String>]) -> Vec<WaitClass> {
    let mut known = HashMap::new();
    stacks.iter().map(|stack| class(stack, &mut known)).collect()
}

/// The class of the wait of a blocked task with this stack.
pub fn wait_of(stack: &[String]) -> Option<Wait> {
    class(stack, &mut HashMap::new()).wait
}

/// True if a fault waits for a page on the move by the calls that 5.10 ends `__migration_entry_wait()` and its caller
/// with, so that neither is on the stack (mm/migrate.c). Reads of files wait in the same function.
fn waits_for_moved_page(stack: &[String]) -> bool {
    let mut callers = stack.iter().skip_while(|name| *name != "put_and_wait_on_page_locked");
    callers.nth(1).is_some_and(|caller| caller.starts_with("do_swap_page"))
}

/// The lock that the innermost function takes, where it is blocked by nothing else: stacks of /proc omit the functions of
/// the lock itself.
fn taken_lock(stack: &[String]) -> Option<Wait> {
    let taker = lock_taker(stack)?;
    if SEMAPHORE_TAKERS.has(taker) {
        return Some(Wait::Semaphore);
    }
    MUTEX_TAKERS.has(taker).then_some(Wait::Mutex)
}

fn class<'a>(stack: &'a [String], known: &mut HashMap<&'a str, FunctionClass>) -> WaitClass {
    let mut all = FunctionClass {
        wait: WAITS.len(),
        interrupt: INTERRUPTS.len(),
        is_sender: false,
        is_for_room: false,
        is_reclaim_thread: false,
        is_exit: false,
    };
    for function in stack {
        let says = *known.entry(function).or_insert_with(|| FunctionClass::new(function));
        all.wait = all.wait.min(says.wait);
        if all.interrupt == INTERRUPTS.len() {
            all.interrupt = says.interrupt;
        }
        all.is_sender |= says.is_sender;
        all.is_for_room |= says.is_for_room;
        all.is_reclaim_thread |= says.is_reclaim_thread;
        all.is_exit |= says.is_exit;
    }
    let wait = taken_lock(stack).or_else(|| WAITS.get(all.wait).map(|row| row.wait));
    let wait = match wait {
        Some(Wait::SwapIn) if waits_for_moved_page(stack) => Some(Wait::Migration),
        // With PREEMPT_RT a task sleeps for the mutex within the semaphore.
        Some(Wait::Mutex) if is_wait_for_mmap_lock(stack) => Some(Wait::Semaphore),
        Some(Wait::Semaphore) if is_wait_for_frozen_filesystem(stack) => {
            Some(Wait::FilesystemFrozen)
        }
        wait => wait,
    };
    WaitClass {
        wait: wait.or_else(|| is_wait_for_mmap_lock(stack).then_some(Wait::Semaphore)),
        is_sender: all.is_sender,
        is_for_room: all.is_for_room,
        interrupt: INTERRUPTS.get(all.interrupt).map_or(WakeSource::Interrupt, |(from, _)| *from),
        is_reclaim_thread: all.is_reclaim_thread,
        is_exit: all.is_exit,
        is_idle_thread: is_idle_thread(stack),
    }
}

impl FunctionClass {
    fn new(function: &str) -> Self {
        let wait = WAITS.iter().position(|row| row.is_by(function));
        let interrupt = INTERRUPTS.iter().position(|(_, functions)| functions.has(function));
        Self {
            wait: wait.unwrap_or(WAITS.len()),
            interrupt: interrupt.unwrap_or(INTERRUPTS.len()),
            is_sender: SENDERS.has(function),
            is_for_room: ROOM.has(function),
            is_reclaim_thread: RECLAIM_THREADS.has(function),
            is_exit: EXIT.has(function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn class(stack: &[String]) -> WaitClass {
        super::class(stack, &mut HashMap::new())
    }

    fn wait(stack: &[String]) -> Option<Wait> {
        class(stack).wait
    }

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

    /// Stacks as the kernels 6.1, 6.12 and 6.18 have them, each for what is waited for.
    #[test]
    fn waits_are_recognized_on_each_kernel() {
        for (expected, functions) in [
            (Wait::CgroupFrozen, "schedule < do_freezer_trap < get_signal < do_syscall_64"),
            (Wait::CgroupFrozen, "__schedule < schedule < get_signal < arch_do_signal_or_restart"),
            (Wait::CpuQuota, "schedule < throttle_cfs_rq_work < task_work_run"),
            (
                Wait::MemoryHigh,
                "schedule_timeout < __mem_cgroup_handle_over_high < try_charge_memcg",
            ),
            (
                Wait::CgroupReclaim,
                "io_schedule < __swap_writepage < shrink_folio_list < shrink_lruvec < \
                 try_to_free_mem_cgroup_pages < try_charge_memcg < do_swap_page",
            ),
            (
                Wait::DirectReclaim,
                "schedule_timeout < reclaim_throttle < shrink_node < do_try_to_free_pages < \
                 try_to_free_pages < __alloc_pages_slowpath.constprop.0 < do_swap_page",
            ),
            (Wait::SwapIn, "io_schedule < swap_read_folio < swapin_readahead < do_swap_page"),
            (Wait::SwapIn, "io_schedule < folio_wait_bit_common < do_swap_page < handle_mm_fault"),
            (
                Wait::Migration,
                "io_schedule < migration_entry_wait_on_locked < migration_entry_wait < do_swap_page",
            ),
            // 5.10.
            (
                Wait::Migration,
                "io_schedule < put_and_wait_on_page_locked < __migration_entry_wait < do_swap_page",
            ),
            (
                Wait::Migration,
                "io_schedule < put_and_wait_on_page_locked < do_swap_page < handle_mm_fault",
            ),
            (
                Wait::Migration,
                "wait_for_completion < amdgpu_fence_wait < svm_migrate_to_ram < do_swap_page",
            ),
            (
                Wait::FileRead,
                "io_schedule < wait_on_page_bit_killable < generic_file_buffered_read",
            ),
            (Wait::FileWrite, "schedule < wb_wait_for_completion < sync_inodes_sb < ksys_sync"),
            (
                Wait::Semaphore,
                "schedule < percpu_rwsem_wait < percpu_down_write < cgroup_procs_write_start",
            ),
            (
                Wait::Semaphore,
                "schedule < synchronize_rcu < rcu_sync_enter < percpu_down_write < freeze_super",
            ),
            (
                Wait::DirectReclaim,
                "io_schedule_timeout < mempool_alloc_noprof < bio_alloc_bioset < swap_writepage_bdev_async",
            ),
            // PREEMPT_RT.
            (Wait::Semaphore, "schedule < __rwbase_read_lock < down_read < lock_mm_and_find_vma"),
            (Wait::Semaphore, "page_cache_ra_order < filemap_get_pages < filemap_read < vfs_read"),
            (Wait::Semaphore, "dup_mmap < copy_process < kernel_clone < __do_sys_clone"),
            (Wait::Semaphore, "unlink_file_vma_batch_process < free_pgtables < exit_mmap"),
            (
                Wait::Mutex,
                "schedule_rtlock < rtlock_slowlock_locked < rt_spin_lock < rmqueue_bulk < __alloc_pages_slowpath",
            ),
            (Wait::RemoteFs, "schedule < gfs2_glock_wait < gfs2_glock_nq < gfs2_open"),
            (Wait::Disk, "io_schedule < __wait_for_free_buffer < new_read < dm_bufio_read"),
            (
                Wait::DirtyThrottling,
                "io_schedule_timeout < balance_dirty_pages < iomap_file_buffered_write",
            ),
            (
                Wait::Writeback,
                "io_schedule < folio_wait_bit < folio_wait_writeback < ext4_page_mkwrite",
            ),
            (Wait::FileRead, "io_schedule < folio_wait_bit_common < filemap_fault < __do_fault"),
            (
                Wait::FileRead,
                "io_schedule < blk_mq_get_tag < blk_mq_submit_bio < page_cache_ra_unbounded",
            ),
            (
                Wait::FileWrite,
                "io_schedule_timeout < wait_for_completion_io < submit_bio_wait < blkdev_issue_flush",
            ),
            (Wait::Disk, "io_schedule < rq_qos_wait < wbt_wait < blk_mq_submit_bio"),
            (Wait::Disk, "io_schedule < blk_mq_get_tag < __blk_mq_alloc_requests"),
            (Wait::Disk, "io_schedule < bit_wait_io < __wait_on_buffer < __ext4_sb_bread_gfp"),
            (
                Wait::Disk,
                "schedule_timeout < wait_for_completion < xfs_buf_iowait < xfs_buf_read_map",
            ),
            (Wait::Disk, "io_schedule < __iomap_dio_rw < iomap_dio_rw < ext4_file_read_iter"),
            (
                Wait::IoLimit,
                "io_schedule < ioc_rqos_throttle < __rq_qos_throttle < blk_mq_submit_bio",
            ),
            (Wait::Journal, "schedule < jbd2_log_wait_commit < ext4_sync_file"),
            (Wait::Journal, "schedule < xlog_wait_on_iclog < xfs_log_force_seq < xfs_file_fsync"),
            (Wait::Journal, "schedule < wait_current_trans < start_transaction < btrfs_create"),
            (
                Wait::Semaphore,
                "schedule < rwsem_down_read_slowpath < down_read_killable < lock_mm_and_find_vma",
            ),
            (
                Wait::Semaphore,
                "schedule < percpu_rwsem_wait < __percpu_down_read < ext4_file_write_iter",
            ),
            (
                Wait::FilesystemFrozen,
                "schedule < percpu_rwsem_wait < __percpu_down_read < vfs_write < ksys_write",
            ),
            (Wait::FilesystemFrozen, "percpu_rwsem_wait < mnt_want_write < path_openat"),
            (Wait::Mutex, "schedule_preempt_disabled < __mutex_lock.constprop.0 < ep_send_events"),
            (
                Wait::Fuse,
                "schedule < request_wait_answer < __fuse_simple_request < fuse_lookup_name",
            ),
            (Wait::Nfs, "rpc_wait_bit_killable < __wait_on_bit < nfs4_call_sync_sequence"),
            (
                Wait::RemoteFs,
                "schedule_timeout < wait_for_response < compound_send_recv < cifs_send_recv",
            ),
            (Wait::AsyncIo, "schedule < io_cqring_wait < __do_sys_io_uring_enter < do_syscall_64"),
            (Wait::AsyncIo, "schedule < __do_sys_io_uring_enter < do_syscall_64"),
            (Wait::AsyncIo, "schedule < read_events < do_io_getevents < __x64_sys_io_getevents"),
            (Wait::Userfault, "schedule < handle_userfault < do_anonymous_page < handle_mm_fault"),
            (Wait::FileLock, "schedule < locks_lock_inode_wait < __do_sys_flock"),
            (Wait::Sleep, "do_nanosleep < hrtimer_nanosleep < common_nsleep"),
            (Wait::Futex, "futex_wait_queue < futex_wait < do_futex < __x64_sys_futex"),
            (Wait::Futex, "schedule < __do_semtimedop < do_semtimedop"),
            (Wait::Poll, "schedule_hrtimeout_range < ep_poll < do_epoll_wait"),
            (Wait::Poll, "schedule_hrtimeout_range_clock < do_sys_poll < __x64_sys_poll"),
            (Wait::Pipe, "schedule < pipe_read < vfs_read"),
            (Wait::Pipe, "schedule < anon_pipe_read < vfs_read"),
            (Wait::Terminal, "schedule_timeout < wait_woken < n_tty_read < tty_read"),
            (Wait::Socket, "schedule_timeout < wait_woken < sk_wait_data < tcp_recvmsg_locked"),
            (Wait::Socket, "schedule_timeout < inet_csk_accept < inet_accept < do_accept"),
            (Wait::Child, "schedule < do_wait < kernel_wait4"),
            (Wait::Child, "wait_for_completion_state < kernel_clone < __x64_sys_vfork"),
            (Wait::Rcu, "schedule_timeout < wait_for_completion < __wait_rcu_gp < synchronize_rcu"),
            (
                Wait::Worker,
                "schedule_timeout < wait_for_completion < __flush_work < __lru_add_drain_all",
            ),
            (Wait::Exit, "schedule < do_exit < do_group_exit < get_signal"),
        ] {
            assert_eq!(wait(&stack(functions)), Some(expected), "{functions}");
        }
    }

    #[test]
    fn who_takes_mmap_lock_and_sleeps_there_waits_for_it() {
        let from_proc = "vm_mmap_pgoff < ksys_mmap_pgoff < do_syscall_64";
        assert_eq!(wait(&stack(from_proc)), Some(Wait::Semaphore));
        assert_eq!(wait(&stack("lock_mm_and_find_vma < exc_page_fault")), Some(Wait::Semaphore));
        let rt = "rt_mutex_schedule < __rt_mutex_slowlock_locked.constprop.0";
        let reader = |function| stack(&format!("{rt} < {function} < seq_read < vfs_read"));
        assert_eq!(wait(&reader("show_smaps_rollup")), Some(Wait::Semaphore));
        assert_eq!(wait(&reader("pipe_read")), Some(Wait::Mutex));
        assert_eq!(wait(&stack("some_wait < vm_mmap_pgoff < do_syscall_64")), None);
        assert_eq!(
            wait(&stack("folio_wait_bit_common < filemap_fault < do_user_addr_fault")),
            Some(Wait::FileRead)
        );
        assert_eq!(wait(&[]), None);
    }

    #[test]
    fn a_server_of_nfs_does_not_wait_for_one() {
        let nfsd =
            "schedule < nfs4_get_vfs_file < nfsd4_process_open2 < nfsd4_open < nfsd_dispatch";
        assert_ne!(wait(&stack(nfsd)), Some(Wait::Nfs));
    }

    #[test]
    fn the_function_that_takes_the_semaphore_tells_which_it_is() {
        for wants in [
            "schedule < rwsem_down_write_slowpath < down_write_killable < vm_mmap_pgoff < ksys_mmap_pgoff",
            "schedule < rwsem_down_write_slowpath < down_write_killable < __do_sys_mremap",
            "schedule < __rwbase_read_lock < down_read < lock_mm_and_find_vma < exc_page_fault",
            "__get_user_pages_locked < pin_user_pages < ib_umem_get",
            "schedule < rwsem_down_write_slowpath < down_write_killable < copy_process < kernel_clone",
        ] {
            assert!(is_wait_for_mmap_lock(&stack(wants)), "{wants}");
        }
        for other in [
            "schedule < rwsem_down_read_slowpath < down_read < filemap_fault < do_user_addr_fault",
            "schedule < rwsem_down_write_slowpath < down_write < unlink_file_vma < free_pgtables < exit_mmap",
            "schedule < percpu_rwsem_wait < __percpu_down_read < do_page_mkwrite < do_user_addr_fault",
            "schedule < percpu_rwsem_wait < __percpu_down_read < copy_process < kernel_clone",
            "schedule < rwsem_down_write_slowpath < down_write < copy_process < kernel_clone",
        ] {
            assert!(!is_wait_for_mmap_lock(&stack(other)), "{other}");
        }
    }

    #[test]
    fn a_kernel_thread_without_work_is_idle() {
        for idle in [
            "__schedule < schedule < smpboot_thread_fn < kthread < ret_from_fork",
            "schedule < worker_thread < kthread",
            "schedule_timeout < kcompactd < kthread",
        ] {
            assert!(is_idle_thread(&stack(idle)), "{idle}");
        }
        for busy in [
            "schedule < io_schedule < blk_wait < process_one_work < worker_thread < kthread",
            "schedule < jbd2_journal_commit_transaction < kjournald2 < kthread",
            "schedule",
            "",
        ] {
            assert!(!is_idle_thread(&stack(busy)), "{busy}");
        }
    }

    #[test]
    fn the_wake_up_tells_the_file_system() {
        let read = stack("io_schedule < folio_wait_bit_common < filemap_get_pages");
        let read = wait(&read).unwrap();
        assert_eq!(told_by_waker(read, &stack("folio_end_read < fuse_dev_do_write")), Wait::Fuse);
        assert_eq!(told_by_waker(read, &stack("nfs_read_completion < rpc_free_task")), Wait::Nfs);
        assert_eq!(told_by_waker(read, &stack("bio_endio < blk_mq_end_request")), Wait::FileRead);
        assert_eq!(told_by_waker(Wait::SwapIn, &stack("nfs_read_completion")), Wait::SwapIn);
    }

    #[test]
    fn the_work_of_a_kernel_worker_has_a_name() {
        let flusher =
            stack("schedule < rq_qos_wait < wb_workfn < process_one_work < worker_thread");
        assert_eq!(work_function(&flusher), Some("wb_workfn"));
        assert_eq!(work_function(&stack("schedule < worker_thread < kthread")), None);
        assert_eq!(work_function(&stack("process_one_work < worker_thread")), None);
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
        assert!(class(&stack(reply)).is_sender);
        let remote =
            "try_to_wake_up < sock_def_readable < tcp_v4_rcv < net_rx_action < common_interrupt";
        assert!(!class(&stack(remote)).is_sender);
        assert_eq!(class(&stack(remote)).interrupt, WakeSource::Network);
    }

    #[test]
    fn every_wait_has_a_label_of_its_own() {
        let waits: BTreeSet<Wait> = WAITS.iter().map(|row| row.wait).collect();
        let labels: BTreeSet<&str> = waits.iter().map(|wait| wait.label()).collect();
        assert_eq!(labels.len(), waits.len());
    }
}
