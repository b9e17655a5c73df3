//! Records of the rings, sorted into the baseline, the stall under way, waits and the flood.

use crate::baseline::RollingStacks;
use crate::flood::{FileWriter, Flood};
use crate::names::Names;
use crate::open::{EventOrigin, Rings};
use crate::points::{PointData, Zones};
use crate::records::{PerfRecord, PerfSample, records};
use crate::table::{StackPeriod, StackTable};
use crate::task_numbers::TaskNumbers;
use crate::waits::{WaitStep, Waits};
use mw_critical_path::UNKNOWN_OUTSIDE;
use mw_model::{FloodShare, KernelWait, Missing, WaitKind};
use std::time::{Duration, Instant};

/// Records of tracepoints that wait for their turn in time; more are dropped and counted.
const MAX_PENDING: usize = 65_536;
/// Interval at which the known threads are checked.
const REFRESH_NS: u64 = 60_000_000_000;

/// Tracepoint data by task.
#[derive(Debug, Clone, Copy)]
struct PointEvent {
    time_ns: u64,
    pid: u32,
    tid: u32,
    data: PointData,
}

/// All that is known, and the rings that it comes from.
#[derive(Debug)]
pub(crate) struct RingReader {
    rings: Rings,
    zones: Zones,
    flood_period: u64,
    bytes: Vec<u8>,
    pending: Vec<PointEvent>,
    pub(crate) names: Names,
    numbers: TaskNumbers,
    baseline: RollingStacks,
    during: StackTable,
    waits: Waits,
    flood: Flood,
    stall: Option<StallBegin>,
    lost: LossCounts,
    refreshed_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct StallBegin {
    began_ns: u64,
    /// Time of the first stack of a task.
    first_ns: Option<u64>,
    lost: LossCounts,
}

impl StallBegin {
    /// Rings are read one after the other: the first stack is not the first that is read.
    fn note(&mut self, sample: &PerfSample<'_>) {
        if sample.pid != 0 && sample.stack().next().is_some() {
            let first_ns = self.first_ns.unwrap_or(u64::MAX);
            self.first_ns = Some(first_ns.min(sample.time_ns));
        }
    }
}

/// Records that were lost since the start.
#[derive(Debug, Clone, Copy, Default)]
struct LossCounts {
    stacks: u64,
    points: u64,
}

#[derive(Debug, Default)]
pub(crate) struct StallSamples {
    pub(crate) baseline: Option<(StackTable, StackPeriod)>,
    pub(crate) table: StackTable,
    pub(crate) span: StackPeriod,
    pub(crate) waits: Vec<KernelWait>,
    pub(crate) lost: u64,
}

impl RingReader {
    pub(crate) fn new(rings: Rings, numbers: TaskNumbers, flood_period: u64, now: Instant) -> Self {
        Self {
            rings,
            zones: Zones::read(),
            flood_period,
            bytes: Vec::new(),
            pending: Vec::new(),
            names: Names::new(numbers.is_nested()),
            numbers,
            baseline: RollingStacks::new(now),
            during: StackTable::default(),
            waits: Waits::default(),
            flood: Flood::default(),
            stall: None,
            lost: LossCounts::default(),
            refreshed_ns: 0,
        }
    }

    /// A stall began at `began_ns`; waits that ended from `waits_since_ns` on belong to it.
    pub(crate) fn begin(&mut self, now_ns: u64, began_ns: u64, waits_since_ns: u64) {
        if self.stall.is_some() {
            return;
        }
        self.stall = Some(StallBegin { began_ns, first_ns: None, lost: self.lost });
        self.waits.stall(waits_since_ns);
        // The rings still have what was sampled before.
        self.drain_stacks();
        let ago = Duration::from_nanos(now_ns.saturating_sub(began_ns));
        let now = Instant::now();
        self.baseline.pause(now.checked_sub(ago).unwrap_or(now));
    }

    /// The stall is over; it was sampled at `hz`, its baseline at `baseline_hz`.
    pub(crate) fn end(
        &mut self,
        now_ns: u64,
        hz: u32,
        baseline_hz: u32,
        cpus: u32,
    ) -> StallSamples {
        let Some(stall) = self.stall.take() else { return StallSamples::default() };
        let baseline = self.baseline.sum(Instant::now(), baseline_hz, cpus);
        self.baseline.resume(Instant::now());
        let names = &mut self.names;
        let waits = self.waits.finish(now_ns, |tid| {
            let name = names.index(tid);
            names.text(name).to_owned()
        });
        let span_ms = now_ns.saturating_sub(stall.began_ns) / 1_000_000;
        let first_us = stall.first_ns.map(|first| first.saturating_sub(stall.began_ns) / 1000);
        let lost = self.lost.stacks - stall.lost.stacks;
        StallSamples {
            baseline,
            table: std::mem::take(&mut self.during),
            span: StackPeriod { hz, cpus, span_ms, first_us, lost },
            waits,
            lost: lost + self.lost.points - stall.lost.points,
        }
    }

    /// Empties the rings. What happened after `now_ns` waits for the next time, so that records
    /// of several CPUs come in the order of time. How many records of waits there were.
    pub(crate) fn drain(&mut self, now_ns: u64) -> usize {
        self.names.refill();
        // The rings of tracepoints have the names of tasks, which stacks are counted by.
        self.drain_points();
        self.drain_stacks();
        self.pending.sort_by_key(|event| event.time_ns);
        let due = self.pending.partition_point(|event| event.time_ns <= now_ns);
        let later = self.pending.split_off(due);
        let mut waits = 0;
        for event in std::mem::replace(&mut self.pending, later) {
            waits += usize::from(self.handle(event));
        }
        self.lost.points += self.waits.take_dropped();
        self.flood.find_paths();
        self.baseline.advance(Instant::now());
        self.refresh(now_ns);
        waits
    }

    fn drain_stacks(&mut self) {
        let began_ns = self.stall.map_or(u64::MAX, |stall| stall.began_ns);
        let is_calm = |time_ns| time_ns < began_ns;
        for ring in &mut self.rings.stacks {
            self.bytes.clear();
            ring.drain(&mut self.bytes);
            for record in records(&self.bytes) {
                match record {
                    PerfRecord::Lost { records, .. } => {
                        self.lost.stacks += records;
                        self.baseline.lost(records);
                    }
                    PerfRecord::Sample(sample) => match self.rings.origins.get(&sample.event) {
                        Some(EventOrigin::Baseline) if is_calm(sample.time_ns) => {
                            self.baseline.add(self.names.index(sample.tid), sample.stack());
                        }
                        Some(EventOrigin::Stall) => {
                            if let Some(stall) = &mut self.stall {
                                stall.note(&sample);
                                let name = self.names.index(sample.tid);
                                self.during.add(sample.pid, name, sample.stack());
                            }
                        }
                        _ => {}
                    },
                    PerfRecord::Name { .. }
                    | PerfRecord::Mapping(_)
                    | PerfRecord::SwitchIn { .. }
                    | PerfRecord::Fork { .. } => {}
                }
            }
        }
    }

    fn drain_points(&mut self) {
        let mut lost = 0;
        for ring in &mut self.rings.points {
            self.bytes.clear();
            ring.drain(&mut self.bytes);
            for record in records(&self.bytes) {
                match record {
                    PerfRecord::Lost { records, .. } => lost += records,
                    PerfRecord::Name { tid, name, .. } => {
                        self.names.learn(tid, &String::from_utf8_lossy(name));
                    }
                    PerfRecord::Mapping(_)
                    | PerfRecord::SwitchIn { .. }
                    | PerfRecord::Fork { .. } => {}
                    PerfRecord::Sample(_) if self.pending.len() >= MAX_PENDING => lost += 1,
                    PerfRecord::Sample(sample) => {
                        let Some(origin) = self.rings.origins.get(&sample.event) else { continue };
                        let PerfSample { time_ns, pid, .. } = sample;
                        let tid = current(origin, &sample, &mut self.numbers);
                        if let Some(data) = decode(origin, &sample, &self.zones, &self.numbers) {
                            self.pending.push(PointEvent { time_ns, pid, tid, data });
                        }
                    }
                }
            }
        }
        if lost > 0 {
            // Among them may be the ends of waits that would never end now.
            self.waits.forget(|_| true);
            self.lost.points += lost;
        }
    }

    /// Handles one record of a tracepoint; whether it was of a wait.
    fn handle(&mut self, event: PointEvent) -> bool {
        match event.data {
            PointData::Step(step) => {
                // Its name is read while it lives.
                self.names.index(event.tid);
                self.waits.take(event.time_ns, event.tid, step);
                true
            }
            PointData::Cached(cached) => {
                // A task outside of this PID namespace has no process here.
                let task = if event.pid == 0 { event.tid } else { event.pid };
                let (pid, name) = (event.pid, self.names.index(task));
                let (device, inode) = (cached.device, cached.inode);
                let pages = cached.pages.saturating_mul(self.flood_period);
                self.flood.add(event.time_ns, FileWriter { pid, device, inode }, name, pages);
                false
            }
        }
    }

    /// Numbers of threads are used again, and threads die within a wait.
    fn refresh(&mut self, now_ns: u64) {
        if self.refreshed_ns == 0 {
            self.refreshed_ns = now_ns;
        }
        if self.stall.is_some() || now_ns < self.refreshed_ns + REFRESH_NS {
            return;
        }
        self.refreshed_ns = now_ns;
        self.names.forget_threads();
        self.waits.forget(|tid| !std::path::Path::new(&format!("/proc/{tid}")).exists());
    }

    pub(crate) fn baseline(&mut self, hz: u32, cpus: u32) -> Option<(StackTable, StackPeriod)> {
        self.baseline.sum(Instant::now(), hz, cpus)
    }

    pub(crate) fn flood(&mut self, now_ns: u64) -> Vec<FloodShare> {
        let names = &self.names;
        self.flood.shares(now_ns, |name| names.text(name).to_owned())
    }

    /// Paths of its files that could not be read.
    pub(crate) fn flood_missing(&self) -> Option<Missing> {
        self.flood.missing()
    }

    /// Records lost since the start.
    pub(crate) fn lost_records(&self) -> u64 {
        self.lost.stacks + self.lost.points
    }
}

/// The task in whose context a record was written.
fn current(origin: &EventOrigin, sample: &PerfSample<'_>, numbers: &mut TaskNumbers) -> u32 {
    match origin {
        EventOrigin::Point(decoder) if numbers.is_nested() => {
            numbers.current(decoder.current(sample.fields()), sample.tid)
        }
        // An idle task has no page faults.
        EventOrigin::MajorFault if numbers.is_nested() && sample.tid == 0 => UNKNOWN_OUTSIDE,
        _ => sample.tid,
    }
}

fn decode(
    origin: &EventOrigin,
    sample: &PerfSample<'_>,
    zones: &Zones,
    numbers: &TaskNumbers,
) -> Option<PointData> {
    match origin {
        EventOrigin::Point(decoder) => match decoder.read(sample.fields(), zones)? {
            PointData::Step(WaitStep::Of { tid, kind }) => {
                Some(PointData::Step(WaitStep::Of { tid: numbers.task(tid), kind }))
            }
            data => Some(data),
        },
        // How long a fault waited no event says.
        EventOrigin::MajorFault => Some(PointData::Step(WaitStep::Whole {
            kind: WaitKind::Swap,
            node: None,
            lasted_us: 0,
        })),
        EventOrigin::Baseline | EventOrigin::Stall => None,
    }
}
