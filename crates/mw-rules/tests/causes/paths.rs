//! Made-up stalls of which the critical path was traced: the path decides, whatever else happened.

use crate::made::Made;
use crate::stalls::{HEALTHY, Stall};
use mw_critical_path::{
    CpuHolder, KernelWork, PathPart, PathSummary, PathTask, RunMode, TimeKind, UnseenReason,
    UserPlace, Wait, WaitLink, outside_tid,
};
use mw_model::{
    CpuUse, EndKind, FailureKind, GroupIo, GroupUse, Incident, KillParty, KillReason, Killer,
    ListenQueue, Outage, ProcessEnd, ProcessKill, Service, ServiceProcess, TriggerKind, WaitKind,
};
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::Counter;
use mw_rules::explain;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const TOTAL_MS: u64 = 8200;
pub(crate) const GROUP: &str = "/system.slice/db.service";

/// A wait that a wake-up ended, of which no stack is known.
pub(crate) fn link(waiter: &PathTask, wait: Wait, other: &PathTask) -> WaitLink {
    WaitLink {
        waiter: waiter.clone(),
        wait,
        other: other.clone(),
        inferred: false,
        stack: Vec::new(),
        user: UserPlace::default(),
    }
}

pub(crate) fn task(tid: u32, name: &str) -> PathTask {
    let cgroup = Some(GROUP.to_owned());
    PathTask { tid, name: name.to_owned(), process: tid, cgroup, ..PathTask::default() }
}

/// Shares of the request in percent, all of one backend.
fn path(parts: &[(TimeKind, u64)]) -> PathSummary {
    let part = |(kind, percent): &(TimeKind, u64)| PathPart {
        kind: *kind,
        total_ns: TOTAL_MS * MS * percent / 100,
        task: task(812, "postgres"),
        inferred: false,
        holder: None,
        holders: Vec::new(),
        work: None,
        stack: Vec::new(),
        waker_stack: Vec::new(),
        user: UserPlace::default(),
    };
    PathSummary {
        task: PathTask { cgroup: None, ..task(5, "mw-probe-db") },
        total_ns: TOTAL_MS * MS,
        parts: parts.iter().map(part).collect(),
        chain: vec![link(&task(5, "mw-probe-db"), Wait::Poll, &task(812, "postgres"))],
        ..PathSummary::default()
    }
}

pub(crate) fn made(parts: &[(TimeKind, u64)]) -> Made {
    let mut made = Made::on(HEALTHY);
    made.incident.path = Some(path(parts));
    made
}

pub(crate) fn group() -> GroupUse {
    GroupUse {
        path: GROUP.to_owned(),
        of_service: true,
        over_ms: TOTAL_MS,
        memory_max_bytes: Some(256 << 20),
        ..GroupUse::default()
    }
}

pub(crate) fn with_group(mut made: Made, group: GroupUse) -> Made {
    made.incident.groups.push(group);
    made
}

/// Stalls of causes that only the critical path shows, and of some that counters show as well.
pub(crate) fn all() -> Vec<Stall> {
    let is = |name, made, first| Stall { name, made, first, also: &[] };
    vec![
        is("quota", quota(), "cpu-throttled"),
        is("memory.high", memory_high(), "cgroup-throttled"),
        is("working set of a group", working_set(), "working-set-thrash"),
        is("fork", made(&[(kernel(KernelWork::Fork), 96)]), "fork-copy"),
        is("copies after a fork", copies_after_fork(true), "fork-copy"),
        is("exit", teardown(), "exit-teardown"),
        is("NUMA balancing", numa_balancing(), "numa-balancing"),
        is("populate under mmap_lock", mmap_lock(), "mmap-lock"),
        is("page faults", made(&[(kernel(KernelWork::PageFault), 90)]), "slow-population"),
        is("unmap", made(&[(kernel(KernelWork::Unmap), 90)]), "slow-population"),
        is("populate", made(&[(kernel(KernelWork::Populate), 90)]), "slow-population"),
        is("row lock", row_lock(), "lock-wait"),
        is("fsync", made(&[(TimeKind::Waiting(Wait::Journal), 92)]), "journal-commit"),
        is("memory.max", memory_max(), "cgroup-limit"),
        is("sleep", made(&[(TimeKind::Waiting(Wait::Sleep), 99)]), "service-itself"),
        is("stop", made(&[(TimeKind::Stopped, 98)]), "stopped-process"),
        is("contention", contention(), "cpu-contention"),
        is("slow disk", made(&[(TimeKind::Waiting(Wait::FileRead), 90)]), "slow-disk"),
    ]
}

fn kernel(work: KernelWork) -> TimeKind {
    TimeKind::Running(RunMode::Kernel(work))
}

pub(crate) fn quota() -> Made {
    let runnable =
        made(&[(TimeKind::Runnable(CpuHolder::Idle), 90), (TimeKind::Running(RunMode::User), 10)]);
    with_group(runnable, GroupUse { throttled_us: Some(7_200_000), ..group() })
}

fn contention() -> Made {
    let mut made = made(&[(TimeKind::Runnable(CpuHolder::Task(9)), 90)]);
    if let Some(part) = made.incident.path.as_mut().and_then(|path| path.parts.first_mut()) {
        part.holder = Some(task(9, "stress"));
    }
    made
}

pub(crate) fn memory_high() -> Made {
    let made =
        made(&[(TimeKind::Waiting(Wait::MemoryHigh), 80), (TimeKind::Waiting(Wait::SwapIn), 10)]);
    with_group(made, GroupUse { high_events: Some(300), ..group() })
}

pub(crate) fn memory_max() -> Made {
    let made = made(&[(TimeKind::Waiting(Wait::CgroupReclaim), 85)]);
    with_group(made, GroupUse { max_events: Some(900), ..group() })
}

/// The reads of the group are refaults.
fn working_set() -> Made {
    let io = GroupIo { device: "sda".to_owned(), read_bytes: 400 << 20, written_bytes: 0 };
    let use_of = GroupUse { refaults_file: Some(90_000), io: vec![io], ..group() };
    with_group(made(&[(TimeKind::Waiting(Wait::FileRead), 95)]), use_of)
}

/// A child that was forked shares the pages that the request writes, and frees page tables on its CPU.
fn copies_after_fork(has_child: bool) -> Made {
    let (copies, child) = (kernel(KernelWork::CopyOnWrite), TimeKind::Runnable(CpuHolder::Copy(0)));
    let mut made = made(&[(copies, 60), (child, if has_child { 30 } else { 0 })]);
    if let Some(path) = made.incident.path.as_mut().filter(|_| has_child) {
        path.parts.iter_mut().for_each(|part| part.holder = Some(task(900, "postgres")));
    }
    made
}

fn teardown() -> Made {
    let mut made = made(&[(kernel(KernelWork::Exit), 93)]).level("nr_free_pages", 1000, 1000);
    let Some(path) = made.incident.path.as_mut() else { return made };
    let ending = task(900, "old");
    path.chain.push(link(&task(812, "postgres"), Wait::Child, &ending));
    path.parts[0].task = ending;
    made
}

fn numa_balancing() -> Made {
    made(&[(TimeKind::Waiting(Wait::Migration), 90)])
        .counts(Counter::NumaPagesMigrated, 90_000.0)
        .counts(Counter::PgmigrateSuccess, 92_000.0)
}

fn mmap_lock() -> Made {
    let mut made = made(&[(kernel(KernelWork::Populate), 97)]);
    let Some(path) = made.incident.path.as_mut() else { return made };
    let populating = PathTask { tid: 820, process: 812, ..task(812, "postgres") };
    path.chain.push(link(&task(812, "postgres"), Wait::Semaphore, &populating));
    if let Some(part) = path.parts.first_mut() {
        part.task = populating;
    }
    made
}

fn row_lock() -> Made {
    let mut made = made(&[(TimeKind::Waiting(Wait::Sleep), 97)]);
    let Some(path) = made.incident.path.as_mut() else { return made };
    path.chain.push(link(&task(812, "postgres"), Wait::Poll, &task(813, "postgres")));
    if let Some(part) = path.parts.first_mut() {
        part.task = task(813, "postgres");
    }
    made
}

pub(crate) fn explained(made: &Made) -> Incident {
    let mut incident = made.incident.clone();
    incident.host.page_bytes = 4096;
    explain(&mut incident, &made.window, made.calm.as_ref());
    incident
}

/// Promise (The recorder): Where the critical path of the slowest request was traced, it decides the cause; what
/// strangers waited for is no evidence.
#[test]
fn the_path_decides() {
    for stall in all().into_iter().chain(crate::forced::all()) {
        let explanation = explained(&stall.made);
        let first = explanation.causes.first();
        let rule = first.map(|cause| cause.finding.rule.as_str());
        assert_eq!(rule, Some(stall.first), "{}: {}", stall.name, explanation.verdict);
        let cause = first.unwrap();
        assert!(cause.explains_percent >= Some(80), "{}: {cause:?}", stall.name);
        assert!(cause.score() >= 70, "{}: {}", stall.name, explanation.verdict);
    }
}

/// Another group swaps, a stranger is in direct reclaim and compaction, and the request sleeps.
#[test]
fn what_strangers_wait_for_is_no_evidence() {
    for (kind, wait, counter) in [
        (WaitKind::DirectReclaim, Wait::Sleep, Counter::Allocstall),
        (WaitKind::Compaction, Wait::FileWrite, Counter::CompactStall),
        (WaitKind::CgroupReclaim, Wait::Sleep, Counter::PgscanDirect),
    ] {
        let made = made(&[(TimeKind::Waiting(wait), 99)])
            .waits((4711, "stranger"), kind, 7900, 900)
            .counts(counter, 5000.0)
            .pressed(60, 10, 10);
        let explanation = explained(&made);
        let is_of_memory = |rule: &str| mw_rules::find(rule).unwrap().is_of_memory();
        let memory = explanation.causes.iter().find(|cause| is_of_memory(&cause.finding.rule));
        assert_eq!(memory, None, "{kind}: {}", explanation.verdict);
    }
}

/// Promise (The recorder): What explains less than half of a request contributed, and is not its cause; a shortage of
/// memory is from three tenths on, where nothing else takes more.
#[test]
fn what_explains_less_than_half_contributed() {
    let parts = [
        (TimeKind::Waiting(Wait::CgroupReclaim), 35),
        (TimeKind::Unseen(UnseenReason::NeverRan), 55),
    ];
    let made = with_group(made(&parts), GroupUse { max_events: Some(900), ..group() });
    let explanation = explained(&made);
    assert!(explanation.causes.is_empty(), "{}", explanation.verdict);
    assert!(
        explanation.verdict.contains("cause unknown; 35% of it because "),
        "{}",
        explanation.verdict
    );
    let contributed: Vec<&str> =
        explanation.contributed.iter().map(|cause| cause.finding.rule.as_str()).collect();
    assert_eq!(contributed, ["cgroup-limit"]);
    assert!(explanation.ruled_out.iter().any(|out| out.what == "CPU contention"));
}

/// A limit makes its group reclaim, and read and swap in what it reclaimed: no form takes half of the request.
#[test]
fn all_forms_of_a_limit_count_for_it() {
    let cause = |parts: &[(TimeKind, u64)]| {
        let io = GroupIo { device: "sda".to_owned(), read_bytes: 40 << 20, written_bytes: 0 };
        let use_of =
            GroupUse { max_events: Some(900), refaults_file: Some(9000), io: vec![io], ..group() };
        let explanation = explained(&with_group(made(parts), use_of));
        let cause = explanation.causes.first();
        cause.map(|cause| (cause.finding.rule.clone(), cause.explains_percent))
    };
    let (reclaims, swaps, reads) = (
        TimeKind::Waiting(Wait::CgroupReclaim),
        TimeKind::Waiting(Wait::SwapIn),
        TimeKind::Waiting(Wait::FileRead),
    );
    let other = TimeKind::Runnable(CpuHolder::Task(9));
    let is = |rule: &str, explains| Some((rule.to_owned(), Some(explains)));
    assert_eq!(
        cause(&[(reclaims, 24), (swaps, 20), (reads, 20), (other, 36)]),
        is("cgroup-limit", 64)
    );
    assert_eq!(
        cause(&[(reclaims, 10), (swaps, 5), (reads, 40), (other, 45)]),
        is("working-set-thrash", 55)
    );
}

/// The limit had pages swapped out before the stall, and is not met during it.
#[test]
fn a_limit_swapped_out_what_the_machine_did_not() {
    let first = |pages_per_row, memory_max_bytes| {
        let made = made(&[(TimeKind::Waiting(Wait::SwapIn), 90)]).scans(pages_per_row);
        let group = GroupUse { memory_max_bytes, ..group() };
        let cause = explained(&with_group(made, group)).causes.into_iter().next();
        cause.map(|cause| cause.finding.rule)
    };
    assert_eq!(first(0, Some(256 << 20)).as_deref(), Some("cgroup-limit"));
    assert_eq!(first(900, Some(256 << 20)).as_deref(), Some("swap-thrash"));
    assert_eq!(first(0, None).as_deref(), Some("swap-thrash"));
}

/// From 7.1 on /proc/vmstat counts the pages that tasks scan at the limit of their cgroup, and at no time `allocstall`
/// counts them.
#[test]
fn a_limit_swapped_out_on_a_kernel_that_counts_it_with_the_machine() {
    let first = |kernel, stalls: u64| {
        let scanned = |ms: i64| (ms + 10_000).unsigned_abs();
        let mut made = made(&[(TimeKind::Waiting(Wait::SwapIn), 90)])
            .counter("pgscan_kswapd", |_| 5)
            .counter("pgscan_direct", scanned)
            .counter("allocstall", |ms| if ms < 0 { 0 } else { stalls });
        made.window.now.origin.kernel = Some(kernel);
        let group = GroupUse { memory_max_bytes: Some(256 << 20), ..group() };
        let cause = explained(&with_group(made, group)).causes.into_iter().next();
        cause.map(|cause| cause.finding.rule)
    };
    let (old, new) = (KernelVersion::new(6, 12, 0), KernelVersion::new(7, 3, 4));
    assert_eq!(first(old, 0).as_deref(), Some("swap-thrash"), "of the machine");
    assert_eq!(first(new, 0).as_deref(), Some("cgroup-limit"));
    assert_eq!(first(new, 9).as_deref(), Some("swap-thrash"), "the machine reclaimed as well");
}

/// The records of a part were lost, the rest was spent in reclaim, and the group was short of memory throughout.
#[test]
fn a_shortage_explains_what_was_lost_where_pressure_confirms_it() {
    let lost = (TimeKind::Unseen(UnseenReason::Untraced), 65);
    let first = |kind, pressed_percent| {
        let group = GroupUse {
            memory_pressure_us: Some(TOTAL_MS * 10 * pressed_percent),
            memory_max_bytes: None,
            ..group()
        };
        let explanation = explained(&with_group(made(&[lost, (kind, 35)]), group));
        explanation.causes.into_iter().next()
    };
    let reclaims = TimeKind::Waiting(Wait::DirectReclaim);
    let cause = first(reclaims, 80).unwrap();
    assert_eq!(cause.finding.rule, "reclaim-storm");
    assert!((60..80).contains(&cause.score()), "{}", cause.score());
    assert_eq!(first(reclaims, 20), None);
    assert_eq!(first(TimeKind::Waiting(Wait::Sleep), 80), None);
}

#[test]
fn a_path_of_which_next_to_nothing_was_traced_does_not_decide() {
    let mut made = made(&[
        (TimeKind::Waiting(Wait::Sleep), 10),
        (TimeKind::Unseen(UnseenReason::Untraced), 90),
    ]);
    if let Some(path) = made.incident.path.as_mut() {
        path.untraced_ns = TOTAL_MS * MS * 9 / 10;
    }
    let explanation = explained(&made);
    let explains = explanation.causes.first().and_then(|cause| cause.explains_percent);
    assert_eq!(explains, None, "{}", explanation.verdict);
}

#[test]
fn a_frozen_group_is_not_explained_by_who_thaws_it() {
    let made = made(&[(TimeKind::Waiting(Wait::Sleep), 97)]);
    let explanation = explained(&with_group(made, GroupUse { frozen: true, ..group() }));
    let subject = explanation.causes.first().map(|cause| cause.finding.subject.to_string());
    assert_eq!(subject.as_deref(), Some("frozen cgroup"), "{}", explanation.verdict);
}

/// The machine counts refaults, but next to none in the cgroup of the task.
#[test]
fn refaults_of_others_are_not_the_requests() {
    let thrash = |refaults| {
        let made = made(&[(TimeKind::Waiting(Wait::FileRead), 95)])
            .counts(Counter::WorkingsetRefaultFile, 5000.0)
            .counts(Counter::Pgpgin, 22_000.0);
        let group = GroupUse { refaults_file: Some(refaults), memory_max_bytes: None, ..group() };
        let explanation = explained(&with_group(made, group));
        explanation.causes.first().map(|cause| cause.finding.rule.clone())
    };
    assert_eq!(thrash(3).as_deref(), Some("slow-disk"));
    assert_eq!(thrash(40_000).as_deref(), Some("working-set-thrash"));
}

/// A lock leads to a task of whose time the records were lost.
#[test]
fn what_was_not_traced_is_no_lock() {
    let lock = |unseen| {
        let mut made =
            made(&[(TimeKind::Unseen(unseen), 88), (TimeKind::Running(RunMode::User), 10)]);
        if let Some(path) = made.incident.path.as_mut() {
            path.chain[0].waiter = task(811, "postgres");
            path.chain[0].wait = Wait::Futex;
        }
        explained(&made).causes.first().map(|cause| cause.finding.rule.clone())
    };
    assert_eq!(lock(UnseenReason::Untraced), None);
    assert_eq!(lock(UnseenReason::NotWoken(Wait::Poll)).as_deref(), Some("lock-wait"));
}

pub(crate) fn first_rule(made: &Made) -> String {
    explained(made).causes[0].finding.rule.clone()
}

/// Half of the request waited for flushes of the disk, and nearly all of it for the disk.
///
/// Promise (Tracing: why): A cause that explains half of the request does not precede one that explains nearly all.
#[test]
fn a_cause_of_half_of_the_request_does_not_precede_one_of_nearly_all() {
    let waits = |flush, writeback| {
        first_rule(&made(&[
            (TimeKind::Waiting(Wait::FileWrite), flush),
            (TimeKind::Waiting(Wait::Writeback), writeback),
        ]))
    };
    assert_eq!(waits(52, 46), "slow-disk");
    assert_eq!(waits(80, 18), "journal-commit");
}

/// The service waits for a lock of a file that another program holds, whose child sleeps.
///
/// Promise (Tracing: why): Another program that the service waits for is not called the service itself, and its
/// remedy names a process that is there.
#[test]
fn another_program_that_sleeps_is_not_the_service_itself() {
    let finding = |processes: &[u32]| {
        let mut made = made(&[(TimeKind::Waiting(Wait::Sleep), 99)]);
        let process = |pid: &u32| ServiceProcess { pid: *pid, name: "python3".to_owned() };
        made.incident.service = Some(Service {
            processes: processes.iter().map(process).collect(),
            ..Service::default()
        });
        let path = made.incident.path.as_mut().unwrap();
        let [service, holder, child] =
            [task(6306, "python3"), task(8952, "flock"), task(8954, "sleep")];
        path.chain = vec![
            link(&path.task, Wait::Poll, &service),
            link(&service, Wait::FileLock, &holder),
            link(&holder, Wait::Child, &child),
        ];
        path.parts[0].task = child;
        explained(&made).causes[0].finding.clone()
    };
    let foreign = finding(&[6306]);
    assert_eq!(foreign.headline, "flock (8952) kept python3 (6306) waiting");
    let said = "python3 (6306) waited for flock (8952) (a file lock), behind which sleep (8954) slept \
                on a timer";
    assert!(format!("{:?}", foreign.evidence).contains(said), "{foreign:?}");
    assert!(format!("{:?}", foreign.remedy).contains("why --pid 8952"), "{foreign:?}");
    let own = finding(&[6306, 8952, 8954]);
    assert!(own.headline.contains("sleep (8954) slept on a timer"), "{}", own.headline);
}

/// On a virtual CPU that the host does not run, the thread that asks computes: the service did not.
#[test]
fn a_probe_that_computes_is_not_taken_for_the_service() {
    let mut made = made(&[(TimeKind::Running(RunMode::User), 90)]);
    let path = made.incident.path.as_mut().unwrap();
    path.parts[0].task = path.task.clone();
    let cause = &explained(&made).causes[0];
    let said = "the probe itself was slow, not the service";
    assert_eq!(cause.finding.headline, said);
    assert_eq!(cause.finding.subject.to_string(), "CPUs");
}

/// kill -CONT does not let a traced process go on.
#[test]
fn a_process_in_a_debugger_is_told_from_a_stopped_one() {
    let remedy = |functions: &[&str]| {
        let mut made = made(&[(TimeKind::Stopped, 98)]);
        let path = made.incident.path.as_mut().unwrap();
        path.parts[0].stack = functions.iter().map(|function| (*function).to_owned()).collect();
        format!("{:?}", explained(&made).causes[0].finding.remedy)
    };
    assert!(remedy(&["schedule", "do_signal_stop"]).contains("kill -CONT 812"));
    assert!(remedy(&["schedule", "ptrace_stop", "get_signal"]).contains("TracerPid"));
}

/// The kernel adds up the throttled time of all CPUs.
#[test]
fn threads_throttled_at_once_are_throttled_no_longer() {
    let first = |throttled_periods| {
        let mut made = quota();
        let group = made.incident.groups.iter_mut().find(|group| group.throttled_us.is_some());
        group.unwrap().throttled_periods = Some(throttled_periods);
        explained(&made).causes.into_iter().next().map(|cause| cause.finding.rule)
    };
    assert_eq!(first(72).as_deref(), Some("cpu-throttled"));
    assert_ne!(first(3).as_deref(), Some("cpu-throttled"), "7.2 s of 30 CPUs");
}

/// Its cgroup is not that of the service, its number is another task's here, and the cause has less confidence.
#[test]
fn a_task_outside_of_the_pid_namespace_is_named_as_one() {
    let outside = |kind: TimeKind| {
        let mut made = made(&[(kind, 98)]);
        let path = made.incident.path.as_mut().unwrap();
        path.parts[0].task =
            PathTask { tid: outside_tid(812), name: "postgres".to_owned(), ..PathTask::default() };
        path.chain[0].other = path.parts[0].task.clone();
        with_group(made, GroupUse { throttled_us: Some(7_200_000), ..group() })
    };
    let cause = |made: &Made| explained(made).causes[0].clone();
    let (far, near) =
        (cause(&outside(TimeKind::Stopped)), cause(&made(&[(TimeKind::Stopped, 98)])));
    let remedy = format!("{:?}", far.finding.remedy);
    assert!(remedy.contains("kill -CONT PID") && !remedy.contains("812"), "{remedy}");
    assert!(far.score() < near.score(), "{} {}", far.score(), near.score());
    let slept = cause(&outside(TimeKind::Waiting(Wait::Sleep)));
    let headline = &slept.finding.headline;
    assert!(headline.contains("postgres (812 in the initial PID namespace)"), "{headline}");
    let remedy = format!("{:?}", slept.finding.remedy);
    assert!(remedy.contains("on the host") && !remedy.contains("812"), "{remedy}");
    let runnable = outside(TimeKind::Runnable(CpuHolder::Idle));
    let explanation = explained(&runnable);
    assert!(explanation.causes.is_empty(), "another group's quota: {}", explanation.verdict);
}

/// A thread of a Java program waits for another one.
///
/// Promise (Tracing: why): The remedy for a lock is that of the server that has it; a debugger is told from a signal.
#[test]
fn the_holder_of_a_lock_is_found_by_what_the_server_is() {
    let remedy = |name: &str| {
        let mut made = row_lock();
        let path = made.incident.path.as_mut().unwrap();
        for link in &mut path.chain {
            name.clone_into(&mut link.waiter.name);
            name.clone_into(&mut link.other.name);
        }
        let causes = explained(&made).causes;
        let lock = causes.iter().find(|cause| cause.finding.rule == "lock-wait").unwrap();
        format!("{:?}", lock.finding.remedy)
    };
    assert!(remedy("postgres").contains("pg_blocking_pids"));
    assert!(remedy("mariadbd").contains("INNODB STATUS"));
    assert!(remedy("java").contains("memwright why --pid"));
}

/// The service reclaims at the limit of its cgroup until the OOM killer ends it.
///
/// Promise (Tracing: why): A service that the OOM killer ended is an OOM kill, also where it was slow before.
#[test]
fn the_oom_killer_ends_what_was_slow_before() {
    let first = |how| {
        let made =
            made(&[(TimeKind::Waiting(Wait::CgroupReclaim), 90)]).failed("connection refused");
        let mut made = with_group(made, GroupUse { max_events: Some(900), ..group() });
        made.incident.trigger.failure_kind = Some(FailureKind::Refused);
        let process = ServiceProcess { pid: 812, name: "postgres".to_owned() };
        let end =
            ProcessEnd { process, how, limit_of: Some(GROUP.to_owned()), ..ProcessEnd::default() };
        made.incident.outage = Some(Outage { ended: Some(end), ..Outage::default() });
        let finding = explained(&made).causes[0].finding.clone();
        (finding.rule, finding.subject.to_string())
    };
    let killed = first(EndKind::OomKilled);
    assert_eq!(killed, ("oom-kill".to_owned(), format!("cgroup {GROUP}")));
    assert_eq!(first(EndKind::Signalled).0, "cgroup-limit");
}

/// Promise (Kills): A service that a daemon killed because of memory is an OOM kill, and the headline names the daemon;
/// any other killer is named, and memory is not to blame.
#[test]
fn the_killer_of_a_service_is_named() {
    let first = |killer, reason, pid| {
        let mut made = made(&[]).failed("connection refused");
        made.incident.trigger.failure_kind = Some(FailureKind::Refused);
        made.incident.trigger.worst_ms = 1.0;
        let process = |pid| ServiceProcess { pid, name: "postgres".to_owned() };
        let end = ProcessEnd {
            process: process(812),
            how: EndKind::Signalled,
            signal: Some(9),
            ..ProcessEnd::default()
        };
        made.incident.outage = Some(Outage { ended: Some(end), ..Outage::default() });
        let victim = KillParty { process: process(pid), ..KillParty::default() };
        made.incident.kill = Some(ProcessKill { victim, killer, reason, ..ProcessKill::default() });
        let finding = explained(&made).causes[0].finding.clone();
        (finding.rule, finding.headline)
    };
    let oomd = || Killer::OomDaemon("systemd-oomd".to_owned());
    let pressure = || KillReason::MemoryPressure("/user.slice".to_owned());
    let (rule, headline) = first(oomd(), pressure(), 812);
    assert_eq!(rule, "oom-kill");
    assert_eq!(
        headline,
        "systemd-oomd killed postgres (812): memory pressure of user.slice was above its limit"
    );
    assert_eq!(
        first(oomd(), KillReason::Unknown, 812).0,
        "oom-kill",
        "it kills for no other reason"
    );
    let policy = KillReason::OomPolicy("db.service".to_owned());
    assert_eq!(first(Killer::Systemd, policy, 812).0, "oom-kill");
    let timeout = KillReason::StopTimeout("db.service".to_owned());
    let (rule, headline) = first(Killer::Systemd, timeout, 812);
    assert_eq!(rule, "service-failure");
    assert!(
        headline.contains("systemd killed postgres (812): db.service did not stop"),
        "{headline}"
    );
    // The kill of another process.
    assert_eq!(first(oomd(), pressure(), 813).0, "service-failure");
}

/// A wait that began before the trace is of an unknown kind.
#[test]
fn a_thread_that_populates_held_mmap_lock_whatever_the_wait_for_it_looked_like() {
    let first = |work| {
        let mut made = made(&[(kernel(work), 90)]);
        let path = made.incident.path.as_mut().unwrap();
        path.parts[0].task = PathTask { process: 811, ..task(900, "worker") };
        path.chain[0].waiter = PathTask { process: 811, ..task(811, "worker") };
        path.chain[0].other = path.parts[0].task.clone();
        path.chain[0].wait = Wait::Unknown;
        first_rule(&made)
    };
    assert_eq!(first(KernelWork::Populate), "mmap-lock");
    assert_eq!(first(KernelWork::Network), "service-itself");
}

/// The kernel drops the probe's connection, because the service accepts none.
///
/// Promise (Tracing: why): A full listen queue is told from the network.
#[test]
fn a_full_listen_queue_is_not_the_network() {
    let first = |waiting| {
        let mut made = made(&[(TimeKind::Waiting(Wait::Network), 98)]);
        if let Some(path) = made.incident.path.as_mut() {
            path.parts[0].task = path.task.clone();
        }
        made.incident.service = Some(Service {
            processes: vec![ServiceProcess { pid: 20, name: "gunicorn".to_owned() }],
            listen_queue: Some(ListenQueue { waiting, limit: 128 }),
            ..Service::default()
        });
        explained(&made).causes[0].finding.clone()
    };
    let full = first(129);
    assert_eq!(full.subject.to_string(), "service", "{}", full.headline);
    assert!(full.headline.ends_with("gunicorn (20) accepted no connections"));
    assert_eq!(first(3).subject.to_string(), "network");
}

/// A client without a service waits for a process that is stopped, and is not answered.
#[test]
fn a_stopped_process_explains_a_request_of_which_nothing_is_known() {
    let unseen = [(TimeKind::Unseen(UnseenReason::NotWoken(Wait::Poll)), 100)];
    let stopped = made(&unseen).blocked((77, "server"), 'T', 20, &[]);
    let explanation = explained(&stopped);
    let cause = explanation.causes.first().unwrap();
    assert_eq!(cause.finding.subject.to_string(), "stopped process", "{}", explanation.verdict);
    assert!(cause.score() < 80, "{}", explanation.verdict);
    assert!(explained(&made(&unseen)).causes.is_empty());
}

/// Promise (Tracing: why): What a fork costs is named as such: page tables, copies on the first write, mmap_lock, and
/// CPUs that forked processes use for it; a copy that no forked process shares is not.
#[test]
fn the_first_write_to_a_page_is_a_cost_of_a_fork_only_where_a_child_shares_it() {
    assert_eq!(first_rule(&copies_after_fork(true)), "fork-copy");
    assert_eq!(first_rule(&copies_after_fork(false)), "service-itself");
    let mut forks = copies_after_fork(false);
    let path = forks.incident.path.as_mut().unwrap();
    path.parts.push(PathPart { kind: kernel(KernelWork::Fork), ..path.parts[0].clone() });
    assert_eq!(first_rule(&forks), "fork-copy", "it forked itself");
}

/// A thread forks while another one waits for the lock of their address space.
#[test]
fn a_fork_that_holds_mmap_lock_is_named_as_a_fork() {
    let mut made = mmap_lock();
    made.incident.path.as_mut().unwrap().parts[0].kind = kernel(KernelWork::Fork);
    let cause = explained(&made).causes[0].clone();
    assert_eq!(cause.finding.rule, "fork-copy");
    assert_eq!(cause.finding.headline, "postgres (820) copied page tables in fork");
}

/// Promise (Tracing: why): Who holds mmap_lock is named with the system call, or as a reader of smaps.
#[test]
fn the_holder_of_mmap_lock_is_named_with_its_call() {
    let headline = |work, process, functions: &[&str]| {
        let mut made = mmap_lock();
        let path = made.incident.path.as_mut().unwrap();
        let part = &mut path.parts[0];
        (part.kind, part.task.process) = (kernel(work), process);
        part.stack = functions.iter().map(|function| (*function).to_owned()).collect();
        path.chain.iter_mut().for_each(|link| {
            if link.other.tid == part.task.tid {
                link.other.process = process;
            }
        });
        let causes = explained(&made).causes;
        let of_lock = causes.into_iter().find(|cause| cause.finding.rule == "mmap-lock");
        of_lock.map(|cause| cause.finding.headline)
    };
    let mlock = ["clear_page_erms", "populate_vma_page_range", "__mm_populate", "do_mlock"];
    for (work, functions, call) in [
        (KernelWork::Populate, &mlock[..], "in mlock(2)"),
        (KernelWork::Populate, &["__mm_populate", "vm_mmap_pgoff"], "in mmap(2)"),
        (KernelWork::Other, &["change_protection", "do_mprotect_pkey"], "in mprotect(2)"),
        (KernelWork::Unmap, &["unmap_page_range", "__vm_munmap"], "in munmap(2)"),
        (KernelWork::Unmap, &["unmap_page_range"], "to unmap"),
        (KernelWork::Other, &["mas_store"], "to change mappings"),
    ] {
        let said = headline(work, 812, functions).unwrap();
        assert_eq!(said, format!("postgres (820) held mmap_lock {call}"));
    }
    let smaps = ["smaps_pte_range", "walk_page_range", "show_smap", "seq_read_iter"];
    let said = headline(KernelWork::FileIo, 77, &smaps).unwrap();
    assert!(said.starts_with("postgres (820) held mmap_lock to read the mappings"), "{said}");
    assert_eq!(headline(KernelWork::FileIo, 77, &["ext4_file_read_iter"]), None);
}

/// smaps_rollup walks the same page tables as smaps, and keeps mmap_lock where newer kernels no longer take it for smaps.
#[test]
fn a_reader_of_mappings_is_told_to_read_what_this_kernel_locks_least_for() {
    let remedy = |version, functions: &[&str]| {
        let mut made = mmap_lock();
        made.window.now.origin.kernel = Some(version);
        let path = made.incident.path.as_mut().unwrap();
        path.parts[0].kind = kernel(KernelWork::FileIo);
        path.parts[0].stack = functions.iter().map(|function| (*function).to_owned()).collect();
        let cause = explained(&made).causes.remove(0);
        assert_eq!(cause.finding.rule, "mmap-lock");
        cause.finding.remedy.unwrap().summary
    };
    let (old, new) = (KernelVersion::new(6, 12, 0), KernelVersion::new(7, 3, 0));
    let (smaps, rollup) = (["show_smap", "seq_read_iter"], ["show_smaps_rollup", "seq_read_iter"]);
    for (version, functions) in [(old, smaps), (old, rollup), (new, smaps)] {
        let said = remedy(version, &functions);
        assert!(said.starts_with("read smaps and smaps_rollup less often"), "{said}");
    }
    assert!(remedy(new, &rollup).starts_with("read smaps, which locks one mapping at a time"));
    let said = remedy(new, &["__access_remote_vm", "mem_rw"]);
    assert!(!said.contains("smaps"), "{said}");
}

/// Huge pages make fork(2) cheap, and not the copies that writes make afterwards.
#[test]
fn the_remedy_of_a_fork_is_for_the_part_that_was_waited_for() {
    let remedy = |made: &Made| explained(made).causes.remove(0).finding.remedy.unwrap();
    let tables = remedy(&made(&[(kernel(KernelWork::Fork), 96)]));
    assert!(tables.summary.contains("transparent huge pages"), "{}", tables.summary);
    let copies = remedy(&copies_after_fork(true));
    assert!(copies.summary.contains("replica"), "{}", copies.summary);
    assert!(!format!("{copies:?}").contains("--huge"), "{copies:?}");
}

/// Promise (Tracing: why): A process that frees its memory while it ends is named, with how much memory became free.
#[test]
fn a_process_that_ends_is_named_with_the_memory_that_it_freed() {
    let mut made = teardown();
    let rows = made.incident.table.rows() as u64;
    let column = made.incident.table.columns.iter_mut().find(|c| c.name.ends_with("free_pages"));
    column.unwrap().values = (0..rows).map(|row| 1000 + row * 100).collect();
    let finding = explained(&made).causes[0].finding.clone();
    assert_eq!(finding.headline, "old (900) exited and freed its memory");
    assert!(format!("{:?}", finding.evidence).contains("postgres (812)"), "{finding:?}");
    assert!(finding.evidence.iter().any(|evidence| evidence.what.contains("free memory")));
    let mut runnable = self::made(&[(TimeKind::Runnable(CpuHolder::Exiting(0)), 80)]);
    runnable.incident.path.as_mut().unwrap().parts[0].holder = Some(task(900, "old"));
    let finding = explained(&runnable).causes[0].finding.clone();
    assert_eq!(finding.rule, "exit-teardown");
    assert!(finding.headline.starts_with("old (900) exited"), "{}", finding.headline);
    let mut forked = teardown();
    forked.incident.path.as_mut().unwrap().parts[0].holder = Some(task(812, "postgres"));
    assert_eq!(first_rule(&forked), "fork-copy", "it frees what the fork copied");
}

/// Task that moved the pages that a task waited for.
///
/// Promise (Tracing: why): A wait for a page on the move is NUMA balancing only where that moved most pages.
#[test]
fn a_wait_for_a_page_on_the_move_is_explained_by_who_moves_pages() {
    let first = |balanced, compacted, functions: &[&str]| {
        let mut made = made(&[(TimeKind::Waiting(Wait::Migration), 90)])
            .counts(Counter::NumaPagesMigrated, balanced)
            .counts(Counter::CompactMigrateScanned, compacted)
            .counts(Counter::CompactStall, compacted / 100.0)
            .counts(Counter::PgmigrateSuccess, balanced + compacted);
        let stack = &mut made.incident.path.as_mut().unwrap().parts[0].stack;
        *stack = functions.iter().map(|function| (*function).to_owned()).collect();
        let explanation = explained(&made);
        explanation.causes.first().map(|cause| cause.finding.rule.clone())
    };
    let entry = ["migration_entry_wait_on_locked", "migration_entry_wait", "do_swap_page"];
    assert_eq!(first(50_000.0, 0.0, &entry).as_deref(), Some("numa-balancing"));
    assert_ne!(first(50.0, 90_000.0, &entry).as_deref(), Some("numa-balancing"));
    assert_eq!(first(0.0, 0.0, &entry), None, "nobody that is known");
    let own = ["migrate_pages", "migrate_misplaced_folio", "do_numa_page"];
    assert_eq!(first(0.0, 0.0, &own).as_deref(), Some("numa-balancing"));
}

/// Steal is the hypervisor's; what the request spent elsewhere, or was not stolen, is not.
///
/// Promise (Tracing: why): The hypervisor is named only where /proc/stat counted stolen time in the same seconds, for
/// half of the request.
#[test]
fn stolen_time_is_the_hypervisors_where_the_counters_of_these_seconds_say_so() {
    let subject = |kind, stolen_ms, busy_ms| {
        let mut made = made(&[(kind, 90)]);
        made.incident.cpus = Some(CpuUse { stolen_ms, busy_ms });
        let explanation = explained(&made);
        let cause = explanation.causes.first().map(|cause| cause.finding.clone())?;
        Some((cause.subject.to_string(), format!("{:?}", cause.evidence)))
    };
    let computes = TimeKind::Running(RunMode::User);
    let (of, evidence) = subject(computes, 9000, 2000).unwrap();
    assert_eq!(of, "hypervisor");
    assert!(evidence.contains("postgres (812)"), "{evidence}");
    for kind in [TimeKind::Runnable(CpuHolder::Task(9)), TimeKind::Runnable(CpuHolder::Idle)] {
        assert_eq!(subject(kind, 9000, 2000).unwrap().0, "hypervisor", "{kind:?}");
    }
    assert_eq!(subject(computes, 3000, 9000).unwrap().0, "service", "a quarter of it");
    assert_eq!(subject(computes, 0, 0).unwrap().0, "service");
    let waits = TimeKind::Waiting(Wait::FileRead);
    assert_eq!(subject(waits, 9000, 2000).unwrap().0, "disk", "it needed no CPU");
    let mut throttled = quota();
    throttled.incident.cpus = Some(CpuUse { stolen_ms: 9000, busy_ms: 2000 });
    assert_eq!(first_rule(&throttled), "cpu-throttled");
}

/// The probe gives up after its own time limit, and nothing tells what the service did meanwhile.
///
/// Promise (Fixing): A probe that gave up is not taken for the service.
#[test]
fn a_probe_that_gave_up_is_not_the_service() {
    let gave_up = |by_probe: bool| {
        let mut made = made(&[(TimeKind::TimedOut(Wait::Poll), 98)]);
        let path = made.incident.path.as_mut().unwrap();
        if by_probe {
            path.parts[0].task = path.task.clone();
        }
        explained(&made).causes.into_iter().map(|cause| cause.finding.headline).next()
    };
    assert!(gave_up(false).unwrap().contains("waited until its own time limit"));
    let found = gave_up(true).unwrap_or_default();
    assert!(!found.contains("own time limit"), "{found}");
}

/// Memory tiering (2) uses the same setting, and is not what stalled.
#[test]
fn the_remedy_of_numa_balancing_leaves_memory_tiering_on() {
    for (present, wanted) in [("1", "=0"), ("2", "=2"), ("3", "=2")] {
        let mut made = numa_balancing();
        let value = Ok(present.to_owned());
        made.window.now.sysctl.values.insert("kernel.numa_balancing".to_owned(), value);
        let remedy = explained(&made).causes.remove(0).finding.remedy.unwrap();
        let steps = format!("{:?}", remedy.steps);
        assert!(steps.contains(&format!("numa_balancing{wanted}")), "{present}: {steps}");
    }
}

/// Promise (Tracing: why): A cgroup that was throttled for its swap is told so, and not to raise MemoryMax.
#[test]
fn a_group_over_its_swap_limit_is_named_with_it() {
    let swap_high = || GroupUse {
        high_events: Some(0),
        swap_high_events: Some(300),
        memory_swap_high_bytes: Some(64 << 20),
        ..group()
    };
    let traced = with_group(made(&[(TimeKind::Waiting(Wait::MemoryHigh), 90)]), swap_high());
    let cause = explained(&traced).causes.remove(0);
    assert_eq!(cause.finding.rule, "cgroup-throttled");
    assert!(cause.finding.headline.ends_with("exceeded memory.swap.high"), "{cause:?}");
    assert!(format!("{:?}", cause.finding.remedy).contains("memory.swap.high"), "{cause:?}");
    let counted = Made::on(HEALTHY)
        .waits((812, "postgres"), WaitKind::CgroupReclaim, 7000, 3000)
        .blocked((812, "postgres"), 'D', 8, &["mem_cgroup_handle_over_high"]);
    let cause = explained(&with_group(counted, swap_high())).causes.remove(0);
    assert_eq!(cause.finding.rule, "cgroup-limit");
    assert!(cause.finding.headline.ends_with("exceeded memory.swap.high"), "{cause:?}");
    assert!(!format!("{:?}", cause.finding.remedy).contains("MemoryMax"), "{cause:?}");
}

/// The counters of the task's cgroup were not read in time: those of others decide nothing.
#[test]
fn a_throttled_task_names_its_cgroup_where_its_counters_are_missing() {
    let other =
        GroupUse { path: "/other".to_owned(), of_service: false, high_events: Some(0), ..group() };
    let throttled = made(&[(TimeKind::Waiting(Wait::MemoryHigh), 90)]);
    let cause = explained(&with_group(throttled.clone(), other)).causes.remove(0);
    assert_eq!(cause.finding.rule, "cgroup-throttled");
    assert_eq!(cause.finding.subject.to_string(), format!("cgroup {GROUP}"));
    let calm = GroupUse { high_events: Some(0), ..group() };
    let first = explained(&with_group(throttled, calm)).causes.into_iter().next();
    assert_ne!(first.map(|cause| cause.finding.rule).as_deref(), Some("cgroup-throttled"));
}

/// The machine had little dirty: what throttled is the dirty limit of the writer's own cgroup.
///
/// Promise (Tracing: why): A cgroup that throttles its own writers is named, and not a limit of the machine.
#[test]
fn a_group_with_a_dirty_limit_of_its_own_is_named() {
    let cause = |pages, group| {
        let made = made(&[(TimeKind::Waiting(Wait::DirtyThrottling), 90)]).dirty(pages, 200_000);
        let cause = explained(&with_group(made, group)).causes.remove(0);
        assert_eq!(cause.finding.rule, "dirty-throttle");
        cause.finding
    };
    let own = cause(4000, group());
    assert_eq!(own.subject.to_string(), format!("cgroup {GROUP}"));
    assert!(own.headline.contains("dirty limit that its memory limit sets"), "{}", own.headline);
    assert!(!format!("{:?}", own.remedy).contains("ratio"), "{:?}", own.remedy);
    assert_eq!(cause(150_000, group()).subject.to_string(), "dirty pages");
    let unlimited = GroupUse { memory_max_bytes: None, ..group() };
    assert_eq!(cause(4000, unlimited).subject.to_string(), "dirty pages");
}

/// A write fault on a shared mapping of a file waits in balance_dirty_pages() as write(2) does.
#[test]
fn a_request_that_was_throttled_in_a_fault_counts_whatever_the_trigger() {
    let made = made(&[(TimeKind::Waiting(Wait::DirtyThrottling), 90)]).trigger(
        TriggerKind::Pressure,
        "memory",
        TOTAL_MS as f64,
    );
    assert_eq!(first_rule(&made), "dirty-throttle");
}
