//! Starts the recorder's threads and ends them.

use crate::clock::thread_time_since;
use crate::context::Context;
use crate::control::ControlSocket;
use crate::cpu_budget::CpuBudget;
use crate::detector::MonitorLimits;
use crate::event::WatchEvent;
use crate::evidence::{EvidenceThread, SNAPSHOT_LIMIT};
use crate::kernel_events::KernelEvents;
use crate::monitors::Monitors;
use crate::pace::Pace;
use crate::priority::yield_to_others;
use crate::progress::{Beat, StuckThread, ThreadBeats};
use crate::requests::EvidenceRequests;
use crate::sampling::{SampleAge, Sampling};
use crate::service_answers::ServiceAnswers;
use crate::services::Services;
use crate::signal_kills::SignalKills;
use crate::sizes::Sizes;
use crate::stall_queue::StallQueue;
use crate::tracing::SharedTrace;
use crate::trigger::TriggerThread;
use crate::waits::WaitSums;
use crate::wakeup::WakeupFd;
use mw_collect::{GroupSampler, Source, SourceError, capture, nested_namespaces};
use mw_model::{BlameParty, GroupWait, Host, Missing, Namespace};
use mw_probe::canary::Canary;
use mw_probe::pressure::PressureTrigger;
use mw_probe::{ProbeSpec, Prober};
use mw_profile::{Profiler, SignalTracer, Symbols, TaskFiles, TraceOptions};
use mw_record::{RecordError, Retention, Writer};
use mw_sys::{HelperThread, join_within};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Settings of the recording, and its file.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// The recording; made where it is not there.
    pub recording: PathBuf,
    /// Retention, and the size limit.
    pub retention: Retention,
    pub probes: Vec<ProbeSpec>,
    /// The paired probe, unless it is not wanted.
    pub canary: Option<CanaryOptions>,
    /// Token timeout of a heartbeat that this machine must keep.
    pub token_timeout: Option<Duration>,
    /// True if the kernel is profiled.
    pub profile: bool,
    /// True if incidents have the functions of programs.
    pub user_stacks: bool,
    /// True if the waits of the services' cgroups are summed up.
    pub group_waits: bool,
    /// From one sample of the sizes of processes, cgroups and tmpfs to the next.
    pub sizes_interval: Duration,
}

impl WatchOptions {
    /// The defaults of a recorder: no service is probed, the canary and the profiler run.
    #[must_use]
    pub fn new(recording: PathBuf) -> Self {
        Self {
            recording,
            retention: Retention::default(),
            probes: Vec::new(),
            canary: Some(CanaryOptions::default()),
            token_timeout: None,
            profile: true,
            user_stacks: true,
            group_waits: false,
            sizes_interval: SIZES_INTERVAL,
        }
    }

    fn trace_options(&self) -> Option<TraceOptions> {
        let user_stacks = TraceOptions::RECORDER.user_stacks.filter(|_| self.user_stacks);
        self.profile.then_some(TraceOptions { user_stacks, ..TraceOptions::RECORDER })
    }
}

/// The usual interval of sizes: leaks that matter for a forecast take hours, and a sample takes milliseconds.
pub const SIZES_INTERVAL: Duration = Duration::from_secs(60);

/// Limits and interval of the canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CanaryOptions {
    pub interval: Duration,
    /// A touch that takes longer is a stall.
    pub limit: Duration,
}

impl Default for CanaryOptions {
    fn default() -> Self {
        Self { interval: Duration::from_millis(10), limit: Duration::from_millis(100) }
    }
}

/// Memory that the canary touches a turn: a page meets all that more of them would, and costs half
/// of what four do.
const CANARY_BYTES: usize = 4 << 10;

/// The longest that the end of a recorder takes: threads, writer, and the profiler's and probes' own.
pub const MAX_END: Duration = Duration::from_secs(10);

/// The reason why the recorder could not start.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The counters of the machine could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The recording cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A thread could not be made.
    #[error("a thread of the recorder could not be made: {0}")]
    Thread(#[source] io::Error),
}

/// Time limit of a step of a thread before the service manager is to start the recorder again: longer than a machine
/// stalls that goes on afterwards. Threads of the lowest priority have to wait for others.
const STEP_BOUND: Duration = Duration::from_secs(60);
const EVIDENCE_BOUND: Duration = Duration::from_secs(120);
const REQUEST_BOUND: Duration = Duration::from_secs(300);
const IDLE_PRIORITY_BOUND: Duration = Duration::from_secs(600);

/// Time limit of the sampling threads' end: one of them may wait in the kernel for what does
/// not respond.
const GRACE: Duration = Duration::from_secs(1);

/// Time limit for storing a stall under way: explaining it takes a second on a busy machine.
const EVIDENCE_GRACE: Duration = Duration::from_secs(4);

/// Time limit of a capture under way.
const CAPTURE_GRACE: Duration = Duration::from_secs(2);

/// Time limit of the writer for its queue.
const WRITER_GRACE: Duration = Duration::from_secs(5);

/// A recorder at work. Dropping it ends its threads and writes what is queued, within
/// [`MAX_END`] even where something does not respond.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    stalls: Arc<StallQueue>,
    requests: Arc<EvidenceRequests>,
    control: Option<Arc<ControlSocket>>,
    tracing: Arc<SharedTrace>,
    services: Arc<Services>,
    sizes: Arc<Sizes>,
    waits: Arc<WaitSums>,
    kernel_events: Arc<KernelEvents>,
    signal_kills: Arc<SignalKills>,
    monitors: Arc<Monitors>,
    writer: Arc<Writer>,
    sample_age: Arc<SampleAge>,
    progress: ThreadBeats,
    budget: Arc<CpuBudget>,
    events: Receiver<WatchEvent>,
    teller: Sender<WatchEvent>,
    capturing: Option<JoinHandle<()>>,
    unseen: Vec<Missing>,
    threads: Vec<JoinHandle<()>>,
    evidence: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to record.
    ///
    /// # Errors
    /// [`WatchError`]: the recording cannot be written, or a thread cannot be made. What cannot be
    /// looked at is no error: [`Watch::unseen`] has it.
    pub fn start(options: WatchOptions) -> Result<Self, WatchError> {
        let source = Source::live()?;
        let host = host(&source);
        let writer = Arc::new(Writer::start(&options.recording, &host, options.retention.clone())?);
        let mut unseen = Vec::new();
        unseen.extend(lock_memory().err());
        unseen.extend(nested_namespaces().into_iter().flat_map(Namespace::losses));
        let monitors = Arc::new(monitors(&options, &mut unseen)?);
        let pressure = match PressureTrigger::open() {
            Ok(pressure) => Some(pressure),
            Err(missing) => {
                unseen.push(missing);
                None
            }
        };
        let budget = Arc::new(CpuBudget::new(host.cpus));
        let symbols = monitors.profiler.as_ref().map(Profiler::symbols).unwrap_or_default();
        let tracing = Arc::new(SharedTrace::open(
            &source,
            options.trace_options(),
            Arc::clone(&symbols),
            Arc::clone(&budget),
            &mut unseen,
        ));
        let kernel_events = Arc::new(KernelEvents::open().map_err(WatchError::Thread)?);
        let log = kernel_events.shared_log();
        let services = Arc::new(Services::new(&monitors, log, &mut unseen));
        let (sender, events) = channel();
        let mut watch = Self {
            stop: Arc::default(),
            stalls: Arc::default(),
            requests: Arc::default(),
            control: None,
            tracing,
            services,
            sizes: Arc::default(),
            waits: Arc::default(),
            kernel_events,
            signal_kills: Arc::new(SignalKills::new().map_err(WatchError::Thread)?),
            monitors: Arc::clone(&monitors),
            sample_age: Arc::default(),
            progress: ThreadBeats::default(),
            budget,
            writer: Arc::clone(&writer),
            threads: Vec::new(),
            evidence: None,
            teller: sender.clone(),
            capturing: None,
            unseen,
            events,
        };
        watch.begin(&options, source, host, &monitors, pressure, sender)?;
        if options.profile {
            watch.thread("mw-names", IDLE_PRIORITY_BOUND, move |beat| {
                yield_to_others();
                beat.step();
                Symbols::load(&symbols);
            })?;
        }
        watch.follow_signals()?;
        if options.group_waits {
            watch.sum_waits()?;
        }
        watch.listen(&options.recording)?;
        // After the threads have begun: incidents do not repeat it.
        watch.unseen.extend(mw_profile::delays_off());
        Ok(watch)
    }

    fn begin(
        &mut self,
        options: &WatchOptions,
        source: Source,
        host: Host,
        monitors: &Arc<Monitors>,
        pressure: Option<PressureTrigger>,
        events: Sender<WatchEvent>,
    ) -> Result<(), WatchError> {
        let writer = Arc::clone(&self.writer);
        let kernel_events = Arc::clone(&self.kernel_events);
        let sampling = Sampling::open(&source, Arc::clone(monitors), writer, kernel_events);
        let ring = sampling.ring();
        let (age, stop) = (Arc::clone(&self.sample_age), Arc::clone(&self.stop));
        self.thread("mw-sample", STEP_BOUND, move |_| sampling.run(&age, &stop))?;
        let snapshot = HelperThread::new(SNAPSHOT_LIMIT, move |_, ()| {
            let cpu_before = mw_sys::thread_time();
            let snapshot = mw_collect::snapshot(&source);
            (snapshot, thread_time_since(cpu_before))
        });
        let context = Context {
            snapshot: snapshot.map_err(WatchError::Thread)?,
            files: TaskFiles::start().map_err(WatchError::Thread)?,
            budget: Arc::clone(&self.budget),
            answers: ServiceAnswers::start(&self.services, monitors).map_err(WatchError::Thread)?,
            monitors: Arc::clone(monitors),
            writer: Arc::clone(&self.writer),
            stalls: Arc::clone(&self.stalls),
            requests: Arc::clone(&self.requests),
            tracing: Arc::clone(&self.tracing),
            kernel_events: Arc::clone(&self.kernel_events),
            signal_kills: Arc::clone(&self.signal_kills),
            unseen: self.unseen.clone(),
            ring,
            host,
        };
        let evidence = EvidenceThread::new(context, events);
        self.thread("mw-evidence", EVIDENCE_BOUND, move |beat| evidence.run(beat))?;
        self.evidence = self.threads.pop();
        let tracing = Arc::clone(&self.tracing);
        self.thread("mw-trace", STEP_BOUND, move |beat| tracing.run(beat))?;
        let tracing = Arc::clone(&self.tracing);
        self.thread("mw-states", STEP_BOUND, move |beat| tracing.poll_states(beat))?;
        let (sizes, writer) = (Arc::clone(&self.sizes), Arc::clone(&self.writer));
        let (sized, interval) =
            (Source::live().map_err(WatchError::Source)?, options.sizes_interval);
        let recording = options.recording.clone();
        self.thread("mw-sizes", IDLE_PRIORITY_BOUND, move |beat| {
            sizes.run(sized, interval, &writer, &recording, beat);
        })?;
        let (kernel_events, stop) = (Arc::clone(&self.kernel_events), Arc::clone(&self.stop));
        let (services, sizes) = (Arc::clone(&self.services), Arc::clone(&self.sizes));
        let stalls = Arc::clone(&self.stalls);
        self.thread("mw-kernel", STEP_BOUND, move |beat| {
            kernel_events.run(&services, &sizes, &stalls, &stop, beat);
        })?;
        let (services, tracing) = (Arc::clone(&self.services), Arc::clone(&self.tracing));
        let (known, stalls) = (Arc::clone(monitors), Arc::clone(&self.stalls));
        self.thread("mw-services", STEP_BOUND, move |beat| {
            services.run(&known, &stalls, &tracing, beat);
        })?;
        let (monitors, stalls) = (Arc::clone(monitors), Arc::clone(&self.stalls));
        let (tracing, stop) = (Arc::clone(&self.tracing), Arc::clone(&self.stop));
        let requests = Arc::clone(&self.requests);
        self.thread("mw-trigger", STEP_BOUND, move |beat| {
            let pressure = pressure.as_ref();
            TriggerThread {
                monitors: &monitors,
                pressure,
                stalls: &stalls,
                tracing: &tracing,
                requests: &requests,
            }
            .run(&stop, beat);
        })
    }

    /// Records who ends processes by signals; without it the recorder still records.
    fn follow_signals(&mut self) -> Result<(), WatchError> {
        let tracer = match SignalTracer::open() {
            Ok(tracer) => tracer,
            Err(missing) => {
                self.unseen.push(missing);
                return Ok(());
            }
        };
        let (kills, stop) = (Arc::clone(&self.signal_kills), Arc::clone(&self.stop));
        let (services, writer) = (Arc::clone(&self.services), Arc::clone(&self.writer));
        let kernel_events = Arc::clone(&self.kernel_events);
        self.thread("mw-kills", STEP_BOUND, move |beat| {
            kills.run(tracer, &services, &kernel_events, &writer, &stop, beat);
        })
    }

    /// Sums up the waits of the services' cgroups; without them the recorder still records.
    fn sum_waits(&mut self) -> Result<(), WatchError> {
        let sampler = match GroupSampler::find(&Source::live()?) {
            Ok(sampler) => sampler,
            // The trace has said that there is none.
            Err(_) => return Ok(()),
        };
        let (waits, services) = (Arc::clone(&self.waits), Arc::clone(&self.services));
        self.thread("mw-waits", IDLE_PRIORITY_BOUND, move |beat| {
            waits.run(sampler, &services, beat);
        })
    }

    /// What the cgroups of the services waited, where that is summed up.
    pub fn group_waits(&self) -> Vec<(BlameParty, Vec<GroupWait>)> {
        self.waits.sums()
    }

    /// Serves requests for evidence; without it the recorder still records.
    fn listen(&mut self, recording: &Path) -> Result<(), WatchError> {
        let control = match ControlSocket::open(recording) {
            Ok(control) => Arc::new(control),
            Err(error) => {
                let socket = format!("requests at {}-control", recording.display());
                self.unseen.push(Missing::failed(socket, error.to_string()));
                return Ok(());
            }
        };
        self.control = Some(Arc::clone(&control));
        let (requests, monitors) = (Arc::clone(&self.requests), Arc::clone(&self.monitors));
        self.thread("mw-control", REQUEST_BOUND, move |beat| {
            control.run(&requests, &monitors.wakeup, beat);
        })
    }

    fn thread(
        &mut self,
        name: &str,
        bound: Duration,
        body: impl FnOnce(&Beat) + Send + 'static,
    ) -> Result<(), WatchError> {
        let builder = std::thread::Builder::new().name(name.to_owned());
        let beat = self.progress.add(name, bound);
        let body = move || {
            body(&beat);
            beat.rest();
        };
        self.threads.push(builder.spawn(body).map_err(WatchError::Thread)?);
        Ok(())
    }

    /// Messages of the recorder, waited for at most so long.
    pub fn event(&self, at_most: Duration) -> Option<WatchEvent> {
        self.events.recv_timeout(at_most).ok()
    }

    /// Evidence that cannot be read on this machine, and its requirements.
    pub fn unseen(&self) -> &[Missing] {
        &self.unseen
    }

    /// Repair of the recording before it could be written, if there was one.
    pub fn notice(&self) -> Option<&str> {
        self.writer.notice()
    }

    /// Age of the last sample of the counters.
    pub fn last_look_ms(&self) -> u64 {
        self.sample_age.ms()
    }

    /// The thread that makes no progress, where one has made none for its bound. The one that writes the recording is not
    /// among them: [`Watch::trouble`] says what keeps it, and a recorder that is started again would wait for the same disk.
    pub fn stuck(&self) -> Option<StuckThread> {
        self.progress.stuck()
    }

    /// Obstacle that keeps the recording from being written, if there is one.
    pub fn trouble(&self) -> Option<String> {
        self.writer.trouble()
    }

    /// Adds a capture of the kernel's whole memory state to the recording, from a thread of its own:
    /// it takes about a second, and what it reads may not respond. [`WatchEvent::NotCaptured`] says that
    /// there is none.
    ///
    /// # Errors
    /// The last one is still under way, or the kernel gives no thread.
    pub fn capture(&mut self) -> io::Result<()> {
        if self.capturing.as_ref().is_some_and(|last| !last.is_finished()) {
            return Err(io::Error::other("the last one is still under way"));
        }
        let (writer, teller) = (Arc::clone(&self.writer), self.teller.clone());
        let capture = move || {
            yield_to_others();
            match captured() {
                Ok(bytes) => writer.keep_capture(mw_sys::unix_ms(), bytes),
                // The receiver may have gone.
                Err(error) => drop(teller.send(WatchEvent::NotCaptured(error))),
            }
        };
        let thread = std::thread::Builder::new().name("mw-capture".to_owned());
        self.capturing = Some(thread.spawn(capture)?);
        Ok(())
    }
}

fn captured() -> io::Result<Vec<u8>> {
    let source = Source::live().map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    capture::write(&source, false, &mut bytes)?;
    Ok(bytes)
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.stalls.stop();
        self.requests.stop();
        if let Some(control) = &self.control {
            control.stop();
        }
        self.tracing.stop();
        self.services.stop();
        self.sizes.stop();
        self.waits.stop();
        self.kernel_events.wake();
        self.signal_kills.wake();
        self.monitors.wakeup.wake();
        self.monitors.pace_rises.wake();
        let end = Instant::now() + GRACE;
        for thread in self.threads.drain(..) {
            join_within(thread, end.saturating_duration_since(Instant::now()));
        }
        if let Some(evidence) = self.evidence.take() {
            join_within(evidence, EVIDENCE_GRACE);
        }
        if let Some(capturing) = self.capturing.take() {
            join_within(capturing, CAPTURE_GRACE);
        }
        self.writer.finish(WRITER_GRACE);
    }
}

/// Starts probes, canary and profiler.
fn monitors(options: &WatchOptions, unseen: &mut Vec<Missing>) -> Result<Monitors, WatchError> {
    let probers: io::Result<Vec<Prober>> =
        options.probes.iter().cloned().map(Prober::start).collect();
    let canary = options.canary.map(|canary| Canary::start(canary.interval, CANARY_BYTES));
    let profiler = options.profile.then(|| {
        let (profiler, missing) = Profiler::start(mw_profile::ProfilerOptions::default());
        unseen.extend(missing);
        profiler
    });
    let CanaryOptions { interval, limit } = options.canary.unwrap_or_default();
    let limits = MonitorLimits {
        canary_ms: limit.as_secs_f64() * 1000.0,
        token_ms: options.token_timeout.map(|timeout| timeout.as_secs_f64() * 1000.0),
    };
    let pace = if options.canary.is_none() && options.probes.is_empty() {
        Pace::unprobed()
    } else {
        Pace::new(interval, limits.canary_ms, limits.token_ms.is_some())
    };
    Ok(Monitors {
        probers: probers.map_err(WatchError::Thread)?,
        canary: canary.transpose().map_err(WatchError::Thread)?,
        pace,
        profiler,
        limits,
        wakeup: WakeupFd::new().map_err(WatchError::Thread)?,
        pace_rises: WakeupFd::new().map_err(WatchError::Thread)?,
    })
}

/// Locks what the recorder touches, now and later, so that reclaim cannot take it away.
fn lock_memory() -> Result<(), Missing> {
    use rustix::mm::{MlockAllFlags, mlockall};
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    mlockall(flags).map_err(|errno| {
        let why = format!(
            "{errno}: the recorder's own memory may be reclaimed while it is needed; give it \
             CAP_IPC_LOCK or LimitMEMLOCK=infinity"
        );
        Missing::skipped("locked memory", why)
    })
}

fn host(source: &Source) -> Host {
    let snapshot = mw_collect::snapshot(source);
    let names = rustix::system::uname();
    Host {
        name: names.nodename().to_string_lossy().into_owned(),
        kernel: names.release().to_string_lossy().into_owned(),
        memwright: env!("CARGO_PKG_VERSION").to_owned(),
        cpus: snapshot.origin.cpus.unwrap_or(0),
        memory_bytes: mw_model::derived::memory_bytes(&snapshot.sample).unwrap_or(0),
        page_bytes: snapshot.origin.page_bytes,
    }
}
