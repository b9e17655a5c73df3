//! Made-up incidents: a plausible one, and one whose every name is hostile.

use mw_critical_path::{
    PathPart, PathSummary, PathTask, RunMode, TimeKind, UserPlace, Wait, WaitLink,
};
use mw_model::{
    BlockedTask, Cause, Column, Delays, FailureKind, Finding, FloodShare, Host, INCIDENT_SCHEMA,
    Incident, KernelWait, Missing, NO_VALUE, Profile, Quantity, Remedy, Role, Severity, Shift,
    Stack, Step, Subject, Table, TaskUse, Trigger, TriggerKind, WaitKind,
};

const STARTED_UNIX_MS: u64 = 1_790_072_343_400;
const BEFORE_MS: u64 = 60_000;
const STALL_MS: u64 = 8_200;
const AFTER_MS: u64 = 20_000;

/// A database that stalled for 8 seconds in compaction.
pub(crate) fn compaction() -> Incident {
    Incident {
        schema: INCIDENT_SCHEMA,
        id: 17,
        host: Host {
            name: "db-17".to_owned(),
            kernel: "6.12.43+deb13-amd64".to_owned(),
            memwright: "0.1.0".to_owned(),
            cpus: 16,
            memory_bytes: 128 << 30,
            page_bytes: 4096,
        },
        trigger: Trigger {
            kind: TriggerKind::Probe,
            name: "postgres".to_owned(),
            limit_ms: 500.0,
            worst_ms: 8214.0,
            failure: Some("timed out".to_owned()),
            failure_kind: Some(FailureKind::TimedOut),
        },
        started_unix_ms: STARTED_UNIX_MS,
        seen_unix_ms: STARTED_UNIX_MS + 512,
        ended_unix_ms: STARTED_UNIX_MS + STALL_MS,
        verdict: "postgres did not answer for 8.2 s: its page faults waited for the kernel to \
                  compact memory for transparent huge pages"
            .to_owned(),
        path: Some(path()),
        causes: causes(),
        table: table(),
        baseline: Some(profile(20, 3_600_000, BASELINE)),
        profile: Some(profile(999, STALL_MS, DURING)),
        difference: difference(),
        waits: waits(),
        blocked: blocked(),
        tasks: tasks(),
        flood: flood(),
        cgroups: [(2114, "/system.slice/postgresql.service".to_owned())].into(),
        suffering: vec![role(2114, "postgres", "waited 6.9 s in compaction, 412 times")],
        causing: vec![
            role(98, "khugepaged", "compacted node 0 from 3 s before the stall to its end"),
            role(3310, "pg_basebackup", "brought 1.4 GiB into the page cache"),
        ],
        lost_records: 31,
        unseen: vec![
            Missing::absent("taskstats", "delay accounting is off; boot with delayacct"),
            Missing::skipped(
                "/proc/PID/stack",
                "needs CAP_SYS_ADMIN; add it to the service's AmbientCapabilities",
            ),
        ],
        ..Incident::default()
    }
}

/// nginx waited for a backend, which compacted memory.
fn path() -> PathSummary {
    let task = |tid, name: &str| PathTask {
        tid,
        name: name.to_owned(),
        process: tid,
        cgroup: Some("/system.slice/postgresql.service".to_owned()),
        ..PathTask::default()
    };
    let (probe, backend) = (task(811, "memwright"), task(2114, "postgres"));
    let part = |kind, total_ms: u64| PathPart {
        kind,
        total_ns: total_ms * 1_000_000,
        task: backend.clone(),
        inferred: false,
        holder: None,
        holders: Vec::new(),
        work: None,
        stack: vec!["compact_zone".to_owned(), "try_to_compact_pages".to_owned()],
        waker_stack: Vec::new(),
        user: UserPlace::default(),
    };
    let link = WaitLink {
        waiter: probe.clone(),
        wait: Wait::Socket,
        other: backend.clone(),
        inferred: true,
        stack: Vec::new(),
        user: UserPlace::default(),
    };
    PathSummary {
        task: probe,
        total_ns: 8_214_000_000,
        parts: vec![
            part(TimeKind::Running(RunMode::In(Wait::Compaction)), 6_900),
            part(TimeKind::Waiting(Wait::DirectReclaim), 1_200),
        ],
        rest_ns: 114_000_000,
        chain: vec![link],
        ..PathSummary::default()
    }
}

fn role(pid: u32, task: &str, why: &str) -> Role {
    Role { pid, task: task.to_owned(), why: why.to_owned() }
}

fn causes() -> Vec<Cause> {
    let defrag = "/sys/kernel/mm/transparent_hugepage/defrag";
    let compaction = Finding {
        rule: "thp-compaction".to_owned(),
        ..Finding::new(
            Severity::Critical,
            Subject::Zone { node: 0, zone: "Normal".to_owned() },
            "tasks compacted memory themselves 1,046 times in 8.2 s and failed 1,045 times; no free \
             block of 2 MiB was left",
        )
    }
    .with_evidence("compact_stall", Quantity::Count(1046), "/proc/vmstat")
    .with_evidence("compact_fail", Quantity::Count(1045), "/proc/vmstat")
    .with_evidence("processor time in compact_zone", Quantity::Percent(61.3), "kernel profile")
    .with_evidence("processor time in compact_zone before", Quantity::Percent(0.2), "baseline of 10:00")
    .with_evidence("longest wait of a task", Quantity::Milliseconds(1904.0), "compaction tracepoints")
    .with_evidence("unusable free space at order 9", Quantity::Ratio(0.98), "/proc/buddyinfo")
    .with_evidence("defrag", Quantity::Text("always".to_owned()), defrag)
    .with_impact("Every fault in a huge page's range makes its task compact memory before it goes on.")
    .with_remedy(Remedy::automatic(
        "let huge pages wait for memory, not tasks",
        vec![Step::write(defrag, "defer+madvise")],
    ));
    let flood = Finding {
        rule: "page-cache-flood".to_owned(),
        ..Finding::new(
            Severity::Warning,
            Subject::Mount("/var/backups/base.tar".to_owned()),
            "pg_basebackup brought 1.4 GiB into the page cache in the minute before",
        )
    }
    .with_evidence(
        "pages by pg_basebackup",
        Quantity::Bytes(1_503_238_553),
        "page cache tracepoint",
    )
    .with_impact(
        "Free memory is used up by pages that nobody reads again, and what is left is in pieces.",
    )
    .with_remedy(Remedy::named(
        "write it past the page cache",
        vec![
            Step::manual("memwright iotune set /var/backups discovered_direct_iosz=128k"),
            Step::manual("memwright run --direct-io 128k -- pg_basebackup -D /var/backups"),
        ],
    ));
    let cause = Cause::new;
    vec![cause(compaction, 92), cause(flood, 38)]
}

/// How far into the stall a time is, from 0 to 1; outside there is none.
fn depth(at_ms: i64) -> f64 {
    let at = at_ms as f64 / STALL_MS as f64;
    if (0.0..1.0).contains(&at) { (at * std::f64::consts::PI).sin().sqrt() } else { 0.0 }
}

fn is_stall(at_ms: i64) -> bool {
    (0..STALL_MS as i64).contains(&at_ms)
}

/// Noise that is the same every time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 40) as f64 / (1_u64 << 24) as f64
    }

    fn around(&mut self, value: f64) -> u64 {
        (value * (0.6 + 0.8 * self.next())) as u64
    }
}

/// A counter that grows at a rate.
#[derive(Default)]
struct Counter(f64);

impl Counter {
    fn grow(&mut self, per_s: f64) -> u64 {
        self.0 += per_s / 10.0;
        self.0 as u64
    }
}

/// What the machine says at one time, column by column.
fn row(at_ms: i64, noise: &mut Noise, counters: &mut [Counter; 14]) -> Vec<(String, u64)> {
    let stall = depth(at_ms);
    let deep = stall > 0.0;
    let mut row: Vec<(String, u64)> = Vec::new();
    let mut put = |name: &str, value: u64| row.push((name.to_owned(), value));
    let mut rates = counters.iter_mut();
    let mut counter = |per_s: f64| rates.next().map_or(0, |counter| counter.grow(per_s));
    put("vmstat.pgscan_kswapd", counter(if at_ms > -9000 { 9000.0 * (stall + 0.2) } else { 0.0 }));
    put("vmstat.pgscan_direct", counter(42_000.0 * stall * noise.next()));
    put("vmstat.allocstall", counter(160.0 * stall * noise.next()));
    put("vmstat.compact_stall", counter(127.0 * stall));
    put("vmstat.compact_fail", counter(126.0 * stall));
    put("vmstat.pswpin", counter(0.0));
    put("vmstat.pswpout", counter(0.0));
    put("pressure.memory.some.total_us", counter(710_000.0 * stall + 900.0 * noise.next()));
    put("pressure.memory.full.total_us", counter(380_000.0 * stall));
    put("pressure.cpu.some.total_us", counter(60_000.0 + 90_000.0 * noise.next()));
    put("pressure.io.some.total_us", counter(40_000.0 * noise.next() + 60_000.0 * stall));
    let nvme = counter(60e6 + 240e6 * noise.next() * f64::from(u8::from(at_ms > -40_000)));
    let sda = counter(2e6 * noise.next());
    put(
        "pressure.memory.some.avg10_centipercent",
        (5100.0 * (at_ms as f64 / 8000.0).clamp(0.0, 1.0)) as u64,
    );
    let free = 2_600_000.0 - 23_000.0 * ((at_ms + 60_000).clamp(0, 62_000) as f64 / 1000.0);
    put("vmstat.nr_free_pages", noise.around(free * 0.1) + (free * 0.7) as u64);
    put("vmstat.nr_file_pages", (18_000_000.0 + (at_ms + 60_000) as f64 * 4.1) as u64);
    put("vmstat.nr_dirty", noise.around(40_000.0 + 30_000.0 * stall));
    put("vmstat.nr_writeback", noise.around(3000.0 + 9000.0 * stall));
    put(
        "probe.postgres.worst_us",
        if is_stall(at_ms) {
            at_ms as u64 * 1000 + 14_000
        } else if at_ms % 1000 == 0 {
            noise.around(900.0)
        } else {
            0
        },
    );
    put("probe.ping.worst_us", if at_ms % 500 == 0 { noise.around(210.0) } else { 0 });
    put("canary.touch_us", noise.around(if deep { 90_000.0 * stall } else { 24.0 }));
    put("canary.idle_us", noise.around(if deep { 40.0 } else { 9.0 }));
    put("canary.late_us", noise.around(if deep { 400.0 } else { 80.0 }));
    let second = at_ms % 1000 == 0;
    put("disk.nvme0n1.written_bytes", if second { nvme } else { NO_VALUE });
    put("disk.sda.written_bytes", if second { sda } else { NO_VALUE });
    put("meminfo.MemAvailable", if second { 61 << 30 } else { NO_VALUE });
    for (node, zone, scale) in [(0, "DMA32", 0.06), (0, "Normal", 1.0), (1, "Normal", 2.4)] {
        for order in 0..11 {
            let fullness = 180_000.0 * scale / f64::from(1 << order);
            let left = match (node, order) {
                (0, 7..) => {
                    (-(at_ms + 26_000) as f64 / 9000.0 / f64::from(order - 6)).clamp(0.0, 1.0)
                }
                (0, _) => 0.8 + 0.2 * noise.next(),
                _ => 0.7 + 0.3 * noise.next(),
            };
            put(&format!("buddy.{node}.{zone}.{order}"), (fullness * left) as u64);
        }
    }
    for order in 0..11 {
        put(&format!("buddy.0.DMA.{order}"), u64::from(order > 8) * 2);
    }
    row
}

fn table() -> Table {
    let (mut noise, mut counters) = (Noise(7), std::array::from_fn(|_| Counter::default()));
    let mut table = Table::default();
    for step in 0..(BEFORE_MS + STALL_MS + AFTER_MS) / 100 {
        let at_ms = step as i64 * 100 - BEFORE_MS as i64;
        let row = row(at_ms, &mut noise, &mut counters);
        if table.columns.is_empty() {
            let column = |(name, _): &(String, u64)| Column { name: name.clone(), values: vec![] };
            table.columns = row.iter().map(column).collect();
        }
        let values: Vec<u64> = row.into_iter().map(|(_, value)| value).collect();
        table.push(STARTED_UNIX_MS.saturating_add_signed(at_ms), &values);
    }
    table
}

const FAULT: &str = "asm_exc_page_fault exc_page_fault do_user_addr_fault handle_mm_fault \
                     __handle_mm_fault";
const COMPACT: &str = "do_huge_pmd_anonymous_page vma_alloc_folio_noprof folio_alloc_mpol_noprof \
                       __alloc_pages_noprof __alloc_pages_slowpath __alloc_pages_direct_compact \
                       try_to_compact_pages compact_zone_order compact_zone";
const SYSCALL: &str = "entry_SYSCALL_64_after_hwframe do_syscall_64";

/// Task, stack and samples; `FAULT` and so on stand for their functions.
const DURING: &[(&str, &str, u64)] = &[
    ("postgres", "FAULT COMPACT isolate_migratepages_block", 31_400),
    ("postgres", "FAULT COMPACT migrate_pages compaction_alloc isolate_freepages", 22_800),
    ("postgres", "FAULT COMPACT migrate_pages migrate_folio_move copy_folio", 6100),
    ("postgres", "FAULT COMPACT isolate_migratepages_block folio_isolate_lru", 3200),
    ("postgres", "FAULT do_anonymous_page clear_page_erms", 1200),
    ("postgres", "SYSCALL __x64_sys_pread64 vfs_read ext4_file_read_iter filemap_read", 900),
    ("postgres", "SYSCALL __x64_sys_epoll_wait do_epoll_wait schedule_hrtimeout_range", 700),
    ("khugepaged", "ret_from_fork kthread khugepaged collapse_huge_page COMPACT", 7900),
    ("kswapd0", "ret_from_fork kthread kswapd balance_pgdat shrink_node shrink_lruvec", 5200),
    ("kcompactd0", "ret_from_fork kthread kcompactd kcompactd_do_work compact_zone", 3900),
    ("pg_basebackup", "SYSCALL __x64_sys_write vfs_write ext4_buffered_write_iter", 2100),
    ("swapper", "secondary_startup_64 start_secondary do_idle cpuidle_idle_call", 9800),
];
const BASELINE: &[(&str, &str, u64)] = &[
    ("postgres", "FAULT do_anonymous_page clear_page_erms", 9000),
    ("postgres", "FAULT COMPACT isolate_migratepages_block", 1400),
    ("postgres", "SYSCALL __x64_sys_pread64 vfs_read ext4_file_read_iter filemap_read", 52_000),
    ("postgres", "SYSCALL __x64_sys_epoll_wait do_epoll_wait schedule_hrtimeout_range", 41_000),
    ("kswapd0", "ret_from_fork kthread kswapd balance_pgdat shrink_node shrink_lruvec", 900),
    ("pg_basebackup", "SYSCALL __x64_sys_write vfs_write ext4_buffered_write_iter", 12_000),
    ("swapper", "secondary_startup_64 start_secondary do_idle cpuidle_idle_call", 640_000),
];

fn profile(hz: u32, span_ms: u64, seen: &[(&str, &str, u64)]) -> Profile {
    let mut profile = Profile { hz, cpus: 16, span_ms, ..Profile::default() };
    for (task, stack, samples) in seen {
        let stack = stack.replace("FAULT", FAULT).replace("COMPACT", COMPACT);
        let stack = stack.replace("SYSCALL", SYSCALL);
        let frames = stack.split_whitespace().map(|name| {
            let known = profile.functions.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                profile.functions.push(name.to_owned());
                profile.functions.len() - 1
            }) as u32
        });
        let frames = frames.collect();
        let task = (*task).to_owned();
        profile.stacks.push(Stack { task, pid: 0, frames, samples: *samples });
    }
    profile
}

fn difference() -> Vec<Shift> {
    let shift = |function: &str, before_percent, during_percent, itself| Shift {
        function: function.to_owned(),
        before_percent,
        during_percent,
        before_self_percent: before_percent / 9.0,
        during_self_percent: itself,
    };
    vec![
        shift("compact_zone", 0.1, 57.8, 0.4),
        shift("__alloc_pages_direct_compact", 0.1, 48.4, 0.0),
        shift("isolate_migratepages_block", 0.1, 26.4, 23.9),
        shift("compaction_alloc", 0.0, 17.4, 0.3),
        shift("isolate_freepages", 0.0, 17.4, 17.4),
        shift("migrate_folio_move", 0.0, 4.7, 0.1),
        shift("shrink_lruvec", 0.1, 4.0, 4.0),
        shift("clear_page_erms", 0.8, 0.9, 0.9),
        shift("ext4_file_read_iter", 4.5, 0.7, 0.1),
        shift("do_idle", 55.5, 7.5, 7.5),
    ]
}

fn waits() -> Vec<KernelWait> {
    let wait = |pid, task: &str, kind, order, count, total_us, max_us| KernelWait {
        pid,
        task: task.to_owned(),
        kind,
        order,
        node: Some(0),
        count,
        total_us,
        max_us,
    };
    vec![
        wait(2114, "postgres", WaitKind::Compaction, Some(9), 412, 6_904_000, 1_904_000),
        wait(2140, "postgres", WaitKind::Compaction, Some(9), 377, 6_120_300, 1_402_000),
        wait(2114, "postgres", WaitKind::DirectReclaim, Some(9), 88, 702_000, 41_000),
        wait(98, "khugepaged", WaitKind::Compaction, Some(9), 31, 590_000, 71_000),
        wait(3310, "pg_basebackup", WaitKind::DirtyThrottle, None, 12, 240_000, 40_000),
    ]
}

fn blocked() -> Vec<BlockedTask> {
    let stack = ["folio_wait_bit_common", "migrate_pages_batch", "migrate_pages", "compact_zone"];
    let stack = stack.map(str::to_owned).to_vec();
    let task = |pid, stack| BlockedTask {
        pid,
        task: "postgres".to_owned(),
        state: 'D',
        stack,
        seen: 61,
        looks: 82,
    };
    vec![task(2114, stack), task(2140, Vec::new())]
}

fn tasks() -> Vec<TaskUse> {
    let delays = Delays { compact_us: 6_900_000, free_pages_us: 702_000, ..Delays::default() };
    let task = |pid, task: &str, user_ms, system_ms, resident_growth_bytes| TaskUse {
        pid,
        task: task.to_owned(),
        user_ms,
        system_ms,
        minor_faults: 91_204,
        major_faults: 12,
        resident_bytes: 34_502_345_678,
        resident_growth_bytes,
        age_ms: Some(86_400_000),
        written_bytes: Some(18_345_984),
        delays: (task == "postgres").then_some(delays),
    };
    vec![
        task(2114, "postgres", 1210, 7410, 412 << 20),
        task(98, "khugepaged", 0, 7900, 0),
        task(71, "kswapd0", 0, 4100, 0),
        task(3310, "pg_basebackup", 340, 2100, -(3 << 20)),
    ]
}

fn flood() -> Vec<FloodShare> {
    let share = |pid, task: &str, path: &str, pages| FloodShare {
        pid,
        task: task.to_owned(),
        path: path.to_owned(),
        device: "nvme0n1".to_owned(),
        pages,
    };
    vec![
        share(3310, "pg_basebackup", "/var/backups/base.tar", 367_001),
        share(2114, "postgres", "/var/lib/postgresql/17/main/base/16384/24601", 18_204),
    ]
}

/// What somebody might call a task, a file or a probe.
pub(crate) const HOSTILE: &str =
    "</script><img src=x onerror=document.title='owned'>\"'`&\u{202e}\u{2028}{{ 7*7 }}";

/// The same incident, with a hostile name in every place.
pub(crate) fn hostile() -> Incident {
    let json = serde_json::to_value(compaction()).unwrap();
    let mut incident: Incident = serde_json::from_value(spoilt(json)).unwrap();
    incident.table = compaction().table;
    incident.table.columns[0].name = format!("disk.{HOSTILE}.written_bytes");
    incident.table.columns[1].name = format!("probe.{HOSTILE}.worst_us");
    incident.table.columns[2].name = format!("buddy.0.{HOSTILE}.3");
    incident.table.columns[3].values.truncate(5);
    let past = incident.table.at_unix_ms[3];
    incident.table.at_unix_ms[9] = past;
    incident.table.at_unix_ms.push(u64::MAX - 1);
    let profile = incident.profile.as_mut().unwrap();
    profile.stacks[0].frames.push(u32::MAX);
    profile.stacks[1].samples = u64::MAX;
    incident.ended_unix_ms = 3;
    incident
}

/// Spoils every text that is not a word of the format.
fn spoilt(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    const WORDS: &[&str] = &[
        "kind",
        "severity",
        "consent",
        "absence",
        "unit",
        "state",
        "wait",
        "basis",
        "failure_kind",
    ];
    match value {
        Value::String(_) => Value::String(HOSTILE.to_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(spoilt).collect()),
        Value::Object(fields) => {
            let spoil = |(name, value): (String, Value)| match WORDS.contains(&name.as_str()) {
                true => (name, value),
                false => (name, spoilt(value)),
            };
            Value::Object(fields.into_iter().map(spoil).collect())
        }
        other => other,
    }
}
