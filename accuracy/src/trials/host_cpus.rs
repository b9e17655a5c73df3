//! How long guests waited for the host's CPUs. An emulated guest cannot see it: it stalls by itself, and the recorder
//! is judged by what it was not told.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const GUEST: &str = "qemu-system";
const INTERVAL: Duration = Duration::from_millis(500);

/// Delay of a wake-up where nobody else wants the CPU: on an idle virtual machine tens of microseconds, and a guest's
/// threads wake thousands of times a second.
const WAKE_UP_NS: f64 = 50_000.0;

/// Watches the guests that this process has started.
pub(super) struct HostCpus {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<String, Schedstat>>,
}

/// Nanoseconds on a CPU, and ready to run without one, less the wake-ups (`/proc/PID/schedstat`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Schedstat {
    ran: f64,
    waited: f64,
}

impl HostCpus {
    pub(super) fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut threads = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                sample(&mut threads);
                thread::sleep(INTERVAL);
            }
            threads
        });
        Self { stop, thread }
    }

    /// Of the time in which the guests wanted a CPU, how much they waited for it, in percent.
    pub(super) fn waited_percent(self) -> Option<f64> {
        self.stop.store(true, Ordering::Relaxed);
        percent(self.thread.join().ok()?.values())
    }
}

fn percent<'a>(threads: impl Iterator<Item = &'a Schedstat>) -> Option<f64> {
    let all = threads.fold(Schedstat::default(), |sum, thread| Schedstat {
        ran: sum.ran + thread.ran,
        waited: sum.waited + thread.waited,
    });
    (all.ran > 0.0).then(|| all.waited * 100.0 / (all.ran + all.waited))
}

/// The latest state of each thread of a guest; of one that has ended the last that was seen.
fn sample(threads: &mut BTreeMap<String, Schedstat>) {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter(|process| is_guest(&process.path().join("stat"), &own)) {
        let tasks = fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
        for task in tasks {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            if let Some(schedule) = parse(&text) {
                threads.insert(task.path().display().to_string(), schedule);
            }
        }
    }
}

/// True if a `/proc/PID/stat` is of a guest with this parent.
fn is_guest(stat: &std::path::Path, parent: &str) -> bool {
    let text = fs::read_to_string(stat).unwrap_or_default();
    let Some((name, rest)) = text.rsplit_once(')') else { return false };
    name.contains(GUEST) && rest.split_whitespace().nth(1) == Some(parent)
}

fn parse(text: &str) -> Option<Schedstat> {
    let mut words = text.split_whitespace().map(|word| word.parse::<f64>().ok());
    let (ran, waited, times) = (words.next()??, words.next()??, words.next()??);
    Some(Schedstat { ran, waited: (waited - times * WAKE_UP_NS).max(0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_waits_as_long_as_it_runs_waits_half_of_the_time() {
        let threads =
            ["1000000 1150000 3\n", "2000000 2450000 9\n"].map(|text| parse(text).unwrap());
        assert_eq!(percent(threads.iter()), Some(50.0));
        assert_eq!(parse("1107000000 373000000 15223\n").unwrap().waited, 0.0, "an idle machine");
        assert_eq!(percent([].iter()), None, "there was no guest");
        assert_eq!(parse("100 50"), None);
    }
}
