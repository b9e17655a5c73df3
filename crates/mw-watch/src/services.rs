//! The services behind the probes: which processes they are, what became of one that failed, and what it says of its
//! own sessions. A thread of its own finds them while all is well.

use crate::kills::Kill;
use crate::monitors::Monitors;
use crate::progress::Beat;
use crate::stall_queue::StallQueue;
use crate::tracing::{SharedTrace, TracedServices};
use mw_collect::service::{FormerProcess, SEARCH_LIMIT, ServiceTracker};
use mw_collect::{KernelLog, LoggedKill};
use mw_model::{Missing, Outage, Reading, Service, ServiceFate, ServiceView};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at whether the services are still the same.
const REFRESH: Duration = Duration::from_secs(10);

/// Between two looks at whether a service that ended answers again.
const LOOK_APART: Duration = Duration::from_secs(1);

/// Until the first, when the probes have connected.
const FIRST_REFRESH: Duration = Duration::from_secs(1);

/// Time limit of the search for a service that was started again: a stall is waiting.
const RESTART_LIMIT: Duration = Duration::from_millis(500);

/// Time limit of the service for its sessions.
const VIEW_LIMIT: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Services {
    known: Mutex<KnownServices>,
    changed: Condvar,
    stop: AtomicBool,
    /// Log of the ends of processes.
    log: Arc<Mutex<KernelLog>>,
}

/// A probed service that lost a process to the OOM killer.
#[derive(Debug, Clone)]
pub(crate) struct LostProcess {
    /// By the probe's place.
    pub(crate) probe: usize,
    former: FormerProcess,
    at_unix_ms: u64,
}

#[derive(Debug)]
struct KnownServices {
    /// One for each probe.
    trackers: Vec<Option<ServiceTracker>>,
    /// The cgroups of their processes in all hierarchies, but for the root.
    groups: BTreeSet<String>,
    /// One was found elsewhere than by the thread that looks for them.
    is_new: bool,
}

impl Services {
    /// Not found yet.
    pub(crate) fn new(
        monitors: &Monitors,
        log: Arc<Mutex<KernelLog>>,
        unseen: &mut Vec<Missing>,
    ) -> Self {
        let tracker = |prober: &mw_probe::Prober| {
            ServiceTracker::new(prober.spec().details.service.clone())
                .map_err(|missing| unseen.push(missing))
                .ok()
        };
        let trackers = monitors.probers.iter().map(tracker).collect();
        Self {
            known: Mutex::new(KnownServices { trackers, groups: BTreeSet::new(), is_new: false }),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            log,
        }
    }

    /// Finds the services, and again where they changed, until the recorder stops.
    pub(crate) fn run(
        &self,
        monitors: &Monitors,
        stalls: &StallQueue,
        tracing: &SharedTrace,
        beat: &Beat,
    ) {
        let mut rest = FIRST_REFRESH;
        while self.rest(rest, monitors) {
            beat.step();
            rest = REFRESH;
            for (probe, prober) in monitors.probers.iter().enumerate() {
                beat.step();
                self.refresh(probe, prober, SEARCH_LIMIT);
                if stalls.is_good() && !self.is_stopped() {
                    prober.prepare_view();
                }
            }
            let mut known = self.known();
            let services = known.trackers.iter().flatten().filter_map(|of| of.service().ok());
            let processes = services.flat_map(|service| &service.processes);
            let services = TracedServices {
                clients: monitors.clients().collect(),
                processes: processes.map(|process| process.pid).collect(),
                groups: known.trackers.iter().flatten().flat_map(ServiceTracker::groups).collect(),
            };
            known.groups = services.cgroups().into_iter().collect();
            drop(known);
            tracing.set_services(services);
            beat.rest();
        }
    }

    /// Finds the service of one probe again, if it has changed.
    fn refresh(&self, probe: usize, prober: &mw_probe::Prober, limit: Duration) {
        let connection = prober.connection();
        let search = self.tracker(probe, |tracker| tracker.search(connection.as_ref()));
        // It takes a time, in which a service may fail.
        if let Some(searched) = search.flatten().map(|search| search.run(limit)) {
            self.tracker(probe, |tracker| tracker.note(searched));
        }
    }

    /// The service of one probe at the beginning of a stall: it may have been started again since the last look.
    pub(crate) fn current(&self, probe: usize, prober: &mw_probe::Prober) -> Option<Service> {
        if self.tracker(probe, |tracker| tracker.has_ended()) == Some(true) {
            self.refresh(probe, prober, RESTART_LIMIT);
            self.known().is_new = true;
            self.changed.notify_all();
        }
        self.service(probe)
    }

    fn tracker<T>(&self, probe: usize, with: impl FnOnce(&mut ServiceTracker) -> T) -> Option<T> {
        self.known().trackers.get_mut(probe)?.as_mut().map(with)
    }

    /// Processes of the services, by their numbers.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let known = self.known();
        let services = known.trackers.iter().flatten().filter_map(|of| of.service().ok());
        services.flat_map(|service| &service.processes).map(|process| process.pid).collect()
    }

    /// The cgroups of the services in all hierarchies, but for the root.
    pub(crate) fn groups(&self) -> BTreeSet<String> {
        self.known().groups.clone()
    }

    pub(crate) fn service(&self, probe: usize) -> Option<Service> {
        self.known().trackers.get(probe)?.as_ref()?.service().ok().cloned()
    }

    /// The reason why the service of a probe is not known, where it is not.
    pub(crate) fn missing(&self, probe: usize) -> Option<Missing> {
        self.known().trackers.get(probe)?.as_ref()?.service().err().cloned()
    }

    /// State of the address of a service that failed, and of the service.
    pub(crate) fn outage(
        &self,
        probe: usize,
        prober: &mw_probe::Prober,
        failed_unix_ms: u64,
    ) -> Option<Outage> {
        let connection = prober.connection();
        let known = self.known();
        let tracker = known.trackers.get(probe)?.as_ref()?;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        tracker.outage(connection.as_ref(), failed_unix_ms, &mut log)
    }

    /// The services that a killed process was of.
    pub(crate) fn lost_to(&self, kill: &Kill) -> Vec<LostProcess> {
        let Kill::Logged(LoggedKill { victim, .. }) = kill else { return Vec::new() };
        let known = self.known();
        let trackers = known.trackers.iter().enumerate();
        let lost = trackers.filter_map(|(probe, tracker)| {
            let former = tracker.as_ref()?.former_of(victim)?;
            Some(LostProcess { probe, former, at_unix_ms: victim.last_unix_ms })
        });
        lost.collect()
    }

    /// State of a service that lost a process.
    pub(crate) fn fate(&self, lost: &LostProcess, monitors: &Monitors) -> Option<ServiceFate> {
        let prober = monitors.probers.get(lost.probe)?;
        let now = self.outage(lost.probe, prober, lost.at_unix_ms);
        let since = prober.last().filter(|last| last.began_unix_ms >= lost.at_unix_ms);
        Some(ServiceFate {
            probe: prober.spec().name.clone(),
            former: lost.former.process.clone(),
            still_runs: lost.former.runs(),
            listens: now.as_ref().map(|now| now.listens),
            listener: now.and_then(|now| now.listener),
            answers: since.map(|last| !last.failed),
        })
    }

    /// The service's own view of its sessions now.
    pub(crate) fn view(prober: &mw_probe::Prober) -> Option<ServiceView> {
        match prober.view(VIEW_LIMIT)? {
            Reading::Value(view) => Some(view),
            Reading::Missing(_) => None,
        }
    }

    pub(crate) fn stop(&self) {
        // Under the lock: a thread between its check and its wait would miss it.
        let _known = self.known();
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Lets time pass, less where a service was found elsewhere or answers again; `false` when the recorder stops.
    fn rest(&self, time: Duration, monitors: &Monitors) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let waits = |known: &mut KnownServices| !self.is_stopped() && !known.is_new;
            let waited = self.changed.wait_timeout_while(self.known(), left.min(LOOK_APART), waits);
            let (mut known, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let is_new = std::mem::take(&mut known.is_new);
            drop(known);
            if self.is_stopped() {
                return false;
            }
            if is_new || left.is_zero() || self.is_back(monitors) {
                return true;
            }
        }
    }

    /// True if a service that ended answers again: what fails next is not the end of its former process.
    fn is_back(&self, monitors: &Monitors) -> bool {
        let is_back = |(probe, prober): (usize, &mw_probe::Prober)| {
            self.tracker(probe, |tracker| tracker.may_be_found_again()) == Some(true)
                && prober.last().is_some_and(|last| !last.failed)
        };
        monitors.probers.iter().enumerate().any(is_back)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, KnownServices> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
