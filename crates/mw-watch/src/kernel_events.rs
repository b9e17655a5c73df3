//! Follows what the kernel tells of kills of the OOM killer and of caches dropped by hand: its log, and its counter
//! of kills, which the sampling thread reads. Kills are incidents of their own, and evidence of the stalls that they
//! happen in.

use crate::clock;
use crate::detector::Monitor;
use crate::kills::{self, Kill};
use crate::monitors::Monitors;
use crate::oom_detector::{OomDetector, OomTransition};
use crate::services::{LostProcess, Services};
use crate::sizes::Sizes;
use crate::stalls::{Begun, StallEvent, Stalls};
use crate::wakeup::Wakeup;
use mw_collect::service::writer_process;
use mw_collect::{KernelLog, LoggedEvents};
use mw_model::{CacheDrop, OomKills, Trigger, TriggerKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Kills and drops that are kept for the incidents of stalls, for as long as a stall's rows are.
const MAX_KEPT: usize = 64;
const KEPT_MS: u64 = 120_000;

/// Incidents of kills that may wait to be closed at the same time.
const MAX_RUNS: usize = 4;

/// Probes of one incident whose services lost a process.
const MAX_LOST: usize = 16;

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
    state: Mutex<State>,
    /// The kernel's counter of kills; none was read yet where it is the largest number.
    counter: AtomicU64,
    wakeup: Wakeup,
}

#[derive(Debug, Default)]
struct State {
    kills: VecDeque<Kill>,
    drops: VecDeque<CacheDrop>,
    /// The latest incidents of kills.
    runs: VecDeque<Run>,
    detector: OomDetector,
    unlogged: Unlogged,
    has_lost: bool,
}

/// The kills of one incident.
#[derive(Debug, Clone, Default)]
struct Run {
    kills: OomKills,
    lost: Vec<LostProcess>,
}

/// Compares the counter with the log.
#[derive(Debug, Default)]
struct Unlogged {
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
            wakeup: Wakeup::new()?,
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
        stalls: &Stalls,
        stop: &AtomicBool,
    ) {
        let descriptor = self.log().descriptor();
        let is_logged = descriptor.is_ok();
        let missing = descriptor.as_ref().err().map(ToString::to_string);
        let mut descriptor = descriptor.ok();
        while !stop.load(Ordering::Relaxed) {
            self.wait(&mut descriptor);
            let events = self.log().take();
            self.note_drops(&events);
            let (killed, transition) = self.note_kills(events, is_logged);
            for kill in &killed {
                let lost = services.lost_to(kill);
                self.note_lost(lost);
            }
            match transition {
                Some((OomTransition::Begun, run)) => {
                    self.complete(&run, sizes, missing.as_deref());
                    stalls.send(StallEvent::Begun(begun(run.kills.first_unix_ms)));
                }
                Some((OomTransition::Over, run)) => stalls.send(StallEvent::Over {
                    monitor: Monitor::OomKill,
                    ended_unix_ms: run.kills.last_unix_ms,
                    slowest: None,
                }),
                None => {}
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn wait(&self, descriptor: &mut Option<OwnedFd>) {
        let state = self.state();
        let is_waiting = state.detector.is_open() || state.unlogged.since_ms.is_some();
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
        keep(&mut self.state().drops, drops, |drop| drop.at_unix_ms);
    }

    /// Adds kills to the incident under way, or to a new one; what is new, and what it came to.
    fn note_kills(
        &self,
        events: LoggedEvents,
        is_logged: bool,
    ) -> (Vec<Kill>, Option<(OomTransition, Run)>) {
        let state = &mut *self.state();
        state.has_lost |= events.has_lost;
        let logged = events.kills.len() as u64 + events.more_kills;
        let mut killed: Vec<Kill> = events.kills.into_iter().map(Kill::Logged).collect();
        let counter = self.counter.load(Ordering::Relaxed);
        let now_ms = clock::monotonic_ms();
        let counted = state.unlogged.turn(now_ms, counter, logged, is_logged);
        let count = counted.saturating_add(events.more_kills);
        if count > 0 {
            killed.push(Kill::Counted { unix_ms: mw_sys::unix_ms(), count });
        }
        let transition = state.detector.turn(now_ms, !killed.is_empty());
        if transition == Some(OomTransition::Begun) {
            if state.runs.len() >= MAX_RUNS {
                state.runs.pop_front();
            }
            state.runs.push_back(Run::default());
        }
        if let Some(run) = state.runs.back_mut() {
            killed.iter().for_each(|kill| kills::add(&mut run.kills, kill));
        }
        keep(&mut state.kills, killed.clone(), Kill::unix_ms);
        let run = state.runs.back().cloned().unwrap_or_default();
        (killed, transition.map(|transition| (transition, run)))
    }

    fn note_lost(&self, lost: Vec<LostProcess>) {
        let mut state = self.state();
        let Some(run) = state.runs.back_mut() else { return };
        for lost in lost {
            let is_known = run.lost.iter().any(|known| known.probe == lost.probe);
            if !is_known && run.lost.len() < MAX_LOST {
                run.lost.push(lost);
            }
        }
    }

    /// Adds the largest holders as they were recorded last, where the log does not have them.
    fn complete(&self, begun: &Run, sizes: &Sizes, missing: Option<&str>) {
        let mut state = self.state();
        let has_lost = state.has_lost;
        let Some(run) = state.runs.back_mut() else { return };
        run.kills.unseen = match missing {
            Some(error) => Some(format!("the kernel's log may not be read: {error}")),
            None if has_lost => Some("the kernel overwrote a part of its log".to_owned()),
            None => None,
        };
        if begun.kills.holders.is_empty() {
            let (holders, source) = sizes.largest_processes();
            kills::set_holders(&mut run.kills, holders, source);
        }
    }

    /// The kills of an incident that began at this time.
    pub(crate) fn kills_of(
        &self,
        started_unix_ms: u64,
        services: &Services,
        monitors: &Monitors,
    ) -> Option<OomKills> {
        let run = {
            let state = self.state();
            let is_it = |run: &&Run| run.kills.first_unix_ms == started_unix_ms;
            state.runs.iter().find(is_it).cloned()?
        };
        let fates = run.lost.iter().filter_map(|lost| services.fate(lost, monitors));
        let services = fates.collect();
        Some(OomKills { services, ..run.kills })
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

    /// Caches dropped from one time to another.
    pub(crate) fn drops_between(&self, from_unix_ms: u64, until_unix_ms: u64) -> Vec<CacheDrop> {
        let times = from_unix_ms..=until_unix_ms;
        let state = self.state();
        state.drops.iter().filter(|drop| times.contains(&drop.at_unix_ms)).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unlogged {
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

/// Keeps the latest, as long as a stall may ask for them.
fn keep<T>(kept: &mut VecDeque<T>, new: Vec<T>, unix_ms: impl Fn(&T) -> u64) {
    let oldest = mw_sys::unix_ms().saturating_sub(KEPT_MS);
    kept.extend(new);
    while kept.len() > MAX_KEPT || kept.front().is_some_and(|first| unix_ms(first) < oldest) {
        kept.pop_front();
    }
}

fn begun(started_unix_ms: u64) -> Begun {
    let trigger =
        Trigger { kind: TriggerKind::OomKill, name: "oom_kill".to_owned(), ..Trigger::default() };
    Begun {
        trigger,
        monitor: Monitor::OomKill,
        started_unix_ms,
        seen_unix_ms: mw_sys::unix_ms().max(started_unix_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_does_not_tell_of_is_told_by_the_counter() {
        let mut unlogged = Unlogged::default();
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
