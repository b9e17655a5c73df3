//! Made-up stalls that memory did not cause, one for each named cause, and similar ones of which it would be false.

use crate::java;
use crate::made::Made;
use crate::paths::{GROUP, explained, first_rule, group, link, made, task, with_group};
use crate::stalls::{HEALTHY, Stall};
use mw_critical_path::{CpuHolder, KernelWork, PathTask, RunMode, TimeKind, Wait, WaitLink};
use mw_model::{
    BlameShare, CpuUse, FailureKind, Finding, ListenQueue, ReachedLimit, ReachedLimitKind,
    SegmentDelivery, Service, ServiceProcess, ServiceSession, ServiceView, StoppedDevice,
    TriggerKind,
};

/// Stalls of causes that are not in the other lists.
pub(crate) fn all() -> Vec<Stall> {
    let is = |name, made, first, also| Stall { name, made, first, also };
    vec![
        is("hypervisor", stolen(9000), "hypervisor-steal", &[][..]),
        is("recorder", recorder(), "recorder-itself", &[]),
        is("io.max", limited(), "io-limit", &[]),
        is("network", waits(Wait::Network), "network-wait", &[]),
        is("loss", unanswered(lost()), "network-loss", &[]),
        is("listen queue", queued(129), "listen-queue-full", &[]),
        is("FUSE", waits(Wait::Fuse), "fuse-server", &[]),
        is("SMB", waits(Wait::RemoteFs), "file-server", &[]),
        is("NFS", waits(Wait::Nfs), "file-server", &[]),
        is("freezer", waits(Wait::CgroupFrozen), "frozen-cgroup", &[]),
        is("hung disk", hung(0..8200), "hung-device", &["journal-commit", "slow-disk"]),
        is("upstream", depends(&[6306]), "slow-dependency", &[]),
        is("collection", java::collection(), "garbage-collection", &[]),
        is("no answer", failed(FailureKind::Refused, "refused"), "service-failure", &[]),
        is("full", failed(FailureKind::NoSpace, "voll"), "disk-full", &["service-failure"]),
        is(
            "open files",
            failed(FailureKind::ServiceError, EMFILE),
            "file-limit",
            &["service-failure"],
        ),
        is("tasks", failed(FailureKind::ServiceError, EAGAIN), "task-limit", &["service-failure"]),
    ]
}

const EMFILE: &str = "could not open file: Too many open files (SQLSTATE 53000)";
const EAGAIN: &str = "could not fork new process for connection: Resource temporarily unavailable";

fn waits(wait: Wait) -> Made {
    made(&[(TimeKind::Waiting(wait), 95)])
}

fn stolen(stolen_ms: u64) -> Made {
    let mut made = made(&[(TimeKind::Running(RunMode::User), 95)]);
    made.incident.cpus = Some(CpuUse { stolen_ms, busy_ms: 2000 });
    made
}

fn recorder() -> Made {
    made(&[(TimeKind::Runnable(CpuHolder::Tracer), 95)])
}

fn limited() -> Made {
    let io_limits = vec!["sda rbps=2097152".to_owned()];
    with_group(waits(Wait::FileRead), mw_model::GroupUse { io_limits, ..group() })
}

/// No thread of the service works on the request.
fn unanswered(delivery: Option<SegmentDelivery>) -> Made {
    let mut made = made(&[(TimeKind::Idle(Wait::Socket), 95)]);
    made.incident.trigger.kind = TriggerKind::Probe;
    made.incident.delivery = delivery;
    made
}

/// Two segments of a request were sent again; no answer came.
fn lost() -> Option<SegmentDelivery> {
    let peer = Some("10.9.9.1:80".parse().unwrap());
    let (retransmitted, unacknowledged, retransmitting_ms) = (2, 1, 8_000);
    let sent = SegmentDelivery { peer, retransmitted, unacknowledged, ..<_>::default() };
    Some(SegmentDelivery { retransmitting_ms, ..sent })
}

/// The probe's own thread waits for the service to accept its connection.
fn queued(waiting: u32) -> Made {
    let mut made = waits(Wait::Network);
    let path = made.incident.path.as_mut().unwrap();
    path.parts[0].task = path.task.clone();
    made.incident.service = Some(Service {
        listen_queue: Some(ListenQueue { waiting, limit: 128 }),
        ..Service::default()
    });
    made
}

fn hung(time: std::ops::Range<i64>) -> Made {
    waits(Wait::Journal).hangs("sda", time)
}

/// A proxy asks its upstream, which sleeps.
fn depends(processes: &[u32]) -> Made {
    let mut made = waits(Wait::Sleep);
    let process = |pid: &u32| ServiceProcess { pid: *pid, name: "nginx".to_owned() };
    let processes = processes.iter().map(process).collect();
    made.incident.service = Some(Service { processes, ..Service::default() });
    let path = made.incident.path.as_mut().unwrap();
    let cgroup = Some("/system.slice/app.service".to_owned());
    let (proxy, app) = (task(6306, "nginx"), PathTask { cgroup, ..task(8952, "app") });
    path.chain = vec![link(&path.task, Wait::Poll, &proxy), link(&proxy, Wait::Poll, &app)];
    path.parts[0].task = app;
    made
}

/// The service fails at once, in these words.
fn failed(kind: FailureKind, said: &str) -> Made {
    let mut made = Made::on(HEALTHY).trigger(TriggerKind::Probe, "postgres", 3.0).failed(said);
    made.incident.trigger.failure_kind = Some(kind);
    made
}

fn first(made: &Made) -> Finding {
    explained(made).causes.remove(0).finding
}

fn steps(finding: &Finding) -> String {
    format!("{:?}", finding.remedy.as_ref().unwrap().steps)
}

/// Promise (Tracing: why): What else than memory a stall spent its time on is a cause with a name of its own.
#[test]
fn each_cause_outside_memory_has_its_name() {
    for stall in all() {
        let explanation = explained(&stall.made);
        let rules: Vec<&str> =
            explanation.causes.iter().map(|cause| cause.finding.rule.as_str()).collect();
        let wanted: Vec<&str> = [&[stall.first], stall.also].concat();
        assert_eq!(rules, wanted, "{}: {}", stall.name, explanation.verdict);
        let rule = mw_rules::find(stall.first).unwrap();
        assert!(!rule.is_of_memory(), "{}", stall.name);
        let finding = &explanation.causes[0].finding;
        assert!(finding.remedy.is_some() && !finding.impact.is_empty(), "{}", stall.name);
        assert!(explanation.causes[0].score() >= 70, "{}: {}", stall.name, explanation.verdict);
    }
}

#[test]
fn what_looks_alike_has_another_name() {
    assert_eq!(first_rule(&stolen(1000)), "service-itself", "a third of the CPU time");
    let mut other = recorder();
    other.incident.path.as_mut().unwrap().parts[0].kind = TimeKind::Runnable(CpuHolder::Task(9));
    assert_eq!(first_rule(&other), "cpu-contention");
    assert_eq!(first_rule(&waits(Wait::FileRead)), "slow-disk", "no limit");
    assert_eq!(first_rule(&queued(128)), "network-wait", "the queue has room");
    assert_eq!(first_rule(&waits(Wait::Sleep)), "service-itself", "nobody waits for it");
    assert_eq!(first_rule(&depends(&[6306, 8952])), "service-itself", "it is of the service");
    let refused = failed(FailureKind::OutOfMemory, "Too many open files");
    assert_eq!(first_rule(&refused), "service-failure", "its code says more");
    let thread = failed(FailureKind::ServiceError, "can't start a new thread");
    assert_eq!(first_rule(&thread), "service-failure", "memory may be missing as well");
    let mut slow = made(&[(TimeKind::Waiting(Wait::FileRead), 95)]).failed(EMFILE);
    slow.incident.trigger.failure_kind = Some(FailureKind::ServiceError);
    assert_eq!(first_rule(&slow), "slow-disk", "it failed after it had waited");
}

/// Promise (Tracing: why): A service that names a limit in its error failed because of it, also where an answer was slow before.
#[test]
fn a_limit_that_the_service_names_explains_an_outage() {
    let first = |worst_ms| {
        let mut made = made(&[(TimeKind::Runnable(CpuHolder::Task(9)), 95)]).failed(EAGAIN);
        made.incident.trigger.kind = TriggerKind::Probe;
        made.incident.trigger.failure_kind = Some(FailureKind::ServiceError);
        made.incident.trigger.worst_ms = worst_ms;
        first_rule(&made)
    };
    assert_eq!(first(900.0), "task-limit");
    assert_eq!(first(6000.0), "cpu-contention", "it was slow for most of the time");
}

/// A stopped device is told from a slow one: it completes nothing.
///
/// Promise (Tracing: why): A disk that completes nothing for most of a stall is not called slow.
#[test]
fn a_disk_that_completes_something_is_slow_and_not_hung() {
    assert_eq!(first_rule(&hung(0..4000)), "journal-commit", "it completed for half of the stall");
    assert_eq!(first_rule(&hung(0..0)), "journal-commit");
    let mut idle = hung(0..8200);
    let columns = &mut idle.incident.table.columns;
    columns.retain(|column| !column.name.ends_with("in_flight"));
    assert_eq!(first_rule(&idle), "journal-commit", "nothing is known of its queue");
    let elsewhere = hung(0..8200);
    let own = crate::floods::wrote(GROUP, "sdb", 4096);
    let own = mw_model::GroupUse { of_service: true, ..own };
    assert_eq!(first_rule(&with_group(elsewhere, own)), "journal-commit", "another disk");
}

/// Promise (Tracing: why): Where the unit is known, the remedy names it.
#[test]
fn the_remedy_names_the_unit() {
    let contention = made(&[(TimeKind::Runnable(CpuHolder::Task(9)), 90)]);
    let unknown = steps(&first(&contention));
    assert!(unknown.contains("set-property UNIT CPUWeight"), "{unknown}");
    let known = steps(&first(&with_group(contention, group())));
    assert!(known.contains("set-property db.service CPUWeight"), "{known}");
    let limited = steps(&first(&limited()));
    assert!(limited.contains("set-property db.service IOReadBandwidthMax="), "{limited}");
    let frozen = |path: &str| {
        let mut made = waits(Wait::CgroupFrozen);
        made.incident.path.as_mut().unwrap().parts[0].task.cgroup = Some(path.to_owned());
        steps(&first(&made))
    };
    assert!(frozen(GROUP).contains("systemctl thaw db.service"), "{}", frozen(GROUP));
    let other = frozen("/a; reboot");
    assert!(other.contains("tee '/sys/fs/cgroup/a; reboot/cgroup.freeze'"), "{other}");
    let mut failed = failed(FailureKind::Reset, "reset");
    failed.incident.service =
        Some(Service { unit: Some("pg@15.service".to_owned()), ..Service::default() });
    let log = steps(&first(&failed));
    assert!(log.contains("journalctl -u pg@15.service"), "{log}");
}

/// Promise (Blame): Another program that a service waited for is the culprit, unless that is only likely.
#[test]
fn a_dependency_is_to_blame_for_its_time() {
    let told = |made: &Made| {
        let share = |share: &BlameShare| format!("{}, {}", share.culprit, share.cause_name());
        share(&explained(made).blame[0])
    };
    assert_eq!(told(&depends(&[6306])), "app.service, slow-dependency");
    let mut likely = depends(&[6306]);
    likely.incident.path.as_mut().unwrap().parts[0].inferred = true;
    assert_eq!(told(&likely), "unknown, slow-dependency");
    assert_eq!(told(&hung(0..8200).disk("sda", 100)), "device sda, hung-device");
}

/// Promise (Tracing: why): That nothing on this machine delayed a request is not said where it is not proven.
#[test]
fn no_impact_says_more_than_is_proven() {
    let all = all().into_iter().map(|stall| stall.made);
    let decoys = crate::stalls::decoys(HEALTHY).into_iter().map(|decoy| decoy.made);
    for made in all.chain(decoys) {
        for cause in explained(&made).causes {
            assert!(!cause.finding.impact.contains("nothing on this machine"), "{cause:?}");
        }
    }
}

/// Promise (Tracing: why): The same error text does not stand twice in a headline.
#[test]
fn a_headline_has_an_error_once() {
    for made in [
        failed(FailureKind::ServiceError, "relation 'x' does not exist"),
        failed(FailureKind::ServiceError, EMFILE),
        failed(FailureKind::NoSpace, "no space left on device"),
        failed(FailureKind::Refused, "connection refused"),
    ] {
        let incident = explained(&made);
        let said = incident.trigger.failure.unwrap();
        assert!(incident.verdict.matches(&said).count() <= 1, "{}", incident.verdict);
    }
}

/// A session waits for a lock, whose holder waits for a disk.
///
/// Promise (Tracing: why): A wait of several hops has the headline of the end of its chain, and not of the first lock.
#[test]
fn the_end_of_a_chain_has_the_headline() {
    let at_end = |kind| {
        let mut made = made(&[(kind, 95)]);
        let path = made.incident.path.as_mut().unwrap();
        let [waiter, holder] = [task(812, "postgres"), task(813, "postgres")];
        let link = WaitLink { waiter, wait: Wait::Futex, other: holder, ..path.chain[0].clone() };
        path.parts[0].task = link.other.clone();
        path.chain.push(link);
        first(&made)
    };
    let disk = at_end(TimeKind::Waiting(Wait::FileRead));
    assert_eq!((disk.rule.as_str(), disk.headline.as_str()), ("slow-disk", "the disk was slow"));
    let stopped = at_end(TimeKind::Stopped);
    assert_eq!(stopped.headline, "postgres (813) was stopped");
    let fuse = at_end(TimeKind::Waiting(Wait::Fuse));
    assert_eq!(fuse.headline, "postgres (813) waited for a FUSE server");
    let client = at_end(TimeKind::Waiting(Wait::Network));
    assert_eq!(client.rule, "lock-wait", "a session keeps its lock while it waits for its client");
    let mut locks = made(&[(TimeKind::Waiting(Wait::Sleep), 95)]);
    let path = locks.incident.path.as_mut().unwrap();
    let sessions = [812, 813, 814].map(|tid| task(tid, "postgres"));
    for pair in sessions.windows(2) {
        let (waiter, other) = (pair[0].clone(), pair[1].clone());
        let link = WaitLink { waiter, wait: Wait::Futex, other, ..path.chain[0].clone() };
        path.chain.push(link);
    }
    path.parts[0].task = sessions[2].clone();
    let lock = first(&locks);
    assert_eq!(lock.headline, "postgres (814) blocked postgres (813)");
    let session = |session: u64, blocked_by: u64, for_ms: u64| ServiceSession {
        session,
        blocked_by: vec![blocked_by],
        for_ms: Some(for_ms),
        ..ServiceSession::default()
    };
    locks.incident.service_view = Some(ServiceView {
        source: "pg_stat_activity".to_owned(),
        sessions: vec![session(812, 813, 8000), session(813, 814, 7000)],
        ..ServiceView::default()
    });
    assert_eq!(first(&locks).headline, "session 814 blocked session 813");
}

/// Promise (Tracing: why): Lost and late packets of a probe's own connection are named, and a service that nothing woke is
/// never said to have taken the time itself.
#[test]
fn a_service_that_waits_for_work_is_not_blamed() {
    let loss = first(&unanswered(lost()));
    assert_eq!(loss.headline, "the network lost packets to 10.9.9.1:80");
    assert!(steps(&loss).contains("ss -tino dst '10.9.9.1:80'"), "{}", steps(&loss));
    let late = SegmentDelivery { retransmitted: 0, round_trip_us: 3_900_000, ..lost().unwrap() };
    assert_eq!(
        first(&unanswered(Some(late))).headline,
        "the network delayed packets to 10.9.9.1:80"
    );
    let quick =
        SegmentDelivery { retransmitting_ms: 900, round_trip_us: 90_000, ..lost().unwrap() };
    for delivery in [None, Some(quick), Some(SegmentDelivery::default())] {
        let explanation = explained(&unanswered(delivery));
        let cause = &explanation.causes[0];
        assert_eq!(cause.finding.rule, "network-or-service", "{}", explanation.verdict);
        assert!(cause.score() <= 50, "{}", explanation.verdict);
        assert!(cause.finding.headline.ends_with("did not work on the request"));
    }
    let mut computing = made(&[(TimeKind::Running(RunMode::User), 95)]);
    computing.incident.delivery = lost();
    assert_eq!(first(&computing).rule, "service-itself");
    // The client of a proxy sent its request again and again, and a thread that answers others is inferred to have it.
    let mut throughout = made(&[(TimeKind::Running(RunMode::User), 95)]);
    throughout.incident.trigger.worst_ms = 8200.0;
    let of = |retransmitting_ms, inferred: bool| {
        let mut made = throughout.clone();
        made.incident.delivery = Some(SegmentDelivery { retransmitting_ms, ..lost().unwrap() });
        made.incident.path.as_mut().unwrap().parts[0].inferred = inferred;
        let first = explained(&made).causes.into_iter().next();
        first.map(|cause| cause.finding.rule)
    };
    assert_eq!(of(8000, true).as_deref(), Some("network-loss"));
    assert_ne!(of(2000, true).as_deref(), Some("network-loss"), "for a quarter of its time");
    assert_eq!(of(8000, false).as_deref(), Some("service-itself"), "it certainly had the request");
    let mut queued = unanswered(lost());
    queued.incident.service = self::queued(129).incident.service;
    assert_eq!(first(&queued).rule, "network-or-service");
    let mut timed_out = unanswered(lost());
    timed_out.incident.path.as_mut().unwrap().parts[0].kind = TimeKind::TimedOut(Wait::Poll);
    assert_eq!(first(&timed_out).rule, "network-loss");
}

/// Nobody was seen to have the request, and the probe's connection was silent until the probe's own time limit.
#[test]
fn a_probe_that_waits_alone_names_no_cause_for_sure() {
    let alone = |kind: TimeKind, is_of_probe: bool| {
        let mut made = made(&[(kind, 95)]).served_by((812, "postgres"));
        let path = made.incident.path.as_mut().unwrap();
        if is_of_probe {
            path.parts[0].task = path.task.clone();
        }
        explained(&made).causes.into_iter().next()
    };
    let cause = alone(TimeKind::TimedOut(Wait::Poll), true).unwrap();
    assert_eq!(cause.finding.rule, "network-or-service");
    assert_eq!(cause.finding.headline, "no thread was seen to work on the request");
    assert!(cause.score() <= 50);
    for (kind, is_of_probe) in [(Wait::Child, true), (Wait::Poll, false)] {
        let cause = alone(TimeKind::TimedOut(kind), is_of_probe);
        assert_ne!(cause.map(|cause| cause.finding.rule).as_deref(), Some("network-or-service"));
    }
}

fn at_limit(made: Made, kind: ReachedLimitKind, holder: &str) -> Made {
    let mut made = made;
    let limit = ReachedLimit { kind, holder: holder.to_owned(), used: 1024, limit: 1024 };
    made.incident.reached_limits = vec![limit];
    made
}

/// Promise (Tracing: why): A limit of number that the service was at explains its failure and its idle time, and no wait for
/// what the machine lacks.
#[test]
fn a_limit_that_the_service_was_at_is_named_with_its_number() {
    use ReachedLimitKind::{DiskSpace, Inodes, OpenFiles, Tasks};
    let cases = [
        (OpenFiles, "web (6306)", "file-limit", "web (6306) has all of its 1024 files open"),
        (Tasks, "/system.slice/web.service", "task-limit", "has all of its 1024 tasks"),
        (DiskSpace, "/data", "disk-full", "file system /data is full"),
        (Inodes, "/data", "disk-full", "file system /data has no inode left"),
    ];
    for (kind, holder, rule, words) in cases {
        let of = |made: Made| first(&at_limit(made, kind, holder));
        let slow = of(made(&[(TimeKind::Running(RunMode::Kernel(KernelWork::Other)), 95)]));
        assert_eq!(slow.rule, rule);
        assert!(slow.headline.contains(words), "{}", slow.headline);
        assert_eq!(of(failed(FailureKind::Refused, "refused")).rule, rule);
        assert_ne!(of(waits(Wait::Fuse)).rule, rule, "what waits for the machine");
    }
}

/// It accepts no connection, tries again and again, and shares its CPU with another program.
#[test]
fn a_service_at_its_limit_explains_also_what_an_inferred_task_waits_for_cpus() {
    let of = |inferred: bool| {
        let parts = [
            (TimeKind::Runnable(CpuHolder::Task(77)), 49),
            (TimeKind::Running(RunMode::Kernel(KernelWork::Other)), 47),
        ];
        let mut made = at_limit(made(&parts), ReachedLimitKind::OpenFiles, "web (6306)");
        let path = made.incident.path.as_mut().unwrap();
        path.parts.iter_mut().for_each(|part| part.inferred = inferred);
        let cause = explained(&made).causes.into_iter().next();
        cause.map(|cause| (cause.finding.rule, cause.explains_percent))
    };
    assert_eq!(of(true), Some(("file-limit".to_owned(), Some(96))));
    assert_eq!(of(false), None, "neither takes half of the request");
}

/// Promise (Tracing: why): Time that the recorder took from a task which only may have had the request is no cause.
#[test]
fn the_recorder_is_not_blamed_for_the_time_of_an_inferred_task() {
    let of = |inferred: bool, delivery: Option<SegmentDelivery>| {
        let parts = [(TimeKind::Runnable(CpuHolder::Tracer), 70), (TimeKind::Idle(Wait::Poll), 25)];
        let mut made = made(&parts);
        made.incident.delivery = delivery;
        let path = made.incident.path.as_mut().unwrap();
        path.parts.iter_mut().for_each(|part| part.inferred = inferred);
        let cause = explained(&made).causes.into_iter().next();
        cause.map(|cause| cause.finding.rule)
    };
    assert_eq!(of(false, lost()).as_deref(), Some("recorder-itself"));
    assert_eq!(of(true, lost()).as_deref(), Some("network-loss"));
    assert_ne!(of(true, None).as_deref(), Some("recorder-itself"));
}

/// Promise (Tracing: why): A writer to a frozen file system is explained by it, whatever the thaw let go on.
#[test]
fn a_frozen_file_system_is_named() {
    let frozen = first(&waits(Wait::FilesystemFrozen));
    assert_eq!(frozen.rule, "frozen-filesystem");
    assert!(frozen.headline.starts_with("a frozen file system blocked "), "{}", frozen.headline);
}

/// Promise (Tracing: why): A disk that is suspended or offline is not slow.
#[test]
fn a_disk_that_is_held_still_is_named_with_its_state() {
    let of = |name: &str, state: &str, mapped: Option<&str>| {
        let mut made = waits(Wait::Journal);
        made.incident.stopped_devices = vec![StoppedDevice {
            name: name.to_owned(),
            mapped_name: mapped.map(str::to_owned),
            state: state.to_owned(),
            below: Vec::new(),
        }];
        first(&made)
    };
    let suspended = of("dm-0", "suspended", Some("vg-data"));
    assert_eq!(suspended.rule, "hung-device");
    assert_eq!(suspended.headline, "the disk dm-0 (vg-data) was suspended");
    assert!(steps(&suspended).contains("dmsetup resume vg-data"), "{}", steps(&suspended));
    assert_ne!(of("sdz", "offline", None).rule, "hung-device", "offline for long, perhaps");
    let suspended_while = |hung: std::ops::Range<i64>| {
        let mut made = waits(Wait::Journal).hangs("dm-0", hung);
        let (name, state) = ("dm-0".to_owned(), "suspended".to_owned());
        let mapped_name = Some("data".to_owned());
        made.incident.stopped_devices =
            vec![StoppedDevice { name, mapped_name, state, below: Vec::new() }];
        first(&made).rule
    };
    assert_eq!(suspended_while(1000..6000), "hung-device");
    assert_eq!(suspended_while(1000..2000), "journal-commit", "for a moment");
    let mut computes = made(&[(TimeKind::Running(RunMode::User), 95)]);
    computes.incident.stopped_devices = vec![StoppedDevice::default()];
    assert_eq!(first(&computes).rule, "service-itself");
}
