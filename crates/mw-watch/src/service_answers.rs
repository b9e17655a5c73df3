//! Questions about a probed service and its processes when it stalls: on a thread that is abandoned where a file, a
//! process or the service does not respond.

use crate::monitors::Monitors;
use crate::services::{LostProcess, Services};
use mw_collect::service::{
    WaitingConnections, current_processes, family, listen_queue, reached_limits, stopped_devices,
    waiting_connections,
};
use mw_model::{Missing, Outage, ReachedLimit, Service, ServiceFate, ServiceView, StoppedDevice};
use mw_sys::HelperThread;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of an answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Time limit of the search for its processes now, and of a reading of their connections.
const PROCESSES_LIMIT: Duration = Duration::from_millis(20);
const CONNECTIONS_LIMIT: Duration = Duration::from_millis(50);

/// Time limit of a reading of the limits that its processes are at.
const LIMITS_LIMIT: Duration = Duration::from_millis(20);

/// Part of the number of a question about connections: a process that keeps a socket locked delays no other question.
const OF_CONNECTIONS: u32 = 1 << 31;

#[derive(Debug, Clone)]
pub(crate) enum ServiceQuestion {
    /// The service, with its own view of its sessions, or its state where it failed.
    Begin { seen_unix_ms: u64 },
    /// Its state.
    Outage { failed_unix_ms: u64 },
    /// Connections on which its processes wait, and those of the processes that they ask; limits that they
    /// are at, and devices that are held still.
    Connections { asked: Vec<u32> },
    /// Its state since the OOM killer killed one of its processes.
    Fate(Box<LostProcess>),
}

#[derive(Debug, Default)]
pub(crate) struct ServiceAnswer {
    pub(crate) service: Option<Service>,
    /// The reason why it is not known.
    pub(crate) missing: Option<Missing>,
    pub(crate) outage: Option<Outage>,
    pub(crate) view: Option<ServiceView>,
    pub(crate) fate: Option<ServiceFate>,
    pub(crate) connections: WaitingConnections,
    pub(crate) reached_limits: Vec<ReachedLimit>,
    pub(crate) stopped_devices: Vec<StoppedDevice>,
}

pub(crate) struct ServiceAnswers {
    helper: HelperThread<ServiceQuestion, ServiceAnswer>,
}

impl ServiceAnswers {
    /// # Errors
    /// The kernel gives no thread.
    pub(crate) fn start(services: &Arc<Services>, monitors: &Arc<Monitors>) -> io::Result<Self> {
        let (services, monitors) = (Arc::clone(services), Arc::clone(monitors));
        let answer = move |probe: u32, question: &ServiceQuestion| {
            let probe = probe & !OF_CONNECTIONS;
            answer(&services, &monitors, probe as usize, question).unwrap_or_default()
        };
        Ok(Self { helper: HelperThread::new(LIMIT, answer)? })
    }

    /// Asks of the service of a probe, by its place.
    ///
    /// # Errors
    /// There is no answer in time, or an earlier one is still waited for.
    pub(crate) fn ask(
        &mut self,
        probe: usize,
        question: ServiceQuestion,
    ) -> Result<ServiceAnswer, Missing> {
        let of_kind = match question {
            ServiceQuestion::Connections { .. } => OF_CONNECTIONS,
            _ => 0,
        };
        let place = u32::try_from(probe).unwrap_or(u32::MAX) | of_kind;
        self.helper.run(&[(place, question)]).pop().flatten().ok_or_else(|| {
            let why = "no answer within 2 s: one of its files or processes does not respond";
            Missing::failed("the service", why)
        })
    }
}

fn answer(
    services: &Services,
    monitors: &Monitors,
    probe: usize,
    question: &ServiceQuestion,
) -> Option<ServiceAnswer> {
    let prober = monitors.probers.get(probe)?;
    let none = ServiceAnswer::default();
    Some(match question {
        ServiceQuestion::Begin { seen_unix_ms } => {
            let has_failed = prober.last().is_some_and(|last| last.failed);
            // Of a service that failed, the process that ended tells why.
            let service = match has_failed {
                true => services.service(probe),
                false => services.current(probe, prober),
            };
            let service = service.map(|service| Service {
                listen_queue: prober.connection().as_ref().and_then(listen_queue),
                ..service
            });
            let known = ServiceAnswer { service, missing: services.missing(probe), ..none };
            if has_failed {
                let outage = services.outage(probe, prober, *seen_unix_ms);
                ServiceAnswer { outage, ..known }
            } else {
                ServiceAnswer { view: Services::view(prober), ..known }
            }
        }
        ServiceQuestion::Outage { failed_unix_ms } => {
            let outage = services.outage(probe, prober, *failed_unix_ms);
            ServiceAnswer { outage, ..none }
        }
        ServiceQuestion::Connections { asked } => {
            let service = services.service(probe).unwrap_or_default();
            let deadline = Instant::now() + PROCESSES_LIMIT;
            let commands = commands(deadline);
            let serving = serving_processes(&service, asked, deadline);
            let waiting: Vec<u32> = commands.chain(serving.iter().copied()).collect();
            let connections = waiting_connections(&waiting, CONNECTIONS_LIMIT);
            let reached_limits = reached_limits(&serving, Instant::now() + LIMITS_LIMIT);
            let stopped_devices = stopped_devices();
            ServiceAnswer { connections, reached_limits, stopped_devices, ..none }
        }
        ServiceQuestion::Fate(lost) => {
            ServiceAnswer { fate: services.fate(lost, monitors), ..none }
        }
    })
}

/// Commands of probes, in which a request may wait.
fn commands(deadline: Instant) -> impl Iterator<Item = u32> {
    let own = std::process::id();
    family(own, deadline).into_iter().filter(move |pid| *pid != own)
}

/// The processes of the service and of whom it asks.
fn serving_processes(service: &Service, asked: &[u32], deadline: Instant) -> Vec<u32> {
    let known: Vec<u32> = service.processes.iter().map(|process| process.pid).collect();
    let asked = asked.iter().copied().filter(|pid| !known.contains(pid));
    asked.chain(current_processes(&known, deadline)).collect()
}
