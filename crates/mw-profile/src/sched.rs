//! Scheduler trace: who ran, waited and woke whom, with kernel stacks, for the critical path of a request.
//!
//! On each CPU one ring takes `sched_switch`, `sched_waking`, a sampling clock, and the kernel's own records of
//! switches, forks and names. The records of switches are needed beside the tracepoint: on some virtual machines
//! the tracepoints of an idle task are silent, and with them every switch that begins in it.
//!
//! Tracing costs 10 to 20% of a program that switches 50,000 times a second, so that events are opened
//! disabled and enabled for as long as something is to be explained.

mod options;
mod recorded;

use crate::open::{cpus, raise_descriptors, refused, ring_bytes, tracefs, wake_bytes};
use crate::records::records;
use crate::symbols::Symbols;
use crate::tracepoint::Format;
use mw_critical_path::{Tid, Trace};
use mw_model::Missing;
use mw_sys::{PerfAttr, PerfEvent, PerfRing, PerfSource, SamplePeriod, monotonic_ns};
pub use options::TraceOptions;
use recorded::{Origin, Recorded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Rate of the sampling clock, which tells how a task ran; prime, so that it follows no periodic task.
const SAMPLES_HZ: u32 = 97;
/// The clock and two tracepoints.
const EVENTS_OF_CPU: usize = 3;
/// Frames of a stack; deeper ones lose their outermost.
const STACK_FRAMES: u16 = 40;

/// Traces the scheduler of all CPUs from [`Self::start`] to [`Self::finish`].
#[derive(Debug)]
pub struct SchedTracer {
    cpus: Vec<Cpu>,
    switch: Arc<TraceSwitch>,
    origins: HashMap<u64, Origin>,
    bytes: Vec<u8>,
    recorded: Recorded,
    symbols: Symbols,
}

/// Enables and disables the events of a tracer, from any thread: some system calls for each CPU, no lock.
#[derive(Debug)]
pub struct TraceSwitch {
    /// [`EVENTS_OF_CPU`] for each CPU, of which the first owns the ring.
    events: Vec<PerfEvent>,
    /// When they were enabled (`CLOCK_MONOTONIC`); 0 while they are disabled.
    since_ns: AtomicU64,
}

/// What is open on one CPU.
#[derive(Debug)]
struct Cpu {
    number: u16,
    ring: PerfRing,
}

impl TraceSwitch {
    /// Begins to trace, unless it is under way.
    pub fn on(&self) {
        let was_off = self.since_ns.compare_exchange(
            0,
            monotonic_ns().max(1),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if was_off.is_ok() {
            for event in &self.events {
                // An event that is open can be enabled.
                let _ = event.enable();
            }
        }
    }

    /// Ends the trace; what was recorded stays to be read.
    pub fn off(&self) {
        if self.since_ns.swap(0, Ordering::AcqRel) != 0 {
            for event in &self.events {
                // An event that is open can be disabled.
                let _ = event.disable();
            }
        }
    }

    /// Waits until a ring is half full, `limit` at most.
    pub fn wait(&self, limit: Duration) {
        poll_readable(self.owners(), limit);
    }

    /// The events that own a ring.
    fn owners(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().step_by(EVENTS_OF_CPU).map(AsFd::as_fd)
    }
}

/// Waits for one of these descriptors to be readable; whether the first is.
fn poll_readable<'a>(fds: impl Iterator<Item = BorrowedFd<'a>>, limit: Duration) -> bool {
    let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let timeout = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(1),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // A signal ends it early, which harms nothing.
    let _ = poll(&mut fds, Some(&timeout));
    fds.first().is_some_and(|fd| !fd.revents().is_empty())
}

impl SchedTracer {
    /// Opens all events, disabled.
    ///
    /// # Errors
    /// What this machine or the caller lacks, and what would make it work.
    pub fn open(options: TraceOptions) -> Result<Self, Missing> {
        let numbers = cpus()?;
        let (switch, waking) = (format("sched_switch")?, format("sched_waking")?);
        let points = [Origin::switch(&switch)?, Origin::waking(&waking)?];
        raise_descriptors(numbers.len(), EVENTS_OF_CPU);
        let bytes = ring_bytes(numbers.len(), options.rings_bytes, options.ring_bytes);
        let mut origins = HashMap::new();
        let (mut cpus, mut events) = (Vec::new(), Vec::new());
        let refused = |error| refused("scheduler events", &error);
        for number in numbers {
            let clock = PerfEvent::open(&clock_attr(bytes), number).map_err(refused)?;
            let ring = PerfRing::map(&clock, bytes).map_err(refused)?;
            origins.insert(clock.id(), Origin::Clock);
            let of_points: Vec<PerfEvent> = [switch.id, waking.id]
                .into_iter()
                .map(|id| {
                    let event = PerfEvent::open(&point_attr(id, bytes), number)?;
                    event.record_into(&clock)?;
                    Ok(event)
                })
                .collect::<Result<_, _>>()
                .map_err(refused)?;
            origins.extend(of_points.iter().map(PerfEvent::id).zip(points));
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            cpus.push(Cpu { number, ring });
            events.push(clock);
            events.extend(of_points);
        }
        Ok(Self {
            cpus,
            switch: Arc::new(TraceSwitch { events, since_ns: AtomicU64::new(0) }),
            origins,
            bytes: Vec::new(),
            recorded: Recorded::new(options),
            symbols: Symbols::default(),
        })
    }

    /// Enables and disables the events from other threads.
    pub fn switch(&self) -> Arc<TraceSwitch> {
        Arc::clone(&self.switch)
    }

    /// Begins to trace, unless [`TraceSwitch::on`] did before. States and stacks that were there before are
    /// read from /proc: of all threads of `processes`, and of tasks that are blocked or stopped.
    pub fn start(&mut self, processes: &[Tid]) {
        self.switch.on();
        self.recorded.begin(self.switch.since_ns.load(Ordering::Acquire));
        self.recorded.find_states(processes);
    }

    /// Forgets what was recorded and gives its memory back. Names of functions stay.
    pub fn clear(&mut self) {
        for Cpu { ring, .. } in &mut self.cpus {
            self.bytes.clear();
            ring.drain(&mut self.bytes);
        }
        self.bytes = Vec::new();
        self.recorded = Recorded::new(self.recorded.options());
    }

    /// Waits until `other` is readable, a ring is half full or the time is over, and reads the rings. Whether
    /// `other` is readable.
    pub fn wait(&mut self, other: Option<BorrowedFd<'_>>, limit: Duration) -> bool {
        let ready = poll_readable(other.into_iter().chain(self.switch.owners()), limit);
        let ready = ready && other.is_some();
        self.drain();
        ready
    }

    /// Ends the trace and looks up the names of functions, which takes 50 to 200 ms of CPU time.
    pub fn finish(mut self) -> Trace {
        self.switch.off();
        self.trace()
    }

    /// What was recorded so far, with the names of functions: 50 to 200 ms of CPU time where some are new.
    pub fn trace(&mut self) -> Trace {
        self.drain();
        self.recorded.trace(monotonic_ns(), &mut self.symbols)
    }

    fn drain(&mut self) {
        for Cpu { number, ring, .. } in &mut self.cpus {
            self.bytes.clear();
            ring.drain(&mut self.bytes);
            for record in records(&self.bytes) {
                self.recorded.take(*number, &record, &self.origins);
            }
        }
    }
}

fn clock_attr(ring_bytes: usize) -> PerfAttr {
    PerfAttr {
        source: PerfSource::CpuClock,
        period: SamplePeriod::Hz(SAMPLES_HZ),
        stack_frames: Some(STACK_FRAMES),
        fields: false,
        user_mode: true,
        names: true,
        scheduling: true,
        wake_bytes: wake_bytes(ring_bytes),
    }
}

fn point_attr(id: u64, ring_bytes: usize) -> PerfAttr {
    PerfAttr {
        source: PerfSource::Tracepoint(id),
        period: SamplePeriod::Occurrences(1),
        stack_frames: Some(STACK_FRAMES),
        fields: true,
        user_mode: true,
        names: false,
        scheduling: false,
        wake_bytes: wake_bytes(ring_bytes),
    }
}

fn format(name: &str) -> Result<Format, Missing> {
    let path = tracefs()?.join("events/sched").join(name).join("format");
    let what = path.display().to_string();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Missing::failed(what.clone(), error.to_string()))?;
    Format::parse(&text).ok_or_else(|| Missing::failed(what, "has no line `ID:`"))
}
