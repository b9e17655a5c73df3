//! The made-up stalls, with what explains each.

use crate::made::Made;
use mw_model::{GroupUse, Reading, Subject, TriggerKind, WaitKind};
use mw_proc::vmstat::Counter;

/// A stall, the rule that explains it, and the others that are plausible beside it.
pub(crate) struct Stall {
    pub(crate) name: &'static str,
    pub(crate) made: Made,
    pub(crate) first: &'static str,
    pub(crate) also: &'static [&'static str],
}

const POSTGRES: (u32, &str) = (812, "postgres");
const MYSQLD: (u32, &str) = (901, "mysqld");
const DD: (u32, &str) = (4711, "dd");
const HEARTBEAT: (u32, &str) = (77, "heartbeat");

/// Captures on which nothing is wrong.
pub(crate) const HEALTHY: &str = "healthy/debian-6.12";

/// All stalls that memory caused.
pub(crate) fn of_memory() -> Vec<Stall> {
    let mut all = tales();
    all.extend(reclaiming());
    all.extend(latent());
    all.extend(refused());
    all
}

fn is(name: &'static str, made: Made, first: &'static str, also: &'static [&'static str]) -> Stall {
    Stall { name, made, first, also }
}

/// Stalls as the field reports tell them.
fn tales() -> Vec<Stall> {
    vec![
        is("mysql-stall", mysql_stall(), "thp-compaction", &["fragmented-node"]),
        is(
            "mysql-stall, profile alone",
            mysql_profile().untraced(),
            "thp-compaction",
            &["fragmented-node"],
        ),
        is("mysql-stall, 40 threads", mysql_threads(), "thp-compaction", &["fragmented-node"]),
        is("fragmented-node", fragmented(), "fragmented-node", &["thp-compaction"]),
        is("network buffers on a fragmented node", order_4(), "fragmented-node", &[]),
        is("slow-shared-memory", shared_memory(), "zone-reclaim", &["unreclaimable-ramfs"]),
        is(
            "ram-starved-cluster",
            ram_starved(),
            "dirty-limit-too-high",
            &["oom-kill", "page-cache-flood", "reclaim-storm"],
        ),
    ]
}

/// The profile of the report (percent of all CPUs, idle and stalled), and what tracepoints
/// would have shown; counters as in the re-enactment, 108 compact_stall a second.
fn mysql_stall() -> Made {
    mysql_profile()
        .waits(MYSQLD, WaitKind::Compaction, 7900, 880)
        .wanting(9, 0)
        .counts(Counter::CompactStall, 108.0)
        .counts(Counter::CompactFail, 107.0)
        .stack(MYSQLD, 6000, &["asm_exc_page_fault", "try_to_compact_pages", "compaction_alloc"])
        .stack((0, "swapper"), 20_000, &["cpu_idle", "poll_idle"])
}

/// No thread waits long, and each for the others.
fn mysql_threads() -> Made {
    let mut made = mysql_profile();
    for thread in 0..40 {
        made = made.waits((1000 + thread, "mysqld"), WaitKind::Compaction, 500, 60);
    }
    made.wanting(9, 0).counts(Counter::CompactStall, 290.0)
}

fn mysql_profile() -> Made {
    Made::on("thp-compaction/firing")
        .trigger(TriggerKind::Probe, "mysql-3306", 8200.0)
        .served_by(MYSQLD)
        .shifts("compaction_alloc", 0.0, 17.13)
        .shifts("compact_zone", 0.0, 17.67)
        .shifts("poll_idle", 99.07, 78.94)
}

fn fragmented() -> Made {
    Made::on("fragmented-node/firing")
        .trigger(TriggerKind::Probe, "job-9000", 9700.0)
        .waits((55, "job"), WaitKind::Compaction, 9100, 1046)
        .wanting(9, 0)
        .counts(Counter::CompactStall, 107.0)
        .counts(Counter::CompactFail, 107.0)
}

fn order_4() -> Made {
    Made::on("fragmented-node/firing")
        .waits(POSTGRES, WaitKind::Compaction, 4100, 700)
        .wanting(4, 0)
        .counts(Counter::CompactStall, 85.0)
}

fn shared_memory() -> Made {
    Made::on("zone-reclaim/firing")
        .trigger(TriggerKind::Probe, "sybase-5000", 14_400.0)
        .waits((31, "dataserver"), WaitKind::NodeReclaim, 13_900, 335_000)
        .counts(Counter::ZoneReclaimFailed, 23_000.0)
        .shifts("node_reclaim", 0.0, 24.1)
        .shifts("shrink_node", 0.0, 23.8)
}

fn ram_starved() -> Made {
    Made::on("dirty-limit-too-high/firing")
        .trigger(TriggerKind::Heartbeat, "heartbeat", 5000.0)
        .canary(2_400_000, 900)
        .dirty(20_000, 4000)
        .pressed(73, 80, 5)
        .waits(HEARTBEAT, WaitKind::DirectReclaim, 4300, 900)
        .waits(DD, WaitKind::DirtyThrottle, 600, 12)
        .floods(DD, "/u01/oradata/testfile", 60_000)
        .counts(Counter::PgscanDirect, 2_000_000.0)
        .counts(Counter::PgscanFile, 2_000_000.0)
        .counts(Counter::Allocstall, 180.0)
        .counts(Counter::OomKill, 0.4)
}

/// Stalls in which programs had to reclaim.
fn reclaiming() -> Vec<Stall> {
    const FLOOD: &[&str] = &["reclaim-storm"];
    vec![
        is("page-cache-flood", flood("reclaim-storm/quiet"), "page-cache-flood", FLOOD),
        is(
            "page-cache-flood, the limit too high",
            flood("page-cache-flood/firing"),
            "dirty-limit-too-high",
            &["page-cache-flood", "reclaim-storm"],
        ),
        is("reclaim-storm", storm("reclaim-storm/quiet"), "reclaim-storm", &[]),
        is("kswapd-gave-up", gave_up(), "kswapd-gave-up", FLOOD),
        is("watermark-boost", boosted(500_000), "watermark-boost", FLOOD),
        is("watermark-boost, memory short", boosted(0), "reclaim-storm", &[]),
        is("reclaim-storm, unprivileged", unprivileged_storm(), "reclaim-storm", &[]),
        is("swap-thrash", thrash(), "swap-thrash", &["reclaim-storm"]),
        is("swap-thrash, coming back", swapped_in(), "swap-thrash", &[]),
        is("cgroup-limit", cgroup("cgroup-limit/firing"), "cgroup-limit", &[]),
        is("cgroup-limit, version 1", cgroup("cgroup-limit/firing-v1"), "cgroup-limit", &[]),
        is("numa-node-exhausted", node(), "numa-node-exhausted", &["reclaim-storm"]),
        is("dirty-throttle", throttle(), "dirty-throttle", &[]),
        is(
            "hugepage-shortage",
            pool(),
            "hugepage-shortage",
            &["fragmented-node", "thp-compaction"],
        ),
        is("khugepaged-churn", churn(), "khugepaged-churn", &[]),
        is("oom-kill", killed(), "oom-kill", &[]),
        is("slab-bloat, shrinking", shrinking(), "slab-bloat", &[]),
    ]
}

/// Programs reclaim by themselves for most of the stall, and everybody waits.
fn storm(fixture: &str) -> Made {
    Made::on(fixture)
        .canary(900_000, 700)
        .pressed(60, 10, 5)
        .waits(POSTGRES, WaitKind::DirectReclaim, 6000, 500)
        .counts(Counter::PgscanDirect, 90_000.0)
        .counts(Counter::PgscanKswapd, 60_000.0)
        .counts(Counter::PgstealDirect, 50_000.0)
        .counts(Counter::PgstealKswapd, 40_000.0)
        .counts(Counter::Allocstall, 60.0)
        .stack((45, "kswapd0"), 8000, &["kthread", "kswapd", "balance_pgdat", "shrink_node"])
        .stack((0, "swapper"), 24_000, &["do_idle"])
}

/// The kernel calls a node unreclaimable.
fn gave_up() -> Made {
    let mut made = storm("reclaim-storm/quiet");
    let Reading::Value(zoneinfo) = &mut made.window.now.sample.zoneinfo else { return made };
    zoneinfo.zones.iter_mut().for_each(|zone| zone.unreclaimable = Some(1));
    made
}

/// The watermarks are increased for a while, and so many pages are free above what they are without that.
fn boosted(free_pages: u64) -> Made {
    const BOOST: u64 = 30_000;
    let mut made = storm("reclaim-storm/quiet");
    let Reading::Value(zoneinfo) = &mut made.window.now.sample.zoneinfo else { return made };
    for zone in &mut zoneinfo.zones {
        zone.free_pages = zone.high_pages.saturating_add(zone.reserve_pages()) + free_pages;
        zone.high_pages += BOOST;
        zone.boost_pages = Some(BOOST);
    }
    made
}

fn unprivileged_storm() -> Made {
    storm("reclaim-storm/quiet").untraced()
}

fn flood(fixture: &str) -> Made {
    storm(fixture)
        .floods(DD, "/u01/oradata/testfile", 200_000)
        .counts(Counter::PgscanFile, 150_000.0)
}

fn thrash() -> Made {
    storm("swap-thrash/firing")
        .waits(POSTGRES, WaitKind::Swap, 5000, 900)
        .counts(Counter::Pswpin, 9000.0)
        .counts(Counter::Pswpout, 11_000.0)
        .uses((660, "job"), 100, 900 << 20)
}

fn swapped_in() -> Made {
    Made::on("swap-thrash/quiet")
        .waits(POSTGRES, WaitKind::Swap, 7000, 4000)
        .counts(Counter::Pswpin, 6000.0)
}

fn cgroup(fixture: &str) -> Made {
    Made::on(fixture).pressed(35, 0, 0).waits(POSTGRES, WaitKind::CgroupReclaim, 7000, 3000)
}

fn node() -> Made {
    let made = storm("numa-node-exhausted/firing");
    let full = mw_rules::find("numa-node-exhausted").unwrap().hazard(&made.window).unwrap();
    let Subject::Node(node) = full[0].subject else { panic!("{:?}", full[0].subject) };
    made.wanting(0, node)
}

fn throttle() -> Made {
    Made::on("dirty-throttle/firing")
        .pressed(0, 70, 0)
        .waits(POSTGRES, WaitKind::DirtyThrottle, 7000, 40)
        .blocked(POSTGRES, 'D', 8, &["balance_dirty_pages", "generic_perform_write", "vfs_write"])
}

fn pool() -> Made {
    Made::on("hugepage-shortage/firing-runtime")
        .waits(POSTGRES, WaitKind::Compaction, 6000, 300)
        .wanting(9, 0)
        .blocked((9, "sysctl"), 'D', 8, &["alloc_pool_huge_folio", "set_max_huge_pages"])
        .counts(Counter::CompactStall, 40.0)
        .counts(Counter::HtlbBuddyAllocFail, 36.0)
}

fn churn() -> Made {
    churn_with(&["rwsem_down_read_slowpath", "lock_mm_and_find_vma"])
}

fn churn_with(stack: &[&str]) -> Made {
    Made::on("khugepaged-churn/firing")
        .shifts("khugepaged", 0.2, 24.0)
        .shifts("collapse_huge_page", 0.1, 20.0)
        .blocked(POSTGRES, 'D', 7, stack)
}

/// Promise (Findings): Memory pressure explains a stall only with a counter of tasks that waited: kswapd and kcompactd
/// count as stalled while they run.
#[test]
fn pressure_explains_a_stall_only_with_a_counter() {
    let score = |made: Made| {
        let explanation = crate::asked(&made.untraced());
        let cause = explanation.causes.iter().find(|cause| cause.finding.rule == "reclaim-storm");
        cause.map_or(0, mw_model::Cause::score)
    };
    let pressed = || Made::on(HEALTHY).pressed(60, 0, 0).canary(90_000, 400);
    let by_kswapd = score(pressed().counts(Counter::PgscanKswapd, 20_000.0));
    let by_tasks =
        score(pressed().counts(Counter::PgscanKswapd, 20_000.0).counts(Counter::Allocstall, 5.0));
    assert!(by_kswapd < by_tasks, "{by_kswapd} {by_tasks}");
    let alone = Made::on(HEALTHY).pressed(60, 0, 0);
    assert_eq!(score(alone), 0);
}

/// Promise (The recorder): Memory pressure for which nobody waited but the program that fills the page cache is no
/// incident.
#[test]
fn pressure_is_an_incident_only_where_somebody_waited() {
    let is_alone = |made: Made| {
        let made = made.trigger(TriggerKind::Pressure, "pressure", 150.0);
        let incident = crate::asked(&made);
        mw_rules::is_pressure_alone(&incident, &made.window)
    };
    let pressed = || Made::on(HEALTHY).pressed(60, 0, 0);
    let streamed = || pressed().floods((4711, "cat"), "/data/file", 200_000);
    let reclaims = |made: Made, task| made.waits(task, WaitKind::DirectReclaim, 500, 40);
    assert!(is_alone(pressed()));
    assert!(is_alone(reclaims(streamed(), (4711, "cat"))));
    assert!(!is_alone(reclaims(reclaims(streamed(), (4711, "cat")), POSTGRES)));
    assert!(!is_alone(pressed().counts(Counter::Allocstall, 5.0)));
    assert!(is_alone(streamed()), "kswapd reclaimed for it");
    assert!(!is_alone(streamed().counts(Counter::Allocstall, 5.0)), "the trace lost who waited");
    let again = |made: Made| made.counts(Counter::WorkingsetRefaultFile, 5000.0);
    assert!(!is_alone(again(pressed())));
    let looped = again(reclaims(streamed(), (4711, "cat")));
    assert!(is_alone(looped.clone()), "the stream reads its own file again");
    let passes = looped.floods((4712, "cat"), "/data/file", 200_000);
    assert!(is_alone(reclaims(passes.clone(), (4712, "cat"))), "a process for each pass");
    let two = passes.floods(POSTGRES, "/data/table", 50_000);
    assert!(!is_alone(two), "others read again what the stream drove out");
    let swapping = reclaims(streamed(), (4711, "cat")).counts(Counter::Pswpin, 5000.0);
    assert!(!is_alone(swapping));
    assert!(!is_alone(pressed().counts(Counter::PgstealFile, 5000.0)), "at the limit of a cgroup");
}

/// A container that reads a file at its limit waits for what it reclaims itself, which is traced; that a task is throttled
/// over memory.high is not.
#[test]
fn a_stream_at_the_limit_of_its_cgroup_is_pressure_alone() {
    let at_limit = || {
        let mut made = Made::on(HEALTHY)
            .pressed(13, 0, 0)
            .floods((184, "dd"), "/mnt/large", 263_168)
            .waits((184, "dd"), WaitKind::CgroupReclaim, 597, 2047)
            .trigger(TriggerKind::Pressure, "pressure", 516.0);
        let group = GroupUse { max_events: Some(1931), ..GroupUse::default() };
        made.incident.groups.push(GroupUse { path: "/app".to_owned(), over_ms: 3607, ..group });
        made
    };
    let is_alone = |made: Made| {
        let incident = crate::asked(&made);
        assert_eq!(incident.causes[0].finding.rule, "cgroup-limit");
        mw_rules::is_pressure_alone(&incident, &made.window)
    };
    let throttled = |task| {
        let stack = ["__mem_cgroup_handle_over_high", "exit_to_user_mode_loop"];
        at_limit().blocked(task, 'D', 8, &stack)
    };
    assert!(is_alone(at_limit()));
    assert!(!is_alone(at_limit().waits(POSTGRES, WaitKind::CgroupReclaim, 600, 300)));
    assert!(is_alone(throttled((184, "dd"))));
    assert!(!is_alone(throttled(POSTGRES)));
    let again = |made: Made| made.counts(Counter::WorkingsetRefaultFile, 60_000.0);
    let pass = again(at_limit()).floods((185, "exe"), "/mnt/large", 229_376);
    assert!(is_alone(pass), "the next pass of a loop, before it executes its program");
}

/// Another semaphore that is taken in a page fault is none that khugepaged holds.
#[test]
fn khugepaged_holds_mmap_lock_alone() {
    let score = |stack: &[&str]| {
        let explanation = crate::asked(&churn_with(stack));
        let cause =
            explanation.causes.iter().find(|cause| cause.finding.rule == "khugepaged-churn");
        cause.map_or(0, mw_model::Cause::score)
    };
    let waits = score(&["rwsem_down_read_slowpath", "lock_mm_and_find_vma"]);
    let other = score(&["rwsem_down_read_slowpath", "down_read", "filemap_fault", "__do_fault"]);
    let without_semaphore = score(&["vm_mmap_pgoff", "ksys_mmap_pgoff"]);
    assert!(other < waits, "{other} {waits}");
    assert_eq!(without_semaphore, waits, "/proc/PID/stack omits the scheduler's functions");
}

fn killed() -> Made {
    Made::on("oom-kill/quiet")
        .trigger(TriggerKind::Probe, "postgres-5432", 900.0)
        .failed("connection reset by peer")
        .counts(Counter::OomKill, 1.2)
        .waits(POSTGRES, WaitKind::Oom, 500, 1)
}

fn shrinking() -> Made {
    Made::on("slab-bloat/firing")
        .shifts("shrink_slab", 0.0, 22.0)
        .shifts("prune_dcache_sb", 0.0, 18.0)
        .blocked(POSTGRES, 'D', 8, &["shrink_dentry_list", "prune_dcache_sb", "shrink_slab"])
}

/// Conditions that were there before, and that explain why programs had to reclaim.
fn latent() -> Vec<Stall> {
    let storms = [
        ("hugepage-hoard", "hugepage-hoard/firing"),
        ("min-free-too-low", "min-free-too-low/firing"),
        ("min-free-too-high", "min-free-too-high/firing"),
        ("slab-bloat", "slab-bloat/firing"),
        ("unreclaimable-ramfs", "unreclaimable-ramfs/firing"),
        ("unreclaimable-ramfs", "unreclaimable-ramfs/firing-tmpfs"),
    ];
    storms.map(|(rule, fixture)| is(fixture, storm(fixture), rule, &["reclaim-storm"])).into()
}

/// Requests that were refused.
fn refused() -> Vec<Stall> {
    let full = Made::on("tmpfs-full/firing")
        .failed("could not resize shared memory segment: No space left on device");
    let strict = Made::on("overcommit-refusal/firing")
        .failed("could not fork new process for connection: Cannot allocate memory");
    vec![
        is("tmpfs-full", full, "tmpfs-full", &[]),
        is("overcommit-refusal", strict, "overcommit-refusal", &[]),
    ]
}

/// A stall that memory did not cause.
pub(crate) struct Decoy {
    pub(crate) name: &'static str,
    pub(crate) made: Made,
    pub(crate) rule: &'static str,
    /// A part of the verdict.
    pub(crate) says: &'static str,
}

/// Stalls that memory did not cause, on the machine of a fixture.
pub(crate) fn decoys(fixture: &str) -> [Decoy; 6] {
    let decoy = |name, made, rule, says| Decoy { name, made, rule, says };
    let stopped = Made::on(fixture).blocked(POSTGRES, 'T', 9, &["do_signal_stop"]);
    let mut frozen = Made::on(fixture);
    let db = "/system.slice/db.service".to_owned();
    frozen.incident.groups =
        vec![GroupUse { path: db, of_service: true, frozen: true, ..GroupUse::default() }];
    let hung = Made::on(fixture).pressed(0, 88, 2).hangs("sdb", 0..8200).blocked(
        POSTGRES,
        'D',
        8,
        &["io_schedule", "submit_bio_wait", "ext4_sync_file"],
    );
    [
        decoy("cpu-hog", cpu_hog(fixture), "cpu-contention", "stress used most of the CPU time"),
        decoy("slow-disk", slow_disk(fixture), "slow-disk", "the disk sdb was slow"),
        decoy("hung-device", hung, "hung-device", "the disk sdb completed nothing"),
        decoy("stopped", stopped, "stopped-process", "postgres (812) was stopped"),
        decoy("frozen", frozen, "frozen-cgroup", "db.service was frozen"),
        decoy(
            "network",
            Made::on(fixture),
            "network-or-service",
            "the network or the service itself was slow",
        ),
    ]
}

/// Both halves of the canary are late alike.
fn cpu_hog(fixture: &str) -> Made {
    let mut made = Made::on(fixture)
        .canary(190_000, 180_000)
        .pressed(0, 0, 85)
        .counts(Counter::Pgfault, 5000.0)
        .uses((1, "init"), 20, 0);
    for pid in 0..8 {
        made = made.uses((2000 + pid, "stress"), 3900, 0);
    }
    made
}

/// Everybody who syncs waits; there is some writeback, and no reclaim.
fn slow_disk(fixture: &str) -> Made {
    Made::on(fixture)
        .pressed(0, 88, 2)
        .disk("sdb", 99)
        .waits(POSTGRES, WaitKind::DirtyThrottle, 60, 2)
        .blocked(POSTGRES, 'D', 8, &["jbd2_log_wait_commit", "ext4_sync_file", "do_fsync"])
        .counts(Counter::Pgpgout, 400.0)
}

/// The lock is taken after the page was allocated: `khugepaged/defrag` does not shorten it.
#[test]
fn khugepaged_that_holds_the_lock_by_default_is_to_scan_less_often() {
    let made = Made::on(HEALTHY).shifts("khugepaged", 0.2, 24.0).blocked(
        (812, "postgres"),
        'D',
        8,
        &["rwsem_down_read_slowpath", "lock_mm_and_find_vma"],
    );
    let mut incident = made.incident.clone();
    mw_rules::explain(&mut incident, &made.window, made.calm.as_ref());
    let all = incident.causes.into_iter().chain(incident.contributed);
    let cause = all.into_iter().find(|cause| cause.finding.rule == "khugepaged-churn").unwrap();
    let steps = format!("{:?}", cause.finding.remedy.unwrap().steps);
    assert!(steps.contains("scan_sleep_millisecs") && !steps.contains("defrag"), "{steps}");
}
