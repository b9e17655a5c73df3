//! Random faults: cancelled calls and killed programs leave nothing behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{
    MIB, Random, assert_resources, assert_shmem_returns, child, field, options, resources, value,
};
use mw_segment::{Cancel, Error, PageSize, SegmentKind};
use mw_test::{HugePages, alone};
use std::fs;
use std::time::{Duration, Instant};

/// The maximum number of rounds; `MW_FAULT_SECONDS=600` is enough time for all.
const ROUNDS: usize = 1_000;
const BUDGET_SECONDS: u64 = 12;

fn budget() -> Duration {
    let given = std::env::var("MW_FAULT_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(BUDGET_SECONDS))
}

/// Resources of this process that a failed call could leave.
#[derive(Debug, PartialEq, Eq)]
struct ProcessResources {
    files: usize,
    threads: u64,
    locked: u64,
    address_mib: u64,
}

fn own_resources() -> ProcessResources {
    ProcessResources {
        files: fs::read_dir("/proc/self/fd").unwrap().count(),
        threads: fs::read_dir("/proc/self/task").unwrap().count() as u64,
        locked: field("/proc/self/status", "VmLck"),
        // The allocator keeps arenas for threads; a segment is larger.
        address_mib: field("/proc/self/status", "RssAnon") >> 24,
    }
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

/// Promise (Segments): A call that is cancelled at any moment frees everything.
#[test]
fn cancelled_at_any_moment_everything_is_freed() {
    let _alone = alone();
    let _pool = HugePages::more(2 * MIB, 64);
    let (mut random, start) = (Random::new(), Instant::now());
    let (before, shmem) = (resources(), field("/proc/meminfo", "Shmem"));
    drop(options(SegmentKind::Anon, PageSize::Base, 8 * MIB).create().unwrap());
    let own_before = own_resources();
    let (mut cancelled, mut created) = (0, 0);
    for _ in 0..ROUNDS {
        if start.elapsed() > budget() {
            break;
        }
        let cancel = Cancel::new();
        let kind = pick(&mut random, &SegmentKind::ALL);
        let page = pick(
            &mut random,
            &[
                Some(PageSize::Base),
                Some(PageSize::Base),
                Some(PageSize::Thp),
                Some(PageSize::HUGE_2M),
                None,
            ],
        );
        let bytes = (1 + random.below(128) as usize) * MIB;
        let options = options(kind, page, bytes)
            .locked(random.below(2) == 0)
            .workers(1 + random.below(6) as usize)
            .cancel(&cancel);
        let after = Duration::from_micros(random.below(40_000));
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                // A random moment.
                std::thread::sleep(after);
                cancel.cancel();
            });
            options.create()
        });
        match result {
            Ok(_) => created += 1,
            Err(Error::Cancelled { .. }) => cancelled += 1,
            Err(Error::NoSuchPages { .. } | Error::Invalid(_) | Error::Fragmented { .. }) => {}
            Err(Error::Short(_)) if page == Some(PageSize::HUGE_2M) => {}
            Err(error) => panic!("{kind} {page:?}: {error}"),
        }
    }
    eprintln!("{cancelled} cancelled, {created} created");
    assert!(cancelled > 20, "{cancelled} cancelled, {created} created");
    assert_resources(before, "cancelled");
    // The kernel removes a joined thread from /proc shortly after the join; there is no event for it.
    for _ in 0..300 {
        if own_resources().threads <= own_before.threads {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let own_after = own_resources();
    assert_eq!((own_after.files, own_after.locked), (own_before.files, own_before.locked));
    assert!(own_after.threads <= own_before.threads, "{own_after:?}");
    assert!(own_after.address_mib <= own_before.address_mib + 1, "{own_after:?}");
    assert_shmem_returns(shmem, 64 << 20);
}

/// Promise (Segments): A program that is killed at any moment leaves nothing behind.
#[test]
fn a_program_killed_at_any_moment_leaves_nothing() {
    let _alone = alone();
    let _pool = HugePages::more(2 * MIB, 64);
    let (mut random, start) = (Random::new(), Instant::now());
    let (before, shmem) = (resources(), field("/proc/meminfo", "Shmem"));
    let mut kills = 0;
    while kills < ROUNDS && start.elapsed() < budget() {
        let kinds = [
            SegmentKind::Ism,
            SegmentKind::Dism,
            SegmentKind::Memfd,
            SegmentKind::Hugetlb,
            SegmentKind::Anon,
        ];
        let kind = pick(&mut random, &kinds);
        let limit_mib = pick(&mut random, &[8, 64, 1 << 20]);
        let mut child = child("killed_child", &format!("{kind} {limit_mib}"))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // A random moment.
        std::thread::sleep(Duration::from_micros(5_000 + random.below(60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert_resources(before, kind.name());
    }
    eprintln!("{kills} kills");
    assert!(kills > 20);
    assert_shmem_returns(shmem, 64 << 20);
}

#[test]
#[ignore = "run by a_program_killed_at_any_moment_leaves_nothing"]
fn killed_child() {
    let Some(value) = value() else { return };
    let (kind, limit_mib) = value.split_once(' ').unwrap();
    let kind: SegmentKind = kind.parse().unwrap();
    let page = if kind == SegmentKind::Hugetlb { PageSize::HUGE_2M } else { PageSize::Base };
    mw_sys::drop_capability(mw_sys::Capability::IpcLock).unwrap();
    mw_sys::set_memlock_limit_bytes(limit_mib.parse::<u64>().unwrap() << 20).unwrap();
    loop {
        drop(options(kind, page, 96 * MIB).locked(true).create());
        drop(options(kind, page, 16 * MIB).locked(true).create());
    }
}
