//! Every kind with every page size that the machine supports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, assert_resources, assert_shmem_returns, field, options, resources};
use mw_segment::{Error, Limit, NumaPolicy, PageSize, Phase, Placement, SegmentKind};
use mw_test::{HugePages, alone};

/// Promise (Segments): Every kind and page size that the machine supports is populated and freed.
#[test]
fn every_kind_and_page_size_is_populated_and_freed() {
    let _alone = alone();
    let pool = HugePages::more(2 * MIB, 64);
    let giant = HugePages::more(1024 * MIB, 1);
    let (before, shmem) = (resources(), field("/proc/meminfo", "Shmem"));
    let mut seen = Vec::new();
    for kind in SegmentKind::ALL {
        for page in PageSize::ALL {
            let bytes = if page == PageSize::HUGE_1G { 1024 * MIB } else { 128 * MIB };
            for locked in [false, true] {
                let options = options(kind, page, bytes).locked(locked);
                match options.create() {
                    Ok(segment) => {
                        assert_eq!((segment.kind(), segment.page_size()), (kind, page));
                        assert_eq!(segment.bytes(), bytes);
                        if page != PageSize::Base
                            && let Some(huge) = segment.huge_bytes()
                        {
                            assert_eq!(huge, bytes, "{kind} {page}");
                        }
                        seen.push(format!("{kind} {page}"));
                    }
                    Err(Error::NoSuchPages { .. } | Error::Fragmented { .. }) => {}
                    Err(Error::Invalid(_)) if kind == SegmentKind::Hugetlb => {}
                    Err(Error::Short(short)) if matches!(short.limit, Limit::HugePages(_)) => {
                        assert!(if page == PageSize::HUGE_1G {
                            giant.is_none()
                        } else {
                            pool.is_none()
                        });
                    }
                    Err(error) => panic!("{kind} {page}: {error}"),
                }
                assert_resources(before, kind.name());
            }
        }
    }
    assert_shmem_returns(shmem, 64 << 20);
    seen.dedup();
    eprintln!("created: {}", seen.join(", "));
    assert!(seen.len() >= 5, "{seen:?}");
}

/// Promise (Segments): Locked memory is locked and resident.
#[test]
fn locked_memory_is_locked_and_resident() {
    let _alone = alone();
    for kind in [SegmentKind::Anon, SegmentKind::Memfd, SegmentKind::Dism] {
        let segment = options(kind, PageSize::Base, 64 * MIB).locked(true).create().unwrap();
        assert!(field("/proc/self/status", "VmLck") >= 64 << 20);
        assert!(segment.is_locked());
        assert!(segment.times().confirm.as_nanos() > 0);
        drop(segment);
        assert_eq!(field("/proc/self/status", "VmLck"), 0);
    }
}

#[test]
fn auto_and_lenient_mode_take_available_pages_and_report_them() {
    let _alone = alone();
    let pool = HugePages::more(2 * MIB, 64);
    let segment = options(SegmentKind::Memfd, None, 64 * MIB).create().unwrap();
    if pool.is_some() {
        assert_eq!(segment.page_size(), PageSize::HUGE_2M);
    }
    drop(segment);
    drop(pool);
    let free = common::resources().huge_free_2m * 2;
    let more = usize::try_from(free).unwrap() * MIB + 64 * MIB;
    let lenient =
        options(SegmentKind::Memfd, PageSize::HUGE_2M, more).lenient(true).create().unwrap();
    assert_ne!(lenient.page_size(), PageSize::HUGE_2M);
    let error = options(SegmentKind::Memfd, PageSize::HUGE_2M, more).create().unwrap_err();
    let short = error.shortage().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(short.limit, Limit::HugePages(2 * MIB));
    assert_eq!(short.missing_bytes(), 64 << 20);
    assert!(short.remedy.contains("add 32 to"), "{short}");
}

/// Promise (Segments): Pages come from the requested nodes, range by range.
#[test]
fn memory_comes_from_the_requested_nodes() {
    let _alone = alone();
    let halves = vec![(0..8 * MIB, vec![0]), (8 * MIB..12 * MIB, vec![0])];
    for placement in [
        NumaPolicy::Bind(vec![0]).into(),
        NumaPolicy::Interleave(vec![0]).into(),
        Placement::Ranges(halves),
    ] {
        let placed =
            options(SegmentKind::Memfd, PageSize::Base, 16 * MIB).placement(placement).create();
        match placed {
            Ok(segment) => assert!(segment.node_shares().unwrap()[&0] > 0.99),
            // ENOSYS on a kernel without NUMA.
            Err(error) => assert!(matches!(error, Error::Invalid(_)), "{error}"),
        }
    }
    for bad in [vec![(0..5000, vec![0])], vec![(0..32 * MIB, vec![0])]] {
        let placement = Placement::Ranges(bad);
        let error =
            options(SegmentKind::Memfd, PageSize::Base, 16 * MIB).placement(placement).create();
        assert!(error.unwrap_err().to_string().contains("invalid range"));
    }
    let nowhere =
        options(SegmentKind::Anon, PageSize::Base, 16 * MIB).placement(NumaPolicy::Bind(vec![900]));
    assert!(nowhere.create().is_err());
}

#[test]
fn progress_is_reported_in_order() {
    let _alone = alone();
    let mut last = (Phase::Create, 0);
    let options = options(SegmentKind::Anon, PageSize::Base, 512 * MIB);
    let mut calls = 0;
    let segment = options
        .create_with(&mut |now| {
            calls += 1;
            assert!(now.done_bytes >= last.1 && now.done_bytes <= now.total_bytes);
            last = (now.phase, now.done_bytes);
        })
        .unwrap();
    assert!(calls >= 1 || segment.times().populate.as_millis() < 100);
}

#[test]
fn only_a_kept_name_persists() {
    let _alone = alone();
    let name = format!("mw-test-kept-{}", std::process::id());
    let path = format!("/dev/shm/{name}");
    let options = options(SegmentKind::Posix, PageSize::Base, MIB).name(&name);
    let segment = options.create().unwrap();
    assert!(options.create().is_err(), "the name exists");
    assert!(std::fs::exists(&path).unwrap(), "the failure does not remove it");
    drop(segment);
    assert!(!std::fs::exists(&path).unwrap());
    drop(options.kept(true).create().unwrap());
    assert_eq!(std::fs::read(&path).unwrap().len(), MIB);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn files_are_passed_on_with_their_pages() {
    let _alone = alone();
    let segment = options(SegmentKind::Memfd, PageSize::Base, 12 * MIB).stripe_bytes(4 * MIB);
    let files = segment.create().unwrap().into_files();
    assert_eq!(files.len(), 3);
    for file in &files {
        let stat = rustix::fs::fstat(file).unwrap();
        assert_eq!((stat.st_size, stat.st_blocks * 512), (4 << 20, 4 << 20));
        rustix::fs::fcntl_add_seals(file, rustix::fs::SealFlags::SHRINK).unwrap();
    }
}
