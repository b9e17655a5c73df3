//! Programs that people run, unchanged and under `memwright run`: whether they say the same, and how
//! long they take. `cargo bench -p mw-preload --bench programs`, and `-- --write` into
//! docs/programs.md.
//!
//! `--size MIB` and `--rounds N` make it shorter or longer, `--only NAME` plays what is named so. A
//! program that takes long is played less often.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on fails")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/plays/mod.rs"]
mod plays;

use mw_test::measure::{is_asked, median, number, option, others};
use plays::{Outcome, PLAYS, Play, Scale, Stage, Way};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// No round of a program is begun after so long.
const LONG: Duration = Duration::from_secs(60);

const HEAD: &str = "# Programs under `memwright run`

<!-- made by `cargo bench -p mw-preload --bench programs -- --write` -->

Each program is played as it is and with the library in turn: it starts, works, is killed where that is
said, recovers and ends. The result is the same when everything that it said is: rows, sums, checksums,
what its own checkers find, exit codes. Times are medians, in seconds. Before a program starts as much
memory as it needs is touched and given back, so that none meets memory that a hypervisor has to find
first. What stands in for the C library's functions is the same as under `memwright run`; the tests play
the same, small.
";

/// What a play came to, as it is or in one way with the library.
struct Played {
    rounds: Vec<Outcome>,
}

impl Played {
    /// The median of what a part took.
    fn seconds(&self, part: usize) -> f64 {
        median(self.rounds.iter().map(|round| round.times[part].1.as_secs_f64()).collect())
    }

    fn in_all(&self) -> f64 {
        (0..self.rounds[0].times.len()).map(|part| self.seconds(part)).sum()
    }
}

fn main() {
    let (mib, rounds) = (number("--size", 4096), number("--rounds", 3));
    let only = option("--only").unwrap_or_default();
    let mut page = format!("{HEAD}\n{}\n", machine(mib, rounds));
    let (mut table, mut parts, mut differ) = (String::new(), String::new(), false);
    for play in PLAYS.iter().filter(|play| play.name.contains(&only)) {
        println!("{}", play.name);
        let Some((plain, ways)) = played(play, mib, rounds) else {
            let _ = writeln!(table, "| {} | | not there | | | | |", play.name);
            continue;
        };
        for (way, played) in play.ways.iter().zip(&ways) {
            differ |= !same(&plain, played);
            table += &row(play, way, &plain, played);
        }
        parts += &details(play, &plain, &ways);
    }
    page += "| program | with | result | rounds | calls in parallel | unchanged, s | `run`, s |\n";
    page += "|---|---|---|---|---|---|---|\n";
    let _ = write!(page, "{table}\nAt the end others kept {} busy.\n{parts}", others());
    print!("{page}");
    if is_asked("--write") {
        fs::write(Path::new(common::HERE).join("../../docs/programs.md"), page).unwrap();
    }
    assert!(!differ, "a program said something else with the library");
}

/// What it was played on.
fn machine(mib: usize, rounds: usize) -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let total = memory.lines().next().and_then(|line| line.split_whitespace().nth(1));
    let total: f64 = total.and_then(|kib| kib.parse().ok()).unwrap_or(f64::NAN);
    format!(
        "Kernel {}, {} processors, {:.1} GiB; {mib} MiB, at most {rounds} rounds; others kept {} busy at the \
         start.\n",
        kernel.trim(),
        std::thread::available_parallelism().unwrap(),
        total / f64::from(1 << 20),
        others()
    )
}

/// Plays it as it is and in every way in turn; none where it is not there.
fn played(play: &Play, mib: usize, rounds: usize) -> Option<(Played, Vec<Played>)> {
    let once = |with| {
        let stage = Stage::new(Scale::Large(mib), with);
        (play.play)(&stage).map(|()| stage.outcome())
    };
    let mut plain = Played { rounds: Vec::new() };
    let mut ways: Vec<Played> = play.ways.iter().map(|_| Played { rounds: Vec::new() }).collect();
    let start = Instant::now();
    while plain.rounds.len() < rounds && start.elapsed() < LONG {
        plain.rounds.push(once(None)?);
        for (way, played) in play.ways.iter().zip(&mut ways) {
            played.rounds.push(once(Some(way.options))?);
        }
    }
    Some((plain, ways))
}

/// Whether every round said what the first without the library did.
fn same(plain: &Played, with: &Played) -> bool {
    let said = &plain.rounds[0].said;
    plain.rounds.iter().chain(&with.rounds).all(|round| round.said == *said)
}

fn row(play: &Play, way: &Way, plain: &Played, with: &Played) -> String {
    let result = match same(plain, with) {
        true => format!("the same, {} answers", plain.rounds[0].said.len()),
        false => "**different**".to_owned(),
    };
    let calls = median(with.rounds.iter().map(|round| round.calls as f64).collect());
    format!(
        "| {} | {} | {result} | {} | {calls} | {:.2} | {:.2} |\n",
        play.name,
        command(way),
        with.rounds.len(),
        plain.in_all(),
        with.in_all()
    )
}

/// The command that is what a way is.
fn command(way: &Way) -> String {
    let options = way.options.iter().map(|option| option.text);
    format!("`{}`", std::iter::once("run").chain(options).collect::<Vec<_>>().join(" "))
}

/// How long each part took.
fn details(play: &Play, plain: &Played, ways: &[Played]) -> String {
    let first = &plain.rounds[0];
    let mut text = format!("\n## {}\n\n{}. {}.\n\n", play.name, play.about, first.version);
    let _ = write!(text, "| s | unchanged |");
    for way in play.ways {
        let _ = write!(text, " {} |", command(way));
    }
    let _ = writeln!(text, "\n|---|---|{}", "---|".repeat(ways.len()));
    for (part, (name, _)) in first.times.iter().enumerate() {
        let _ = write!(text, "| {name} | {:.2} |", plain.seconds(part));
        for way in ways {
            let _ = write!(text, " {:.2} |", way.seconds(part));
        }
        text.push('\n');
    }
    text
}
