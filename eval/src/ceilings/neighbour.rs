//! A latency-critical neighbour: threads of another process that wake every millisecond while large memory is created
//! and destroyed.

use super::operation::Operation;
use crate::workspace::go_on;
use anyhow::Context;
use clap::ValueEnum;
use mw_sys::{Region, monotonic_ns, set_sched_fifo};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const INTERVAL_NS: u64 = 1_000_000;
const SECONDS: u64 = 5;
const ROUNDS: usize = 2;
/// Time limit of a start and the end of the operation besides.
const GRACE: Duration = Duration::from_secs(90);

/// Work of the neighbour when it wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    Normal,
    /// With SCHED_FIFO.
    RealTime,
    /// Maps a page, touches it and unmaps it.
    Faults,
}

pub(super) const THREADS: [(Thread, &str); 3] = [
    (Thread::Normal, "wakes"),
    (Thread::RealTime, "wakes, SCHED_FIFO"),
    (Thread::Faults, "wakes, maps and touches a page"),
];

/// Due time of a wake-up, and the delay until its work was done.
#[derive(Debug, Clone, Copy)]
struct Beat {
    due_ns: u64,
    late_ns: u64,
}

/// Lateness beside one step of an operation, by thread, in milliseconds.
pub(super) struct Beside {
    pub(super) operation: Operation,
    pub(super) step: String,
    /// Number of times that the step was done, and its median duration.
    pub(super) steps_ms: Vec<f64>,
    pub(super) late_ms: [Vec<f64>; THREADS.len()],
}

/// All that was measured, and why an operation was not.
pub(super) struct Measured {
    pub(super) beside: Vec<Beside>,
    pub(super) missing: BTreeMap<String, String>,
}

pub(super) fn measure() -> anyhow::Result<Measured> {
    let mut all: Vec<Beside> = Vec::new();
    let mut missing = BTreeMap::new();
    for _ in 0..ROUNDS {
        for operation in Operation::value_variants() {
            go_on()?;
            let name = operation.to_possible_value().context("no name")?;
            println!("beside {}", name.get_name());
            if let Err(error) = beside(*operation, name.get_name(), &mut all) {
                missing.insert(name.get_name().to_owned(), format!("{error:#}"));
            }
        }
    }
    for beside in &mut all {
        beside.late_ms.iter_mut().for_each(|late| late.sort_by(f64::total_cmp));
    }
    Ok(Measured { beside: all, missing })
}

/// The step of an operation, its beginning and its end.
type Step = (String, u64, u64);

fn beside(operation: Operation, name: &str, all: &mut Vec<Beside>) -> anyhow::Result<()> {
    let is_over = AtomicBool::new(false);
    let (steps, beats) = std::thread::scope(|scope| {
        let is_over = &is_over;
        let threads = THREADS.map(|(thread, _)| scope.spawn(move || beat(thread, is_over)));
        let steps = operate(name);
        is_over.store(true, Ordering::Relaxed);
        let beats = threads.map(|thread| thread.join());
        (steps, beats)
    });
    let steps = steps?;
    let mut lateness = Vec::new();
    for beats in beats {
        lateness.push(beats.ok().context("a neighbour panicked")??);
    }
    for step in &steps {
        add(operation, step, &lateness, all);
    }
    Ok(())
}

fn add(operation: Operation, step: &Step, lateness: &[Vec<Beat>], all: &mut Vec<Beside>) {
    let (name, begin, end) = step;
    let is_same = |beside: &Beside| beside.operation == operation && beside.step == *name;
    let index = all.iter().position(is_same).unwrap_or_else(|| {
        let (steps_ms, late_ms) = (Vec::new(), Default::default());
        all.push(Beside { operation, step: name.clone(), steps_ms, late_ms });
        all.len() - 1
    });
    let beside = &mut all[index];
    beside.steps_ms.push(end.saturating_sub(*begin) as f64 / 1e6);
    for (late_ms, beats) in beside.late_ms.iter_mut().zip(lateness) {
        let first = beats.partition_point(|beat| beat.due_ns < *begin);
        let during = beats[first..].iter().take_while(|beat| beat.due_ns < *end);
        late_ms.extend(during.map(|beat| beat.late_ns as f64 / 1e6));
    }
}

/// Runs an operation again and again in a process of its own, and returns its steps.
fn operate(name: &str) -> anyhow::Result<Vec<Step>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["operate", name, "--seconds", &SECONDS.to_string()]).stdout(Stdio::piped());
    let mut child = mw_test::ChildGuard(command.spawn()?);
    let stdout = child.0.stdout.take().context("no output")?;
    let reader = std::thread::spawn(move || std::io::read_to_string(stdout));
    let limit = Duration::from_secs(SECONDS) + GRACE;
    let status = mw_test::exit_within(&mut child.0, limit)?.context("it does not end")?;
    anyhow::ensure!(status.success(), "{name}: {status}");
    let text = reader.join().ok().context("no output")??;
    text.lines().map(|line| parse(line).with_context(|| line.to_owned())).collect()
}

fn parse(line: &str) -> Option<Step> {
    let (rest, end) = line.rsplit_once(' ')?;
    let (name, begin) = rest.rsplit_once(' ')?;
    Some((name.to_owned(), begin.parse().ok()?, end.parse().ok()?))
}

/// Wakes at each interval. A wake-up that is due while an earlier one is late counts, too.
fn beat(thread: Thread, is_over: &AtomicBool) -> anyhow::Result<Vec<Beat>> {
    if thread == Thread::RealTime {
        set_sched_fifo()?;
    }
    let mut beats = Vec::with_capacity(1 << 17);
    let mut due_ns = monotonic_ns() + INTERVAL_NS;
    while !is_over.load(Ordering::Relaxed) {
        let until = Timespec {
            tv_sec: i64::try_from(due_ns / 1_000_000_000)?,
            tv_nsec: i64::try_from(due_ns % 1_000_000_000)?,
        };
        clock_nanosleep_absolute(ClockId::Monotonic, &until)?;
        if thread == Thread::Faults {
            let page = mw_sys::page_bytes();
            let region = Region::anonymous(page, mw_segment::PageSize::Base)?;
            region.zero(0..page)?;
        }
        let late_ns = monotonic_ns().saturating_sub(due_ns);
        beats.push(Beat { due_ns, late_ns });
        due_ns += INTERVAL_NS;
    }
    Ok(beats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_the_beats_that_were_due_in_it() {
        let beat = |due_ns, late_ns| Beat { due_ns, late_ns };
        let lateness = [vec![beat(1, 10), beat(5, 20), beat(9, 30)], Vec::new(), Vec::new()];
        let mut all = Vec::new();
        let step = parse("zeroing by the server 2 9").unwrap();
        add(Operation::Attach, &step, &lateness, &mut all);
        assert_eq!((all.len(), all[0].step.as_str()), (1, "zeroing by the server"));
        assert_eq!(all[0].late_ms[0], [20.0 / 1e6]);
    }
}
