//! What `run --huge auto` gains on a fragmented machine: `cargo bench -p mw-preload --bench folios`, and `-- --write`
//! into eval/results/benchmarks.md. Programs with the library and without take turns; each figure is a median.
//!
//! It fragments the free memory itself, except for `--spare MIB`, and takes two minutes. `--size MIB` and `--rounds N`
//! change the measurement. Needs root, for the switches of folio sizes, which it reverts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on fails")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Compiled, library, run, text};
use mw_segment::{Options, PageSize, Segment, SegmentKind};
use mw_test::measure::{is_asked, median, number, others, replace};
use mw_test::{FolioSwitchGuard, FragmentedMemory, alone, compactions, free_mib};
use std::fmt::Write;

const COMMAND: &str = "cargo bench -p mw-preload --bench folios";
const ALL_KIB: [u64; 7] = [16, 32, 64, 128, 256, 512, 1024];

/// Options of the programs.
const WAYS: [(&str, Option<&str>); 3] =
    [("without", None), ("`run`", Some("never")), ("`run --huge auto`", Some("auto"))];

fn main() {
    let _alone = alone();
    let (mib, rounds) = (number("--size", 1024), number("--rounds", 5));
    let program = Compiled::new("timed.c");
    let load = others();
    let (free_before, _) = free_mib();
    let _holes = FragmentedMemory::new(free_before.saturating_sub(number("--spare", 512)));
    let _huge_pages = take_huge_blocks();
    let (free, unusable) = free_mib();
    assert!(free > 3 * mib / 2, "{free} MiB are free, too few for programs of {mib} MiB");
    let mut page = format!(
        "{rounds} programs of {mib} MiB of private memory each, every call twice on memory that was used before; {free} \
         MiB free, of which {:.0}% cannot serve a huge page; other load at the start: {load}.\n",
        100.0 * unusable
    );
    for allowed in [&ALL_KIB[..], &[64]] {
        let Some(_switches) = FolioSwitchGuard::only(allowed) else {
            return mw_test::skip("needs root and switches for folio sizes (Linux 6.11)");
        };
        table(&mut page, &program, allowed, mib, rounds);
    }
    let _ = writeln!(page, "\nOther load at the end: {}.", others());
    print!("{page}");
    if is_asked("--write") {
        replace(COMMAND, &page);
    }
}

/// One set of switches: times of each way, the page sizes, and direct compactions meanwhile.
fn table(page: &mut String, program: &Compiled, allowed: &[u64], mib: usize, rounds: usize) {
    let mut rows: Vec<(Vec<Vec<f64>>, String, u64)> = vec![Default::default(); WAYS.len()];
    for round in 0..=rounds {
        for number in 0..WAYS.len() {
            let number = (number + round) % WAYS.len();
            let (_, huge) = WAYS[number];
            let before = compactions()[0];
            let (times, sizes) = measured(program, huge, mib);
            let (all, of_sizes, compacted) = &mut rows[number];
            *compacted += compactions()[0] - before;
            if round > 0 {
                all.extend(times);
                *of_sizes = sizes;
            }
        }
    }
    let sizes: Vec<String> = allowed.iter().map(|kib| format!("{kib}k")).collect();
    let _ = writeln!(page, "\nAllowed, beside huge pages: {}.\n", sizes.join(", "));
    page.push_str(
        "| ms/GiB | mlock | mmap, MAP_POPULATE | munmap | page sizes | direct compactions |\n",
    );
    page.push_str("|---|---|---|---|---|---|\n");
    let gib = mib as f64 / 1024.0;
    for ((way, _), (times, sizes, compacted)) in WAYS.iter().zip(&rows) {
        let column = |number: usize| median(times.iter().map(|row| row[number] / gib).collect());
        let _ = writeln!(
            page,
            "| {way} | {:.0} | {:.0} | {:.0} | {sizes} | {compacted} |",
            column(0),
            column(2),
            column(1)
        );
    }
}

/// Rows of times in ms, and the page sizes of all calls.
fn measured(program: &Compiled, huge: Option<&str>, mib: usize) -> (Vec<Vec<f64>>, String) {
    let mut command = program.command(&["large", &mib.to_string(), "3"]);
    if let Some(huge) = huge {
        command.env("LD_PRELOAD", library()).env("MEMWRIGHT_HUGE", huge);
        command.env("MEMWRIGHT_STATS", "1");
    }
    let output = run(&mut command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let sizes = said.lines().find_map(|line| line.split_once("page sizes, by page faults: "));
    let sizes = sizes.map_or("4k", |(_, sizes)| sizes).to_owned();
    let numbers = |line: &str| line.split_whitespace().flat_map(str::parse).collect();
    let rows: Vec<Vec<f64>> = text(output).lines().map(numbers).collect();
    (rows.into_iter().skip(1).collect(), sizes)
}

/// Takes the blocks that serve huge pages. The host of a virtual machine may have reclaimed them, and would
/// have to back them again in the measurement.
fn take_huge_blocks() -> Option<Segment> {
    let (free, unusable) = free_mib();
    let mib = (free as f64 * (1.0 - unusable)) as usize;
    let bytes = (mib << 20).checked_sub(64 << 20)?;
    let options =
        Options::new(bytes).kind(SegmentKind::Anon).page_size(PageSize::Thp).lenient(true);
    options.create().ok()
}
