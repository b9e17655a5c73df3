//! What folios gain on a fragmented node: `cargo bench -p mw-segment --bench folios`, and `-- --write`
//! into eval/results/benchmarks.md. Segments of base pages, folios and the best pages are created, locked and
//! destroyed in turn; each figure is a median.
//!
//! It fragments the free memory itself: a memfd takes what is free except for `--spare MIB`, holes of
//! mixed sizes are punched into it, and huge pages take the large blocks that remain. `--size MIB`, `--rounds N` and `--threads N` change the measurement.
//! Needs root, for the switches of folio sizes, which it reverts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on fails")]

use mw_segment::{Error, Options, PageSize, Segment, SegmentKind};
use mw_test::measure::{is_asked, median, number, others, replace};
use mw_test::{FolioSwitchGuard, FragmentedMemory, alone, compactions, free_mib};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
fn main() {
    let _alone = alone();
    let Some(_switches) = FolioSwitchGuard::only(&[16, 32, 64, 128, 256, 512, 1024]) else {
        return mw_test::skip("needs root and switches for folio sizes (Linux 6.11)");
    };
    let (mib, rounds) = (number("--size", 1024), number("--rounds", 5));
    let threads = number("--threads", 2);
    let load = others();
    let (free_before, _) = free_mib();
    let host = reclaimed_by_the_host(mib, threads);
    let _holes = FragmentedMemory::new(free_before.saturating_sub(number("--spare", 512)));
    let _huge_pages = take_huge_blocks();
    let (free, unusable) = free_mib();
    assert!(free > 3 * mib / 2, "{free} MiB are free, too few for segments of {mib} MiB");
    let before = compactions();
    let mut rows = rows();
    for round in 0..=rounds {
        for number in 0..rows.len() {
            let count = rows.len();
            rows[(number + round) % count].measure(mib, threads, round > 0);
        }
    }
    let compactions = compactions().iter().zip(before).map(|(now, then)| now - then).collect();
    let place = Place { mib, rounds, threads, free, unusable, load };
    let page = page(&place, &rows, compactions) + &host;
    print!("{page}");
    if is_asked("--write") {
        replace("cargo bench -p mw-segment --bench folios", &page);
    }
}

/// Free memory that is left alone for so long: the host of a virtual machine may reclaim it.
const IDLE: Duration = Duration::from_secs(10);

/// The cost of each size in memory that was free for a while, and in memory that was freed just before. Nothing is
/// fragmented: the largest size comes from large blocks, the smallest from what is free in small ones.
fn reclaimed_by_the_host(mib: usize, threads: usize) -> String {
    let mut text = format!(
        "\nBefore that, private segments of {mib} MiB without a lock, each once after {} s in which its memory was \
         free, and three times at once (median):\n\n| ms/GiB | after {} s | at once | |\n|---|---|---|---|\n",
        IDLE.as_secs(),
        IDLE.as_secs()
    );
    let folios = [64 << 10, 256 << 10, 1 << 20].map(PageSize::Folio);
    for page in [&[PageSize::Base], &folios[..], &[PageSize::Thp]].concat() {
        let options =
            Options::new(mib * MIB).kind(SegmentKind::Anon).page_size(page).workers(threads);
        let create = || {
            let start = Instant::now();
            let segment = options.create().ok()?;
            let took = start.elapsed().as_secs_f64() * 1000.0 * 1024.0 / mib as f64;
            drop(segment);
            Some(took)
        };
        std::thread::sleep(IDLE);
        let first = create();
        let again: Vec<f64> = (0..3).filter_map(|_| create()).collect();
        let _ = match first {
            Some(first) => {
                let again = median(again);
                writeln!(text, "| anon {page} | {first:.0} | {again:.0} | {:.1}x |", first / again)
            }
            None => writeln!(text, "| anon {page} | | | not free |"),
        };
    }
    text
}

/// The conditions of the measurement.
struct Place {
    mib: usize,
    rounds: usize,
    threads: usize,
    free: usize,
    unusable: f64,
    load: String,
}

/// A variant, and its times in ms/GiB.
struct Row {
    kind: SegmentKind,
    page: PageSize,
    create: Vec<f64>,
    destroy: Vec<f64>,
    sizes: BTreeMap<usize, usize>,
    missing: Option<String>,
}

fn rows() -> Vec<Row> {
    let pages =
        [PageSize::Base, PageSize::Folio(64 << 10), PageSize::Folio(256 << 10), PageSize::Best];
    let row = |kind, page| Row {
        kind,
        page,
        create: Vec::new(),
        destroy: Vec::new(),
        sizes: BTreeMap::new(),
        missing: None,
    };
    [SegmentKind::Memfd, SegmentKind::Anon]
        .into_iter()
        .flat_map(|kind| pages.into_iter().map(move |page| row(kind, page)))
        .collect()
}

impl Row {
    fn measure(&mut self, mib: usize, threads: usize, counts: bool) {
        let options = Options::new(mib * MIB)
            .kind(self.kind)
            .page_size(self.page)
            .locked(true)
            .workers(threads);
        let gib = mib as f64 / 1024.0;
        let start = Instant::now();
        match options.create() {
            Ok(segment) => {
                let created = start.elapsed().as_secs_f64() * 1000.0 / gib;
                self.sizes = segment.folio_bytes().clone();
                let destroyed = Segment::destroy(segment).as_secs_f64() * 1000.0 / gib;
                if counts {
                    self.create.push(created);
                    self.destroy.push(destroyed);
                }
            }
            Err(error @ Error::Fragmented { .. }) => self.missing = Some(error.to_string()),
            Err(error) => panic!("{} {}: {error}", self.kind, self.page),
        }
    }

    fn together(&self) -> Vec<f64> {
        self.create.iter().zip(&self.destroy).map(|(create, destroy)| create + destroy).collect()
    }

    fn consists_of(&self, mib: usize) -> String {
        let share = |(size, bytes): (&usize, &usize)| {
            format!("{}% {}k", 100 * bytes / (mib * MIB), size >> 10)
        };
        self.sizes.iter().rev().map(share).collect::<Vec<_>>().join(", ")
    }
}

/// Takes the blocks that serve huge pages. The host of a virtual machine may have reclaimed them, and would
/// have to back them again in the measurement.
fn take_huge_blocks() -> Option<Segment> {
    let (free, unusable) = free_mib();
    let mib = (free as f64 * (1.0 - unusable)) as usize;
    let bytes = (mib * MIB).checked_sub(64 * MIB)?;
    let options =
        Options::new(bytes).kind(SegmentKind::Anon).page_size(PageSize::Thp).lenient(true);
    options.create().ok()
}

fn page(place: &Place, rows: &[Row], compactions: Vec<u64>) -> String {
    let mut page = format!(
        "{} rounds of {} MiB with {} threads, locked, after one that does not count; {} MiB free, of which \
         {:.0}% cannot serve a huge page (unusable index {:.2}); other load at the start: {}, at the \
         end: {}.\n\n",
        place.rounds,
        place.mib,
        place.threads,
        place.free,
        100.0 * place.unusable,
        place.unusable,
        place.load,
        others()
    );
    page.push_str(
        "| ms/GiB | create and lock | destroy | together (fastest to slowest) | | consists of |\n",
    );
    page.push_str("|---|---|---|---|---|---|\n");
    for row in rows {
        let plain = rows.iter().find(|plain| plain.kind == row.kind).unwrap();
        let (all, base) = (row.together(), median(plain.together()));
        let Some(least) = all.iter().copied().reduce(f64::min) else {
            let why = row.missing.clone().unwrap_or_default();
            let _ = writeln!(page, "| {} {} | | | | | {why} |", row.kind, row.page);
            continue;
        };
        let most = all.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            page,
            "| {} {} | {:.0} | {:.0} | {:.0} ({least:.0}-{most:.0}) | {:.1}x | {} |",
            row.kind,
            row.page,
            median(row.create.clone()),
            median(row.destroy.clone()),
            median(all.clone()),
            base / median(all.clone()),
            row.consists_of(place.mib)
        );
    }
    let _ = writeln!(
        page,
        "\nDirect compactions during the measurement, of all programs: {}; wake-ups of kcompactd: {}.",
        compactions[0], compactions[1]
    );
    page
}
