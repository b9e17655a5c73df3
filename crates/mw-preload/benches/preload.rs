//! What the library costs and gains: `cargo bench -p mw-preload`, and `-- --write` into
//! eval/results/benchmarks.md. Runs with it and without take turns; each figure is a median.
//!
//! `--size MIB` and `--rounds N` make it shorter or longer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on fails")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Compiled, library, run, text};
use mw_segment::{Options, PageSize, SegmentKind};
use mw_test::measure::{is_asked, median, number, option, others, replace};
use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::time::Instant;

fn main() {
    let (mib, rounds) = (number("--size", 4096), number("--rounds", 5));
    let program = Compiled::new("timed.c");
    let mut page = String::new();
    let _ = writeln!(
        page,
        "{rounds} programs of {mib} MiB each, every call three times on memory that was used before; \
         other load at the start: {}.\n",
        others()
    );
    large(&mut page, &program, mib, rounds);
    thresholds(&mut page, &program);
    small(&mut page, &program);
    transfers(&mut page, &program);
    start_up(&mut page);
    let _ = writeln!(page, "Other load at the end: {}.", others());
    print!("{page}");
    if is_asked("--write") {
        replace("cargo bench -p mw-preload", &page);
    }
}

/// Rows of numbers that the program prints, with the library where variables are given.
fn timed(program: &Compiled, args: &[&str], with: Option<&[(&str, &str)]>) -> Vec<Vec<f64>> {
    let mut command = program.command(args);
    if let Some(variables) = with {
        command.env("LD_PRELOAD", library()).envs(variables.iter().copied());
    }
    let output = text(run(&mut command));
    let numbers = |line: &str| line.split_whitespace().flat_map(str::parse).collect();
    output.lines().map(numbers).collect()
}

fn column(rows: &[Vec<f64>], column: usize) -> f64 {
    median(rows.iter().map(|row| row[column]).collect())
}

fn large(page: &mut String, program: &Compiled, mib: usize, rounds: usize) {
    let size = mib.to_string();
    let (mut plain, mut with, mut huge) = (Vec::new(), Vec::new(), Vec::new());
    let mut library_alone = Vec::new();
    // The first time memory may be new to this machine: a hypervisor has to find it first, which
    // takes ten times as long as to zero a huge page.
    let again = |with| timed(program, &["large", &size, "4"], with).split_off(1);
    for _ in 0..rounds {
        plain.extend(again(None));
        with.extend(again(Some(&[])));
        huge.extend(again(Some(&[("MEMWRIGHT_HUGE", "auto")])));
        library_alone.push(segment(mib));
    }
    let gib = mib as f64 / 1024.0;
    page.push_str("| one call, ms/GiB | without | `run` | | `run --huge auto` | |\n");
    page.push_str("|---|---|---|---|---|---|\n");
    for (number, name) in
        ["mlock", "munmap", "mmap, MAP_POPULATE", "madvise, DONTNEED"].into_iter().enumerate()
    {
        let [plain, with, huge] = [&plain, &with, &huge].map(|rows| column(rows, number));
        let _ = writeln!(
            page,
            "| {name} | {:.0} | {:.0} | {:.1}x | {:.0} | {:.1}x |",
            plain / gib,
            with / gib,
            plain / with,
            huge / gib,
            plain / huge
        );
    }
    let own = median(library_alone);
    let _ = writeln!(
        page,
        "\nA segment of `mw-segment`, anonymous on base pages, not locked, is created in {:.0} \
         ms/GiB; `mmap` with MAP_POPULATE under `run` reaches {:.0}% of its speed.\n",
        own / gib,
        100.0 * own / column(&with, 2)
    );
}

/// Time of the library for the same.
fn segment(mib: usize) -> f64 {
    let start = Instant::now();
    let segment =
        Options::new(mib << 20).kind(SegmentKind::Anon).page_size(PageSize::Base).create().unwrap();
    let took = start.elapsed();
    drop(segment);
    took.as_secs_f64() * 1e3
}

fn thresholds(page: &mut String, program: &Compiled) {
    const ROUNDS: usize = 5;
    page.push_str("With `--threshold 1M`, ms a call, without and with the library:\n\n");
    page.push_str("| MiB | mlock | munmap | mmap, MAP_POPULATE | madvise, DONTNEED |\n");
    page.push_str("|---|---|---|---|---|\n");
    for mib in ["4", "8", "16", "32", "64", "128"] {
        let (mut plain, mut with) = (Vec::new(), Vec::new());
        let args = ["large", mib, "5"];
        for _ in 0..ROUNDS {
            plain.extend(timed(program, &args, None));
            with.extend(timed(program, &args, Some(&[("MEMWRIGHT_THRESHOLD", "1048576")])));
        }
        let _ = write!(page, "| {mib} |");
        for number in 0..4 {
            let (plain, with) = (column(&plain, number), column(&with, number));
            let _ = write!(page, " {plain:.1}, {with:.1} |");
        }
        page.push('\n');
    }
    page.push('\n');
}

fn small(page: &mut String, program: &Compiled) {
    const ROUNDS: usize = 15;
    let (mut plain, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.extend(timed(program, &["small", "200000"], None));
        with.extend(timed(program, &["small", "200000"], Some(&[])));
    }
    page.push_str(
        "| below the threshold, ns of CPU time a call | without | `run` | difference |\n",
    );
    page.push_str("|---|---|---|---|\n");
    for (number, name) in ["madvise", "mlock"].into_iter().enumerate() {
        let (plain, with) = (column(&plain, number), column(&with, number));
        let _ = writeln!(page, "| {name} | {plain:.0} | {with:.0} | {:.0} |", with - plain);
    }
    page.push('\n');
}

fn transfers(page: &mut String, program: &Compiled) {
    const ROUNDS: usize = 15;
    let asked = [("MEMWRIGHT_DIRECT_IO", "65536"), ("MEMWRIGHT_DIRECT_IO_READS", "1")];
    let (mut plain, mut with, mut direct) = (Vec::new(), Vec::new(), Vec::new());
    let args = ["writes", "200000"];
    for _ in 0..ROUNDS {
        plain.extend(timed(program, &args, None));
        with.extend(timed(program, &args, Some(&[])));
        direct.extend(timed(program, &args, Some(&asked)));
    }
    page.push_str("| 512 bytes, ns of CPU time a call | without | `run` | difference | ");
    page.push_str(
        "`run --direct-io 64k --direct-io-reads` | difference |\n|---|---|---|---|---|---|\n",
    );
    for (number, name) in ["write to /dev/null", "pwrite", "pread"].into_iter().enumerate() {
        let [plain, with, direct] = [&plain, &with, &direct].map(|rows| column(rows, number));
        let _ = writeln!(
            page,
            "| {name} | {plain:.0} | {with:.0} | {:.0} | {direct:.0} | {:.0} |",
            with - plain,
            direct - plain
        );
    }
    page.push('\n');
}

/// `--memwright FILE` names a release build of the program with its command `run`.
fn start_up(page: &mut String) {
    const ROUNDS: usize = 300;
    let program = option("--memwright");
    let start = |command: &mut Command| {
        let start = Instant::now();
        assert!(command.status().unwrap().success());
        start.elapsed().as_secs_f64() * 1e3
    };
    let (mut plain, mut with, mut env, mut run) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        plain.push(start(&mut Command::new("/bin/true")));
        with.push(start(Command::new("/bin/true").env("LD_PRELOAD", library())));
        env.push(start(Command::new("env").arg("/bin/true")));
        if let Some(program) = &program {
            let mut command = Command::new(program);
            command.args(["run", "--library"]).arg(library()).args(["--", "/bin/true"]);
            run.push(start(&mut command));
        }
    }
    let plain = median(plain);
    let mut rows = vec![("with the library loaded", with), ("by `env`, without the library", env)];
    if !run.is_empty() {
        rows.push(("by `memwright run`", run));
    }
    let _ = writeln!(
        page,
        "To start and end `/bin/true` takes {plain:.2} ms, the median of {ROUNDS} starts.\n\n\
         | started | ms more |\n|---|---|"
    );
    for (name, times) in rows {
        let _ = writeln!(page, "| {name} | {:.2} |", median(times) - plain);
    }
    let bytes = fs::metadata(library()).unwrap().len() as f64 / 1e6;
    let _ = writeln!(
        page,
        "\nThe file of the library has {bytes:.1} MB, most of it line numbers for debuggers.\n"
    );
}
