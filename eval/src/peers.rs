//! What others do to get, touch and lock large memory, beside memwright: in turn, in one run, on this machine.

mod capabilities;
mod method;
mod page;
mod place;
mod program;
mod row;
mod rows;
mod turn;
mod vmtasks;

use crate::ages;
use crate::huge_pages;
use crate::workspace::{cargo, go_on, target_dir};
use anyhow::Context;
use mw_segment::{Options, PageSize, SegmentKind};
use mw_sys::SignalsBlocked;
use mw_test::alone;
use mw_test::measure::others;
use page::Conditions;
use place::Place;
use row::Row;
use std::time::{Duration, Instant};
use vmtasks::Vmtasks;

const PAGE: &str = "eval/results/peers.md";

/// No round starts that would end later, as long as the ones before.
const LIMIT: Duration = Duration::from_secs(570);

/// Huge pages beyond those of the memory: a JVM with large pages has some for its code.
const SPARE_BYTES: u64 = 512 << 20;

const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Memory that stays free beside the pool of huge pages and the memory that is measured.
const RESERVE_BYTES: u64 = 2 << 30;

/// Measures every method in turn, `rounds` times; `write` writes the page.
pub(crate) fn run(rounds: usize, mib: u64, write: bool) -> anyhow::Result<()> {
    anyhow::ensure!(rounds > 0 && mib > 0, "--rounds and --size are at least 1");
    anyhow::ensure!(rustix::process::geteuid().is_root(), "needs root, for huge pages and locks");
    let _alone = alone();
    room(mib)?;
    let build = ["build", "--locked", "--release", "--package", "mw-cli"];
    cargo(&build)?;
    cargo(&["build", "--locked", "--release", "--package", "mw-preload"])?;
    // When it is interrupted, it releases its huge pages, and then ends by the signal.
    let _signals = SignalsBlocked::new()?;
    let mut place = Place::new(&target_dir().join("peers"), mib)?;
    let load = others();
    let pages = ((mib << 20) + SPARE_BYTES) / HUGE_PAGE_BYTES;
    let memwright = place.programs.memwright.clone();
    // Transparent huge pages need whole blocks besides.
    drop(huge_pages::reserve(&memwright, HUGE_PAGE_BYTES, pages + (mib << 20) / HUGE_PAGE_BYTES)?);
    let _pool = huge_pages::reserve(&memwright, HUGE_PAGE_BYTES, pages)?;
    back_huge_pages(pages)?;
    let (mut rows, mut vmtasks) = (rows::all(), Vmtasks::default());
    let begun = Instant::now();
    let (mut done, mut longest) = (0, Duration::ZERO);
    while done < rounds && begun.elapsed() + longest < LIMIT {
        let start = Instant::now();
        round(done, &mut rows, &mut vmtasks, &mut place)?;
        longest = longest.max(start.elapsed());
        done += 1;
    }
    let took = begun.elapsed();
    let other_cpus = place.other_cpus();
    let conditions = Conditions { mib, rounds: done, took, load: [load, others()], other_cpus };
    let text = page::text(&conditions, &rows, &vmtasks);
    println!("{text}");
    if write {
        ages::write(PAGE, &text)?;
        println!("wrote {PAGE}");
    }
    Ok(())
}

/// One round starts with another row than the one before, so that none always gets the same memory.
fn round(
    number: usize,
    rows: &mut [Row],
    vmtasks: &mut Vmtasks,
    place: &mut Place,
) -> anyhow::Result<()> {
    println!("== round {}", number + 1);
    place.begin_round();
    let count = rows.len();
    for index in 0..count {
        go_on()?;
        turn::take(&mut rows[(index + number * count / 5) % count], place)?;
    }
    vmtasks.measure(place)
}

fn room(mib: u64) -> anyhow::Result<()> {
    let available = mw_segment::available_bytes().context("available memory is not known")?;
    let needed = 2 * (mib << 20) + SPARE_BYTES + RESERVE_BYTES;
    anyhow::ensure!(
        available >= needed,
        "{} MiB are available, {} are needed; use a smaller --size",
        available >> 20,
        needed >> 20
    );
    Ok(())
}

/// The host of a virtual machine may not have backed the pages yet.
fn back_huge_pages(pages: u64) -> anyhow::Result<()> {
    let bytes = usize::try_from(pages * HUGE_PAGE_BYTES)?;
    drop(Options::new(bytes).kind(SegmentKind::Memfd).page_size(PageSize::HUGE_2M).create()?);
    Ok(())
}
