//! Segments of folios: the sizes that they get, against the kernel's own flags of each page.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, field, number, options};
use mw_segment::{Error, Options, PageSize, Segment, SegmentKind};
use mw_test::{FolioSwitchGuard, alone, skip};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

const ALL_KIB: [u64; 7] = [16, 32, 64, 128, 256, 512, 1024];
const NO_SWITCHES: &str = "needs root and switches for folio sizes (Linux 6.11)";
const NO_BLOCKS: &str = "free memory is too fragmented for folios";

/// Bytes of the segment by the size of the folio that they are in (/proc/kpageflags).
fn true_sizes(segment: &Segment) -> BTreeMap<usize, usize> {
    const HEAD: u64 = 1 << 15;
    const TAIL: u64 = 1 << 16;
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let flags = File::open("/proc/kpageflags").unwrap();
    let entry = |file: &File, place: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, place * 8).unwrap();
        u64::from_ne_bytes(bytes)
    };
    let first = segment.as_ptr().addr().get() as u64 / 4096;
    let pages = segment.bytes() as u64 / 4096;
    let mut runs: Vec<usize> = Vec::new();
    for page in first..first + pages {
        let frame = entry(&pagemap, page) & ((1 << 55) - 1);
        let of_frame = entry(&flags, frame);
        match (of_frame & TAIL != 0, runs.last_mut()) {
            (true, Some(run)) => *run += 1,
            _ => runs.push(1),
        }
        assert!(frame != 0 && of_frame & (HEAD | TAIL) != HEAD | TAIL);
    }
    let mut sizes = BTreeMap::new();
    for run in runs {
        *sizes.entry(run * 4096).or_default() += run * 4096;
    }
    sizes
}

/// A segment, and what it consists of; none if the machine has no free blocks of that size. It is created
/// again if khugepaged has replaced folios by a huge page while it was populated.
fn created(options: &Options) -> Option<(Segment, BTreeMap<usize, usize>)> {
    let collapsed = || number("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed");
    loop {
        let before = collapsed();
        let segment = match options.create() {
            Ok(segment) => segment,
            Err(Error::Fragmented { .. }) => return None,
            Err(error) => panic!("{error}"),
        };
        let sizes = true_sizes(&segment);
        if collapsed() == before {
            return Some((segment, sizes));
        }
    }
}

/// Promise (Segments): A segment of folios consists of the size that it reports, and of no larger one that is
/// enabled.
#[test]
fn a_segment_has_folios_of_its_size_although_larger_ones_are_enabled() {
    let _alone = alone();
    let Some(_switches) = FolioSwitchGuard::only(&ALL_KIB) else { return skip(NO_SWITCHES) };
    let mut seen = 0;
    for kind in [SegmentKind::Memfd, SegmentKind::Anon] {
        for page_bytes in PageSize::FOLIO_BYTES {
            for locked in [false, true] {
                let page = PageSize::Folio(page_bytes);
                let options = options(kind, page, 64 * MIB).locked(locked);
                let Some((segment, truth)) = created(&options) else { continue };
                let expected = BTreeMap::from([(page_bytes as usize, 64 * MIB)]);
                assert_eq!(truth, expected, "{kind} {page}");
                assert_eq!(segment.folio_bytes(), &expected, "{kind} {page}");
                assert_eq!((segment.page_size(), segment.is_locked()), (page, locked));
                seen += 1;
            }
        }
    }
    if seen == 0 {
        skip(NO_BLOCKS);
    }
}

#[test]
fn the_best_pages_are_counted_as_they_are() {
    let _alone = alone();
    for allowed in [&ALL_KIB[..], &[64], &[]] {
        let Some(_switches) = FolioSwitchGuard::only(allowed) else { return skip(NO_SWITCHES) };
        for kind in [SegmentKind::Memfd, SegmentKind::Anon] {
            // Neither whole chunks nor whole folios.
            let bytes = 70 * MIB + 5 * 4096;
            let best = options(kind, PageSize::Best, bytes).locked(true);
            let (segment, truth) = created(&best).unwrap();
            let counted = segment.folio_bytes();
            assert_eq!(counted.values().sum::<usize>(), bytes);
            for (size, bytes) in counted.iter().filter(|(size, _)| **size > 4096) {
                assert!(truth.get(size) >= Some(bytes), "{kind}: {counted:?}, {truth:?}");
            }
            let is_allowed = |size: &usize| allowed.contains(&(*size as u64 >> 10));
            let folios = counted.keys().filter(|size| (8192..2 * MIB).contains(*size));
            assert!(folios.into_iter().all(is_allowed), "{kind}: {counted:?}");
        }
    }
}

/// Promise (Segments): A folio size that a switch of the kernel forbids, or that too few free blocks have, is an
/// error that names the remedy.
#[test]
fn without_its_switch_a_size_is_an_error_and_the_best_are_base_pages() {
    let _alone = alone();
    let Some(_switches) = FolioSwitchGuard::only(&[128]) else { return skip(NO_SWITCHES) };
    for (kind, switch) in [
        (SegmentKind::Memfd, "hugepages-64kB/shmem_enabled is never (write advise to it"),
        (SegmentKind::Anon, "hugepages-64kB/enabled is never (write madvise to it"),
        (SegmentKind::Dism, "the kernel has none for System V segments (use kind memfd or anon)"),
        (SegmentKind::Posix, "the mount option huge= of /dev/shm decides"),
    ] {
        let error = options(kind, PageSize::Folio(64 << 10), MIB).create().unwrap_err();
        assert!(matches!(error, Error::NoSuchPages { .. }), "{error}");
        assert!(error.to_string().contains(switch), "{error}");
        let lenient = options(kind, PageSize::Folio(64 << 10), MIB).lenient(true);
        let segment = lenient.create().unwrap();
        assert_eq!(segment.folio_bytes(), &BTreeMap::from([(4096, MIB)]), "{kind}");
        assert!(segment.why_no_folios().unwrap().contains(switch));
    }
    let hugetlb = options(SegmentKind::Hugetlb, PageSize::Best, MIB).create();
    assert!(matches!(hugetlb, Err(Error::Invalid(_))), "{hugetlb:?}");
}

/// Memory that is left to the page cache is available, but in no block.
#[test]
fn more_than_the_free_blocks_of_a_size_is_an_error() {
    let _alone = alone();
    let Some(_switches) = FolioSwitchGuard::only(&[1024]) else { return skip(NO_SWITCHES) };
    let free = field("/proc/meminfo", "MemFree") as usize;
    let (bytes, page) = (free - free % MIB, PageSize::Folio(MIB as u64));
    let options = options(SegmentKind::Memfd, page, bytes);
    if let Err(error) = options.check() {
        return skip(format!("no room for {bytes} bytes: {error}"));
    }
    let error = options.create().unwrap_err();
    assert!(matches!(error, Error::Fragmented { page: of, .. } if of == page), "{error}");
}
