//! Made-up stalls with the party that took their time: an own limit, a neighbour, the kernel, or nobody who is known.

use crate::floods::{flooded, wrote};
use crate::forced::{READS, dropped, kills};
use crate::made::Made;
use crate::paths::{GROUP, TOTAL_MS, explained, group, made, memory_high, memory_max, quota};
use crate::paths::{task, with_group};
use crate::stalls::{self, HEALTHY};
use crate::{forced, paths, stacks};
use mw_critical_path::{CpuHolder, HolderTime, PathTask, TimeKind, Wait};
use mw_model::{
    BlameShare, CpuUse, EndKind, FailureKind, GroupUse, Incident, KillParty, Killer, Outage,
    PartyKind, ProcessEnd, ProcessKill, Service, ServiceProcess, TaskUse, TriggerKind,
    WriterProcess,
};
use mw_proc::vmstat::Counter;
use mw_rules::blame;

const MS: u64 = 1_000_000;
const BACKUP: &str = "/system.slice/backup.service";

/// `db.service <- backup.service, page-cache-flood: 8200` for each share.
fn told(shares: &[BlameShare]) -> Vec<String> {
    let told = |share: &BlameShare| {
        let BlameShare { victim, culprit, lost_ms, .. } = share;
        format!("{victim} <- {culprit}, {}: {lost_ms}", share.cause_name())
    };
    shares.iter().map(told).collect()
}

#[track_caller]
fn check(made: &Made, wanted: &[&str]) {
    let incident = explained(made);
    assert_eq!(told(&incident.blame), wanted, "{}", incident.verdict);
    assert_adds_up(&incident);
}

/// Shares add up to the stall, and there are few, as they were recorded and as a reader computes them.
#[track_caller]
fn assert_adds_up(incident: &Incident) {
    let stored = incident.blame.clone();
    let read = blame(&Incident { blame: Vec::new(), ..incident.clone() });
    for shares in [stored, read] {
        let lost_ms: u64 = shares.iter().map(|share| share.lost_ms).sum();
        let requested = incident.trigger.kind == TriggerKind::Requested;
        let stalled_ms = if requested { 0 } else { incident.duration_ms() };
        assert_eq!(lost_ms, stalled_ms, "{:?}", told(&shares));
        assert!(shares.len() <= 17, "{:?}", told(&shares));
    }
}

/// A task of another cgroup.
fn stranger(tid: u32, name: &str, cgroup: &str) -> PathTask {
    PathTask { cgroup: Some(cgroup.to_owned()), ..task(tid, name) }
}

/// The request is ready to run, while these tasks have the CPU for so many percent of it.
fn contended(holders: &[(PathTask, u64)]) -> Made {
    let percent = holders.iter().map(|(_, percent)| percent).sum();
    let mut made = made(&[(TimeKind::Runnable(CpuHolder::Task(9)), percent)]);
    let part = &mut made.incident.path.as_mut().unwrap().parts[0];
    part.holder = holders.first().map(|(task, _)| task.clone());
    let held = |(task, percent): &(PathTask, u64)| HolderTime {
        task: task.clone(),
        total_ns: TOTAL_MS * MS * percent / 100,
    };
    part.holders = holders.iter().map(held).collect();
    made
}

/// The machine reclaims for the request.
fn reclaims() -> Made {
    made(&[(TimeKind::Waiting(Wait::DirectReclaim), 90)])
        .counts(Counter::PgscanDirect, 200_000.0)
        .counts(Counter::Allocstall, 180.0)
        .waits((812, "postgres"), mw_model::WaitKind::DirectReclaim, 7000, 900)
        .pressed(80, 0, 0)
}

/// Promise (Blame): Where the victim met a limit of its own, memory, swap or CPU quota, the culprit is the victim.
#[test]
fn whoever_meets_an_own_limit_is_the_culprit() {
    check(
        &memory_max(),
        &["db.service <- db.service, cgroup-limit: 6970", "db.service <- unknown, unknown: 1230"],
    );
    check(
        &memory_high(),
        &[
            "db.service <- db.service, cgroup-throttled: 7380",
            "db.service <- unknown, unknown: 820",
        ],
    );
    check(
        &quota(),
        &[
            "db.service <- db.service, cpu-throttled: 7380",
            "db.service <- unknown, service-itself: 820",
        ],
    );
}

/// Promise (Blame): The limit of a cgroup that has more than the victim is not the victim's.
#[test]
fn a_limit_above_the_victim_is_that_of_the_cgroup_that_has_it() {
    let made = made(&[(TimeKind::Waiting(Wait::CgroupReclaim), 100)]);
    let slice = GroupUse { path: "/system.slice".to_owned(), max_events: Some(900), ..group() };
    let made = with_group(with_group(made, GroupUse { max_events: Some(0), ..group() }), slice);
    check(&made, &["db.service <- cgroup /system.slice, cgroup-limit: 8200"]);
}

/// Promise (Blame): A neighbour that had the CPU is to blame for the time for which it had it, and nobody else for that.
#[test]
fn each_task_answers_for_the_time_in_which_it_had_the_cpu() {
    let [backup, batch] =
        [stranger(9, "tar", BACKUP), stranger(10, "spin", "/kubepods/burstable/pod12ab/x")];
    let own = task(813, "postgres");
    let made = contended(&[(backup, 40), (batch, 30), (own, 20)]);
    check(
        &made,
        &[
            "db.service <- backup.service, cpu-contention: 3280",
            "db.service <- pod 12ab, cpu-contention: 2460",
            "db.service <- unknown, cpu-contention: 1640",
            "db.service <- unknown, unknown: 820",
        ],
    );
    let culprit = &explained(&made).blame[0].culprit;
    assert_eq!(culprit.process.as_ref().map(|process| process.name.as_str()), Some("tar"));
    let mut ended = made.clone();
    ended.incident.path.as_mut().unwrap().parts[0].holders[0].task.cgroup = None;
    assert_eq!(explained(&ended).blame[0].culprit.to_string(), "process tar");
    ended.incident.cgroups = [(9, BACKUP.to_owned())].into();
    assert_eq!(explained(&ended).blame[0].culprit.to_string(), "backup.service");
    let mut former = made;
    former.incident.path.as_mut().unwrap().parts[0].holders.clear();
    check(
        &former,
        &["db.service <- unknown, cpu-contention: 7380", "db.service <- unknown, unknown: 820"],
    );
}

/// Promise (Blame): The recorder's own threads are neither victim nor culprit.
#[test]
fn the_recorder_is_on_neither_side() {
    let recorder =
        PathTask { process: 4000, ..stranger(4001, "mw-sampler", "/system.slice/m.service") };
    let mut made = contended(&[(recorder, 95)]);
    made.incident.recorder = 4000;
    check(
        &made,
        &["db.service <- unknown, cpu-contention: 7790", "db.service <- unknown, unknown: 410"],
    );
    let mut takes = reclaims().uses((4000, "memwright"), 10, 900 << 20);
    takes.incident.recorder = 4000;
    let shares = explained(&takes).blame;
    assert!(shares.iter().all(|share| !share.is_proven()), "{:?}", told(&shares));
    let canary = memory_max().trigger(TriggerKind::Canary, "canary", TOTAL_MS as f64);
    let shares = explained(&canary).blame;
    assert!(shares.iter().all(|share| share.victim.kind == PartyKind::Machine));
}

/// Promise (Blame): For a backlog of writes the culprit is the cgroup that wrote most of what the disk wrote; where no
/// cgroup did, it is unknown.
#[test]
fn a_neighbour_that_writes_most_floods_the_disk() {
    let busy = |at: i64| if at > 0 { 1 << 20 } else { 100 << 10 };
    let mut made = flooded(20 << 10, busy);
    made.incident.groups.retain(|group| group.path != "/writer");
    made.incident.groups.push(wrote(BACKUP, "sda", 40 << 20));
    let flood = |made: &Made| {
        let shares = explained(made).blame;
        assert_eq!(shares[0].cause_name(), "page-cache-flood");
        shares[0].culprit.to_string()
    };
    assert_eq!(flood(&made), "backup.service");
    made.incident.groups.push(wrote("/system.slice/a.service", "sda", 38 << 20));
    assert_eq!(flood(&made), "backup.service", "40 of 78");
    made.incident.groups.push(wrote("/system.slice/b.service", "sda", 5 << 20));
    assert_eq!(flood(&made), "unknown", "40 of 83");
}

/// Promise (Blame): A slow disk that nobody else kept busy is the culprit itself.
#[test]
fn a_disk_that_is_slow_is_a_device() {
    let slow = made(&[(TimeKind::Waiting(Wait::FileRead), 90)]).disk("sdb", 100);
    check(
        &slow,
        &["db.service <- device sdb, slow-disk: 7380", "db.service <- unknown, unknown: 820"],
    );
    let mut kept = with_group(slow, GroupUse { of_service: true, ..wrote(GROUP, "sdb", 4096) });
    kept.incident.groups.push(wrote(BACKUP, "sdb", 900 << 20));
    assert_eq!(told(&explained(&kept).blame)[0], "db.service <- backup.service, slow-disk: 7380");
}

/// Promise (Blame): For a shortage of the machine's memory the culprit is who took most of it; who took less is not, and
/// neither is the victim.
#[test]
fn whoever_took_most_memory_is_to_blame_for_a_shortage() {
    let culprit = |made: &Made| {
        let incident = explained(made);
        assert_eq!(incident.blame[0].cause_name(), "reclaim-storm", "{}", incident.verdict);
        assert_adds_up(&incident);
        incident.blame[0].culprit.to_string()
    };
    let mut made = reclaims().uses((70, "java"), 100, 900 << 20).uses((71, "cc"), 10, 200 << 20);
    made.incident.cgroups = [(70, BACKUP.to_owned())].into();
    assert_eq!(culprit(&made), "backup.service");
    made.incident.cgroups.clear();
    assert_eq!(culprit(&made), "process java", "no cgroup is known");
    let divided = made.clone().uses((72, "ld"), 10, 800 << 20);
    assert_eq!(culprit(&divided), "unknown", "900 of 1,900 MiB");
    let mut unread = made.clone();
    for (path, bytes) in [(BACKUP, 3 << 30), (GROUP, 1 << 20)] {
        let memory_growth_bytes = Some(bytes);
        unread.incident.groups.push(GroupUse {
            path: path.to_owned(),
            memory_growth_bytes,
            ..GroupUse::default()
        });
    }
    assert_eq!(culprit(&unread), "backup.service", "most of its processes were not read");
    // It began shortly before, has taken all that there was, and reclaims itself by now.
    let mut before = made.clone();
    let taken = TaskUse { pid: 73, task: "batch".to_owned(), ..TaskUse::default() };
    let taken = TaskUse { resident_bytes: 3 << 30, age_ms: Some(20_000), ..taken };
    before.incident.tasks.push(taken.clone());
    assert_eq!(culprit(&before), "process batch");
    let Some(last) = before.incident.tasks.last_mut() else { panic!("no task") };
    *last = TaskUse { age_ms: Some(86_400_000), ..taken };
    assert_eq!(culprit(&before), "process java", "it has had that since yesterday");
    let own = made.clone().uses((812, "postgres"), 10, 9 << 30);
    let mut own = own.served_by((812, "postgres"));
    own.incident.cgroups = [(812, GROUP.to_owned())].into();
    assert_eq!(culprit(&own), "unknown", "the victim itself met no limit");
}

/// Promise (Blame): The task that dropped the page cache by hand is to blame for what is read again.
#[test]
fn memory_work_by_hand_has_its_writer() {
    let mut made = dropped(READS);
    assert_eq!(told(&explained(&made).blame)[0], "db.service <- cron.service, drop-caches: 7380");
    let logged = &mut made.incident.cache_drops[0].writer;
    (logged.unit, logged.cgroup) = (None, Some(BACKUP.to_owned()));
    let process = logged.process.clone();
    made.incident.writers = vec![WriterProcess { process, ..WriterProcess::default() }];
    let told = told(&explained(&made).blame);
    assert_eq!(told[0], "db.service <- backup.service, drop-caches: 7380", "it had ended");
}

/// Promise (Blame): What the hypervisor stole is the hypervisor's, and of the rest nobody is known.
#[test]
fn stolen_time_is_the_hypervisors() {
    let mut made = made(&[(TimeKind::Runnable(CpuHolder::Idle), 100)]);
    made.incident.cpus = Some(CpuUse { busy_ms: 2000, stolen_ms: 6000 });
    check(
        &made,
        &[
            "db.service <- hypervisor, hypervisor-steal: 6150",
            "db.service <- unknown, hypervisor-steal: 2050",
        ],
    );
}

/// Promise (Blame): Time that no trace shows, and causes without a culprit, are of an unknown one.
#[test]
fn without_evidence_the_culprit_is_unknown() {
    let asleep = made(&[(TimeKind::Waiting(Wait::Sleep), 99)]);
    check(
        &asleep,
        &["db.service <- unknown, service-itself: 8118", "db.service <- unknown, unknown: 82"],
    );
    let untraced = Made::on(HEALTHY).served_by((812, "postgres"));
    check(&untraced, &["process postgres <- unknown, network-or-service: 8200"]);
    let requested = Made::on(HEALTHY).trigger(TriggerKind::Requested, "requested", 3000.0);
    check(&requested, &[]);
}

/// Several requests were slow, of which one was traced; or one began before the stall did.
#[test]
fn no_stall_loses_more_than_it_lasted() {
    let mut longer = memory_max();
    longer.incident.ended_unix_ms += 20_000;
    check(
        &longer,
        &[
            "db.service <- unknown, cgroup-limit: 20000",
            "db.service <- db.service, cgroup-limit: 6970",
            "db.service <- unknown, unknown: 1230",
        ],
    );
    let mut shorter = memory_max();
    shorter.incident.ended_unix_ms -= TOTAL_MS / 2;
    check(
        &shorter,
        &["db.service <- db.service, cgroup-limit: 3485", "db.service <- unknown, unknown: 615"],
    );
}

/// Promise (Blame): Several causes of a stall have a share each, which add up.
#[test]
fn causes_that_contributed_have_shares_of_their_own() {
    let mut made = made(&[
        (TimeKind::Waiting(Wait::CgroupReclaim), 60),
        (TimeKind::Waiting(Wait::Journal), 25),
    ]);
    made = with_group(made, GroupUse { max_events: Some(900), ..group() });
    check(
        &made,
        &[
            "db.service <- db.service, cgroup-limit: 4920",
            "db.service <- unknown, journal-commit: 2050",
            "db.service <- unknown, unknown: 1230",
        ],
    );
}

/// The service was killed, by the OOM killer at a limit or by a process.
fn killed(end: ProcessEnd) -> Made {
    let mut made = Made::on(HEALTHY).failed("connection refused").counts(Counter::OomKill, 1.0);
    made.incident.trigger.failure_kind = Some(FailureKind::Refused);
    made.incident.service = Some(Service { cgroup: Some(GROUP.to_owned()), ..Service::default() });
    made.incident.outage = Some(Outage { ended: Some(end), ..Outage::default() });
    made
}

/// Promise (Blame): A service that the OOM killer ended at its own limit is the culprit of its outage; one that another
/// process killed is that process's victim; memory of the machine has no culprit.
#[test]
fn an_outage_is_by_whoever_ended_the_service() {
    let process = ServiceProcess { pid: 812, name: "postgres".to_owned() };
    let oom =
        ProcessEnd { process: process.clone(), how: EndKind::OomKilled, ..ProcessEnd::default() };
    let at = |limit: &str| killed(ProcessEnd { limit_of: Some(limit.to_owned()), ..oom.clone() });
    check(&at(GROUP), &["db.service <- db.service, oom-kill: 8200"]);
    check(&at("/system.slice"), &["db.service <- cgroup /system.slice, oom-kill: 8200"]);
    check(&killed(oom.clone()), &["db.service <- unknown, oom-kill: 8200"]);
    let mut by_hand = killed(ProcessEnd { how: EndKind::Signalled, signal: Some(9), ..oom });
    let sender = ServiceProcess { pid: 77, name: "sh".to_owned() };
    by_hand.incident.kill = Some(ProcessKill {
        victim: KillParty { process, ..KillParty::default() },
        killer: Killer::Process,
        sender: Some(KillParty {
            process: sender,
            cgroup: Some(BACKUP.to_owned()),
            ..KillParty::default()
        }),
        ..ProcessKill::default()
    });
    assert!(told(&explained(&by_hand).blame)[0].starts_with("db.service <- backup.service, "));
    let mut kills_alone = Made::on(HEALTHY).trigger(TriggerKind::OomKill, "oom_kill", 900.0);
    kills_alone.incident.oom = Some(kills(GROUP));
    check(&kills_alone, &["db.service <- db.service, oom-kill: 900"]);
}

/// Promise (Blame): However many cgroups and however long names a neighbour has, the shares of a stall are few, and no
/// name is longer than 256 bytes.
#[test]
fn hostile_neighbours_are_bounded() {
    let holder =
        |n: u32| (stranger(1000 + n, "\u{1b}[2J", &format!("/{n}/{}", "x".repeat(4000))), 1);
    let mut made = contended(&(0..90).map(holder).collect::<Vec<_>>());
    let mut groups = (0..10_000).map(|n| wrote(&format!("/user.slice/{n}"), "sda", 1 << 20));
    made.incident.groups.extend(&mut groups);
    let incident = explained(&made);
    assert_adds_up(&incident);
    let json = serde_json::to_string(&incident.blame).unwrap();
    assert!(json.len() < 32 << 10, "{}", json.len());
}

/// Promise (Blame): In every made-up stall the shares add up to its duration, also as a reader computes them of an older
/// recording.
#[test]
fn all_stalls_add_up() {
    let all = stalls::of_memory().into_iter().chain(paths::all()).chain(forced::all());
    let all = all.chain(stacks::all()).map(|stall| (stall.name, stall.made));
    let decoys = stalls::decoys(HEALTHY).into_iter().map(|decoy| (decoy.name, decoy.made));
    let (mut proven_ms, mut lost_ms) = (0, 0);
    for (name, made) in all.chain(decoys) {
        let incident = explained(&made);
        assert_adds_up(&incident);
        println!("{name}: {}", told(&incident.blame).join("; "));
        for share in &incident.blame {
            lost_ms += share.lost_ms;
            proven_ms += if share.is_proven() { share.lost_ms } else { 0 };
        }
    }
    println!("{proven_ms} of {lost_ms} ms have a culprit");
    assert!(proven_ms > 0 && proven_ms < lost_ms);
}
