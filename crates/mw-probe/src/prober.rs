//! Sends requests to a service at an interval, from a thread of its own, and measures how long the
//! responses take.
//!
//! A probe keeps its connection open if the protocol does. Every wait ends with the timeout,
//! whatever the other side does: a target that accepts the connection and never responds, or sends a
//! byte a minute, or sends without end, fails a probe and nothing else.

use crate::jvm_log;
use crate::link::{Deadline, LinkError};
use crate::observation::{Observation, ProbeFailure, ProbeReading, ProbeRequest};
use crate::target::Target;
use crate::tempo::Tempo;
use crate::threads::{EndingThreads, STACK_BYTES};
use crate::view::{self, Viewer};
use mw_model::{Connection, ProbeTick, Reading, ServiceView};
use mw_sys::unix_ms;
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest time from one probe to the next.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The longest time of one kind: interval or timeout.
pub const MAX_TIME: Duration = Duration::from_secs(3600);
/// The longest name of a probe.
pub const MAX_NAME_BYTES: usize = 64;
/// Longer failures are cut.
const MAX_FAILURE_CHARS: usize = 200;

/// Target of the probe, and its interval.
#[derive(Debug, Clone)]
pub struct ProbeSpec {
    /// Its name: short, without blanks or dots.
    pub name: String,
    pub target: Target,
    /// A response that takes longer is a stall.
    pub limit: Duration,
    /// From the beginning of one probe to that of the next; what a slow one missed is left out.
    pub interval: Duration,
    /// After this the probe has failed.
    pub timeout: Duration,
    pub details: Details,
}

/// Further settings of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Its systemd unit or the path of its cgroup, where that cannot be told from the connection.
    pub service: Option<String>,
    /// True if the texts of its queries may be recorded.
    pub queries: bool,
    /// The log of the garbage collector of its Java virtual machine.
    pub gc_log: Option<PathBuf>,
}

/// A thread that probes; it ends with it.
#[derive(Debug)]
pub struct Prober {
    spec: ProbeSpec,
    state: Arc<Observation>,
    tempo: Arc<Tempo>,
    viewer: Option<Viewer>,
    _thread: EndingThreads,
}

impl Prober {
    /// Starts probing at once.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is empty, long or has blanks or dots, or for times outside
    /// [`MIN_INTERVAL`] (1 ms for the timeout) and [`MAX_TIME`]; the kernel gives no thread or
    /// descriptor.
    pub fn start(spec: ProbeSpec) -> io::Result<Self> {
        check(&spec)?;
        let state = Arc::new(Observation::new(spec.limit)?);
        let tempo = Arc::new(Tempo::new(
            spec.interval,
            (!spec.target.starts_programs()).then_some(spec.limit),
        )?);
        let view = spec.target.view();
        let viewer = view.map(|view| Viewer::new(view, spec.details.queries)).transpose()?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let told = Arc::clone(&stop);
        let mut thread = EndingThreads::new(move || {
            let _ = rustix::io::write(&*told, &1_u64.to_ne_bytes());
        });
        let (theirs, shared, set) = (spec.clone(), Arc::clone(&state), Arc::clone(&tempo));
        let name = format!("mw-probe-{}", spec.name);
        thread.spawn(&name, STACK_BYTES, move || run(&theirs, &shared, &set, &stop))?;
        Ok(Self { spec, state, tempo, viewer, _thread: thread })
    }

    /// There is a sign that the service waits, or none any more: requests follow each other at half of the limit, at
    /// least 100 ms apart, and never less often than at the interval. A probe that starts a program for each request
    /// keeps its interval. It takes no lock and does not block.
    pub fn set_alert(&self, is_alert: bool) {
        self.tempo.set_alert(is_alert);
    }

    pub fn spec(&self) -> &ProbeSpec {
        &self.spec
    }

    /// Copies the measurements since the last call into `tick`, whose name stays; the slowest answer includes
    /// the one that is under way. It takes no lock and allocates nothing.
    pub fn take_into(&self, tick: &mut ProbeTick) {
        self.state.take_into(tick);
    }

    /// The probe that is under way. It takes no lock.
    pub fn under_way(&self) -> Option<ProbeRequest> {
        self.state.under_way()
    }

    /// Readable (`POLLIN`) from the moment that the probe under way passed its limit or one failed,
    /// until [`Prober::clear_overdue`] is called.
    pub fn overdue(&self) -> BorrowedFd<'_> {
        self.state.overdue.fd()
    }

    /// Makes [`Prober::overdue`] unreadable until the next probe that is slow or fails.
    pub fn clear_overdue(&self) {
        self.state.overdue.clear();
    }

    /// Readable (`POLLIN`) from the moment that a request has been outstanding for half of its limit, at most
    /// 100 ms, until [`Prober::clear_alarm`] is called.
    pub fn alarm(&self) -> BorrowedFd<'_> {
        self.state.alarm.fd()
    }

    /// Makes [`Prober::alarm`] unreadable until the next request that is outstanding for so long.
    pub fn clear_alarm(&self) {
        self.state.alarm.clear();
    }

    /// The request under way and the last that ended. It takes no lock.
    pub fn reading(&self) -> ProbeReading {
        self.state.reading()
    }

    /// The thread that sends the requests, once it runs.
    pub fn thread(&self) -> Option<u32> {
        self.state.thread()
    }

    /// The last probe that ended. It takes no lock; none is told, in rare cases, while one ends.
    pub fn last(&self) -> Option<ProbeRequest> {
        self.state.last()
    }

    /// The most frequent failure of the last outage, up to a good answer, of this time, in milliseconds since 1970.
    pub fn main_failure(&self, unix_ms: &RangeInclusive<u64>) -> Option<ProbeFailure> {
        self.state.main_failure(unix_ms)
    }

    /// The most frequent failure of the last outage.
    pub fn last_failure(&self) -> Option<ProbeFailure> {
        self.main_failure(&(0..=u64::MAX))
    }

    /// Opens the connection over which [`Prober::view`] asks, where it is not open. Call it while all is
    /// well, about every 10 s; it waits for the service, 1 s at most.
    pub fn prepare_view(&self) {
        if let Some(viewer) = &self.viewer {
            viewer.prepare();
        }
    }

    /// The service's own view of its sessions now, or the last pauses of its Java virtual machine; takes
    /// `limit` at most. `None` where its protocol has no such question and there is no log. A service that
    /// cannot answer during its stall may tell of it afterwards.
    pub fn view(&self, limit: Duration) -> Option<Reading<ServiceView>> {
        let said = |failure: LinkError| failure_text(&failure, &self.spec.target);
        if let Some(viewer) = &self.viewer {
            return Some(view::reading(viewer.look(limit).map_err(said)));
        }
        let log = self.spec.details.gc_log.as_deref()?;
        let seen = jvm_log::view(log, limit).map_err(|error| format!("{}: {error}", log.display()));
        Some(view::reading(seen.map(|seen| ServiceView { at_unix_ms: unix_ms(), ..seen })))
    }

    /// The connection of the request under way, or of the last one; `None` before the first and for
    /// `exec:`. It takes no lock.
    pub fn connection(&self) -> Option<Connection> {
        self.state.connection.read(self.spec.target.socket_path())
    }
}

fn check(spec: &ProbeSpec) -> io::Result<()> {
    let invalid = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what.to_owned()));
    let plain = |c: char| c.is_ascii_graphic() && c != '.';
    if spec.name.is_empty() || spec.name.len() > MAX_NAME_BYTES || !spec.name.chars().all(plain) {
        return invalid("invalid probe name (use 1 to 64 characters without blanks or dots)");
    }
    if !(MIN_INTERVAL..=MAX_TIME).contains(&spec.interval) {
        return invalid("invalid probe interval (use 10 ms to 1 h)");
    }
    if !(Duration::from_millis(1)..=MAX_TIME).contains(&spec.timeout) {
        return invalid("invalid probe timeout (use 1 ms to 1 h)");
    }
    Ok(())
}

fn run(spec: &ProbeSpec, state: &Observation, tempo: &Tempo, stop: &OwnedFd) {
    state.set_thread();
    let mut probe = spec.target.probe();
    let mut due = Instant::now();
    loop {
        state.begin();
        let deadline = Deadline::after(spec.timeout, stop.as_fd()).publishing(&state.connection);
        let answer = probe.send(&deadline);
        if matches!(answer, Err(LinkError::Stopped)) {
            return;
        }
        state.end(answer.err().map(|failure| ProbeFailure {
            kind: failure.kind(),
            text: failure_text(&failure, &spec.target),
        }));
        let Ok(next_due) = pause(due, tempo, stop) else { return };
        due = next_due;
    }
}

/// Waits until the next request is due, after one that was due at `due`; when it is.
fn pause(due: Instant, tempo: &Tempo, stop: &OwnedFd) -> Result<Instant, LinkError> {
    loop {
        let interval = tempo.interval();
        let next_due = next(due, interval);
        let pause = next_due.saturating_duration_since(Instant::now());
        // Its timeout is beyond its pause, so that only the end of the prober and a shorter interval cut it short.
        let deadline = Deadline::after(pause + interval, stop.as_fd());
        if !deadline.wait_any(&[(tempo.rises(), PollFlags::IN)], Some(pause), "pausing")? {
            return Ok(next_due);
        }
        tempo.clear();
    }
}

/// The next beat that is not over.
fn next(due: Instant, interval: Duration) -> Instant {
    let missed = due.elapsed().as_nanos() / interval.as_nanos().max(1);
    due + interval.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1))
}

/// A failure in one plain line: what a server said may be anything.
fn failure_text(failure: &LinkError, target: &Target) -> String {
    let text = target.conceal(&failure.to_string());
    let line = text.lines().next().unwrap_or_default();
    let plain = line.chars().map(|c| if c.is_control() { '?' } else { c });
    plain.take(MAX_FAILURE_CHARS).collect()
}
