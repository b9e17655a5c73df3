//! The share of the machine's CPUs that the recorder may take for evidence while something stalls. It measures itself:
//! the CPU time of all its threads, canary, probes and writer among them. Beyond its share it looks at fewer tasks,
//! polls no states, suspends a trace that takes more than a tenth of a CPU, and says so in the incident.

use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Of all CPUs, over [`WINDOW`]. Only small machines reach it: on large ones each part has a limit below it.
const SHARE_PERCENT: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// Extra CPU time for the beginning of a stall.
const BURST: Duration = Duration::from_secs(1);

/// Between two measurements that are kept.
const STEP: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct CpuBudget {
    cpus: u32,
    /// Time of the measurement, and the CPU time until then; the oldest first.
    measured: Mutex<VecDeque<(Duration, Duration)>>,
    looks: AtomicU64,
    polls: AtomicU64,
    suspensions: AtomicU64,
    stalls: AtomicU64,
}

/// Evidence that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkippableWork {
    /// A look at all tasks.
    Look,
    /// A poll of the states of threads.
    Poll,
    /// Reading the scheduler trace.
    Trace,
}

/// Work that was left out so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    looks: u64,
    polls: u64,
    suspensions: u64,
    /// Stalls that were over before there was time for them.
    stalls: u64,
}

impl CpuBudget {
    pub(crate) fn new(cpus: u32) -> Self {
        let cpus = cpus.max(1);
        let (measured, looks, polls, suspensions, stalls) = Default::default();
        Self { cpus, measured, looks, polls, suspensions, stalls }
    }

    /// True if there is room for a piece of work; one that is left out is counted.
    pub(crate) fn permits(&self, work: SkippableWork) -> bool {
        let permits = self.has_room();
        if !permits {
            let count = match work {
                SkippableWork::Look => &self.looks,
                SkippableWork::Poll => &self.polls,
                SkippableWork::Trace => &self.suspensions,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        permits
    }

    /// True if there is room, of which nothing is counted.
    pub(crate) fn has_room(&self) -> bool {
        self.turn(now(ClockId::Monotonic), now(ClockId::ProcessCPUTime))
    }

    fn turn(&self, now: Duration, cpu: Duration) -> bool {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        while measured.front().is_some_and(|(at, _)| now.saturating_sub(*at) > WINDOW) {
            measured.pop_front();
        }
        if measured.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= STEP) {
            measured.push_back((now, cpu));
        }
        let (since, before) = measured.front().copied().unwrap_or((now, cpu));
        let share = now.saturating_sub(since) * self.cpus * SHARE_PERCENT / 100;
        cpu.saturating_sub(before) <= share + BURST
    }

    /// A stall was over before there was time for it.
    pub(crate) fn note_left_out_stall(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn left_out(&self) -> LeftOut {
        LeftOut {
            looks: self.looks.load(Ordering::Relaxed),
            polls: self.polls.load(Ordering::Relaxed),
            suspensions: self.suspensions.load(Ordering::Relaxed),
            stalls: self.stalls.load(Ordering::Relaxed),
        }
    }
}

impl LeftOut {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            looks: self.looks.saturating_sub(before.looks),
            polls: self.polls.saturating_sub(before.polls),
            suspensions: self.suspensions.saturating_sub(before.suspensions),
            stalls: self.stalls.saturating_sub(before.stalls),
        }
    }

    pub(crate) fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { looks, polls, suspensions, stalls } = self;
        let times = match suspensions {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        write!(
            f,
            "the recorder had taken {SHARE_PERCENT}% of the CPUs: it left out {looks} looks at tasks and {polls} polls \
             of threads, and suspended the trace {times}"
        )?;
        match stalls {
            0 => Ok(()),
            1 => f.write_str("; one shorter stall was not explained"),
            stalls => write!(f, "; {stalls} shorter stalls were not explained"),
        }
    }
}

fn now(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of the pieces of work of 50 ms each, one every 100 ms, that are permitted in a minute.
    fn permitted(cpus: u32) -> usize {
        let budget = CpuBudget::new(cpus);
        let mut cpu = Duration::ZERO;
        (0..600)
            .filter(|turn| {
                let is_permitted = budget.turn(Duration::from_millis(turn * 100), cpu);
                cpu += if is_permitted { Duration::from_millis(50) } else { Duration::ZERO };
                is_permitted
            })
            .count()
    }

    #[test]
    fn a_small_machine_is_left_to_its_services() {
        // A fifth of one CPU in a minute is 12 s, and a burst in each window.
        let one = permitted(1);
        assert!((200..=400).contains(&one), "{one}");
        assert_eq!(permitted(8), 600, "a large one has room for all");
    }

    #[test]
    fn what_was_left_out_is_counted() {
        let budget = CpuBudget::new(1);
        assert!(budget.permits(SkippableWork::Look) && budget.left_out().is_nothing());
        let before = budget.left_out();
        budget.suspensions.fetch_add(1, Ordering::Relaxed);
        let left_out = budget.left_out().since(before);
        assert!(left_out.to_string().ends_with("suspended the trace once"), "{left_out}");
        assert!(before.since(left_out).is_nothing());
        budget.note_left_out_stall();
        let left_out = budget.left_out().since(before).to_string();
        assert!(
            left_out.ends_with("the trace once; one shorter stall was not explained"),
            "{left_out}"
        );
    }
}
