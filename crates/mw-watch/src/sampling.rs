//! The sampling thread: samples into the ring, up to four a second while all is calm and ten otherwise, and one a second to
//! the writer, which is woken for every second row alone while all is calm. It runs under SCHED_FIFO, does no disk I/O, forks
//! nothing, and allocates nothing after its first second.

use crate::clock;
use crate::kernel_events::KernelEvents;
use crate::monitors::Monitors;
use crate::pace::{CpuWaits, Signs};
use crate::ring::RowRing;
use mw_collect::{DiskSampler, OwnMemory, Sampler, Source};
use mw_model::{CanaryTick, Layout, ProbeTick, Tick, derived};
use mw_record::Writer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The trigger thread is woken for what may exceed its limit until the next sample, should that be so late.
const WAKE_BEFORE: Duration = Duration::from_millis(50);

/// Data of the sampling thread.
pub(crate) struct Sampling {
    sampler: Sampler,
    disks: DiskSampler,
    own: OwnMemory,
    monitors: Arc<Monitors>,
    ring: Arc<RowRing>,
    writer: Arc<Writer>,
    kernel_events: Arc<KernelEvents>,
    fast: Layout,
    whole: Layout,
    tick: Tick,
    signs: Signs,
    cpu_waits: CpuWaits,
    /// Probes and canary since the last row of the recording.
    second: Second,
    row: Vec<u64>,
    /// The last row waits for the next one.
    is_queued: bool,
}

/// Sums and maxima over a second.
#[derive(Default)]
struct Second {
    probes: Vec<ProbeTick>,
    canary: Option<CanaryTick>,
    late_us: u64,
}

/// Age of the samples, for other threads.
#[derive(Debug, Default)]
pub(crate) struct SampleAge {
    /// [`clock::monotonic_ms`] of the last sample.
    last_ms: AtomicU64,
}

impl SampleAge {
    pub(crate) fn ms(&self) -> u64 {
        (clock::monotonic_ms() as u64).saturating_sub(self.last_ms.load(Ordering::Relaxed))
    }
}

impl Sampling {
    /// Opens everything and takes a first sample, which says which columns there are.
    pub(crate) fn open(
        source: &Source,
        monitors: Arc<Monitors>,
        writer: Arc<Writer>,
        kernel_events: Arc<KernelEvents>,
    ) -> Self {
        let mut sampler = Sampler::open(source, &mw_collect::nodes(source));
        let mut disks = DiskSampler::open(source);
        let mut tick = Tick::default();
        sampler.sample(&mut tick.sample);
        disks.sample(&mut tick.disks);
        tick.probes = monitors.probe_ticks();
        tick.canary = monitors.canary.as_ref().map(|_| CanaryTick::default());
        let (fast, whole) = (Layout::fast(&tick), Layout::from_tick(&tick));
        writer.layout(whole.names());
        Self {
            own: OwnMemory::open(source),
            ring: Arc::new(RowRing::new(fast.names())),
            row: Vec::with_capacity(whole.names().len()),
            signs: Signs::default(),
            cpu_waits: CpuWaits::default(),
            is_queued: false,
            second: Second { probes: tick.probes.clone(), ..Second::default() },
            sampler,
            disks,
            monitors,
            writer,
            kernel_events,
            fast,
            whole,
            tick,
        }
    }

    pub(crate) fn ring(&self) -> Arc<RowRing> {
        Arc::clone(&self.ring)
    }

    /// Monitors until it is told to stop.
    pub(crate) fn run(mut self, age: &SampleAge, stop: &AtomicBool) {
        // Without the privilege it is as punctual as others are, and records the gaps.
        let _ = mw_sys::set_sched_fifo();
        let mut second = 0;
        // Missed samples are not made up for.
        while let Some(due) = self.wait(stop) {
            let now = clock::monotonic();
            self.second.late_us = self.second.late_us.max(us(now.saturating_sub(due)));
            age.last_ms.store(clock::millis(now), Ordering::Relaxed);
            let next = self.monitors.pace.next_sample(now);
            self.monitors.wake_trigger(next.saturating_sub(now) + WAKE_BEFORE);
            self.sample(std::mem::replace(&mut second, now.as_secs()) != now.as_secs());
        }
    }

    /// Waits until a sample is due; when it was. None when it is to stop.
    fn wait(&self, stop: &AtomicBool) -> Option<Duration> {
        loop {
            let due = self.monitors.pace.next_sample(clock::monotonic());
            let is_woken = self.monitors.pace_rises.wait_until(due);
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if !is_woken {
                return Some(due);
            }
        }
    }

    fn sample(&mut self, whole: bool) {
        self.tick.unix_ms = mw_sys::unix_ms();
        if whole {
            self.sampler.sample(&mut self.tick.sample);
        } else {
            self.sampler.sample_fast(&mut self.tick.sample);
        }
        if let Some(kills) = derived::oom_kills(&self.tick.sample) {
            self.kernel_events.count(kills);
        }
        self.disks.sample(&mut self.tick.disks);
        self.monitors.take(&mut self.tick.probes, &mut self.tick.canary);
        self.set_pace();
        self.second.add(&self.tick);
        self.fast.write(&self.tick, &mut self.row);
        self.ring.push(self.tick.unix_ms, &self.row);
        if whole {
            self.record();
        }
    }

    /// Sets the pace that the sample requires.
    fn set_pace(&mut self) {
        let now_ms = clock::monotonic_ms() as u64;
        if self.cpu_waits.are_long(&self.tick.sample, now_ms) {
            self.monitors.pace.note_cpu_wait(now_ms);
        }
        let is_slow = self.tick.canary.is_some_and(|tick| self.monitors.pace.is_sign(tick));
        if self.signs.are_new(&self.tick.sample) || is_slow {
            self.monitors.note_sign();
        } else {
            self.monitors.keep_pace();
        }
    }

    /// Hands the second to the writer.
    fn record(&mut self) {
        let recorder = &mut self.tick.recorder;
        recorder.cpu_us = us(clock::process_time());
        recorder.resident_bytes = self.own.resident_bytes().unwrap_or(recorder.resident_bytes);
        recorder.late_us = self.second.late_us;
        recorder.dropped_ticks = self.writer.dropped();
        recorder.lost_records = self.monitors.lost_records();
        std::mem::swap(&mut self.tick.probes, &mut self.second.probes);
        std::mem::swap(&mut self.tick.canary, &mut self.second.canary);
        self.whole.write(&self.tick, &mut self.row);
        std::mem::swap(&mut self.tick.probes, &mut self.second.probes);
        std::mem::swap(&mut self.tick.canary, &mut self.second.canary);
        // Each commit waits several times for the disk.
        if self.monitors.is_calm() && !self.is_queued {
            self.is_queued = self.writer.queue(self.tick.unix_ms, &self.row);
        } else {
            self.writer.offer(self.tick.unix_ms, &self.row);
            self.is_queued = false;
        }
        self.second.clear();
    }
}

impl Second {
    fn add(&mut self, tick: &Tick) {
        for (sum, probe) in self.probes.iter_mut().zip(&tick.probes) {
            sum.answers += probe.answers;
            sum.failures += probe.failures;
            sum.worst_us = sum.worst_us.max(probe.worst_us);
        }
        if let Some(canary) = tick.canary {
            let sum = self.canary.get_or_insert_default();
            sum.touch_us = sum.touch_us.max(canary.touch_us);
            sum.idle_us = sum.idle_us.max(canary.idle_us);
            sum.late_us = sum.late_us.max(canary.late_us);
        }
    }

    fn clear(&mut self) {
        for probe in &mut self.probes {
            (probe.answers, probe.failures, probe.worst_us) = (0, 0, 0);
        }
        self.canary = self.canary.map(|_| CanaryTick::default());
        self.late_us = 0;
    }
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
