//! Floods of the page cache, told from disks that are slow, writers that sync, and programs that allocate.

use crate::made::Made;
use crate::paths::{GROUP, TOTAL_MS, explained, first_rule, made, task, with_group};
use mw_critical_path::{PathPart, PathTask, TimeKind, Wait};
use mw_model::{GroupIo, GroupUse, Service, ServiceProcess, Snapshot, TriggerKind, WaitKind};
use mw_proc::vmstat::Counter;

/// The canary's page faults and wake-ups do not wait there, and the kernel does not count it as waiting for memory.
///
/// Promise (Tracing: why): Writers that were throttled for what they made dirty explain a late answer alone, no
/// memory pressure, canary or wake-up.
#[test]
fn a_throttled_writer_explains_a_late_answer_but_no_memory_pressure() {
    let is_cause = |kind, name| {
        let made = Made::on("dirty-throttle/firing").trigger(kind, name, 150.0).pressed(80, 70, 0);
        let made = made.waits((478, "tablespace"), WaitKind::DirtyThrottle, 7000, 40);
        explained(&made).causes.iter().any(|cause| cause.finding.rule == "dirty-throttle")
    };
    assert!(is_cause(TriggerKind::Probe, "postgres-5432"));
    assert!(is_cause(TriggerKind::Requested, "requested"));
    let [pressure, canary, heartbeat, killed] = [
        (TriggerKind::Pressure, "pressure"),
        (TriggerKind::Canary, "canary"),
        (TriggerKind::Heartbeat, "heartbeat"),
        (TriggerKind::OomKill, "oom-kill"),
    ]
    .map(|(kind, name)| is_cause(kind, name));
    assert_eq!([pressure, canary, heartbeat, killed], [false; 4]);
}

/// The machine did not answer while it stalled: only what the recorder samples all the time is known.
#[test]
fn a_limit_whose_setting_was_not_read_is_a_cause_that_nothing_is_written_for() {
    let mut made = Made::on("dirty-limit-too-high/firing")
        .trigger(TriggerKind::Pressure, "pressure", 150.0)
        .dirty(20_000, 4000)
        .pressed(88, 80, 5)
        .waits((812, "postgres"), WaitKind::DirectReclaim, 4300, 900)
        .counts(Counter::PgscanDirect, 2_000_000.0)
        .counts(Counter::Allocstall, 180.0);
    let sample = made.window.now.sample.clone();
    let page_bytes = made.window.now.origin.page_bytes;
    made.window.now = Snapshot { sample, ..Snapshot::default() };
    made.window.now.origin.page_bytes = page_bytes;
    let cause = explained(&made).causes.swap_remove(0).finding;
    assert_eq!(
        (cause.rule.as_str(), cause.subject.to_string().as_str()),
        ("dirty-limit-too-high", "dirty pages")
    );
    let remedy = format!("{:?}", cause.remedy);
    assert!(remedy.contains("vm.dirty_bytes") && !remedy.contains("Write"), "{remedy}");
}

/// A program reads a large file, while the request waits for the disk to write.
#[test]
fn pages_that_are_only_read_do_not_hold_up_a_write() {
    let reads = |made: Made| {
        made.floods((4711, "cat"), "/data/file", 200_000).counts(Counter::PgscanFile, 150_000.0)
    };
    let first = |made: &Made| {
        let cause = explained(made).causes.into_iter().next();
        cause.map(|cause| cause.finding.rule)
    };
    let writes = made(&[(TimeKind::Waiting(Wait::Writeback), 98)]);
    assert_eq!(first(&reads(writes)).as_deref(), Some("slow-disk"));
    let reclaims = made(&[(TimeKind::Waiting(Wait::DirectReclaim), 98)]);
    assert_eq!(first(&reads(reclaims)).as_deref(), Some("page-cache-flood"));
}

/// Pages that are swapped out are under writeback, and no file's.
///
/// Promise (Tracing: why): A request that waits for pages to be swapped out is not attributed to buffered I/O.
#[test]
fn pages_on_their_way_to_swap_are_no_flood() {
    let first = |function: &str| {
        let mut made = made(&[(TimeKind::Waiting(Wait::DirectReclaim), 98)])
            .level("nr_dirty", 0, 0)
            .level("nr_writeback", 0, 200 << 10)
            .level("nr_free_pages", 0, 0)
            .level("nr_active_file", 0, 0)
            .level("nr_inactive_file", 200 << 10, 200 << 10)
            .counts(Counter::PgscanDirect, 100_000.0);
        let part = &mut made.incident.path.as_mut().unwrap().parts[0];
        part.stack = ["io_schedule", "rq_qos_wait", function, "shrink_folio_list"]
            .map(str::to_owned)
            .to_vec();
        explained(&made).causes.into_iter().next().map(|cause| cause.finding.rule)
    };
    assert_eq!(first("ext4_writepages").as_deref(), Some("page-cache-flood"));
    assert_ne!(first("swap_writepage").as_deref(), Some("page-cache-flood"));
}

/// The remedy of a flood says "writer" only where somebody writes.
#[test]
fn the_remedy_of_a_flood_is_for_what_fills_the_page_cache() {
    let remedy = |dirtied_per_s: f64| {
        let made = made(&[(TimeKind::Waiting(Wait::DirectReclaim), 98)])
            .floods((4711, "dd"), "/data/file", 200_000)
            .counts(Counter::PgscanDirect, 100_000.0)
            .counts(Counter::PgscanFile, 150_000.0)
            .counts(Counter::NrDirtied, dirtied_per_s);
        let cause = explained(&made).causes.swap_remove(0).finding;
        assert_eq!(cause.rule, "page-cache-flood");
        format!("{:?}", cause.remedy.unwrap())
    };
    let (of_reads, of_writes) = (remedy(10.0), remedy(90_000.0));
    assert!(of_reads.contains("reader") && of_reads.contains("--direct-io-reads"), "{of_reads}");
    assert!(!of_reads.contains("writer"), "{of_reads}");
    assert!(of_writes.contains("writer") && !of_writes.contains("reader"), "{of_writes}");
}

/// Bytes that a cgroup wrote to a disk.
pub(crate) fn wrote(path: &str, device: &str, written_bytes: u64) -> GroupUse {
    let io = GroupIo { device: device.to_owned(), written_bytes, ..GroupIo::default() };
    let over_ms = TOTAL_MS;
    GroupUse { path: path.to_owned(), over_ms, io: vec![io], ..GroupUse::default() }
}

/// A request that waits for writeback, with so many dirty pages.
fn waits_for_writeback(dirty_pages: u64) -> Made {
    made(&[(TimeKind::Waiting(Wait::Writeback), 98)]).dirty(dirty_pages, 0)
}

/// Promise (Tracing: why): A backlog that another cgroup wrote to the service's disk is a flood; pages that are only
/// read are not.
#[test]
fn a_backlog_that_another_cgroup_wrote_to_the_same_disk_is_a_flood() {
    let first = |device: &str, own_bytes, dirty_pages| {
        let own = GroupUse { of_service: true, ..wrote(GROUP, "sda", own_bytes) };
        let mut made = with_group(waits_for_writeback(dirty_pages), own);
        made.incident.groups.push(wrote("/writer", device, 40 << 20));
        explained(&made).causes[0].finding.clone()
    };
    let flood = first("sda", 49_152, 16 << 10);
    assert_eq!(flood.rule, "page-cache-flood", "{}", flood.headline);
    assert!(flood.headline.contains("cgroup /writer wrote"), "{}", flood.headline);
    assert_eq!(first("sda", 0, 16 << 10).rule, "page-cache-flood", "nothing of its own meanwhile");
    assert_eq!(first("sdb", 49_152, 16 << 10).rule, "slow-disk", "another disk");
    assert_eq!(first("sda", 49_152, 1 << 10).rule, "slow-disk", "no backlog");
}

/// Promise (Blame): Who writes to a disk that the service only used before, while it waits for another, is not to blame.
#[test]
fn a_disk_that_the_service_does_not_use_meanwhile_is_none_of_its_disks() {
    let first = |own_bytes| {
        let mut own = GroupUse { of_service: true, ..wrote(GROUP, "loop0", own_bytes) };
        own.io.push(GroupIo { device: "vda".to_owned(), ..GroupIo::default() });
        let mut made = with_group(waits_for_writeback(1 << 10), own);
        made.incident.groups.push(wrote("/disk", "vda", 40 << 20));
        explained(&made).causes[0].finding.headline.clone()
    };
    assert_eq!(first(49_152), "the disk was slow");
    assert_eq!(first(0), "cgroup /disk kept the disk busy", "neither is known to be its disk");
}

/// Promise (Blame): What a cgroup above the service is charged with is neither the service's nor another's alone.
#[test]
fn the_writes_of_a_cgroup_above_the_service_are_not_its_own() {
    let first = |own_bytes, other_bytes, is_known| {
        let own = GroupUse { of_service: is_known, ..wrote(GROUP, "sda", own_bytes) };
        let mut made = with_group(waits_for_writeback(16 << 10), own);
        if is_known {
            made = made.served_by((812, "postgres"));
        }
        for (path, bytes) in
            [("/system.slice", own_bytes + other_bytes), ("/system.slice/writer", other_bytes)]
        {
            made.incident.groups.push(wrote(path, "sda", bytes));
        }
        explained(&made).causes[0].finding.headline.clone()
    };
    for is_known in [false, true] {
        let flood = first(49_152, 40 << 20, is_known);
        assert!(flood.starts_with("cgroup /system.slice/writer wrote"), "{flood}");
        assert_eq!(first(40 << 20, 49_152, is_known), "the disk was slow");
    }
    let mut made =
        with_group(waits_for_writeback(16 << 10), wrote("/system.slice", "sda", 40 << 20));
    made.incident.groups.push(wrote("/system.slice/writer", "sda", 40 << 20));
    let flood = &explained(&made).causes[0].finding.headline;
    assert!(
        flood.starts_with("cgroup /system.slice/writer wrote"),
        "the service did nothing: {flood}"
    );
}

/// A command asks the service, so that nobody says which one it is, and the journal's thread has most of the time.
///
/// Promise (Tracing: why): A flood is found where nobody says which cgroup the service has, and where no cgroup is
/// charged with it; a disk that hangs or became slow is none.
#[test]
fn the_disk_of_a_service_that_is_not_known_is_that_of_the_path() {
    let first = |device: &str| {
        let mut made = waits_for_writeback(16 << 10);
        let path = made.incident.path.as_mut().unwrap();
        path.parts[0].kind = TimeKind::Waiting(Wait::Journal);
        path.parts[0].task = PathTask { cgroup: Some("/".to_owned()), ..task(190, "jbd2/sda-8") };
        let mut made = with_group(made, wrote(GROUP, "sda", 0));
        made.incident.groups.push(wrote("/writer", device, 40 << 20));
        first_rule(&made)
    };
    assert_eq!(first("sda"), "page-cache-flood");
    assert_eq!(first("sdb"), "journal-commit");
}

/// So many pages are dirty, and the disk completes so many bytes in the row at a time.
pub(crate) fn flooded(dirty_pages: u64, bytes_at: impl Fn(i64) -> u64) -> Made {
    let own = GroupUse { of_service: true, ..wrote(GROUP, "sda", 0) };
    let mut made = with_group(waits_for_writeback(dirty_pages), own).writes("sda", bytes_at);
    made.incident.groups.push(wrote("/writer", "sda", 40 << 20));
    made
}

#[test]
fn a_disk_that_hangs_or_became_slow_is_no_flood() {
    let busy = |at: i64| if at > 0 { 1 << 20 } else { 100 << 10 };
    let many = 20 << 10;
    assert_eq!(first_rule(&flooded(many, busy)), "page-cache-flood");
    let in_batches = |at: i64| if at % 800 < 100 { 8 << 20 } else { 0 };
    assert_eq!(first_rule(&flooded(many, in_batches)), "page-cache-flood");
    let hangs = |at: i64| if (0..8000).contains(&at) { 0 } else { 4 << 20 };
    assert_eq!(first_rule(&flooded(many, hangs)), "slow-disk", "it hangs");
    assert_eq!(first_rule(&flooded(many, |_| 500 << 10)), "page-cache-flood", "too much is dirty");
    let few = 3 << 10;
    assert_eq!(first_rule(&flooded(few, |_| 500 << 10)), "slow-disk", "it wrote as much before");
    assert_eq!(first_rule(&flooded(many, |_| 5 << 20)), "slow-disk", "it keeps up");
}

/// What another program syncs over and over is under writeback, whatever else has been dirty all the time.
///
/// Promise (Tracing: why): Programs that sync what they write are no flood, and neither is a file that was read
/// before programs allocated more.
#[test]
fn programs_that_sync_what_they_write_are_no_flood() {
    let first = |dirty: (u64, u64), writeback: u64| {
        let made = flooded(0, |at| if at > 0 { 400 << 10 } else { 100 << 10 });
        let made = made.level("nr_dirty", dirty.0, dirty.1).level("nr_writeback", 0, writeback);
        first_rule(&made)
    };
    assert_eq!(first((1 << 10, 1 << 10), 2 << 10), "slow-disk");
    assert_eq!(first((1 << 10, 3 << 10), 0), "page-cache-flood");
}

/// What a writer has dirtied since its last fsync is not yet under writeback.
///
/// Promise (Tracing: why): A writer that waits in fsync most of the time is no flood, unless more piles up than the
/// disk writes in 5 s.
#[test]
fn a_writer_in_fsync_is_no_flood_until_much_piles_up() {
    const SYNC: &[&str] = &["folio_wait_writeback", "file_write_and_wait_range", "ext4_sync_file"];
    let first = |group: &str, seen, dirty| {
        let made = flooded(0, |at| if at > 0 { 400 << 10 } else { 100 << 10 });
        let mut made = made.level("nr_dirty", 0, dirty).level("nr_writeback", 0, 4 << 10);
        made.incident.cgroups.insert(4000, group.to_owned());
        first_rule(&made.blocked((4000, "load"), 'D', seen, SYNC))
    };
    assert_eq!(first("/writer", 8, 2 << 10), "slow-disk");
    assert_eq!(first("/writer", 3, 2 << 10), "page-cache-flood", "seldom");
    assert_eq!(first("/other", 8, 2 << 10), "page-cache-flood", "another cgroup than the writer's");
    assert_eq!(first("/writer", 8, 20 << 10), "page-cache-flood", "much piles up");
}

/// A file was read before programs allocated far more.
#[test]
fn who_allocates_more_than_files_bring_is_no_flood() {
    let first = |swapped_out: u64| {
        let made = made(&[(TimeKind::Waiting(Wait::DirectReclaim), 98)]);
        let made = made.floods((4711, "cat"), "/data/file", 60_000).pressed(90, 0, 0);
        first_rule(&made.level("pswpout", 5000, 5000 + swapped_out))
    };
    assert_eq!(first(0), "page-cache-flood");
    assert_eq!(first(90_000), "reclaim-storm");
    // It was killed before the stall was over.
    let held = |at: i64| if (0..3000).contains(&at) { 95_000 } else { 5000 };
    let made = made(&[(TimeKind::Waiting(Wait::DirectReclaim), 98)]);
    let made = made.floods((4711, "cat"), "/data/file", 60_000).pressed(90, 0, 0);
    assert_eq!(first_rule(&made.counter("nr_inactive_anon", held)), "reclaim-storm");
}

/// Version 1 charges the root with what is written back; whose pages they are the tracepoint of the page cache says.
#[test]
fn a_flood_that_no_cgroup_is_charged_with_is_found_by_its_program() {
    let busy = |at: i64| if at > 0 { 1 << 20 } else { 0 };
    let first = |pid, pages, own_bytes| {
        let own = GroupUse { of_service: true, ..wrote(GROUP, "sda", own_bytes) };
        let mut made = with_group(waits_for_writeback(20 << 10), own).writes("sda", busy);
        made.incident.groups.push(wrote("/", "sda", 80 << 20));
        made.incident.service = Some(Service {
            processes: vec![ServiceProcess { pid: 812, name: "postgres".to_owned() }],
            ..Service::default()
        });
        first_rule(&made.floods((pid, "tar"), "/data/backup.tar", pages))
    };
    assert_eq!(first(99, 16 << 10, 0), "page-cache-flood");
    let by_journal = |journal: &str| {
        let mut made = waits_for_writeback(20 << 10).writes("sda", busy);
        let path = made.incident.path.as_mut().unwrap();
        path.parts.push(PathPart { task: task(190, journal), ..path.parts[0].clone() });
        first_rule(&made.floods((99, "tar"), "/data/backup.tar", 16 << 10))
    };
    assert_eq!(by_journal("jbd2/sda-8"), "page-cache-flood", "no disk of the service is known");
    assert_eq!(by_journal("jbd2/sdb-8"), "slow-disk");
    assert_eq!(first(99, 1 << 7, 0), "slow-disk", "too little");
    assert_eq!(first(812, 16 << 10, 0), "slow-disk", "its own pages");
    assert_eq!(first(99, 16 << 10, 70 << 20), "slow-disk", "its own cgroup is charged");
}

/// A proxy asks a service that reads a file of its own, while another program floods another disk.
#[test]
fn what_a_service_reads_for_the_request_is_no_flood() {
    let found = |reader: u32| {
        let wait = (TimeKind::Waiting(Wait::Journal), 2);
        let mut made = made(&[(TimeKind::Waiting(Wait::FileRead), 94), wait]).dirty(20 << 10, 0);
        let path = made.incident.path.as_mut().unwrap();
        path.parts[0].task =
            PathTask { process: 99, cgroup: Some("/app".to_owned()), ..task(99, "serve") };
        let own = GroupUse { of_service: true, ..wrote(GROUP, "sda", 0) };
        let mut made = with_group(made, own).writes("sda", |at| if at > 0 { 1 << 20 } else { 0 });
        let mut app = wrote("/app", "sda", 0);
        app.io[0].read_bytes = 8 << 20;
        made.incident.groups.extend([app, wrote("/", "sda", 80 << 20)]);
        made.incident.service = Some(Service {
            processes: vec![ServiceProcess { pid: 812, name: "nginx".to_owned() }],
            ..Service::default()
        });
        let made = made.floods((reader, "serve"), "/data/app", 16 << 10);
        explained(&made.disk("sda", 80).disk("sdb", 100)).causes[0].finding.clone()
    };
    let slow = found(99);
    assert_eq!(slow.rule, "slow-disk", "{}", slow.headline);
    assert!(slow.headline.contains("the disk sda was slow"), "{}", slow.headline);
    assert_eq!(found(4711).rule, "page-cache-flood", "another program");
}
