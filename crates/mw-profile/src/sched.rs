//! Scheduler trace: who ran, waited and woke whom, with kernel stacks, for the critical path of a request.
//!
//! On each CPU one ring takes `sched_switch`, `sched_waking`, a sampling clock, and the kernel's own records of
//! switches, forks and names. The records of switches are needed beside the tracepoint: on some virtual machines
//! the tracepoints of an idle task are silent, and with them every switch that begins in it.
//!
//! User stacks of tasks that leave a CPU are long, and have a ring of their own: it may overflow without a gap in the
//! trace.
//!
//! Tracing costs 10 to 20% of a program that switches 50,000 times a second, so that events are opened
//! disabled and enabled for as long as something is to be explained.

mod copy;
mod left_stacks;
mod options;
mod recorded;
mod stacks;
mod states;
mod user_stacks;

use crate::open::{cpus, raise_descriptors, refused, ring_bytes, wake_bytes};
use crate::records::records;
use crate::symbols::Symbols;
use crate::task_numbers::TaskNumbers;
use crate::tracefs::Tracefs;
use crate::tracepoint::TracepointFormat;
pub use copy::TraceCopy;
use hashbrown::HashMap;
use mw_critical_path::{Nanos, Tid, Trace};
use mw_model::Missing;
use mw_sys::{
    PerfAttr, PerfEvent, PerfRing, PerfSource, SamplePeriod, UserStackCopy, monotonic_ns,
};
pub use options::{TraceOptions, UserStackOptions};
use recorded::{SampleKind, TraceRecorder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use states::StateReader;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Rate of the sampling clock, which tells how a task ran; prime, so that it follows no periodic task.
const SAMPLES_HZ: u32 = 97;
/// The clock, two tracepoints and user stacks.
const MAX_EVENTS_OF_CPU: usize = 4;
/// Frames of a stack; deeper ones lose their outermost.
const STACK_FRAMES: u16 = 40;
/// Frames of a user stack that find room behind the longest kernel stack.
const USER_STACK_FRAMES: u16 = 24;

/// Traces the scheduler of all CPUs from [`Self::start`] to [`Self::finish`].
#[derive(Debug)]
pub struct SchedTracer {
    cpus: Vec<Cpu>,
    switch: Arc<TraceSwitch>,
    origins: HashMap<u64, SampleKind>,
    /// A record that crosses the end of its ring.
    crossing: Vec<u8>,
    recorded: TraceRecorder,
    states: StateReader,
}

/// Enables and disables the events of a tracer, from any thread: some system calls for each CPU, no lock.
#[derive(Debug)]
pub struct TraceSwitch {
    /// Of each CPU in turn the same number, of which the first owns the ring.
    events: Vec<PerfEvent>,
    events_of_cpu: usize,
    /// Time at which they were last enabled and last disabled (`CLOCK_MONOTONIC`); 0 where they never were. They are enabled
    /// while the former is the later one, so that one store tells both that they are disabled and since when.
    began_ns: AtomicU64,
    ended_ns: AtomicU64,
}

/// Events that are open on one CPU.
#[derive(Debug)]
struct Cpu {
    number: u16,
    ring: PerfRing,
    /// User stacks of tasks that leave the CPU.
    left_ring: Option<PerfRing>,
}

impl TraceSwitch {
    /// Begins to trace, unless it is under way.
    pub fn on(&self) {
        let began = self.began_ns.load(Ordering::Acquire);
        let Some(ended) = self.off_since() else { return };
        let now = monotonic_ns().max(ended + 1);
        let is_first =
            self.began_ns.compare_exchange(began, now, Ordering::AcqRel, Ordering::Relaxed);
        if is_first.is_ok() {
            for event in &self.events {
                // An event that is open can be enabled.
                let _ = event.enable();
            }
        }
    }

    /// Ends the trace; what was recorded stays to be read.
    pub fn off(&self) {
        if self.off_since().is_none() {
            for event in &self.events {
                // An event that is open can be disabled.
                let _ = event.disable();
            }
            self.ended_ns.store(monotonic_ns(), Ordering::Release);
        }
    }

    /// Since when nothing is traced: 0 where nothing ever was, none while the trace goes on.
    fn off_since(&self) -> Option<u64> {
        let began = self.began_ns.load(Ordering::Acquire);
        let ended = self.ended_ns.load(Ordering::Acquire);
        (ended >= began).then_some(ended)
    }

    /// Waits until a ring is half full, `limit` at most.
    pub fn wait(&self, limit: Duration) {
        poll_readable(self.owners(), limit);
    }

    /// The events that own a ring.
    fn owners(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().step_by(self.events_of_cpu.max(1)).map(AsFd::as_fd)
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
        let task_numbers = TaskNumbers::of_this_process()?;
        let numbers = cpus()?;
        let (switch, waking) = (format("sched_switch")?, format("sched_waking")?);
        raise_descriptors(numbers.len(), MAX_EVENTS_OF_CPU);
        let bytes = ring_bytes(numbers.len(), options.rings_bytes, options.ring_bytes);
        let mut origins = HashMap::new();
        let (mut cpus, mut events) = (Vec::new(), Vec::new());
        let points = [
            (point_attr(switch.id, bytes), SampleKind::switch(&switch)?),
            (point_attr(waking.id, bytes), SampleKind::waking(&waking)?),
        ];
        let left = options.user_stacks.and_then(|user_stacks| user_stacks.waiting);
        let left = left.map(|copy| user_stack_attr(switch.id, bytes, copy));
        let refused = |error| refused("scheduler events", &error);
        for number in numbers {
            let clock = PerfEvent::open(&clock_attr(bytes, options.user_stacks), number)
                .map_err(refused)?;
            let ring = PerfRing::map(&clock, bytes).map_err(refused)?;
            origins.insert(clock.id(), SampleKind::Clock);
            let mut of_points = Vec::new();
            for (attr, kind) in &points {
                let event = PerfEvent::open(attr, number).map_err(refused)?;
                event.record_into(&clock).map_err(refused)?;
                origins.insert(event.id(), *kind);
                of_points.push(event);
            }
            events.push(clock);
            events.extend(of_points);
            let mut left_ring = None;
            if let Some(attr) = &left {
                let event = PerfEvent::open(attr, number).map_err(refused)?;
                left_ring = Some(PerfRing::map(&event, bytes).map_err(refused)?);
                events.push(event);
            }
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            cpus.push(Cpu { number, ring, left_ring });
        }
        Ok(Self {
            cpus,
            switch: Arc::new(TraceSwitch {
                events,
                events_of_cpu: 1 + points.len() + usize::from(left.is_some()),
                began_ns: AtomicU64::new(0),
                ended_ns: AtomicU64::new(0),
            }),
            origins,
            crossing: Vec::with_capacity(1 << 16),
            recorded: TraceRecorder::new(options, task_numbers),
            states: StateReader::start(),
        })
    }

    /// Enables and disables the events from other threads.
    pub fn switch(&self) -> Arc<TraceSwitch> {
        Arc::clone(&self.switch)
    }

    /// Begins to trace, unless [`TraceSwitch::on`] did before, or goes on with what was not cleared. States and
    /// stacks that were there before are read from /proc: of all threads of `processes`, and of tasks that are
    /// blocked or stopped.
    pub fn start(&mut self, processes: &[Tid]) {
        self.resume();
        self.find_states(processes);
    }

    /// Reads the states and stacks of all threads of `processes`, and of tasks that are blocked or stopped.
    pub fn find_states(&mut self, processes: &[Tid]) {
        self.recorded.find_states(&mut self.states, processes);
    }

    /// Goes on with what was not cleared; what happened since the trace was disabled is a gap.
    pub fn resume(&mut self) {
        let ended = self.switch.ended_ns.load(Ordering::Acquire);
        self.switch.on();
        self.recorded.begin(self.switch.began_ns.load(Ordering::Acquire), ended);
    }

    /// Forgets what was recorded. Memory beyond [`TraceOptions::resident_events`] is released.
    pub fn clear(&mut self) {
        // What is in the rings already belongs to the next trace where one was begun.
        if self.switch.off_since().is_some() {
            self.drain();
        }
        self.recorded.clear();
    }

    /// Waits until `other` is readable, a ring is half full or the time is over, and reads the rings. Whether
    /// `other` is readable.
    pub fn wait(&mut self, other: Option<BorrowedFd<'_>>, limit: Duration) -> bool {
        let ready = poll_readable(other.into_iter().chain(self.switch.owners()), limit);
        let ready = ready && other.is_some();
        self.drain();
        ready
    }

    /// Tasks that ran at ticks of the clock since the last call, as this PID namespace numbers them.
    pub fn take_sampled(&mut self) -> BTreeSet<Tid> {
        self.recorded.take_sampled()
    }

    /// Ends the trace and looks up the names of functions, which takes 50 to 200 ms of CPU time.
    pub fn finish(mut self) -> Trace {
        self.switch.off();
        let to = self.switch.ended_ns.load(Ordering::Acquire);
        let mut copy = TraceCopy::default();
        while self.copy(&mut copy) {}
        let mut trace = copy.into_trace((0, Nanos::MAX), &mut Symbols::default());
        trace.gaps.retain(|(begin, _)| *begin < to);
        (trace.from, trace.to) = (trace.from.max(trace.complete_from), to);
        trace
    }

    /// Adds the next piece of what was recorded so far to a copy; whether there are more.
    pub fn copy(&mut self, copy: &mut TraceCopy) -> bool {
        if copy.to == 0 {
            self.drain();
        }
        copy.to = monotonic_ns();
        if self.recorded.copy(copy) {
            return true;
        }
        if let Some(ended) = self.switch.off_since() {
            copy.gaps.push((ended, copy.to));
        }
        false
    }

    fn drain(&mut self) {
        let Self { cpus, crossing, recorded, origins, .. } = self;
        for Cpu { number, ring, left_ring } in cpus {
            if let Some(ring) = left_ring {
                ring.for_each(crossing, |bytes| {
                    records(bytes).for_each(|record| recorded.keep_user_stack(*number, &record));
                });
            }
            ring.for_each(crossing, |bytes| {
                for record in records(bytes) {
                    recorded.take(*number, &record, origins);
                }
            });
        }
    }
}

/// Frames of a kernel stack, and of the user stack behind it.
fn frames(has_user_stack: bool) -> u16 {
    if has_user_stack { STACK_FRAMES + USER_STACK_FRAMES } else { STACK_FRAMES }
}

fn clock_attr(ring_bytes: usize, user_stacks: Option<UserStackOptions>) -> PerfAttr {
    PerfAttr {
        source: PerfSource::CpuClock,
        period: SamplePeriod::Hz(SAMPLES_HZ),
        stack_frames: Some(frames(user_stacks.is_some())),
        user_stack: user_stacks.map(|user_stacks| user_stacks.running),
        fields: false,
        user_mode: true,
        names: true,
        scheduling: true,
        mappings: user_stacks.is_some(),
        wake_bytes: wake_bytes(ring_bytes),
    }
}

fn point_attr(id: u64, ring_bytes: usize) -> PerfAttr {
    PerfAttr {
        source: PerfSource::Tracepoint(id),
        period: SamplePeriod::Occurrences(1),
        stack_frames: Some(frames(false)),
        user_stack: None,
        fields: true,
        user_mode: true,
        names: false,
        scheduling: false,
        mappings: false,
        wake_bytes: wake_bytes(ring_bytes),
    }
}

fn user_stack_attr(id: u64, ring_bytes: usize, copy: UserStackCopy) -> PerfAttr {
    PerfAttr {
        stack_frames: Some(frames(true)),
        user_stack: Some(copy),
        fields: false,
        ..point_attr(id, ring_bytes)
    }
}

fn format(name: &str) -> Result<TracepointFormat, Missing> {
    Tracefs::open()?.format(&format!("sched/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that took the end of an earlier trace for that of this one would find a gap over all of it.
    #[test]
    fn the_end_of_an_earlier_trace_is_never_that_of_a_later_one() {
        let switch = TraceSwitch {
            events: Vec::new(),
            events_of_cpu: 1,
            began_ns: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
        };
        assert_eq!(switch.off_since(), Some(0));
        let begun = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let traces = scope.spawn(|| {
                for _ in 0..200_000 {
                    switch.on();
                    assert_eq!(switch.off_since(), None);
                    begun.store(switch.began_ns.load(Ordering::Acquire), Ordering::Release);
                    switch.off();
                }
            });
            while !traces.is_finished() {
                let begun = begun.load(Ordering::Acquire);
                assert!(switch.off_since().is_none_or(|ended| ended >= begun));
            }
        });
    }
}
