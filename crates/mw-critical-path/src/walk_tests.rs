use super::*;
use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder};
use crate::trace::{EventKind, Task, TaskState, WakeContext};
use crate::wait::KernelWork;

/// The client asks at 100, the server has the answer at 1100.
fn asks_and_is_answered(traced: &mut TraceBuilder) {
    traced.wakes(100, CLIENT, SERVER);
    is_answered(traced);
}

/// The same, with a server that is not idle when it is asked.
fn is_answered(traced: &mut TraceBuilder) {
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < unix_stream_read_generic");
    traced.wakes(1100, SERVER, CLIENT).runs(1100, 0, CLIENT);
}

#[test]
fn a_wait_for_a_task_is_what_that_task_did() {
    let mut traced = TraceBuilder::new(2000);
    asks_and_is_answered(&mut traced);
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").runs(150, 1, SERVER);
    traced.blocks(200, 1, SERVER, "io_schedule < folio_wait_bit_common < filemap_get_pages");
    traced.interrupt(900, SERVER, "folio_end_read < bio_endio").runs(950, 1, SERVER);
    let shares = traced.shares(100, 1100);
    assert_eq!(shares[0], (TimeKind::Waiting(Wait::FileRead), 700));
    assert_eq!(shares[1], (TimeKind::Running(RunMode::Unsampled), 50 + 150));
    assert_eq!(shares.iter().map(|(_, total)| total).sum::<Nanos>(), 1000);
}

/// Promise (Tracing: why): A wait for another task is explained by what that task did over the same interval.
#[test]
fn a_chain_is_followed_over_just_the_time_that_was_waited() {
    let mut traced = TraceBuilder::new(2000);
    asks_and_is_answered(&mut traced);
    traced.runs(100, 1, SERVER).wakes(300, SERVER, OTHER).blocks(
        300,
        1,
        SERVER,
        "schedule < futex_wait_queue",
    );
    traced.runs(0, 2, OTHER).blocks(310, 2, OTHER, "schedule < do_nanosleep < hrtimer_nanosleep");
    traced.interrupt(1000, OTHER, "hrtimer_wakeup").runs(1000, 2, OTHER);
    traced.wakes(1010, OTHER, SERVER).runs(1010, 1, SERVER);
    let path = traced.path(100, 1100);
    let shares = path.shares();
    assert_eq!((shares[0].kind, shares[0].total), (TimeKind::Waiting(Wait::Sleep), 690));
    let chain: Vec<_> = path.chain(shares[0].hop).iter().map(|hop| hop.task).collect();
    assert_eq!(chain, [CLIENT, SERVER, OTHER]);
    let links = path.summary(&traced.trace).chain;
    let stacks: Vec<_> = links.iter().map(|link| link.stack.join(" < ")).collect();
    assert_eq!(stacks, ["schedule < unix_stream_read_generic", "schedule < futex_wait_queue"]);
}

#[test]
fn a_runnable_task_names_who_has_its_cpu_and_a_throttled_one_nobody() {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").wakes(100, CLIENT, SERVER);
    traced.runs(60, 1, OTHER);
    let preempted = EventKind::SwitchOut {
        task: OTHER,
        state: TaskState::Runnable,
        stack: StackId::default(),
        next: 0,
    };
    traced.event(500, 1, preempted).runs(800, 1, SERVER);
    let shares = traced.shares(100, 1100);
    assert_eq!(shares[0], (TimeKind::Runnable(CpuHolder::Task(OTHER)), 400));
    assert!(shares.contains(&(TimeKind::Runnable(CpuHolder::Idle), 300)), "{shares:?}");
}

/// Promise (Tracing: why): A wait for a CPU that another thread of the process has is what that thread does there.
#[test]
fn a_cpu_that_another_thread_of_the_process_has_is_what_that_does() {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").wakes(100, CLIENT, SERVER);
    traced.runs(60, 1, OTHER);
    let stack = traced.stack("shrink_node < try_to_free_mem_cgroup_pages");
    for at in [200, 300, 400] {
        traced.event(at, 1, EventKind::Sample { task: OTHER, stack });
    }
    traced.blocks(500, 1, OTHER, "schedule < ep_poll").runs(500, 1, SERVER);
    traced.event(800, 1, EventKind::Sample { task: SERVER, stack: StackId::default() });
    for thread in [SERVER, OTHER] {
        traced.trace.tasks.get_mut(&thread).unwrap().process = SERVER;
    }
    let reclaims = TimeKind::Running(RunMode::In(Wait::CgroupReclaim));
    let user = TimeKind::Running(RunMode::User);
    // By the number of samples: three of four.
    assert_eq!(traced.shares(100, 1100), [(reclaims, 750), (user, 250)]);
}

/// The holder of the CPU that the server waited for, with these samples of it.
fn holder(forks: bool, samples: &[&str]) -> CpuHolder {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    if forks {
        traced.event(40, 1, EventKind::Fork { parent: SERVER, child: OTHER });
    }
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").wakes(100, CLIENT, SERVER);
    traced.runs(60, 1, OTHER);
    for (at, functions) in (200..).step_by(10).zip(samples) {
        let stack = traced.stack(functions);
        traced.event(at, 1, EventKind::Sample { task: OTHER, stack });
    }
    traced.blocks(800, 1, OTHER, "schedule < ep_poll").runs(800, 1, SERVER);
    match traced.shares(100, 1100)[0].0 {
        TimeKind::Runnable(holder) => holder,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cpu_on_which_a_forked_process_copies_or_frees_memory_is_a_cost_of_the_fork() {
    let (frees, copies) = ("zap_pte_range < exit_mmap < do_exit", "copy_mc_to_kernel < do_wp_page");
    let computes = "vfs_write < ksys_write";
    assert_eq!(holder(true, &[frees, copies, computes]), CpuHolder::Copy(OTHER));
    assert_eq!(holder(true, &[computes, copies, computes]), CpuHolder::Task(OTHER));
    assert_eq!(holder(true, &[]), CpuHolder::Task(OTHER), "nothing is known of it");
    assert_eq!(holder(false, &[copies, computes]), CpuHolder::Task(OTHER));
}

#[test]
fn a_cpu_on_which_a_stranger_ends_is_told_from_others() {
    let ends = "free_unref_folios < unmap_page_range < exit_mmap < mmput < do_exit";
    assert_eq!(holder(false, &["vfs_read < ksys_read", ends]), CpuHolder::Exiting(OTHER));
    assert_eq!(holder(false, &["unmap_page_range < __vm_munmap"]), CpuHolder::Task(OTHER));
}

/// Time that a copy on write and a fork spin, or wait for other CPUs, is their own.
#[test]
fn what_memory_costs_precedes_what_it_spins_for() {
    for (functions, work) in [
        ("native_queued_spin_lock_slowpath < copy_page_range < copy_process", KernelWork::Fork),
        ("smp_call_function_many_cond < flush_tlb_mm_range < copy_process", KernelWork::Fork),
        ("_raw_spin_unlock_irqrestore < wake_up_new_task < kernel_clone", KernelWork::Fork),
        ("smp_call_function_many_cond < do_wp_page < handle_mm_fault", KernelWork::CopyOnWrite),
        ("native_queued_spin_lock_slowpath < exit_mmap < do_exit", KernelWork::Exit),
        ("smp_call_function_many_cond < zap_page_range < do_madvise", KernelWork::OtherCpus),
        ("clear_page_rep < do_anonymous_page < handle_mm_fault", KernelWork::PageFault),
        (
            "folio_alloc < page_cache_ra_unbounded < filemap_fault < handle_mm_fault",
            KernelWork::FileIo,
        ),
    ] {
        let stack: Vec<String> = functions.split(" < ").map(str::to_owned).collect();
        assert_eq!(wait::work(&stack), work, "{functions}");
    }
}

/// A proxy waits for its upstream, which is stuck, and another client wakes it.
#[test]
fn a_new_client_is_not_what_a_proxy_waited_for() {
    const UPSTREAM: Tid = 40;
    let mut traced = TraceBuilder::new(2000);
    asks_and_is_answered(&mut traced);
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").runs(110, 1, SERVER);
    traced.blocks(90, 2, UPSTREAM, "schedule < inet_csk_accept").wakes(120, SERVER, UPSTREAM);
    traced.blocks(130, 1, SERVER, "schedule < ep_poll").runs(130, 2, UPSTREAM);
    traced.blocks(140, 2, UPSTREAM, "io_schedule < folio_wait_writeback < ext4_sync_file");
    let stack =
        traced.stack("ep_poll_callback < tcp_v4_rcv < __inet_stream_connect < __sys_connect");
    let context = WakeContext::Task;
    traced.runs(900, 0, OTHER);
    traced.event(1000, 0, EventKind::Waking { task: SERVER, by: OTHER, context, stack });
    traced.runs(1001, 1, SERVER);
    let path = traced.path(100, 1100);
    let share = &path.shares()[0];
    assert_eq!((share.kind, share.total), (TimeKind::Waiting(Wait::Writeback), 860));
    assert!(path.hops.iter().any(|hop| hop.task == UPSTREAM && hop.inferred));
    assert!(path.hops.iter().all(|hop| hop.task != OTHER));
}

/// The timer of an event loop: it does something when the loop sends something then.
#[test]
fn a_server_whose_timers_do_nothing_is_idle() {
    let kind = |sends: bool| {
        let mut traced = TraceBuilder::new(2000);
        is_answered(&mut traced);
        traced.blocks(50, 1, SERVER, "schedule < do_epoll_wait < ep_poll");
        traced.interrupt(800, SERVER, "hrtimer_wakeup").runs(800, 1, SERVER);
        if sends {
            traced.wakes(805, SERVER, OTHER);
        }
        traced.blocks(810, 1, SERVER, "schedule < do_epoll_wait < ep_poll");
        traced.interrupt(1090, SERVER, "net_rx_action").runs(1090, 1, SERVER);
        traced.shares(100, 1100)[0].0
    };
    assert_eq!(kind(false), TimeKind::Idle(Wait::Poll));
    assert_eq!(kind(true), TimeKind::TimedOut(Wait::Poll));
}

#[test]
fn a_cpu_that_the_tracer_has_is_told_from_others() {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").wakes(100, CLIENT, SERVER);
    traced.runs(60, 1, OTHER).runs(700, 1, SERVER);
    traced.trace.tracer = Some(OTHER);
    assert_eq!(traced.shares(100, 1100)[0], (TimeKind::Runnable(CpuHolder::Tracer), 600));
}

#[test]
fn a_stopped_task_is_not_explained_by_who_continues_it() {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    let stopped = EventKind::SwitchOut {
        task: SERVER,
        state: TaskState::Stopped,
        stack: StackId::default(),
        next: 0,
    };
    traced
        .runs(90, 1, SERVER)
        .event(150, 1, stopped)
        .wakes(1000, OTHER, SERVER)
        .runs(1001, 1, SERVER);
    assert_eq!(traced.shares(100, 1100)[0], (TimeKind::Stopped, 850));
}

/// It stopped before the trace began, and its state was not read.
#[test]
fn a_task_that_a_signal_continues_was_stopped() {
    let kind = |functions: &str| {
        let mut traced = TraceBuilder::new(2000);
        is_answered(&mut traced);
        let stack = traced.stack(functions);
        let (task, by, context) = (SERVER, OTHER, WakeContext::Task);
        traced.event(1000, 0, EventKind::Waking { task, by, context, stack }).runs(1001, 1, SERVER);
        traced.shares(100, 1100)[0].0
    };
    assert_eq!(kind("try_to_wake_up < prepare_signal < kill_pid_info"), TimeKind::Stopped);
    assert_ne!(kind("try_to_wake_up < complete_signal < kill_pid_info"), TimeKind::Stopped);
}

/// Promise (Tracing: why): A frozen task is not explained by who thaws it.
#[test]
fn a_task_that_was_frozen_where_it_slept_is_not_explained_by_who_thaws_it() {
    let mut traced = TraceBuilder::new(2000);
    asks_and_is_answered(&mut traced);
    traced.found(SERVER, TaskState::Waiting, "schedule < futex_wait_queue");
    traced.runs(0, 2, OTHER);
    let stack = traced.stack("try_to_wake_up < __thaw_task < freezer_write");
    let context = WakeContext::Task;
    traced.event(1000, 2, EventKind::Waking { task: SERVER, by: OTHER, context, stack });
    traced.runs(1001, 1, SERVER);
    // The request itself does not wake it.
    traced
        .trace
        .events
        .retain(|event| !matches!(event.kind, EventKind::Waking { task: SERVER, by: CLIENT, .. }));
    assert_eq!(traced.shares(100, 1100)[0], (TimeKind::Waiting(Wait::CgroupFrozen), 900));
}

/// Promise (Tracing: why): A task that waited for a frozen file system is not explained by who thaws it.
#[test]
fn a_writer_to_a_frozen_file_system_is_not_explained_by_who_thaws_it() {
    let kind = |state: &str, stack: &str| {
        let mut traced = TraceBuilder::new(2000);
        asks_and_is_answered(&mut traced);
        if state == "before" {
            traced.found(SERVER, TaskState::Waiting, "schedule < ep_poll");
        } else {
            traced.runs(90, 1, SERVER).blocks(100, 1, SERVER, stack);
        }
        traced.runs(0, 2, OTHER);
        let stack =
            traced.stack("percpu_rwsem_wake_function < percpu_up_write < thaw_super_locked");
        let context = WakeContext::Task;
        traced.event(1000, 2, EventKind::Waking { task: SERVER, by: OTHER, context, stack });
        traced.runs(1001, 1, SERVER);
        traced.trace.events.retain(|event| {
            !matches!(event.kind, EventKind::Waking { task: SERVER, by: CLIENT, .. })
        });
        traced.shares(100, 1100)[0].0
    };
    let frozen = TimeKind::Waiting(Wait::FilesystemFrozen);
    assert_eq!(kind("traced", "schedule < percpu_rwsem_wait < vfs_write < ksys_write"), frozen);
    assert_eq!(kind("before", ""), frozen);
}

/// Promise (Tracing: why): What happened while records of the trace were lost is not explained.
#[test]
fn what_was_done_while_records_were_lost_is_not_known() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule_hrtimeout < do_sys_poll");
    traced.interrupt(1100, CLIENT, "hrtimer_wakeup < __hrtimer_run_queues").runs(1100, 0, CLIENT);
    traced.trace.gaps = vec![(700, 900), (50, 300), (800, 950)];
    let kinds: Vec<_> = traced.path(100, 1100).parts.into_iter().map(|p| (p.to, p.kind)).collect();
    let (known, lost) = (TimeKind::TimedOut(Wait::Poll), TimeKind::Unseen(UnseenReason::Untraced));
    assert_eq!(kinds, [(300, lost), (700, known), (950, lost), (1100, known)]);
}

/// Promise (Tracing: why): Records that were lost before a request make no part of it doubtful.
#[test]
fn records_that_were_lost_before_a_request_are_none_of_its_own() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule_hrtimeout < do_sys_poll");
    traced.runs(1100, 0, CLIENT);
    (traced.trace.lost, traced.trace.gaps) = (3, vec![(100, 300)]);
    let lost = |from| traced.path(from, 1100).summary(&traced.trace).lost;
    assert_eq!([lost(200), lost(300)], [3, 0]);
}

#[test]
fn a_poll_that_a_timer_ends_timed_out() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule_hrtimeout < do_sys_poll");
    traced.interrupt(1100, CLIENT, "hrtimer_wakeup < __hrtimer_run_queues").runs(1100, 0, CLIENT);
    assert_eq!(traced.shares(100, 1100), [(TimeKind::TimedOut(Wait::Poll), 1000)]);
}

#[test]
fn before_its_birth_a_task_is_its_parent() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < do_wait");
    traced.runs(0, 1, OTHER).event(400, 1, EventKind::Fork { parent: OTHER, child: SERVER });
    traced.runs(400, 2, SERVER).wakes(1100, SERVER, CLIENT).runs(1100, 0, CLIENT);
    let path = traced.path(100, 1100);
    let of = |task: Tid| -> Nanos {
        let own = path.parts.iter().filter(|part| path.hops[part.hop].task == task);
        own.map(PathPiece::duration).sum()
    };
    assert_eq!((of(OTHER), of(SERVER)), (300, 700));
}

#[test]
fn samples_tell_how_a_task_ran() {
    let mut traced = TraceBuilder::new(2000);
    asks_and_is_answered(&mut traced);
    let fault =
        traced.stack("clear_page_erms < clear_huge_page < handle_mm_fault < exc_page_fault");
    let reclaim = traced.stack("shrink_folio_list < shrink_node < try_to_free_pages");
    traced.runs(100, 1, SERVER);
    for (at, stack) in [(200, fault), (400, fault), (600, reclaim), (800, StackId::default())] {
        traced.event(at, 1, EventKind::Sample { task: SERVER, stack });
    }
    let shares = traced.shares(100, 1100);
    assert_eq!(shares[0], (TimeKind::Running(RunMode::Kernel(KernelWork::PageFault)), 500));
    assert!(
        shares.contains(&(TimeKind::Running(RunMode::In(Wait::DirectReclaim)), 250)),
        "{shares:?}"
    );
    assert!(shares.contains(&(TimeKind::Running(RunMode::User), 250)), "{shares:?}");
}

#[test]
fn slices_without_a_sample_are_divided_as_those_with_one() {
    let mut traced = TraceBuilder::new(2000);
    asks_and_is_answered(&mut traced);
    let fault = traced.stack("clear_page_erms < handle_mm_fault");
    traced.runs(100, 1, SERVER).event(110, 1, EventKind::Sample { task: SERVER, stack: fault });
    traced.blocks(150, 1, SERVER, "io_schedule < filemap_read").interrupt(200, SERVER, "bio_endio");
    traced.runs(200, 1, SERVER);
    let shares = traced.shares(100, 1100);
    assert_eq!(shares[0], (TimeKind::Running(RunMode::Kernel(KernelWork::PageFault)), 950));
    assert_eq!(shares[1], (TimeKind::Waiting(Wait::FileRead), 50));
}

#[test]
fn waits_for_a_cpu_are_one_share_and_name_who_had_it_longest() {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").wakes(100, CLIENT, SERVER);
    traced.runs(60, 1, OTHER).runs(400, 1, 31).runs(1000, 1, SERVER);
    assert_eq!(traced.shares(100, 1100)[0], (TimeKind::Runnable(CpuHolder::Task(31)), 900));
}

/// Promise (Tracing: why): A CPU that frees memory is not reported as contention.
#[test]
fn a_cpu_that_frees_memory_is_not_contention() {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").wakes(100, CLIENT, SERVER);
    traced.runs(60, 1, OTHER);
    let stack = traced.stack("shrink_node < balance_pgdat < kswapd < kthread");
    let preempted =
        EventKind::SwitchOut { task: OTHER, state: TaskState::Runnable, stack, next: 31 };
    traced.event(800, 1, preempted).runs(1000, 1, SERVER);
    let shares = traced.shares(100, 1100);
    assert_eq!(shares[0], (TimeKind::Runnable(CpuHolder::Reclaimer(OTHER)), 700));
    assert_eq!(shares[1], (TimeKind::Runnable(CpuHolder::Task(31)), 200));
}

#[test]
fn who_mostly_reclaims_when_sampled_frees_memory() {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").wakes(100, CLIENT, SERVER);
    let reclaim = traced.stack("shrink_folio_list < shrink_node < try_to_free_pages");
    traced.runs(60, 1, OTHER);
    for (at, stack) in [(200, reclaim), (300, StackId::default()), (400, reclaim)] {
        traced.event(at, 1, EventKind::Sample { task: OTHER, stack });
    }
    traced.runs(1000, 1, SERVER);
    let kind = TimeKind::Runnable(CpuHolder::Reclaimer(OTHER));
    assert_eq!(traced.shares(100, 1100)[0], (kind, 900));
}

#[test]
fn who_reclaims_inside_a_cgroup_frees_no_memory_of_the_machine() {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    traced.blocks(50, 1, SERVER, "schedule < ep_poll").wakes(100, CLIENT, SERVER);
    let stack = traced.stack("shrink_node < try_to_free_mem_cgroup_pages < memory_high_write");
    traced.runs(60, 1, OTHER);
    traced.event(200, 1, EventKind::Sample { task: OTHER, stack });
    traced.runs(1000, 1, SERVER);
    let kind = TimeKind::Runnable(CpuHolder::CgroupReclaimer(OTHER));
    assert_eq!(traced.shares(100, 1100)[0], (kind, 900));
}

#[test]
fn a_signal_of_an_interval_timer_is_no_cause() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < ep_poll");
    let signal = "try_to_wake_up < complete_signal < it_real_fn < __hrtimer_run_queues";
    traced.interrupt(500, CLIENT, signal).runs(500, 0, CLIENT);
    traced.blocks(520, 0, CLIENT, "schedule < ep_poll").wakes(1100, SERVER, CLIENT);
    traced.runs(0, 1, SERVER).blocks(
        110,
        1,
        SERVER,
        "io_schedule < submit_bio_wait < blkdev_issue_flush",
    );
    traced.interrupt(1090, SERVER, "bio_endio").runs(1090, 1, SERVER);
    assert_eq!(traced.shares(100, 1100)[0], (TimeKind::Waiting(Wait::FileWrite), 390 + 570));
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < ep_poll");
    traced.interrupt(1100, CLIENT, signal).runs(1100, 0, CLIENT);
    assert_eq!(traced.shares(100, 1100), [(TimeKind::TimedOut(Wait::Poll), 1000)]);
}

/// pthread_cond_timedwait(3) in slices, until another thread lets go; or until the program itself goes on.
#[test]
fn a_lock_that_is_waited_for_in_slices_is_what_its_holder_did() {
    let slices = |sends: bool| {
        let mut traced = TraceBuilder::new(2000);
        traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < futex_wait_queue");
        traced.interrupt(600, CLIENT, "hrtimer_wakeup < nvme_irq").runs(600, 0, CLIENT);
        if sends {
            traced.wakes(605, CLIENT, OTHER);
        }
        traced.blocks(610, 0, CLIENT, "schedule < futex_wait_queue").wakes(1100, SERVER, CLIENT);
        traced.runs(0, 1, SERVER).blocks(110, 1, SERVER, "schedule < do_nanosleep");
        traced.interrupt(1090, SERVER, "hrtimer_wakeup").runs(1090, 1, SERVER);
        traced.shares(100, 1100)[0]
    };
    assert_eq!(slices(false), (TimeKind::Waiting(Wait::Sleep), 490 + 480));
    assert_eq!(slices(true), (TimeKind::TimedOut(Wait::Futex), 500));
}

#[test]
fn a_file_read_over_fuse_is_what_the_daemon_did() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT);
    traced.blocks(100, 0, CLIENT, "io_schedule < folio_wait_bit_common < filemap_get_pages");
    let stack = traced.stack("folio_end_read < fuse_dev_do_write < fuse_dev_write");
    let context = WakeContext::Task;
    traced.event(1100, 1, EventKind::Waking { task: CLIENT, by: SERVER, context, stack });
    traced.runs(0, 1, SERVER).blocks(110, 1, SERVER, "do_nanosleep < hrtimer_nanosleep");
    traced.interrupt(1090, SERVER, "hrtimer_wakeup").runs(1090, 1, SERVER);
    assert_eq!(traced.shares(100, 1100)[0], (TimeKind::Waiting(Wait::Sleep), 980));
}

#[test]
fn what_io_uring_has_to_do_is_explained_by_its_worker() {
    let mut traced = TraceBuilder::new(2000);
    for task in [CLIENT, OTHER] {
        traced.trace.tasks.insert(task, Task { name: "db".to_owned(), process: CLIENT });
    }
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < io_cqring_wait");
    traced.found(
        OTHER,
        TaskState::Waiting,
        "io_schedule < balance_dirty_pages < io_wq_submit_work",
    );
    let path = traced.path(100, 1100);
    let shares = path.shares();
    assert_eq!((shares[0].kind, shares[0].total), (TimeKind::Waiting(Wait::DirtyThrottling), 1000));
    assert!(path.hops[shares[0].hop].inferred);
}

#[test]
fn what_the_trace_does_not_show_is_said() {
    let traced = TraceBuilder::new(2000);
    assert_eq!(traced.shares(100, 1100), [(TimeKind::Unseen(UnseenReason::NeverRan), 1000)]);
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < unix_stream_read_generic");
    let unseen = TimeKind::Unseen(UnseenReason::NotWoken(Wait::Socket));
    assert_eq!(traced.shares(100, 1100), [(unseen, 1000)]);
}

/// The recorder explains a stall while it lasts, and again at its end: less of that may be traced, but it is known.
///
/// Promise (Tracing: why): The path of a request that has ended is shown, and not the one from before its answer.
#[test]
fn a_wait_that_has_not_ended_is_not_seen() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < unix_stream_read_generic");
    assert_eq!(traced.path(100, 1100).summary(&traced.trace).seen_ns(), 0);
    is_answered(&mut traced);
    traced.runs(300, 1, SERVER);
    let answered = traced.path(100, 1100).summary(&traced.trace);
    assert!(answered.seen_ns() > 0, "{answered:?}");
}

#[test]
fn a_state_that_was_found_begins_the_first_interval() {
    let mut traced = TraceBuilder::new(2000);
    is_answered(&mut traced);
    let stack = traced.stack("schedule < rq_qos_wait < shrink_node < try_to_free_pages");
    traced.event(0, 0, EventKind::Found { task: SERVER, state: TaskState::Waiting, stack });
    traced.interrupt(1000, SERVER, "bio_endio").runs(1000, 1, SERVER);
    assert_eq!(traced.shares(100, 1100)[0], (TimeKind::Waiting(Wait::DirectReclaim), 900));
}

#[test]
fn tasks_that_wait_for_each_other_end() {
    let mut traced = TraceBuilder::new(100_000);
    traced.runs(0, 0, CLIENT);
    for round in 0..1000_u64 {
        let (a, b) = if round % 2 == 0 { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let at = round * 100;
        traced.wakes(at + 1, a, b).blocks(at + 1, 0, a, "schedule < pipe_read").runs(at + 2, 0, b);
    }
    assert_eq!(traced.path(0, 100_000).duration(), 100_000);
}

/// A task that no CPU runs although one is idle is throttled; or it ran, and the record of that was lost.
///
/// Promise (Tracing: why): What a task did after records were lost is not inferred from its state before.
#[test]
fn a_task_is_not_runnable_beside_an_idle_cpu_after_records_were_lost() {
    let shares = |gaps: &[(Nanos, Nanos)]| {
        let mut traced = TraceBuilder::new(2000);
        is_answered(&mut traced);
        traced.blocks(50, 1, SERVER, "schedule < ep_poll").wakes(100, CLIENT, SERVER);
        traced.blocks(60, 1, OTHER, "schedule < ep_poll").runs(900, 1, SERVER);
        traced.trace.gaps = gaps.to_vec();
        traced.shares(100, 1100)
    };
    assert_eq!(shares(&[])[0], (TimeKind::Runnable(CpuHolder::Idle), 800));
    let lost = shares(&[(300, 310)]);
    assert_eq!(lost[0], (TimeKind::Unseen(UnseenReason::Untraced), 600));
    assert!(lost.contains(&(TimeKind::Runnable(CpuHolder::Idle), 200)), "{lost:?}");
}

/// A server sleeps in its event loop until a time limit, then syncs what it wrote, and answers.
#[test]
fn a_server_that_syncs_before_it_answers_was_not_idle() {
    let kind = |answers: bool| {
        let mut traced = TraceBuilder::new(2000);
        traced.runs(0, 0, CLIENT).wakes(100, CLIENT, SERVER);
        traced.blocks(100, 0, CLIENT, "schedule < unix_stream_read_generic");
        traced.blocks(150, 1, SERVER, "schedule < do_epoll_wait < ep_poll");
        traced.interrupt(1000, SERVER, "hrtimer_wakeup").runs(1000, 1, SERVER);
        traced.blocks(1010, 1, SERVER, "io_schedule < folio_wait_writeback < ext4_sync_file");
        traced.interrupt(1050, SERVER, "folio_end_writeback < bio_endio").runs(1050, 1, SERVER);
        if answers {
            traced.wakes(1060, SERVER, OTHER);
        }
        traced.blocks(1070, 1, SERVER, "schedule < do_epoll_wait < ep_poll");
        traced.wakes(1100, SERVER, CLIENT).runs(1100, 0, CLIENT);
        traced.shares(100, 1100)[0].0
    };
    assert_eq!(kind(true), TimeKind::TimedOut(Wait::Poll));
    assert_eq!(kind(false), TimeKind::Idle(Wait::Poll));
}

/// A command that was executed wakes a thread of the kernel, which moves it to another CPU. Then it waits for an answer
/// that is late.
#[test]
fn a_kernel_thread_without_work_was_not_asked() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT);
    traced.found(OTHER, TaskState::Waiting, "schedule < smpboot_thread_fn < kthread");
    traced.wakes(50, CLIENT, OTHER).runs(51, 1, OTHER);
    traced.blocks(52, 1, OTHER, "schedule < smpboot_thread_fn < kthread");
    traced.blocks(100, 0, CLIENT, "schedule_timeout < inet_wait_for_connect < inet_stream_connect");
    let stack = traced.stack("sock_def_wakeup < tcp_rcv_state_process < tcp_v4_rcv");
    let (task, context) = (CLIENT, WakeContext::HardIrq);
    traced.event(1100, 0, EventKind::Waking { task, by: 0, context, stack }).runs(1100, 0, CLIENT);
    assert_eq!(traced.shares(0, 1200)[0], (TimeKind::Waiting(Wait::Network), 1000));
}

/// Promise (Tracing: why): The time before a worker of the kernel was given work by a timer is a wait of the task that
/// waited for it.
#[test]
fn a_worker_that_a_timer_gives_work_was_idle_before() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT);
    traced.blocks(100, 0, CLIENT, "schedule_timeout < wait_for_completion < __flush_work");
    traced.interrupt(600, OTHER, "kick_pool < __queue_work < call_timer_fn < __run_timers");
    traced.runs(600, 1, OTHER).blocks(650, 1, OTHER, "io_schedule < bit_wait_io < __wait_on_bit");
    traced.interrupt(950, OTHER, "wake_up_bit < end_buffer_write_sync < blk_update_request");
    traced.runs(950, 1, OTHER).wakes(1000, OTHER, CLIENT).runs(1000, 0, CLIENT);
    let path = traced.path(0, 1200);
    let before = path.parts.iter().find(|part| part.from == 100).unwrap();
    let expected = (600, TimeKind::Waiting(Wait::Worker), 0);
    assert_eq!((before.to, before.kind, before.hop), expected, "{path:?}");
}
