//! The profiler: events that are always open, one thread that reads them, and the switch that a
//! stall turns.

use crate::mute::{Mute, Switch};
use crate::open::{EventSet, Rates, open};
use crate::reader::{RingReader, StallSamples};
use crate::symbols::{Symbols, visible};
use crate::table::{StackPeriod, StackTable};
use crate::task_numbers::TaskNumbers;
use mw_model::{FloodShare, KernelWait, Missing, Profile};
use mw_sys::{PerfEvent, join_within, monotonic_ns};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The reader's rounds, when all is well and during a stall; a ring that is half full calls it
/// earlier.
const CALM: Duration = Duration::from_secs(2);
const BUSY: Duration = Duration::from_millis(100);
/// The reader's stack: the process may be locked in memory with all of it.
const STACK_BYTES: usize = 256 << 10;
/// Time limit of the reader's end.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfilerOptions {
    /// Stacks a second and CPU, always.
    pub baseline_hz: u32,
    /// Stacks a second and CPU during a stall.
    pub stall_hz: u32,
    /// One of this many folios that enter the page cache is sampled.
    pub flood_period: u64,
    /// Waits that ended so long before a stall was noticed belong to it, in milliseconds.
    pub lead_ms: u64,
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        Self { baseline_hz: 7, stall_hz: 999, flood_period: 256, lead_ms: 1000 }
    }
}

/// Profile of a stall.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfileEvidence {
    /// Kernel stacks of all CPUs; `None` where stacks may not be sampled.
    pub profile: Option<Profile>,
    /// Profile of the time before, without the seconds that led to the stall.
    pub baseline: Option<Profile>,
    /// Waits inside the kernel, the longest total first.
    pub waits: Vec<KernelWait>,
    /// Records that were lost meanwhile.
    pub lost_records: u64,
}

/// Samples the kernel as long as it lives.
#[derive(Debug)]
pub struct Profiler {
    shared: Arc<ProfilerState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ProfilerState {
    options: ProfilerOptions,
    opened: EventSet,
    reader: Mutex<RingReader>,
    symbols: Arc<Mutex<Symbols>>,
    /// Beginning of the stall under way (`CLOCK_MONOTONIC`); 0 is none.
    stalled_ns: AtomicU64,
    /// As the reader last counted them: for threads that must not wait for it.
    lost_records: AtomicU64,
    muted: AtomicBool,
    stop: AtomicBool,
    wake: Option<OwnedFd>,
}

impl Profiler {
    /// Opens all that may be opened and begins the baseline; says what may not, and what would
    /// make it work.
    pub fn start(options: ProfilerOptions) -> (Self, Vec<Missing>) {
        let mut missing = Vec::new();
        let ProfilerOptions { baseline_hz, stall_hz, flood_period, .. } = options;
        let numbers = TaskNumbers::of_this_process().map_err(|why| missing.push(why)).ok();
        let rates = Rates { baseline_hz, stall_hz, flood_period };
        let (opened, rings) = match &numbers {
            Some(_) => open(rates, &mut missing),
            None => Default::default(),
        };
        if opened.cpus > 0 {
            missing.extend(visible().err());
        }
        let reader = Mutex::new(RingReader::new(
            rings,
            numbers.unwrap_or_default(),
            flood_period,
            Instant::now(),
        ));
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake =
            wake.map_err(|error| missing.push(Missing::failed("eventfd", error.to_string()))).ok();
        let shared = Arc::new(ProfilerState {
            options,
            opened,
            reader,
            symbols: Arc::default(),
            stalled_ns: AtomicU64::new(0),
            lost_records: AtomicU64::new(0),
            muted: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            wake,
        });
        shared.enable_always();
        let thread = shared.spawn(&mut missing);
        (Self { shared, thread }, missing)
    }

    /// A stall has begun: the high rate is on. Nothing happens where one is under way.
    ///
    /// Some system calls a CPU, no allocation, no lock: may be called where time counts.
    pub fn begin(&self) {
        let shared = &self.shared;
        let idle = shared.stalled_ns.compare_exchange(
            0,
            monotonic_ns().max(1),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if idle.is_err() {
            return;
        }
        enable(&shared.opened.stall);
        shared.unmute();
        shared.wake();
    }

    /// The stall is over: the high rate is off, and what was seen comes back with names. Takes
    /// 50 to 200 ms of CPU time where functions are new.
    pub fn end(&self) -> ProfileEvidence {
        let shared = &self.shared;
        if shared.stalled_ns.load(Ordering::Acquire) == 0 {
            return ProfileEvidence::default();
        }
        for event in &shared.opened.stall {
            // An event that is there can be disabled.
            let _ = event.disable();
        }
        let seen = shared.finish();
        let before = seen.baseline.as_ref().filter(|_| shared.opened.cpus > 0);
        shared.learn([Some(&seen.table), before.map(|(table, _)| table)]);
        let profile = (shared.opened.cpus > 0).then(|| shared.profile(&seen.table, seen.span));
        let baseline = before.map(|(table, span)| shared.profile(table, *span));
        ProfileEvidence { profile, baseline, waits: seen.waits, lost_records: seen.lost }
    }

    /// Profile of the hour under way and the one before, stalls left out; `None`
    /// where stacks may not be sampled. Takes as long as [`Self::end`].
    pub fn baseline(&self) -> Option<Profile> {
        let shared = &self.shared;
        let (hz, cpus) = (shared.options.baseline_hz, shared.opened.cpus);
        let (table, span) = {
            let mut reader = shared.reader();
            shared.drain(&mut reader);
            reader.baseline(hz, cpus).filter(|_| cpus > 0)?
        };
        shared.learn([Some(&table), None]);
        Some(shared.profile(&table, span))
    }

    /// Tasks that brought pages into the page cache in the last minute, the most first.
    pub fn flood(&self) -> Vec<FloodShare> {
        let mut reader = self.shared.reader();
        self.shared.drain(&mut reader);
        reader.flood(monotonic_ns())
    }

    /// The processes that could not be read for the paths of their files.
    pub fn flood_missing(&self) -> Option<Missing> {
        self.shared.reader().flood_missing()
    }

    /// The names of functions, for others that need them.
    pub fn symbols(&self) -> Arc<Mutex<Symbols>> {
        Arc::clone(&self.shared.symbols)
    }

    /// Records that were lost since the start. It takes no lock.
    pub fn lost_records(&self) -> u64 {
        self.shared.lost_records.load(Ordering::Relaxed)
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            join_within(thread, GRACE);
        }
    }
}

impl ProfilerState {
    fn enable_always(&self) {
        let EventSet { baseline, faults, waits, flood, .. } = &self.opened;
        for events in [baseline, faults, waits, flood] {
            enable(events);
        }
    }

    /// Starts the reader, where there is something to read.
    fn spawn(self: &Arc<Self>, missing: &mut Vec<Missing>) -> Option<JoinHandle<()>> {
        if self.opened.baseline.is_empty() && self.opened.faults.is_empty() {
            return None;
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("mw-profile".into()).stack_size(STACK_BYTES);
        thread
            .spawn(move || shared.work())
            .map_err(|error| missing.push(Missing::failed("profiler's thread", error.to_string())))
            .ok()
    }

    fn reader(&self) -> MutexGuard<'_, RingReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if let Some(wake) = &self.wake {
            // Where it is full, the reader is awake already.
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }

    fn work(&self) {
        let mut mute = Mute::new(Instant::now());
        while !self.stop.load(Ordering::Acquire) {
            self.sleep();
            let waits = self.drain(&mut self.reader());
            let stalled = self.stalled_ns.load(Ordering::Acquire) != 0;
            match mute.update(waits, stalled, Instant::now()) {
                Some(Switch::Off) => self.mute(),
                Some(Switch::On) => self.unmute(),
                None => {}
            }
        }
    }

    fn mute(&self) {
        self.muted.store(true, Ordering::Release);
        for event in &self.opened.waits {
            // An event that is there can be disabled.
            let _ = event.disable();
        }
        // A stall that began meanwhile found them on.
        if self.stalled_ns.load(Ordering::Acquire) != 0 {
            self.unmute();
        }
    }

    fn unmute(&self) {
        if self.muted.swap(false, Ordering::AcqRel) {
            enable(&self.opened.waits);
        }
    }

    /// Sleeps until a round is due, a ring is half full or somebody calls.
    fn sleep(&self) {
        let round = if self.stalled_ns.load(Ordering::Acquire) == 0 { CALM } else { BUSY };
        let rings = self.opened.baseline.iter().chain(&self.opened.faults).map(PerfEvent::as_fd);
        let wake = self.wake.as_ref().map(AsFd::as_fd);
        let mut fds: Vec<_> =
            rings.chain(wake).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec {
            tv_sec: i64::try_from(round.as_secs()).unwrap_or(1),
            tv_nsec: round.subsec_nanos().into(),
        };
        // A signal ends it early, which harms nothing.
        let _ = poll(&mut fds, Some(&timeout));
        if let Some(wake) = &self.wake {
            let _ = rustix::io::read(wake, &mut [0_u8; 8]);
        }
    }

    /// Empties the rings into the stall under way, if there is one.
    fn drain(&self, reader: &mut RingReader) -> usize {
        let (now_ns, began_ns) = (monotonic_ns(), self.stalled_ns.load(Ordering::Acquire));
        if began_ns != 0 {
            let lead_ns = self.options.lead_ms.saturating_mul(1_000_000);
            reader.begin(now_ns, began_ns, began_ns.saturating_sub(lead_ns));
        }
        let waits = reader.drain(now_ns);
        self.lost_records.store(reader.lost_records(), Ordering::Relaxed);
        waits
    }

    /// Reads the rest of a stall and closes it.
    fn finish(&self) -> StallSamples {
        let mut reader = self.reader();
        self.drain(&mut reader);
        self.stalled_ns.store(0, Ordering::Release);
        let ProfilerOptions { baseline_hz, stall_hz, .. } = self.options;
        reader.end(monotonic_ns(), stall_hz, baseline_hz, self.opened.cpus)
    }

    /// Looks up the names of all functions in these tables, in one pass.
    fn learn(&self, tables: [Option<&StackTable>; 2]) {
        let places = tables.into_iter().flatten().flat_map(StackTable::places);
        // Names that are not available were reported at the start.
        let _ = self.symbols().learn(places);
    }

    fn symbols(&self) -> MutexGuard<'_, Symbols> {
        self.symbols.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn profile(&self, table: &StackTable, span: StackPeriod) -> Profile {
        table.profile(&self.symbols(), &self.reader().names, span)
    }
}

pub(crate) fn enable(events: &[PerfEvent]) {
    for event in events {
        // An event that is there can be enabled.
        let _ = event.enable();
    }
}
