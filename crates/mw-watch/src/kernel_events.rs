//! Follows what the kernel tells of kills of the OOM killer and of caches dropped by hand: its log, and its counter
//! of kills, which the sampling thread reads. Kills are incidents of their own, and evidence of the stalls that they
//! happen in.

use crate::clock;
use crate::kills::{self, Kill};
use crate::oom_detector::OomTransition;
use crate::oom_runs::OomRuns;
use crate::progress::Beat;
use crate::services::{LostProcess, Services};
use crate::sizes::Sizes;
use crate::stall::{Monitor, Stall};
use crate::stall_queue::StallQueue;
use crate::wakeup::WakeupFd;
use mw_collect::service::writer_process;
use mw_collect::{KernelLog, LoggedEvents};
use mw_model::fair::place_to_free;
use mw_model::{CacheDrop, OomKills, OomVictim};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Kills and drops that are kept for the incidents of stalls, for as long as a stall's rows are. Of more kills the first
/// of whoever has most go.
const MAX_KEPT: usize = 64;
const KEPT_MS: u64 = 120_000;

/// The log follows the counter within so long; then a kill was not logged.
const LOG_DELAY_MS: f64 = 500.0;

/// Between two turns while an incident is open, and otherwise: the log and the counter wake the thread.
const OPEN_INTERVAL: Duration = Duration::from_secs(1);
const CALM_INTERVAL: Duration = Duration::from_secs(60);

/// Between two turns where the log is written all the time.
const PAUSE: Duration = Duration::from_millis(20);

/// Kills shortly before a stall are evidence of it: a probe notices up to an interval later.
const BEFORE_STALL_MS: u64 = 2_000;

#[derive(Debug)]
pub(crate) struct KernelEvents {
    log: Arc<Mutex<KernelLog>>,
    state: Mutex<KernelState>,
    /// The kernel's counter of kills; none was read yet where it is the largest number.
    counter: AtomicU64,
    wakeup: WakeupFd,
}

#[derive(Debug, Default)]
struct KernelState {
    kills: VecDeque<Kill>,
    drops: VecDeque<CacheDrop>,
    runs: OomRuns<LostProcess>,
    unlogged: KillCounter,
    has_lost: bool,
}

/// Compares the counter with the log.
#[derive(Debug, Default)]
struct KillCounter {
    /// The counter when it was first read.
    from: Option<u64>,
    told: u64,
    since_ms: Option<f64>,
}

impl KernelEvents {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            log: Arc::new(Mutex::new(KernelLog::open())),
            state: Mutex::default(),
            counter: AtomicU64::new(u64::MAX),
            wakeup: WakeupFd::new()?,
        })
    }

    /// Takes the kernel's counter of kills. Allocates nothing.
    pub(crate) fn count(&self, kills: u64) {
        if self.counter.swap(kills, Ordering::Relaxed) != kills {
            self.wakeup.wake();
        }
    }

    /// The log, for those who look up how a process ended.
    pub(crate) fn shared_log(&self) -> Arc<Mutex<KernelLog>> {
        Arc::clone(&self.log)
    }

    fn log(&self) -> MutexGuard<'_, KernelLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake(&self) {
        self.wakeup.wake();
    }

    /// Follows the log and the counter until the recorder stops.
    pub(crate) fn run(
        &self,
        services: &Services,
        sizes: &Sizes,
        stalls: &StallQueue,
        stop: &AtomicBool,
        beat: &Beat,
    ) {
        let descriptor = self.log().descriptor();
        let is_logged = descriptor.is_ok();
        let missing = descriptor.as_ref().err().map(ToString::to_string);
        let mut descriptor = descriptor.ok();
        while !stop.load(Ordering::Relaxed) {
            beat.rest();
            self.wait(&mut descriptor);
            beat.step();
            let events = self.log().take();
            self.note_drops(&events);
            let transitions = self.note_kills(events, is_logged, services);
            for (transition, run) in transitions {
                let stall = match transition {
                    OomTransition::Begun => self.begin_stall(run, sizes, missing.as_deref()),
                    OomTransition::Over => Some(self.end_stall(run)),
                };
                stall.into_iter().for_each(|stall| stalls.send(stall));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn wait(&self, descriptor: &mut Option<OwnedFd>) {
        let state = self.state();
        let is_waiting = state.runs.is_open() || state.unlogged.since_ms.is_some();
        drop(state);
        let timeout = if is_waiting { OPEN_INTERVAL } else { CALM_INTERVAL };
        let mut fds = vec![PollFd::new(&self.wakeup, PollFlags::IN)];
        fds.extend(
            descriptor.as_ref().map(|log| PollFd::from_borrowed_fd(log.as_fd(), PollFlags::IN)),
        );
        // A signal ends it early, which harms nothing.
        let _ = poll(&mut fds, Timespec::try_from(timeout).ok().as_ref());
        // After an overrun the log is readable with an error, which reading clears.
        let is_gone = fds.get(1).is_some_and(|log| log.revents().contains(PollFlags::NVAL));
        self.wakeup.clear();
        if is_gone {
            *descriptor = None;
        }
    }

    /// Asks at once who wrote: a command is gone soon.
    fn note_drops(&self, events: &LoggedEvents) {
        let drops = events.drops.iter().map(|drop| CacheDrop {
            at_unix_ms: drop.unix_ms,
            value: drop.value,
            writer: writer_process(&drop.process),
        });
        let drops: Vec<CacheDrop> = drops.collect();
        let state = &mut *self.state();
        keep(&mut state.drops, drops, |drop| drop.at_unix_ms);
        let excess = state.drops.len().saturating_sub(MAX_KEPT);
        state.drops.drain(..excess);
    }

    /// Adds kills to the incidents under way, or to new ones; which began, and which are over.
    fn note_kills(
        &self,
        events: LoggedEvents,
        is_logged: bool,
        services: &Services,
    ) -> Vec<(OomTransition, u64)> {
        let logged = events.kills.len() as u64 + events.more_kills;
        let mut killed: Vec<Kill> = events.kills.into_iter().map(Kill::Logged).collect();
        let now_ms = clock::monotonic_ms();
        let counter = self.counter.load(Ordering::Relaxed);
        let counted = {
            let state = &mut *self.state();
            state.has_lost |= events.has_lost;
            state.unlogged.turn(now_ms, counter, logged, is_logged)
        };
        let count = counted.saturating_add(events.more_kills);
        if count > 0 {
            killed.push(Kill::Counted { unix_ms: mw_sys::unix_ms(), count });
        }
        let with_lost = |kill: Kill| {
            let lost = services.lost_to(&kill).into_iter().map(|lost| (lost.probe, lost)).collect();
            (kill, lost)
        };
        let killed: Vec<_> = killed.into_iter().map(with_lost).collect();
        let state = &mut *self.state();
        let transitions = state.runs.turn(now_ms, &killed);
        keep(&mut state.kills, killed.into_iter().map(|(kill, _)| kill).collect(), Kill::unix_ms);
        while state.kills.len() > MAX_KEPT {
            let sources: Vec<String> = state.kills.iter().map(Kill::source).collect();
            let place = place_to_free(sources.iter().map(|source| (source.as_str(), 1)));
            state.kills.remove(place.unwrap_or(0));
        }
        transitions
    }

    /// A run of kills has begun: the largest holders as they were recorded last are added, where the log does not have
    /// them.
    fn begin_stall(&self, number: u64, sizes: &Sizes, missing: Option<&str>) -> Option<Stall> {
        let state = &mut *self.state();
        let has_lost = state.has_lost;
        let run = state.runs.run_mut(number)?;
        run.kills.unseen = match missing {
            Some(error) => Some(format!("the kernel's log may not be read: {error}")),
            None if has_lost => Some("the kernel overwrote a part of its log".to_owned()),
            None => None,
        };
        if run.kills.holders.is_empty() {
            let (holders, source) = sizes.largest_processes();
            kills::set_holders(&mut run.kills, holders, source);
        }
        Some(stall_of_kills(number, run.kills.first_unix_ms))
    }

    fn end_stall(&self, number: u64) -> Stall {
        let state = self.state();
        let kills = state.runs.run(number).map(|run| &run.kills);
        let now = mw_sys::unix_ms();
        let ended_unix_ms = Some(kills.map_or(now, |kills| kills.last_unix_ms));
        let started_unix_ms = kills.map_or(now, |kills| kills.first_unix_ms);
        Stall { ended_unix_ms, ..stall_of_kills(number, started_unix_ms) }
    }

    /// The kills of a run, and the services that lost a process, by the places of their probes.
    pub(crate) fn kills_of(&self, number: u64) -> Option<(OomKills, Vec<(usize, LostProcess)>)> {
        let run = self.state().runs.run(number).cloned()?;
        Some((run.kills, run.lost))
    }

    /// The kills during a stall.
    pub(crate) fn kills_between(
        &self,
        started_unix_ms: u64,
        ended_unix_ms: u64,
    ) -> Option<OomKills> {
        let from = started_unix_ms.saturating_sub(BEFORE_STALL_MS);
        let mut found = OomKills::default();
        for kill in self
            .state()
            .kills
            .iter()
            .filter(|kill| (from..=ended_unix_ms).contains(&kill.unix_ms()))
        {
            kills::add(&mut found, kill);
        }
        (found.count > 0).then_some(found)
    }

    /// Victims of the OOM killer from one time to another, each kill by itself.
    pub(crate) fn victims_between(&self, from_unix_ms: u64, until_unix_ms: u64) -> Vec<OomVictim> {
        let times = from_unix_ms..=until_unix_ms;
        let state = self.state();
        let kills = state.kills.iter().filter(|kill| times.contains(&kill.unix_ms()));
        let victim = |kill: &Kill| match kill {
            Kill::Logged(logged) => Some(logged.victim.clone()),
            Kill::Counted { .. } => None,
        };
        kills.filter_map(victim).collect()
    }

    /// Caches dropped from one time to another.
    pub(crate) fn drops_between(&self, from_unix_ms: u64, until_unix_ms: u64) -> Vec<CacheDrop> {
        let times = from_unix_ms..=until_unix_ms;
        let state = self.state();
        state.drops.iter().filter(|drop| times.contains(&drop.at_unix_ms)).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, KernelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KillCounter {
    /// Takes the counter, and how many kills were logged since the last turn; how many will not be.
    fn turn(&mut self, now_ms: f64, counter: u64, logged: u64, is_logged: bool) -> u64 {
        if counter == u64::MAX {
            return 0;
        }
        let from = *self.from.get_or_insert(counter);
        self.told = self.told.saturating_add(logged);
        let untold = counter.saturating_sub(from).saturating_sub(self.told);
        if untold == 0 {
            self.since_ms = None;
            return 0;
        }
        let since_ms = *self.since_ms.get_or_insert(now_ms);
        if is_logged && now_ms - since_ms < LOG_DELAY_MS {
            return 0;
        }
        self.since_ms = None;
        self.told = self.told.saturating_add(untold);
        untold
    }
}

/// Keeps what a stall may ask for.
fn keep<T>(kept: &mut VecDeque<T>, new: Vec<T>, unix_ms: impl Fn(&T) -> u64) {
    let oldest = mw_sys::unix_ms().saturating_sub(KEPT_MS);
    kept.extend(new);
    while kept.front().is_some_and(|first| unix_ms(first) < oldest) {
        kept.pop_front();
    }
}

/// The stall of a run of kills.
fn stall_of_kills(run: u64, started_unix_ms: u64) -> Stall {
    let seen_unix_ms = mw_sys::unix_ms().max(started_unix_ms);
    let stall = Stall::new(Monitor::OomKill(run), "", 0.0, 0.0, seen_unix_ms);
    Stall { started_unix_ms, ..stall }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (The recorder): Kills that the log does not tell of are counted.
    #[test]
    fn what_the_log_does_not_tell_of_is_told_by_the_counter() {
        let mut unlogged = KillCounter::default();
        assert_eq!(unlogged.turn(0.0, u64::MAX, 0, true), 0, "not read yet");
        assert_eq!(unlogged.turn(1.0, 7, 0, true), 0, "from before");
        assert_eq!(unlogged.turn(2.0, 9, 1, true), 0, "the log may be late");
        assert_eq!(unlogged.turn(3.0, 9, 1, true), 0, "it was");
        assert_eq!(unlogged.turn(4.0, 12, 0, true), 0);
        assert_eq!(unlogged.turn(4.0 + LOG_DELAY_MS, 12, 0, true), 3);
        assert_eq!(unlogged.turn(1000.0, 12, 0, true), 0, "told once");
        assert_eq!(unlogged.turn(1001.0, 14, 0, false), 2, "there is no log");
        assert_eq!(unlogged.turn(1002.0, 14, 1, true), 0, "logged, but not counted yet");
        assert_eq!(unlogged.turn(1003.0, 15, 0, true), 0);
    }
}
