//! Follows the signals that end processes: reads the sender and the process at once, waits for what logs tell of the kill,
//! and keeps it in the recording.

use crate::kernel_events::KernelEvents;
use crate::kill_budget::KillBudget;
use crate::kill_scope::is_kept;
use crate::progress::Beat;
use crate::services::Services;
use crate::wakeup::WakeupFd;
use mw_collect::service::{PartyFacts, read_party};
use mw_collect::{JournalQuery, search_journal};
use mw_model::{KillParty, Killer, ProcessKill, ServiceProcess};
use mw_profile::{SentRecord, SignalEvents, SignalTracer};
use mw_record::Writer;
use mw_rules::{
    KILL_LOG_WORDS, KillLogLine, SentSignal, complete_kill, explain_signal, kill_log_units,
};
use mw_sys::{leave_real_time, monotonic_ns, set_sched_fifo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Between two looks at which services there are, and while kills wait for what logs tell.
const CALM_INTERVAL: Duration = Duration::from_secs(10);
const WAITING_INTERVAL: Duration = Duration::from_millis(500);

/// Between two turns where there are signals all the time.
const PAUSE: Duration = Duration::from_millis(20);

/// The kernel's log and daemons tell of a kill within so long.
const SETTLE_MS: u64 = 2_000;

/// Kills, and marks of the OOM killer, that wait.
const MAX_WAITING: usize = 256;

/// From one search of the journal to the next, and the longest that a kill waits for one.
const JOURNAL_REST_MS: u64 = 30_000;
const MAX_WAIT_MS: u64 = 40_000;
/// Time limit of a search, and how far before a kill it begins.
const JOURNAL_LIMIT: Duration = Duration::from_secs(10);
const JOURNAL_BEFORE_MS: u64 = 130_000;

/// A mark of the OOM killer is of a signal of the same context within so long.
const MARK_MS: u64 = 2_000;

#[derive(Debug)]
pub(crate) struct SignalKills {
    wakeup: WakeupFd,
    /// The latest that are kept, for incidents.
    recent: Mutex<VecDeque<ProcessKill>>,
}

/// A signal that waits for what logs tell.
#[derive(Debug)]
struct WaitingSignal {
    sent: SentSignal,
    /// The thread at each end.
    target: u32,
    sender: u32,
}

/// A victim of the OOM killer.
#[derive(Debug, Clone, Copy)]
struct OomMark {
    unix_ms: u64,
    victim: u32,
    by: u32,
}

#[derive(Debug, Default)]
struct SignalState {
    budget: KillBudget,
    waiting: VecDeque<WaitingSignal>,
    marks: VecDeque<OomMark>,
    /// Kills that were not looked at, or not kept, since the last that was.
    more: u64,
    services: Vec<u32>,
    searched_unix_ms: u64,
}

impl SignalKills {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { wakeup: WakeupFd::new()?, recent: Mutex::default() })
    }

    pub(crate) fn wake(&self) {
        self.wakeup.wake();
    }

    /// Follows signals until the recorder stops.
    pub(crate) fn run(
        &self,
        mut tracer: SignalTracer,
        services: &Services,
        kernel_events: &KernelEvents,
        writer: &Writer,
        stop: &AtomicBool,
        beat: &Beat,
    ) {
        let mut state = SignalState::default();
        // A sender such as kill(1) ends within 100 µs. What is refused is a name less.
        let _ = set_sched_fifo();
        loop {
            beat.rest();
            self.wait(&tracer, !state.waiting.is_empty());
            beat.step();
            let is_last = stop.load(Ordering::Relaxed);
            state.note(tracer.take());
            let settled = state.settled(is_last);
            let kills = state.explain(settled, kernel_events, is_last);
            if !kills.is_empty() {
                self.remember(&kills);
                writer.keep_kills(kills);
            }
            if is_last {
                return;
            }
            state.follow(services, &mut tracer);
            std::thread::sleep(PAUSE);
        }
    }

    fn remember(&self, kills: &[ProcessKill]) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.extend(kills.iter().cloned());
        let excess = recent.len().saturating_sub(MAX_WAITING);
        recent.drain(..excess);
    }

    /// The kill of a process from one time to another.
    pub(crate) fn kill_of(&self, pid: u32, from: u64, until: u64) -> Option<ProcessKill> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |kill: &&ProcessKill| {
            kill.victim.process.pid == pid && (from..=until).contains(&kill.unix_ms)
        };
        recent.iter().rev().find(is_it).cloned()
    }

    fn wait(&self, tracer: &SignalTracer, is_waiting: bool) {
        let limit = if is_waiting { WAITING_INTERVAL } else { CALM_INTERVAL };
        let records = tracer.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let wakeup = PollFd::from_borrowed_fd(self.wakeup.as_fd(), PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = records.chain([wakeup]).collect();
        // A signal ends it early, which harms nothing.
        let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
        self.wakeup.clear();
    }
}

impl SignalState {
    /// Reads the processes at both ends before anything else: they may end at once.
    fn note(&mut self, events: SignalEvents) {
        let (now_ns, now_ms) = (monotonic_ns(), mw_sys::unix_ms());
        self.more = self.more.saturating_add(events.lost);
        for record in events.signals {
            let is_looked_at =
                self.budget.permits_look(now_ns / 1_000_000, record.sender, record.is_of_kernel);
            let signal = is_looked_at.then(|| {
                let sender = read_party(record.sender);
                let is_own = record.sender == record.target;
                let victim = if is_own { sender.clone() } else { read_party(record.target) };
                let ago_ms = now_ns.saturating_sub(record.time_ns) / 1_000_000;
                self.signal(record, now_ms.saturating_sub(ago_ms), sender, victim)
            });
            match signal {
                Some(None) => {}
                Some(Some(signal)) if self.permits(now_ns, &signal) => {
                    self.waiting.push_back(signal)
                }
                _ => self.more = self.more.saturating_add(1),
            }
        }
        let marks = events.victims.into_iter();
        self.marks.extend(marks.map(|(victim, by)| OomMark { unix_ms: now_ms, victim, by }));
        let excess = self.marks.len().saturating_sub(MAX_WAITING);
        self.marks.drain(..excess);
    }

    fn permits(&mut self, now_ns: u64, signal: &WaitingSignal) -> bool {
        let victim = signal.sent.victim.clone();
        let source = ProcessKill { victim, ..ProcessKill::default() }.source_name();
        self.waiting.len() < MAX_WAITING && self.budget.permits_kill(now_ns / 1_000_000, &source)
    }

    /// A signal that is kept.
    fn signal(
        &self,
        record: SentRecord,
        unix_ms: u64,
        sender: Option<PartyFacts>,
        victim: Option<PartyFacts>,
    ) -> Option<WaitingSignal> {
        let SentRecord { signal, is_of_kernel, target, name, sender: task, sender_name, .. } =
            record;
        let of_service = |pid: u32| self.services.contains(&pid);
        let is_of_service = of_service(target)
            || victim.as_ref().is_some_and(|of| of_service(of.party.process.pid));
        if !is_kept(is_of_kernel, is_of_service, sender.as_ref(), victim.as_ref()) {
            return None;
        }
        let mut unseen = Vec::new();
        if sender.is_none() {
            unseen.push("user and cgroup of the sender, which had ended".to_owned());
        }
        if victim.is_none() {
            unseen.push("user and cgroup of the process, which was gone".to_owned());
        }
        let unread = |pid, name: String| {
            let process = ServiceProcess { pid, name };
            PartyFacts {
                party: KillParty { process, ..KillParty::default() },
                ..PartyFacts::default()
            }
        };
        let sender = sender.unwrap_or_else(|| unread(task, sender_name.unwrap_or_default()));
        let victim = victim.unwrap_or_else(|| unread(target, name));
        let is_of_namespace_init =
            sender.is_namespace_init && sender.party.process.pid != victim.party.process.pid;
        let sent = SentSignal {
            unix_ms,
            signal,
            is_of_kernel,
            victim: victim.party,
            sender: Some(sender.party),
            is_oom_victim: false,
            reached_cpu_limit_s: victim.reached_cpu_limit_s,
            is_of_namespace_init,
            unseen,
        };
        Some(WaitingSignal { sent, target, sender: task })
    }

    /// Signals of which logs have told by now.
    fn settled(&mut self, is_last: bool) -> Vec<WaitingSignal> {
        let until = mw_sys::unix_ms().saturating_sub(SETTLE_MS);
        let is_settled = |signal: &WaitingSignal| is_last || signal.sent.unix_ms <= until;
        let count = self.waiting.iter().take_while(|signal| is_settled(signal)).count();
        self.waiting.drain(..count).collect()
    }

    /// Explains signals; those for which the journal cannot be searched yet wait on.
    fn explain(
        &mut self,
        settled: Vec<WaitingSignal>,
        kernel_events: &KernelEvents,
        is_last: bool,
    ) -> Vec<ProcessKill> {
        let now_ms = mw_sys::unix_ms();
        let may_search = !is_last && now_ms.abs_diff(self.searched_unix_ms) >= JOURNAL_REST_MS;
        let (mut kills, mut is_needed, mut waiting) = (Vec::new(), false, VecDeque::new());
        for mut signal in settled {
            let sent = &mut signal.sent;
            sent.is_oom_victim = sent.is_of_kernel
                && self.marks.iter().any(|mark| {
                    let is_near = mark.unix_ms.abs_diff(sent.unix_ms) <= MARK_MS;
                    is_near && (mark.victim == signal.target || mark.by == signal.sender)
                });
            let near = sent.unix_ms.saturating_sub(SETTLE_MS);
            let oom = kernel_events.victims_between(near, sent.unix_ms.saturating_add(SETTLE_MS));
            let kill = explain_signal(sent.clone(), &oom, &[]);
            let needs_log = is_told_in_log(&kill);
            let is_old = now_ms.saturating_sub(kill.unix_ms) >= MAX_WAIT_MS;
            if needs_log && !may_search && !is_old && !is_last {
                waiting.push_back(signal);
                continue;
            }
            is_needed |= needs_log;
            kills.push(kill);
        }
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
        if is_needed && may_search {
            self.searched_unix_ms = now_ms;
            let first = kills.iter().map(|kill| kill.unix_ms).min().unwrap_or(now_ms);
            // Lines of the journal may be many.
            leave_real_time();
            let lines = logged_lines(first.saturating_sub(JOURNAL_BEFORE_MS), now_ms);
            let _ = set_sched_fifo();
            kills.iter_mut().for_each(|kill| complete_kill(kill, &lines));
        }
        if let Some(last) = kills.last_mut() {
            last.more = std::mem::take(&mut self.more);
        }
        kills
    }

    /// Has the kernel record SIGTERM and SIGABRT of the services that there are now.
    fn follow(&mut self, services: &Services, tracer: &mut SignalTracer) {
        let mut processes = services.processes();
        processes.sort_unstable();
        if processes != self.services {
            // What is refused is not recorded; SIGKILL still is.
            let _ = tracer.watch(&processes);
            self.services = processes;
        }
    }
}

/// True if the killer writes to the journal why it kills.
fn is_told_in_log(kill: &ProcessKill) -> bool {
    use Killer::{ContainerRuntime, Kubelet, OomDaemon, Systemd};
    matches!(kill.killer, OomDaemon(_) | Kubelet | ContainerRuntime(_) | Systemd)
}

/// Lines of the journal about kills; none where it cannot be searched.
fn logged_lines(since_unix_ms: u64, until_unix_ms: u64) -> Vec<KillLogLine> {
    let units: Vec<&str> = kill_log_units().collect();
    let query = JournalQuery {
        since_unix_ms,
        until_unix_ms,
        units: &units,
        words: &KILL_LOG_WORDS,
        time: JOURNAL_LIMIT,
    };
    let found = search_journal(query).unwrap_or_default();
    found.lines.iter().filter_map(KillLogLine::parse).collect()
}
