//! The scheduler trace of a request that may become a stall: enabled by the trigger thread at the alarm, read by a
//! thread of its own, asked for the critical path by the evidence thread.
//!
//! ```text
//! calm ── alarm: events enabled ─→ traced ── all is well, nobody holds the trace ─→ forgotten
//!                                    │ Begun: held until the path of the slowest request is found
//!                                    ├─ reading takes too much CPU time ─→ suspended ─→ traced
//! ```
//!
//! In calm all events are disabled and cost nothing, as they are during a stall while no request is overdue: what is traced
//! then is of no path, and takes the room of what is. While the trace is suspended, or where scheduler events may not be
//! traced, the states of the clients' and the services' threads are polled instead.

use crate::clock::thread_time_since;
use crate::cpu_budget::{CpuBudget, SkippableWork};
use crate::known_upstreams::KnownUpstreams;
use crate::priority::{in_time, read_in_time};
use crate::progress::Beat;
use crate::task_groups::{TaskGroups, locked};
use mw_collect::Source;
use mw_collect::service::family;
use mw_critical_path::{Nanos, PathSummary, RequestSpan, Trace, critical_path, filled_path};
use mw_model::{CpuUse, GroupUse, Missing};
use mw_profile::{
    POLLS_HZ, SchedTracer, StatePoller, Symbols, TraceCopy, TraceOptions, TraceSwitch,
};
use mw_sys::PidNamespace;
use mw_unwind::{NamingLimits, name_functions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Between two reads of the rings; a ring that is half full is read at once.
const ROUND: Duration = Duration::from_millis(100);

/// The longest trace: a service that is down for an hour needs no more of it.
const MAX_TRACE: Duration = Duration::from_secs(60);

/// CPU time that reading the trace may take of the time that it goes on, in percent: it is taken from services. Beyond
/// it the trace is suspended until reading has taken no more than the second. The second is the limit where the recorder
/// has taken its share of the CPUs: a trace that costs less is the last evidence to be left out.
const MAX_CPU_PERCENT: u32 = 20;
const RESUME_CPU_PERCENT: u32 = 10;

/// Between two rounds of polling, at least so many times as long as a round took, and such a part of the time that
/// polling has gone on: an outage of an hour needs no tenths of a second.
const COST_TO_REST: u32 = 20;
const PART_TO_REST: u32 = 500;

/// What happened so long after a request, or an eighth of it, is part of its trace.
const AFTERWARDS: Nanos = 100_000_000;

/// Less is not judged.
const LEAST_JUDGED: Duration = Duration::from_millis(500);

/// Processes of probed services of which all threads are read at the alarm.
const MAX_PROCESSES: usize = 64;

/// Connections from a service to one that it depends on, followed so far.
const MAX_DISTANCE: usize = 2;

/// Time limit of the search for the commands of probes.
const COMMANDS_LIMIT: Duration = Duration::from_millis(20);

/// The trace, shared by the threads of the recorder.
#[derive(Debug)]
pub(crate) struct SharedTrace {
    switch: Option<Arc<TraceSwitch>>,
    /// /proc numbers tasks as this process does, so that their states can be polled.
    may_poll: bool,
    /// State of the tracepoints.
    tracer: Mutex<Option<Box<SchedTracer>>>,
    /// While something is traced.
    poller: Mutex<Option<Box<StatePoller>>>,
    symbols: Arc<Mutex<Symbols>>,
    state: Mutex<TraceState>,
    changed: Condvar,
    groups: TaskGroups,
    services: Mutex<TracedServices>,
    upstreams: KnownUpstreams,
    budget: Arc<CpuBudget>,
    stop: AtomicBool,
}

/// Functions that a path has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionNaming {
    OfKernelAlone,
    OfPrograms,
}

/// Threads of the probed services that are read first.
#[derive(Debug, Clone, Default)]
pub(crate) struct TracedServices {
    /// The recorder's threads that ask.
    pub(crate) clients: Vec<u32>,
    pub(crate) processes: Vec<u32>,
    /// The cgroups of each of these processes: they are known when it has ended.
    pub(crate) groups: BTreeMap<u32, Vec<String>>,
}

impl TracedServices {
    /// The cgroups of all processes, each once, but for the root.
    pub(crate) fn cgroups(&self) -> Vec<String> {
        let paths: BTreeSet<&String> = self.groups.values().flatten().collect();
        paths.into_iter().filter(|path| *path != "/").cloned().collect()
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct TraceState {
    /// Something has been outstanding for long, or there is a stall.
    wanted: bool,
    /// Stalls whose path has not been found yet.
    holds: u32,
    /// Stalls so far.
    stalls: u64,
    /// No request is overdue although something is wanted, and how often that began.
    paused: bool,
    pauses: u64,
    /// Reading has taken too much CPU time, or the trace went on for [`MAX_TRACE`]: states alone are polled.
    suspended: bool,
}

impl SharedTrace {
    /// Opens the events; says what is missing where they cannot be opened.
    pub(crate) fn open(
        source: &Source,
        options: Option<TraceOptions>,
        symbols: Arc<Mutex<Symbols>>,
        budget: Arc<CpuBudget>,
        unseen: &mut Vec<Missing>,
    ) -> Self {
        let groups = TaskGroups::open(source, unseen);
        let tracer = options.map(SchedTracer::open);
        let untraced = |missing| {
            // The profiler may have said so already.
            if !unseen.contains(&missing) {
                unseen.push(missing);
            }
        };
        let tracer = tracer.and_then(|opened| opened.map_err(untraced).ok());
        Self {
            switch: tracer.as_ref().map(SchedTracer::switch),
            may_poll: PidNamespace::of_this_process()
                .is_ok_and(|namespace| namespace != PidNamespace::NotOfProc),
            tracer: Mutex::new(tracer.map(Box::new)),
            poller: Mutex::default(),
            symbols,
            state: Mutex::default(),
            changed: Condvar::new(),
            groups,
            services: Mutex::default(),
            upstreams: KnownUpstreams::default(),
            budget,
            stop: AtomicBool::new(false),
        }
    }

    /// Something has been outstanding for long: the trace begins, if it is not under way.
    pub(crate) fn alarm(&self) {
        let mut state = self.state();
        if !state.wanted {
            if let Some(switch) = &self.switch {
                switch.on();
            }
            state.wanted = true;
            self.changed.notify_all();
        } else if state.paused {
            if let Some(switch) = self.switch.as_ref().filter(|_| !state.suspended) {
                switch.on();
            }
            state.paused = false;
        }
    }

    /// No request is overdue, while a stall lasts.
    pub(crate) fn pause(&self) {
        let mut state = self.state();
        if state.wanted && !state.paused {
            self.off();
            (state.paused, state.pauses) = (true, state.pauses.saturating_add(1));
        }
    }

    /// Nothing is outstanding for long, and there is no stall.
    pub(crate) fn calm(&self) {
        let mut state = self.state();
        self.off();
        (state.wanted, state.suspended, state.paused) = (false, false, false);
        self.changed.notify_all();
    }

    /// Keeps what is traced until [`SharedTrace::release`]. A trace that was suspended because it went on for long is
    /// resumed: this stall is another.
    pub(crate) fn hold(&self) {
        let mut state = self.state();
        state.holds = state.holds.saturating_add(1);
        state.stalls = state.stalls.saturating_add(1);
        self.changed.notify_all();
    }

    pub(crate) fn release(&self) {
        let mut state = self.state();
        state.holds = state.holds.saturating_sub(1);
        self.changed.notify_all();
    }

    /// At an alarm the states of all threads of these processes are read, and of cgroups these first.
    pub(crate) fn set_services(&self, mut services: TracedServices) {
        services.processes.truncate(MAX_PROCESSES);
        *locked(&self.services) = services;
    }

    /// The critical path of a request, where it was traced. The functions of programs are read from their files, which is
    /// no work for the time of a stall.
    pub(crate) fn path(&self, request: RequestSpan, names: FunctionNaming) -> Option<PathSummary> {
        // An alarm that was raised after the request had ended traced something else.
        let is_of_request = |trace: &Trace| !trace.events.is_empty() && trace.from < request.to;
        let polled = locked(&self.poller).as_ref().map(|poller| poller.trace());
        let polled = polled.filter(is_of_request);
        // What a task does next tells about its last wait.
        let until =
            request.to.saturating_add(AFTERWARDS.max(request.to.saturating_sub(request.from) / 8));
        let traced = self.traced((request.from, until)).filter(is_of_request);
        let upstreams = self.upstreams.pairs();
        let request = RequestSpan { upstreams, ..request };
        let (path, trace) = match (traced, polled) {
            (Some(mut trace), Some(polled)) => (filled_path(&mut trace, polled, request), trace),
            (Some(trace), None) | (None, Some(trace)) => (critical_path(&trace, request), trace),
            (None, None) => return None,
        };
        let mut path = path.summary(&trace);
        if names == FunctionNaming::OfPrograms {
            name_functions(&mut [&mut path], &trace, NamingLimits::RECORDER);
        }
        self.find_cgroups(&mut path, &trace);
        Some(path)
    }

    /// The trace of that time. The rings are read on meanwhile.
    fn traced(&self, span: (Nanos, Nanos)) -> Option<Trace> {
        let copied = in_time(|| {
            let mut copy = TraceCopy::default();
            while locked(&self.tracer).as_mut()?.copy(&mut copy) {
                copy.make_room();
            }
            Some(copy)
        });
        let copy = copied?;
        Some(copy.into_trace(span, &mut locked(&self.symbols)))
    }

    /// The cgroups of the tasks; of one that has ended those that it had earlier in the stall, or those of its service, or
    /// of its next of kin that lives.
    fn find_cgroups(&self, path: &mut PathSummary, trace: &Trace) {
        let services = locked(&self.services).groups.clone();
        let mut known: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let find = |tid: u32| {
            let process = trace.process(tid);
            // Also where the thread lives: another of the process may be asked for when all of them have ended.
            let of_process = (process != tid).then(|| self.groups.cgroups_of(process)).flatten();
            let of_service = || services.get(&process).cloned();
            let of_kin = || trace.kin(tid).into_iter().find_map(|kin| self.groups.cgroups_of(kin));
            let own = self.groups.cgroups_of(tid).or(of_process);
            own.or_else(of_service).or_else(of_kin).unwrap_or_default()
        };
        for task in path.tasks_mut() {
            let groups = known.entry(task.tid).or_insert_with(|| find(task.tid));
            let mut groups = groups.iter().cloned();
            task.cgroup = groups.next();
            task.other_cgroups = groups.filter(|path| path != "/").collect();
        }
    }

    /// The first cgroups of these processes and threads, below the hierarchy's root.
    pub(crate) fn cgroups(&self, tids: BTreeSet<u32>) -> BTreeMap<u32, String> {
        let cgroup = |tid| Some((tid, self.groups.cgroups_of(tid)?.into_iter().next()?));
        tids.into_iter().filter_map(cgroup).collect()
    }

    /// Use and waits of cgroups since the alarm of a stall that was seen at this time, in milliseconds since
    /// 1970; or since then, where there was no alarm of its own shortly before. Groups of `processes` and of whom they
    /// asked are those of the service.
    pub(crate) fn groups_since(&self, seen_unix_ms: u64, processes: &[u32]) -> Vec<GroupUse> {
        let of_service = self.groups_of(processes);
        let cgroups = locked(&self.services).cgroups();
        self.groups.since(seen_unix_ms, &of_service, &cgroups)
    }

    /// A stall was one of this cgroup, whose limits are read first at the next.
    pub(crate) fn concern(&self, cgroup: &str) {
        self.groups.concern(cgroup);
    }

    /// CPU time since the last sample before a stall was seen at this time, or the first one
    /// after it.
    pub(crate) fn cpus_since(&self, seen_unix_ms: u64) -> Option<CpuUse> {
        self.groups.cpus_since(seen_unix_ms)
    }

    /// Processes of probed services, and those that they have connections to.
    pub(crate) fn with_asked(&self, processes: &[u32]) -> BTreeSet<u32> {
        let mut asked: BTreeSet<u32> = processes.iter().copied().collect();
        let upstreams = self.upstreams.pairs();
        for _ in 0..MAX_DISTANCE {
            let next = upstreams.iter().filter(|(proxy, _)| asked.contains(proxy));
            let next: Vec<u32> = next.map(|(_, upstream)| *upstream).collect();
            asked.extend(next);
        }
        asked
    }

    /// The cgroups of these processes.
    fn groups_of(&self, processes: &[u32]) -> BTreeSet<String> {
        let services = locked(&self.services).groups.clone();
        let of = |pid: u32| match services.get(&pid) {
            Some(known) => known.clone(),
            None => self.groups.cgroups_of(pid).unwrap_or_default(),
        };
        let asked = self.with_asked(processes);
        asked.into_iter().flat_map(of).filter(|path| path != "/").collect()
    }

    /// Ends [`SharedTrace::run`].
    pub(crate) fn stop(&self) {
        // Under the lock: a thread between its check and its wait would miss it.
        let _state = self.state();
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Reads the rings while something is traced, until the recorder stops.
    pub(crate) fn run(&self, beat: &Beat) {
        read_in_time();
        while self.wait_for(|state| state.wanted) {
            beat.step();
            self.begin();
            self.record(beat);
            beat.rest();
            // A stall that begins while the last one is still explained goes on in its trace.
            if !self.wait_for(|state| state.holds == 0 || state.wanted) {
                return;
            }
            beat.step();
            if self.state().holds == 0 {
                self.forget();
            }
            beat.rest();
        }
    }

    fn begin(&self) {
        let processes = locked(&self.services).processes.clone();
        self.resume();
        // The commands of probes are the newest processes, which a look at all of them reaches last.
        let own = family(std::process::id(), Instant::now() + COMMANDS_LIMIT);
        let all: Vec<u32> = processes.into_iter().chain(own).collect();
        if let Some(tracer) = locked(&self.tracer).as_mut() {
            tracer.find_states(&all);
        }
    }

    fn forget(&self) {
        if let Some(tracer) = locked(&self.tracer).as_mut() {
            tracer.clear();
        }
        *locked(&self.poller) = None;
        self.groups.forget_tasks();
    }

    /// Reads the rings until nothing is wanted.
    fn record(&self, beat: &Beat) {
        let (began, mut cpu) = (Instant::now(), Duration::ZERO);
        let TraceState { mut stalls, mut pauses, .. } = *self.state();
        let mut stall_began = began;
        while self.state().wanted && !self.is_stopped() {
            beat.step();
            self.wait_round();
            let cpu_before = mw_sys::thread_time();
            if let Some(tracer) = locked(&self.tracer).as_mut() {
                tracer.wait(None, Duration::ZERO);
                self.groups.note_running(tracer.take_sampled());
            }
            cpu += thread_time_since(cpu_before);
            let state = *self.state();
            if state.stalls != stalls {
                (stalls, stall_began) = (state.stalls, Instant::now());
            }
            if state.pauses != pauses && !state.paused && !state.suspended {
                pauses = state.pauses;
                self.resume();
            }
            self.judge(began.elapsed(), cpu, stall_began.elapsed() >= MAX_TRACE);
        }
    }

    /// Samples cgroups at each alarm and at the beginning of each stall, and polls states where nothing is traced
    /// although it is wanted, until the recorder stops. A thread of its own: files of /proc take memory, which may have
    /// to be reclaimed, and the rings fill meanwhile.
    pub(crate) fn poll_states(&self, beat: &Beat) {
        while self.wait_for(|state| state.wanted) {
            beat.step();
            let services = locked(&self.services).clone();
            let cgroups = services.cgroups();
            self.groups.sample(&cgroups);
            let (began, mut begun) = (Instant::now(), 0);
            while self.state().wanted && !self.is_stopped() {
                beat.step();
                let TraceState { stalls, suspended, .. } = *self.state();
                // Most alarms are no stalls.
                if stalls != begun && stalls > 0 {
                    self.groups.sample(&cgroups);
                    self.upstreams.find(&services.processes);
                }
                begun = stalls;
                self.groups.find_those_of_running();
                if (self.switch.is_some() && !suspended) || !self.may_poll {
                    self.rest(ROUND);
                    continue;
                }
                let rest = self.poll(&services).max(began.elapsed() / PART_TO_REST);
                beat.rest();
                self.rest(rest);
            }
            beat.rest();
        }
    }

    /// Polls states once; how long to wait for the next time.
    fn poll(&self, services: &TracedServices) -> Duration {
        if !self.budget.permits(SkippableWork::Poll) {
            return ROUND;
        }
        let began = Instant::now();
        let own = std::process::id();
        let processes = || services.processes.iter().copied().chain([own]).collect::<Vec<u32>>();
        let start = || Box::new(StatePoller::start(own, &services.clients, &processes()));
        locked(&self.poller).get_or_insert_with(start).poll();
        self.round().max(began.elapsed() * COST_TO_REST)
    }

    /// Lets time pass while something is wanted.
    fn rest(&self, time: Duration) {
        let waits = |state: &mut TraceState| state.wanted && !self.is_stopped();
        drop(self.changed.wait_timeout_while(self.state(), time, waits));
    }

    /// Between two rounds of polling: more often where nothing else tells.
    fn round(&self) -> Duration {
        if self.switch.is_some() { ROUND } else { Duration::from_secs(1) / POLLS_HZ }
    }

    /// Waits for a ring to fill, or a round.
    fn wait_round(&self) {
        match &self.switch {
            Some(switch) if !self.state().suspended => switch.wait(ROUND),
            _ => self.rest(ROUND),
        }
    }

    /// Suspends the trace where reading it takes too much of the time, or the last stall began long ago, and resumes it.
    fn judge(&self, lasted: Duration, cpu: Duration, is_long: bool) {
        let mut state = self.state();
        let Some(switch) = self.switch.as_ref().filter(|_| state.wanted) else { return };
        let takes = |percent: u32| cpu * 100 > lasted * percent;
        let is_dear = || {
            lasted >= LEAST_JUDGED
                && takes(RESUME_CPU_PERCENT)
                && (takes(MAX_CPU_PERCENT) || !self.budget.permits(SkippableWork::Trace))
        };
        if !state.suspended && (is_long || is_dear()) {
            switch.off();
            state.suspended = true;
        } else if state.suspended && !state.paused && !is_long && !takes(RESUME_CPU_PERCENT) {
            drop(state);
            self.resume();
        }
    }

    fn resume(&self) {
        let mut tracer = locked(&self.tracer);
        // Under the lock: what became calm meanwhile stays so.
        let mut state = self.state();
        if let Some(tracer) = tracer.as_mut().filter(|_| state.wanted && !state.paused) {
            tracer.resume();
            state.suspended = false;
        }
    }

    fn off(&self) {
        if let Some(switch) = &self.switch {
            switch.off();
        }
    }

    /// Waits for a state; `false` when the recorder stops.
    fn wait_for(&self, is_so: impl Fn(&TraceState) -> bool) -> bool {
        let state = self.state();
        let waits = |state: &mut TraceState| !is_so(state) && !self.is_stopped();
        drop(self.changed.wait_while(state, waits));
        !self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, TraceState> {
        locked(&self.state)
    }
}
