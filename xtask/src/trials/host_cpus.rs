//! How much of the host's CPUs others took while guests ran. An emulated guest cannot see it: it stalls by itself, and
//! the recorder is judged by what it was not told. What its threads waited for a CPU is no measure: each wakes thousands
//! of times a second, and on an idle virtual machine every wake-up takes tens of microseconds.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const GUEST: &str = "qemu-system";
const INTERVAL: Duration = Duration::from_millis(500);

/// Fields of the first line of `/proc/stat` that are no work: idle, iowait.
const IDLE: &[usize] = &[3, 4];
/// With niced programs, which give way to guests, where sessions do not share the CPUs evenly.
const IDLE_OR_NICE: &[usize] = &[1, 3, 4];
const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";
/// Its fields, without the two that others contain.
const FIELDS: usize = 8;

/// Watches the guests that this process has started.
pub(super) struct HostCpus {
    before: Option<Ticks>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<String, f64>>,
}

/// CPU time of the machine since it was started, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ticks {
    busy: f64,
    all: f64,
}

impl HostCpus {
    pub(super) fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let before = ticks();
        let thread = thread::spawn(move || {
            let mut ran = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                sample(&mut ran);
                thread::sleep(INTERVAL);
            }
            ran
        });
        Self { before, stop, thread }
    }

    /// Of the time of all CPUs, what others than the guests took, the hypervisor of this machine too, in percent.
    pub(super) fn others_percent(self) -> Option<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let ran = self.thread.join().ok()?;
        percent(self.before?, ticks()?, ran.values().sum())
    }
}

/// `ran` is the guests' time in nanoseconds.
fn percent(before: Ticks, after: Ticks, ran: f64) -> Option<f64> {
    let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
    let guests = ran / 1e9 * ticks_per_s;
    let all = after.all - before.all;
    (all > 0.0).then(|| ((after.busy - before.busy - guests) * 100.0 / all).max(0.0))
}

fn ticks() -> Option<Ticks> {
    let is_shared_evenly = fs::read_to_string(AUTOGROUP).is_ok_and(|text| text.trim() == "1");
    let no_work = if is_shared_evenly { IDLE } else { IDLE_OR_NICE };
    parse_ticks(&fs::read_to_string("/proc/stat").ok()?, no_work)
}

fn parse_ticks(text: &str, no_work: &[usize]) -> Option<Ticks> {
    let words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let fields: Vec<f64> = words.take(FIELDS).filter_map(|word| word.parse().ok()).collect();
    let all = fields.iter().sum();
    let idle: f64 = no_work.iter().filter_map(|field| fields.get(*field)).sum();
    Some(Ticks { busy: all - idle, all })
}

/// How long each thread of a guest has run, in nanoseconds (`schedstat`); of one that has ended the last that was seen.
fn sample(ran: &mut BTreeMap<String, f64>) {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter(|process| is_guest(&process.path().join("stat"), &own)) {
        let tasks = fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
        for task in tasks {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            if let Some(ns) = text.split_whitespace().next().and_then(|word| word.parse().ok()) {
                ran.insert(task.path().display().to_string(), ns);
            }
        }
    }
}

/// Whether a `/proc/PID/stat` is of a guest with this parent.
fn is_guest(stat: &std::path::Path, parent: &str) -> bool {
    let text = fs::read_to_string(stat).unwrap_or_default();
    let Some((name, rest)) = text.rsplit_once(')') else { return false };
    name.contains(GUEST) && rest.split_whitespace().nth(1) == Some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_guests_is_of_others() {
        let ticks = |text: &str| parse_ticks(text, IDLE).unwrap();
        let before = ticks("cpu  100 0 50 1000 20 0 5 0 7 7\ncpu0 1 2 3");
        assert_eq!(before, Ticks { busy: 155.0, all: 1175.0 });
        // 400 ticks, of which 100 idle; the guests ran for 2 s.
        let after = ticks("cpu  300 10 110 1100 20 0 15 20 7 7\n");
        let per_s = rustix::param::clock_ticks_per_second() as f64;
        let expected = (300.0 - 2.0 * per_s) * 100.0 / 400.0;
        assert_eq!(percent(before, after, 2e9), Some(expected.max(0.0)));
        assert_eq!(percent(before, before, 0.0), None);
        let niced = parse_ticks("cpu  300 10 110 1100 20 0 15 20\n", IDLE_OR_NICE).unwrap();
        assert_eq!(niced.busy, after.busy - 10.0);
        assert_eq!(parse_ticks("intr 1", IDLE), None);
    }
}
