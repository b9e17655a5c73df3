//! The scheduler trace of a request that may become a stall: enabled by the trigger thread at the alarm, read by a
//! thread of its own, asked for the critical path by the evidence thread.
//!
//! ```text
//! calm ── alarm: events enabled ─→ traced ── all is well, nobody holds the trace ─→ forgotten
//!                                    │ Begun: held until the path of the slowest request is found
//! ```
//!
//! In calm all events are disabled and cost nothing. Where scheduler events may not be traced, the states of the
//! recorder's and the services' threads are polled instead while the trace would be on.

use mw_collect::service::upstreams;
use mw_collect::{GroupSample, GroupSampler, Source};
use mw_critical_path::{PathSummary, Request, critical_path};
use mw_model::{GroupUse, Missing};
use mw_profile::{POLLS_HZ, SchedTracer, StatePoller, TraceOptions, TraceSwitch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two reads of the rings; a ring that is half full is read at once.
const ROUND: Duration = Duration::from_millis(100);

/// The longest trace: a service that is down for an hour needs no more of it.
const MAX_TRACE: Duration = Duration::from_secs(60);

/// CPU time that reading the trace may take of the time that it goes on, in percent: it is taken from services.
const MAX_CPU_PERCENT: u32 = 20;

/// Less is not judged.
const LEAST_JUDGED: Duration = Duration::from_millis(500);

/// Processes of probed services of which all threads are read at the alarm.
const MAX_PROCESSES: usize = 64;

/// How long the search for whom the services asked may take; the rings are not read meanwhile.
const UPSTREAMS_LIMIT: Duration = Duration::from_millis(50);

/// CPU time that reading the counters of all cgroups may take: of 500 cgroups, or of 25 on an emulated CPU.
const GROUPS_LIMIT: Duration = Duration::from_millis(25);

/// The trace, shared by the threads of the recorder.
#[derive(Debug)]
pub(crate) struct Tracing {
    switch: Option<Arc<TraceSwitch>>,
    tracer: Mutex<Tracer>,
    state: Mutex<TraceState>,
    changed: Condvar,
    groups: Mutex<Option<Groups>>,
    services: Mutex<TracedServices>,
    /// Whom the services asked when the stall began, and whom those did: pairs of processes.
    upstreams: Mutex<Vec<(u32, u32)>>,
    stop: AtomicBool,
}

/// What is read first of the probed services.
#[derive(Debug, Clone, Default)]
struct TracedServices {
    processes: Vec<u32>,
    cgroups: Vec<String>,
}

/// How the trace is recorded.
#[derive(Debug)]
enum Tracer {
    Events(Box<SchedTracer>),
    /// Where events may not be traced.
    States(Option<Box<StatePoller>>),
}

/// Counters of cgroups, from the alarm on.
#[derive(Debug)]
struct Groups {
    sampler: GroupSampler,
    at_alarm: Option<GroupSample>,
}

#[derive(Debug, Default)]
struct TraceState {
    /// Something has been outstanding for long, or there is a stall.
    wanted: bool,
    /// Stalls whose path has not been found yet.
    holds: u32,
    /// It went on for [`MAX_TRACE`] or took too much CPU time, and does not begin again until all is well.
    spent: bool,
}

impl Tracing {
    /// Opens the events; says what is missing where they cannot be opened.
    pub(crate) fn open(source: &Source, is_wanted: bool, unseen: &mut Vec<Missing>) -> Self {
        let groups = GroupSampler::find(source).map_err(|missing| unseen.push(missing)).ok();
        let tracer = is_wanted.then(|| SchedTracer::open(TraceOptions::RECORDER));
        let tracer = tracer.and_then(|opened| opened.map_err(|missing| unseen.push(missing)).ok());
        Self {
            switch: tracer.as_ref().map(SchedTracer::switch),
            tracer: Mutex::new(match tracer {
                Some(tracer) => Tracer::Events(Box::new(tracer)),
                None => Tracer::States(None),
            }),
            state: Mutex::default(),
            changed: Condvar::new(),
            groups: Mutex::new(groups.map(|sampler| Groups { sampler, at_alarm: None })),
            services: Mutex::default(),
            upstreams: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// Something has been outstanding for long: the trace begins, if it is not under way.
    pub(crate) fn alarm(&self) {
        let mut state = self.state();
        if !state.wanted && !state.spent {
            if let Some(switch) = &self.switch {
                switch.on();
            }
            state.wanted = true;
            self.changed.notify_all();
        }
    }

    /// Nothing is outstanding for long, and there is no stall.
    pub(crate) fn calm(&self) {
        self.off();
        let mut state = self.state();
        (state.wanted, state.spent) = (false, false);
        self.changed.notify_all();
    }

    /// Keeps what is traced until [`Tracing::release`].
    pub(crate) fn hold(&self) {
        let mut state = self.state();
        state.holds = state.holds.saturating_add(1);
    }

    pub(crate) fn release(&self) {
        let mut state = self.state();
        state.holds = state.holds.saturating_sub(1);
        self.changed.notify_all();
    }

    /// Processes and cgroups of the probed services: at an alarm the states of all their threads are read, and of
    /// cgroups theirs first.
    pub(crate) fn set_services(&self, processes: impl Iterator<Item = u32>, cgroups: Vec<String>) {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        *services = TracedServices { processes: processes.take(MAX_PROCESSES).collect(), cgroups };
    }

    /// The critical path of a request, where it was traced.
    pub(crate) fn path(&self, request: Request) -> Option<PathSummary> {
        let trace = match &mut *self.tracer() {
            Tracer::Events(tracer) => tracer.trace(),
            Tracer::States(poller) => poller.as_ref()?.trace(),
        };
        // An alarm that was raised after the request had ended traced something else.
        if trace.events.is_empty() || trace.from >= request.to {
            return None;
        }
        let upstreams = self.upstreams.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut path = critical_path(&trace, Request { upstreams, ..request }).summary(&trace);
        self.find_cgroups(&mut path);
        Some(path)
    }

    fn find_cgroups(&self, path: &mut PathSummary) {
        let groups = self.groups();
        let Some(Groups { sampler, .. }) = groups.as_ref() else { return };
        for task in path.tasks_mut() {
            let mut groups = sampler.cgroups_of(task.tid).into_iter();
            task.cgroup = groups.next();
            task.other_cgroups = groups.filter(|path| path != "/").collect();
        }
    }

    /// The cgroups of these processes and threads, below the hierarchy's root; of those that live.
    pub(crate) fn cgroups(&self, tids: BTreeSet<u32>) -> BTreeMap<u32, String> {
        let groups = self.groups();
        let Some(Groups { sampler, .. }) = groups.as_ref() else { return BTreeMap::new() };
        let cgroup = |tid| Some((tid, sampler.cgroups_of(tid).into_iter().next()?));
        tids.into_iter().filter_map(cgroup).collect()
    }

    /// What cgroups used and waited for since the alarm.
    pub(crate) fn groups_since_alarm(&self) -> Vec<GroupUse> {
        let cgroups = self.services().cgroups;
        let mut groups = self.groups();
        let Some(Groups { sampler, at_alarm: Some(before) }) = groups.as_mut() else {
            return Vec::new();
        };
        let now = sampler.sample(GROUPS_LIMIT, &cgroups);
        sampler.difference(before, &now)
    }

    /// Ends [`Tracing::run`].
    pub(crate) fn stop(&self) {
        // Under the lock: a thread between its check and its wait would miss it.
        let _state = self.state();
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Reads the rings while something is traced, until the recorder stops.
    pub(crate) fn run(&self) {
        while self.wait_for(|state| state.wanted) {
            self.begin();
            let (began, cpu_began) = (Instant::now(), mw_sys::thread_time());
            let mut has_upstreams = false;
            while self.state().wanted && !self.is_stopped() {
                // Most alarms are no stalls.
                if !has_upstreams && self.state().holds > 0 {
                    self.find_upstreams();
                    has_upstreams = true;
                }
                self.read();
                let lasted = began.elapsed();
                let cpu = mw_sys::thread_time().saturating_sub(cpu_began);
                let is_dear = lasted >= LEAST_JUDGED && cpu * 100 > lasted * MAX_CPU_PERCENT;
                if lasted >= MAX_TRACE || is_dear {
                    self.spend();
                }
            }
            // What the next alarm records meanwhile waits in the rings.
            if !self.wait_for(|state| state.holds == 0) {
                return;
            }
            match &mut *self.tracer() {
                Tracer::Events(tracer) => tracer.clear(),
                Tracer::States(poller) => *poller = None,
            }
        }
    }

    fn begin(&self) {
        let TracedServices { processes, cgroups } = self.services();
        if let Some(groups) = self.groups().as_mut() {
            groups.at_alarm = Some(groups.sampler.sample(GROUPS_LIMIT, &cgroups));
        }
        let own = std::process::id();
        let all: Vec<u32> = processes.into_iter().chain([own]).collect();
        match &mut *self.tracer() {
            Tracer::Events(tracer) => tracer.start(&all),
            Tracer::States(poller) => {
                *poller = Some(Box::new(StatePoller::start(own, own, &all)));
            }
        }
    }

    fn find_upstreams(&self) {
        let found = upstreams(&self.services().processes, UPSTREAMS_LIMIT);
        *self.upstreams.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// Waits for a ring to fill, or a round, without the lock; then reads all rings, or all states.
    fn read(&self) {
        match &self.switch {
            Some(switch) => switch.wait(ROUND),
            None => {
                let state = self.state();
                drop(self.changed.wait_timeout(state, Duration::from_secs(1) / POLLS_HZ));
            }
        }
        match &mut *self.tracer() {
            Tracer::Events(tracer) => drop(tracer.wait(None, Duration::ZERO)),
            Tracer::States(poller) => poller.iter_mut().for_each(|poller| poller.poll()),
        }
    }

    fn off(&self) {
        if let Some(switch) = &self.switch {
            switch.off();
        }
    }

    fn spend(&self) {
        self.off();
        let mut state = self.state();
        (state.wanted, state.spent) = (false, true);
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn services(&self) -> TracedServices {
        self.services.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn groups(&self) -> MutexGuard<'_, Option<Groups>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tracer(&self) -> MutexGuard<'_, Tracer> {
        self.tracer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
