use super::*;
use crate::path::{CriticalPath, RunMode, TimeKind, UnseenReason};
use crate::request::RequestSpan;
use crate::test_trace::assert_partition;
use crate::wait::Wait;
use crate::walk::critical_path;
use proptest::prelude::*;

const CLIENT: Tid = 10;
const SERVER: Tid = 20;

fn readings() -> TaskReadings {
    TaskReadings::new(1000)
}

/// A reading of a task that is in `functions`, or ready where there are none.
fn read(
    readings: &mut TaskReadings,
    task: Tid,
    at: Nanos,
    functions: &str,
    (ran, delayed): (Nanos, Nanos),
) {
    let state = if functions.is_empty() { TaskState::Runnable } else { TaskState::Waiting };
    let functions = functions.split(" < ").filter(|name| !name.is_empty()).map(str::to_owned);
    let stack = readings.stack(functions.collect());
    let ticks = (ran / 10, 0);
    let task_of = || Task { name: format!("t{task}"), process: task };
    readings.push(task, task_of, TaskReading { at, state, stack, ran, delayed, ticks });
}

fn path(readings: TaskReadings, servers: &[Tid]) -> CriticalPath {
    let trace = readings.into_trace(2000);
    let request = RequestSpan {
        task: CLIENT,
        from: 900,
        to: 2000,
        servers: servers.to_vec(),
        ..RequestSpan::default()
    };
    let path = critical_path(&trace, request);
    assert_partition(&path);
    path
}

#[test]
fn a_wait_that_was_always_found_is_the_whole_request() {
    let mut readings = readings();
    for at in (1000..2000).step_by(50) {
        read(
            &mut readings,
            CLIENT,
            at,
            "io_schedule < folio_wait_bit_common < filemap_fault",
            (0, 0),
        );
    }
    assert_eq!(readings.kept, 2, "readings that say the same are kept as one");
    let shares = path(readings, &[]).shares();
    assert_eq!((shares[0].kind, shares[0].total), (TimeKind::Waiting(Wait::FileRead), 1100));
}

#[test]
fn the_service_is_followed_by_who_owns_the_connection() {
    let mut readings = readings();
    for at in (1000..2000).step_by(50) {
        read(&mut readings, CLIENT, at, "schedule < do_sys_poll", (0, 0));
        read(&mut readings, SERVER, at, "schedule < do_nanosleep", (0, 0));
    }
    let path = path(readings, &[SERVER]);
    let shares = path.shares();
    assert_eq!((shares[0].kind, shares[0].total), (TimeKind::Waiting(Wait::Sleep), 1100));
    assert!(path.hops[shares[0].hop].inferred);
}

/// The service's first thread waits for clients, the second one waits for mmap_lock, which the third one holds.
///
/// Promise (The recorder): Where nothing may be traced, a wait for mmap_lock, a wait for CPUs that others use, and a
/// thread that populates memory are named; what a thread does in the kernel otherwise is unknown.
#[test]
fn who_holds_up_the_thread_that_waits_for_mmap_lock_is_followed() {
    let mut readings = readings();
    let of = |task| move || Task { name: format!("t{task}"), process: SERVER };
    for at in (1000..=2000).step_by(50) {
        read(&mut readings, CLIENT, at, "do_sys_poll", (0, 0));
        let [poll, mmap] = ["do_sys_poll", "vm_mmap_pgoff"]
            .map(|function| readings.stack(vec![function.to_owned()]));
        let blocked =
            |stack, state| TaskReading { at, state, stack, ran: 0, delayed: 0, ticks: (0, 0) };
        readings.push(SERVER, of(SERVER), blocked(poll, TaskState::Waiting));
        readings.push(SERVER + 1, of(SERVER + 1), blocked(mmap, TaskState::Waiting));
        let (ran, ticks) = (at - 1000, (0, (at - 1000) / 10));
        let runs = TaskReading { ran, ticks, ..blocked(StackId::default(), TaskState::Runnable) };
        readings.push(SERVER + 2, of(SERVER + 2), runs);
    }
    let path = path(readings, &[SERVER]);
    let tasks: Vec<Tid> = path.hops.iter().map(|hop| hop.task).collect();
    assert_eq!(tasks, [CLIENT, SERVER + 1, SERVER + 2]);
    assert_eq!(path.hops[2].waited_for_by, Some((1, Wait::Semaphore)));
}

#[test]
fn the_kernels_clocks_tell_running_from_waiting_for_a_cpu() {
    let mut readings = readings();
    let mut spent = (0, 0);
    for at in (1000..=2000).step_by(50) {
        read(&mut readings, CLIENT, at, "", spent);
        spent = (spent.0 + 20, spent.1 + 30);
    }
    let shares = path(readings, &[]).shares();
    assert_eq!(shares[0].kind, TimeKind::Runnable(crate::path::CpuHolder::Unknown));
    assert_eq!((shares[0].total, shares[1].total), (600, 400));
    assert_eq!(shares[1].kind, TimeKind::Running(RunMode::User));
    assert_eq!((shares[2].kind, shares[2].total), (TimeKind::Unseen(UnseenReason::Untraced), 100));
}

#[test]
fn who_is_ready_and_never_runs_waits_for_a_cpu() {
    let mut readings = readings();
    for at in (1000..=2000).step_by(50) {
        read(&mut readings, CLIENT, at, "", (0, 0));
    }
    let shares = path(readings, &[]).shares();
    let unknown = TimeKind::Runnable(crate::path::CpuHolder::Unknown);
    assert_eq!((shares[0].kind, shares[0].total), (unknown, 1000));
}

#[test]
fn between_two_waits_half_of_the_time_is_either() {
    let mut readings = readings();
    read(&mut readings, CLIENT, 1000, "folio_wait_bit_common", (0, 0));
    read(&mut readings, CLIENT, 2000, "do_nanosleep", (0, 0));
    let shares = path(readings, &[]).shares();
    assert_eq!((shares[0].kind, shares[0].total), (TimeKind::Waiting(Wait::FileRead), 600));
    assert_eq!((shares[1].kind, shares[1].total), (TimeKind::Waiting(Wait::Sleep), 500));
}

fn reading() -> impl Strategy<Value = (Tid, TaskReading)> {
    let state = prop_oneof![
        Just(TaskState::Runnable),
        Just(TaskState::Waiting),
        Just(TaskState::Stopped),
        Just(TaskState::Dead)
    ];
    let numbers = (0_u64..2500, 0_u64..900, 0_u64..900, 0_u64..50);
    (1_u32..6, numbers, state, 0_u32..6).prop_map(
        |(task, (at, ran, delayed, ticks), state, stack)| {
            let stack = StackId(stack);
            (task, TaskReading { at, state, stack, ran, delayed, ticks: (ticks, ticks / 2) })
        },
    )
}

proptest! {
    /// Whatever was read, also by a clock that goes back, the parts cover the request.
    #[test]
    fn parts_exclude_each_other_and_add_up(
        all in proptest::collection::vec(reading(), 0..150),
        from in 0_u64..1500, length in 0_u64..1500, servers in proptest::collection::vec(0_u32..6, 0..3),
    ) {
        let mut readings = TaskReadings::new(300);
        for functions in ["ep_poll", "futex_wait", "try_to_free_pages", "do_nanosleep"] {
            readings.stack(vec![functions.to_owned()]);
        }
        for (task, reading) in all {
            readings.push(task, Task::default, reading);
        }
        let trace = readings.into_trace(2500);
        let request = RequestSpan { task: 1, from, to: from + length, servers, ..RequestSpan::default() };
        assert_partition(&critical_path(&trace, request));
    }
}
