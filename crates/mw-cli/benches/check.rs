//! What `check` costs as a process: wall time and memory, beside an empty program in the same run.
//!
//! The figures are at most 30 ms and 12 MiB resident.

#![allow(clippy::expect_used, reason = "a bench that cannot run has nothing to measure")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 41;

/// Wall time and peak resident memory of one run.
struct Cost {
    wall: Duration,
    resident_kib: u64,
}

fn main() {
    println!("{:<24} {:>10} {:>10} {:>10} {:>12}", "", "min ms", "median ms", "max ms", "peak KiB");
    let check = env!("CARGO_BIN_EXE_memwright");
    let rows = [
        ("check", vec![check, "check"]),
        ("check --json", vec![check, "check", "--json"]),
        ("--version (start-up)", vec![check, "--version"]),
        ("true (empty program)", vec!["true"]),
    ];
    // In turn, so that a noisy moment meets all of them.
    let mut costs: Vec<Vec<Cost>> = rows.iter().map(|_| Vec::new()).collect();
    for _ in 0..RUNS {
        for (row, costs) in rows.iter().zip(&mut costs) {
            costs.push(run(&row.1));
        }
    }
    for ((name, _), costs) in rows.iter().zip(&mut costs) {
        costs.sort_by_key(|cost| cost.wall);
        let ms = |cost: Option<&Cost>| cost.map_or(0.0, |c| c.wall.as_secs_f64() * 1000.0);
        println!(
            "{name:<24} {:>10.1} {:>10.1} {:>10.1} {:>12}",
            ms(costs.first()),
            ms(costs.get(RUNS / 2)),
            ms(costs.last()),
            costs.iter().map(|cost| cost.resident_kib).max().unwrap_or(0)
        );
    }
}

fn run(command: &[&str]) -> Cost {
    let started = Instant::now();
    let child = Command::new(command[0])
        .args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be started");
    let usage = mw_sys::wait_with_usage(child).expect("the program ends");
    Cost { wall: started.elapsed(), resident_kib: usage.max_resident_kib }
}
