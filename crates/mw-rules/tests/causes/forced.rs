//! Made-up stalls by memory work that somebody forced by hand, and by kills of the OOM killer, with decoys.

use crate::made::Made;
use crate::paths::{GROUP, explained, group, made, task, with_group};
use crate::stalls::{HEALTHY, Stall};
use mw_critical_path::{CpuHolder, TimeKind, Wait};
use mw_model::{
    Area, CacheDrop, EndKind, FailureKind, GroupIo, GroupUse, Incident, MemoryHolder, OomKills,
    OomShortage, OomVictim, Outage, ProcessEnd, Service, ServiceFate, ServiceProcess, Severity,
    StoppedDevice, Subject, TriggerKind, WriterProcess,
};
use mw_proc::vmstat::Counter;

const SHELL: (u32, &str) = (77, "sh");
const COMPACTS: &[&str] = &["ksys_write", "sysctl_compaction_handler", "compact_zone"];
const RECLAIMS: &[&str] = &["ksys_write", "memory_reclaim", "shrink_node"];
const RESERVES: &[&str] = &["ksys_write", "hugetlb_sysctl_handler_common", "compact_zone"];
pub(crate) const READS: &[(TimeKind, u64)] = &[(TimeKind::Waiting(Wait::FileRead), 90)];

/// Stalls of which the rule is one of these.
pub(crate) fn all() -> Vec<Stall> {
    let is = |name, made, first| Stall { name, made, first, also: &[] };
    vec![
        is("cache dropped", dropped(READS), "drop-caches"),
        is("compacted by hand", held_by_shell(COMPACTS), "proactive-compaction"),
        is("pages are moved", moved("kcompactd0", &["compact_node"]), "proactive-compaction"),
        is("reclaimed by hand", reclaimed(), "forced-reclaim"),
        is("reclaimed by hand before", reclaimed_before(900), "forced-reclaim"),
        is("huge pages reserved", held_by_shell(RESERVES), "hugepage-hoard"),
        is("reclaim for huge pages", without_huge_pages(), "hugepage-hoard"),
    ]
}

/// The rows of a cache of 400 MB that is dropped a second before the stall.
fn cache(made: Made, reads_before: u64, reads_after: u64) -> Made {
    made.counter("drop_pagecache", |ms| u64::from(ms >= -1000))
        .counter("nr_file_pages", |ms| if ms >= -1000 { 20_000 } else { 100_000 })
        .counter("pgpgin", |ms| {
            let (before, after) = ((ms + 10_000).min(9000), (ms + 1000).max(0));
            before.unsigned_abs() * reads_before + after.unsigned_abs() * reads_after
        })
}

pub(crate) fn dropped(parts: &[(TimeKind, u64)]) -> Made {
    let mut made = cache(made(parts), 0, 20);
    let process = |pid, name: &str| ServiceProcess { pid, name: name.to_owned() };
    let writer = WriterProcess {
        process: process(77, "sh"),
        parent: Some(process(7, "cron")),
        unit: Some("cron.service".to_owned()),
        ..WriterProcess::default()
    };
    made.incident.cache_drops =
        vec![CacheDrop { at_unix_ms: made.incident.started_unix_ms - 1000, value: 3, writer }];
    made
}

/// The service is ready to run, and a shell has the CPU.
fn held_by_shell(stack: &[&str]) -> Made {
    let mut made = made(&[(TimeKind::Runnable(CpuHolder::Task(77)), 90)])
        .stack(SHELL, 6000, stack)
        .stack((0, "swapper"), 1000, &["do_idle"]);
    if let Some(part) = made.incident.path.as_mut().and_then(|path| path.parts.first_mut()) {
        part.holder = Some(task(77, "sh"));
    }
    made
}

fn moved(name: &str, stack: &[&str]) -> Made {
    made(&[(TimeKind::Waiting(Wait::Migration), 90)])
        .counts(Counter::CompactMigrateScanned, 90_000.0)
        .counts(Counter::PgmigrateSuccess, 80_000.0)
        .stack((45, name), 6000, stack)
        .stack((0, "swapper"), 6000, &["do_idle"])
}

fn reclaimed() -> Made {
    let made = made(&[(TimeKind::Waiting(Wait::SwapIn), 90)]).stack(SHELL, 600, RECLAIMS).stack(
        (0, "swapper"),
        6000,
        &["do_idle"],
    );
    with_group(made, mw_model::GroupUse { pgscan: Some(9000), ..group() })
}

/// A second before the stall reclaim inside cgroups freed 1,000 pages, of which the service's group, which has no limit,
/// reads so many again.
fn reclaimed_before(again: u64) -> Made {
    let io = GroupIo { device: "sda".to_owned(), read_bytes: 4096 * 1000, written_bytes: 0 };
    let made = made(READS)
        .counts(Counter::WorkingsetRefaultFile, again as f64 / 8.2)
        .counts(Counter::Pgpgin, 4.0 * 1000.0 / 8.2)
        .counter("pgsteal_file", |ms| if ms >= -1000 { 71_000 } else { 70_000 })
        .counter("pgsteal_anon", |_| 500)
        .counter("pgsteal_kswapd", |_| 60_000)
        .counter("pgsteal_direct", |_| 4000);
    let group = GroupUse { refaults_file: Some(again), memory_max_bytes: None, ..group() };
    with_group(made, GroupUse { io: vec![io], max_events: Some(0), ..group })
}

fn without_huge_pages() -> Made {
    made(&[(TimeKind::Waiting(Wait::DirectReclaim), 90)]).stack(SHELL, 3000, RESERVES).stack(
        (0, "swapper"),
        3000,
        &["do_idle"],
    )
}

/// Promise (Findings): Reclaim by hand before a stall is found on a kernel that counts it with that of tasks.
#[test]
fn reclaim_before_the_stall_is_found_where_nodes_count_it() {
    let rule = |stalls| {
        let mut made = reclaimed_before(900)
            .counter("pgsteal_proactive", |ms| if ms >= -1000 { 1000 } else { 0 })
            .counter("allocstall", |ms| if ms >= 0 { stalls } else { 0 });
        made.window.now.origin.kernel = Some(mw_proc::version::KernelVersion::new(7, 3, 4));
        first(&made)
    };
    assert_eq!(rule(0).as_deref(), Some("forced-reclaim"));
    assert_ne!(rule(9).as_deref(), Some("forced-reclaim"), "of the machine, perhaps");
}

fn first(made: &Made) -> Option<String> {
    explained(made).causes.into_iter().next().map(|cause| cause.finding.rule)
}

/// Promise (The recorder): Who dropped the page cache, compacted or had memory reclaimed by hand is named where the
/// service waited for it, and only there.
#[test]
fn who_dropped_the_cache_is_named() {
    let explanation = explained(&dropped(READS));
    let expected = "sh (77) dropped 312.5 MiB of page cache";
    assert!(explanation.verdict.ends_with(expected), "{}", explanation.verdict);
    let evidence = format!("{:?}", explanation.causes[0].finding.evidence);
    assert!(evidence.contains("sh (77), started by cron (7), in cron.service"), "{evidence}");
    assert_eq!(explanation.causing[0].pid, 77);
}

#[test]
fn a_dropped_cache_is_no_cause_of_what_does_not_read_it() {
    let fsync = [(TimeKind::Waiting(Wait::Journal), 90)];
    assert_eq!(first(&dropped(&fsync)).as_deref(), Some("journal-commit"));
    let as_before = made(READS)
        .counter("drop_pagecache", |ms| u64::from(ms >= 1500))
        .counter("nr_file_pages", |ms| if ms >= 1500 { 20_000 } else { 100_000 })
        .counter("pgpgin", |ms| (ms + 10_000).unsigned_abs() * 20);
    assert_eq!(first(&as_before).as_deref(), Some("slow-disk"), "it read all the time");
    let back = made(READS)
        .counter("drop_pagecache", |ms| u64::from(ms >= -2500))
        .counter("nr_file_pages", |ms| if (-2500..-1000).contains(&ms) { 20_000 } else { 100_000 });
    assert_eq!(first(&back).as_deref(), Some("slow-disk"), "it was back");
    let small = made(READS)
        .counter("drop_pagecache", |ms| u64::from(ms >= -1000))
        .counter("nr_file_pages", |ms| if ms >= -1000 { 99_900 } else { 100_000 });
    assert_eq!(first(&small).as_deref(), Some("slow-disk"), "nothing was dropped");
    assert_eq!(first(&made(READS)).as_deref(), Some("slow-disk"));
}

#[test]
fn who_compacts_by_hand_beside_is_no_cause() {
    let beside = made(&[(TimeKind::Waiting(Wait::Sleep), 95)]).stack(SHELL, 6000, COMPACTS);
    assert_eq!(first(&beside).as_deref(), Some("service-itself"));
    let of_allocations = moved("kcompactd0", &["kcompactd_do_work", "compact_zone"]);
    assert_ne!(first(&of_allocations).as_deref(), Some("proactive-compaction"));
    let computes = held_by_shell(&["sys_read"]);
    assert_eq!(first(&computes).as_deref(), Some("cpu-contention"));
}

/// The group reclaims at its own limit, while somebody has another group's memory reclaimed.
#[test]
fn reclaim_of_another_group_is_no_cause() {
    let mut made = reclaimed();
    made.incident.groups[0].max_events = Some(900);
    assert_eq!(first(&made).as_deref(), Some("cgroup-limit"));
}

pub(crate) fn kills(group: &str) -> OomKills {
    let process = ServiceProcess { pid: 901, name: "batch".to_owned() };
    OomKills {
        count: 3,
        victims: vec![OomVictim {
            process: process.clone(),
            count: 3,
            shortage: OomShortage::Cgroup(Some(group.to_owned())),
            limit_bytes: Some(64 << 20),
            cgroup: Some(group.to_owned()),
            ..OomVictim::default()
        }],
        holders: vec![MemoryHolder {
            process,
            resident_bytes: 60 << 20,
            ..MemoryHolder::default()
        }],
        holders_source: "kernel log".to_owned(),
        ..OomKills::default()
    }
}

/// The service is slow because of its disk, which the path does not show, and another group is killed meanwhile.
///
/// Promise (The recorder): A kill at the limit of another cgroup is no cause of a stall.
#[test]
fn a_kill_in_another_group_is_no_cause() {
    let slow = |killed: &str| {
        let mut made = Made::on(HEALTHY)
            .counts(Counter::OomKill, 0.37)
            .pressed(0, 90, 0)
            .disk("sda", 100)
            .blocked((812, "postgres"), 'D', 9, &["io_schedule", "ext4_file_read_iter"]);
        made.incident.oom = Some(kills(killed));
        made.incident.service =
            Some(Service { cgroup: Some(GROUP.to_owned()), ..Service::default() });
        explained(&made)
    };
    let elsewhere = slow("/system.slice/batch.service");
    assert_eq!(elsewhere.causes[0].finding.rule, "slow-disk", "{}", elsewhere.verdict);
    for concerned in [GROUP, "/system.slice"] {
        assert_eq!(slow(concerned).causes[0].finding.rule, "oom-kill", "{concerned}");
    }
}

/// Nothing has ever listened at the probe's address, and the OOM killer killed `batch` for lack of memory anywhere.
fn never_there() -> Made {
    let mut made = Made::on(HEALTHY)
        .trigger(TriggerKind::Probe, "http-8080", 3.0)
        .failed("connection refused")
        .counts(Counter::OomKill, 300.0);
    made.incident.trigger.failure_kind = Some(FailureKind::Refused);
    made.incident.outage = Some(Outage {
        address: "127.0.0.1:8080".to_owned(),
        text: "nothing listens on 127.0.0.1:8080".to_owned(),
        ..Outage::default()
    });
    let mut oom = kills("/batch");
    oom.victims[0].shortage = OomShortage::Machine;
    made.incident.oom = Some(oom);
    made
}

/// Promise (Tracing: why): An OOM kill elsewhere is no cause of a service's failure, and of a slow answer only where
/// memory was waited for; the service is told by number, name and cgroup.
#[test]
fn a_service_that_was_never_there_was_not_killed() {
    let explanation = explained(&never_there());
    assert_eq!(explanation.causes[0].finding.rule, "service-failure", "{}", explanation.verdict);
    assert!(!explanation.causes.iter().any(|cause| cause.finding.rule == "oom-kill"));
    let mut unlogged = never_there();
    unlogged.incident.oom = None;
    assert_eq!(first(&unlogged).as_deref(), Some("service-failure"), "nobody says who was killed");
}

/// The code of the protocol decides, not the words of the error.
#[test]
fn a_refusal_is_told_by_its_code() {
    let first_as = |fixture, kind, said| {
        let mut made = Made::on(fixture).trigger(TriggerKind::Probe, "postgres", 3.0).failed(said);
        made.incident.trigger.failure_kind = Some(kind);
        first(&made)
    };
    let coded =
        first_as("tmpfs-full/firing", FailureKind::NoSpace, "Speicher voll (SQLSTATE 53100)");
    assert_eq!(coded.as_deref(), Some("tmpfs-full"));
    let strict = "overcommit-refusal/firing";
    let coded = first_as(strict, FailureKind::OutOfMemory, "kein Speicher (SQLSTATE 53200)");
    assert_eq!(coded.as_deref(), Some("overcommit-refusal"));
    let login = first_as(strict, FailureKind::Authentication, "user 'out of memory' is unknown");
    assert_eq!(login.as_deref(), Some("service-failure"));
}

/// Facts that tie a kill to a service that fails at once: its number, its name, its cgroup, its end.
#[test]
fn a_kill_of_the_service_is_the_cause_of_its_failure() {
    let process = |pid, name: &str| ServiceProcess { pid, name: name.to_owned() };
    let is_cause = |change: &dyn Fn(&mut Incident)| {
        let mut made = never_there();
        change(&mut made.incident);
        first(&made).as_deref() == Some("oom-kill")
    };
    let with =
        |service: Service| move |incident: &mut Incident| incident.service = Some(service.clone());
    let of =
        |pid, name: &str| Service { processes: vec![process(pid, name)], ..Service::default() };
    assert!(is_cause(&with(of(901, "worker"))), "its number");
    assert!(is_cause(&with(of(5, "batch"))), "its name, started again since");
    assert!(!is_cause(&with(of(5, "worker"))));
    let in_group = |path: &str| Service { cgroup: Some(path.to_owned()), ..of(5, "worker") };
    assert!(is_cause(&with(in_group("/batch"))), "its cgroup");
    assert!(!is_cause(&with(in_group("/web"))));
    let former = |name: &'static str| {
        move |incident: &mut Incident| {
            incident.outage.as_mut().unwrap().former = Some(process(7, name));
        }
    };
    assert!(is_cause(&former("batch")) && !is_cause(&former("worker")));
    let ended = |how, logged: bool| {
        move |incident: &mut Incident| {
            let end = ProcessEnd { process: process(7, "worker"), how, ..ProcessEnd::default() };
            incident.outage.as_mut().unwrap().ended = Some(end);
            incident.oom = incident.oom.take().filter(|_| logged);
        }
    };
    assert!(is_cause(&ended(EndKind::Unknown, false)), "it ended, and nobody says who was killed");
    assert!(!is_cause(&ended(EndKind::Unknown, true)), "another was killed");
    assert!(!is_cause(&ended(EndKind::Exited, false)));
    assert!(
        is_cause(&|incident| {
            let said = "ended by signal: 9 (SIGKILL)".to_owned();
            incident.trigger.failure = Some(said);
            incident.trigger.failure_kind = Some(FailureKind::Killed);
        }),
        "the command of the probe"
    );
}

/// A cgroup above that of the service also has other services.
#[test]
fn a_kill_in_a_sibling_of_the_services_group_is_no_cause() {
    let mut made = never_there();
    made.incident.oom = Some(kills("/system.slice/batch.service"));
    let slice = GroupUse { path: "/system.slice".to_owned(), oom_kills: Some(3), ..group() };
    let own = GroupUse { path: "/system.slice/web.service".to_owned(), ..slice.clone() };
    made.incident.groups =
        vec![GroupUse { of_service: true, ..slice }, GroupUse { oom_kills: Some(0), ..own }];
    assert_eq!(first(&made).as_deref(), Some("service-failure"));
}

/// The service waits for its disk, or reclaims, while the machine's memory is short and somebody is killed.
#[test]
fn a_kill_is_a_cause_where_memory_was_waited_for() {
    let slow = |kind| {
        let mut made = made(&[(kind, 90)]).counts(Counter::OomKill, 0.37);
        made.incident.oom = never_there().incident.oom;
        explained(&made).causes.iter().any(|cause| cause.finding.rule == "oom-kill")
    };
    assert!(slow(TimeKind::Waiting(Wait::DirectReclaim)));
    assert!(!slow(TimeKind::Waiting(Wait::FileRead)));
    let untraced = |memory, io| {
        let mut made = Made::on(HEALTHY)
            .counts(Counter::OomKill, 0.37)
            .pressed(memory, io, 0)
            .disk("sda", 100);
        made.incident.oom = never_there().incident.oom;
        first(&made)
    };
    assert_eq!(untraced(60, 60).as_deref(), Some("oom-kill"));
    assert_eq!(untraced(0, 90).as_deref(), Some("slow-disk"));
}

#[test]
fn an_incident_of_kills_says_who_and_what_became_of_the_service() {
    let mut made = Made::on(HEALTHY).trigger(TriggerKind::OomKill, "oom_kill", 0.0);
    let process = |pid, name: &str| ServiceProcess { pid, name: name.to_owned() };
    let said = |made: &Made| format!("{:?}", explained(made).causes[0].finding.evidence);
    let fate = ServiceFate {
        probe: "web".to_owned(),
        former: process(901, "batch"),
        listens: Some(true),
        listener: Some(process(905, "batch")),
        answers: Some(true),
        ..ServiceFate::default()
    };
    made.incident.oom = Some(OomKills { services: vec![fate.clone()], ..kills("/batch") });
    let explanation = explained(&made);
    let expected = "out of memory: the OOM killer killed batch (3 times, last 901) at the limit of \
                    cgroup /batch";
    assert_eq!(explanation.verdict, expected);
    let evidence = said(&made);
    assert!(evidence.contains("at the memory limit of /batch (64 MiB)"), "{evidence}");
    assert!(evidence.contains("started again as batch (905) and answers"), "{evidence}");
    assert_eq!(explanation.causes[0].finding.subject, Subject::Cgroup(Some("/batch".to_owned())));
    assert_eq!(explanation.causing[0].why, "held 60 MiB when memory ran out");
    assert_eq!(explanation.suffering[0].why, "was killed by the OOM killer");
    let other = ServiceFate { listener: Some(process(7, "nc")), ..fate.clone() };
    made.incident.oom = Some(OomKills { services: vec![other], ..kills("/batch") });
    assert!(said(&made).contains("nc (7) listens in its place and answers"));
    let runs = ServiceFate { still_runs: true, answers: None, ..fate };
    made.incident.oom = Some(OomKills { services: vec![runs], ..kills("/batch") });
    assert!(said(&made).contains("batch (901) still runs"));
    let unknown = OomKills { count: 1, unseen: Some("EPERM".to_owned()), ..OomKills::default() };
    made.incident.oom = Some(unknown);
    assert_eq!(explained(&made).verdict, "out of memory: the OOM killer killed 1 process");
}

/// Whoever has his own processes killed pages nobody as critical.
#[test]
fn kills_at_a_user_s_own_limit_are_no_critical_incident() {
    const MINE: &str = "/user.slice/user-1000.slice/mine";
    let finding = |oom: OomKills| {
        let mut made = Made::on(HEALTHY).trigger(TriggerKind::OomKill, "oom_kill", 0.0);
        made.incident.oom = Some(oom);
        explained(&made).causes[0].finding.clone()
    };
    assert_eq!(finding(kills(MINE)).severity, Severity::Warning);
    let fate = ServiceFate { probe: "web".to_owned(), ..ServiceFate::default() };
    let of_service = OomKills { services: vec![fate], ..kills(MINE) };
    assert_eq!(finding(of_service).severity, Severity::Critical);
    assert_eq!(finding(kills("/system.slice/db.service")).severity, Severity::Critical);
    let several = |path: &str| {
        let victims = [kills(&format!("{MINE}/a")), kills(path)].map(|kills| kills.victims);
        finding(OomKills { victims: victims.concat(), ..kills(MINE) })
    };
    let both = several(&format!("{MINE}/b"));
    assert_eq!(both.subject, Subject::Cgroup(Some(MINE.to_owned())));
    let wide = several("/db");
    assert_eq!((wide.severity, wide.subject), (Severity::Critical, Area::OomKiller.into()));
}

/// Pages of another service's cgroup count in those above it, which both are in.
#[test]
fn reclaim_of_a_sibling_group_is_no_cause() {
    let mut made = reclaimed();
    let own = made.incident.groups[0].clone();
    made.incident.groups[0].pgscan = Some(0);
    made.incident.groups.push(GroupUse { path: "/system.slice".to_owned(), ..own });
    assert_ne!(first(&made).as_deref(), Some("forced-reclaim"));
}

/// A job with a small quota holds the pages that it moves for long.
#[test]
fn who_did_most_of_the_compaction_moved_the_pages() {
    let beside = |samples| {
        let made = moved("kcompactd0", &["kcompactd_do_work"]).stack(SHELL, 20, COMPACTS);
        first(&made.stack((90, "make"), samples, &["__alloc_pages_direct_compact", "compact_zone"]))
    };
    assert_eq!(beside(10).as_deref(), Some("proactive-compaction"));
    assert_ne!(beside(400).as_deref(), Some("proactive-compaction"));
}

#[test]
fn who_reserves_huge_pages_is_named() {
    let explanation = explained(&without_huge_pages());
    let expected = "sh (77) reserved huge pages";
    assert!(explanation.verdict.contains(expected), "{}", explanation.verdict);
    assert_eq!(explanation.causing[0].pid, 77);
    let beside = made(&[(TimeKind::Waiting(Wait::Sleep), 95)]).stack(SHELL, 6000, RESERVES);
    assert_eq!(first(&beside).as_deref(), Some("service-itself"));
    let one = made(&[(TimeKind::Waiting(Wait::FileRead), 95)]).stack(SHELL, 10, RESERVES).stack(
        (0, "swapper"),
        6000,
        &["do_idle"],
    );
    assert_eq!(first(&one).as_deref(), Some("slow-disk"), "a few pages, and a slow disk");
}

/// A slow disk, while reclaim inside cgroups is not why the service reads.
///
/// Promise (The recorder): Memory that was reclaimed by hand before a stall is its cause where the service's cgroup
/// reads it again, and a slow disk stays one.
#[test]
fn reclaim_before_the_stall_is_a_cause_only_of_what_is_read_again() {
    assert_eq!(first(&reclaimed_before(0)).as_deref(), Some("slow-disk"), "of another group");
    let mut limited = reclaimed_before(900);
    let other = GroupUse { path: "/batch".to_owned(), max_events: Some(3), ..GroupUse::default() };
    limited.incident.groups.push(other);
    assert_ne!(first(&limited).as_deref(), Some("forced-reclaim"), "at the limit of another");
    let by_machine = |until: u64| {
        let made = reclaimed_before(900);
        made.counter("pgsteal_khugepaged", |ms| if ms >= -1000 { until } else { 0 })
    };
    assert_eq!(first(&by_machine(400)).as_deref(), Some("forced-reclaim"));
    assert_eq!(first(&by_machine(1000)).as_deref(), Some("working-set-thrash"));
}

/// A shell compacts memory all the time, while tasks wait for something else.
#[test]
fn compaction_by_hand_is_no_cause_of_what_did_not_wait_for_it() {
    let own = made(&[(TimeKind::Waiting(Wait::Compaction), 90)]).stack(SHELL, 6000, COMPACTS);
    let explanation = explained(&own);
    assert!(!explanation.causes.iter().any(|cause| cause.finding.rule == "proactive-compaction"));
    let untraced = Made::on(HEALTHY)
        .pressed(0, 90, 0)
        .disk("sda", 100)
        .stack(SHELL, 9000, COMPACTS)
        .shifts("compact_zone", 0.0, 30.0);
    assert_eq!(first(&untraced).as_deref(), Some("slow-disk"));
    let moved = untraced.blocked((812, "postgres"), 'D', 9, &["migration_entry_wait_on_locked"]);
    assert_eq!(first(&moved).as_deref(), Some("proactive-compaction"));
}

#[test]
fn a_dropped_cache_is_no_cause_while_the_disk_is_suspended() {
    let mut made = dropped(READS);
    made.incident.stopped_devices = vec![StoppedDevice {
        name: "dm-0".to_owned(),
        mapped_name: Some("data".to_owned()),
        state: "suspended".to_owned(),
        below: Vec::new(),
    }];
    assert_eq!(first(&made).as_deref(), Some("hung-device"));
}

/// The cache is dropped, nothing is read again, and the disk is slow for those who write.
///
/// Promise (Tracing: why): Dropped caches, compaction and reclaim by hand are no cause of a stall that did not wait
/// for them.
#[test]
fn a_dropped_cache_that_nobody_reads_again_is_no_cause() {
    let untraced = |reads_after| {
        let made = Made::on(HEALTHY).pressed(0, 90, 0).disk("sda", 100);
        first(&cache(made, 0, reads_after))
    };
    assert_eq!(untraced(20).as_deref(), Some("drop-caches"));
    assert_eq!(untraced(0).as_deref(), Some("slow-disk"));
}
