//! The paired probe: one thread touches fresh memory at a steady beat, one beats and touches none.
//! Where only the first is slow, it waited for memory; where both are, for a CPU.
//!
//! Waking up is most of what a turn costs, so while all is well the first thread takes both
//! measures, one after the other: how late it was woken, having touched nothing, and how long the
//! touch took. The second then beats five times more slowly; once it finds a touch that has taken
//! longer than a beat, it takes over the full beat until that is over. At rest it beats half as often.
//!
//! A touch meets the same as a program does. Base pages meet the watermarks on every touch, and with
//! them direct reclaim. Compaction is only for larger pages, so once a second one byte is stored
//! into an aligned stretch of a huge page's size of which nothing was said to the kernel. Where
//! huge pages are for everybody (`enabled` is `always`) this takes what every program's heap takes,
//! with the compaction that `defrag` orders; elsewhere it is one base page more. No huge page is
//! ever asked for: a machine that spares its programs compaction is spared it here. And one that
//! took long is followed by a rest of a hundred times as long, so that at most a hundredth of the
//! time goes into making them.
//!
//! Waking up is expensive on a slow machine, where a beat of a millisecond would take most of a
//! CPU. There the beat is slower, up to ten milliseconds.
//!
//! After the start neither thread allocates anything else, opens a file or takes a lock.

use crate::clock::{NANOS_PER_MICRO, nanos};
use crate::threads::{EndingThreads, STACK_BYTES};
use mw_model::CanaryTick;
use mw_sys::Scratch;
use mw_sys::monotonic_ns;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// The shortest beat.
pub const MIN_INTERVAL: Duration = Duration::from_micros(500);
/// The longest beat.
pub const MAX_INTERVAL: Duration = Duration::from_millis(500);
/// The most that is touched a turn.
pub const MAX_BYTES: usize = 1 << 20;

/// Bytes of touched memory after which it is released: releasing interrupts the CPUs
/// on which the process has other threads.
const RETAINED_BYTES: usize = 1 << 20;
/// Beats of the first thread to one of the second, while touches take less than a beat.
const IDLE_BEATS: u64 = 5;
/// The longest beat of the thread that touches nothing.
const MAX_IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// Huge pages larger than this are left alone: those of arm64 with pages of 64 KiB have 512 MiB.
const MAX_HUGE_BYTES: usize = 4 << 20;
/// From one touch of a huge page to the next, in nanoseconds.
const HUGE_PAUSE_NS: u64 = 1_000_000_000;
/// Pause in huge pages after a touch of one, as a multiple of its duration.
const HUGE_REST: u64 = 100;
/// A thread rests for so many times the CPU time of its turn, except for the touch, whose time is
/// what is measured; but not so long that one of the pair would miss what the other sees.
const COST_TO_REST: u64 = 20;
const MAX_REST_NS: u64 = 10_000_000;

/// The two threads; they end with it.
#[derive(Debug)]
pub struct Canary {
    shared: Arc<CanaryState>,
    _threads: EndingThreads,
}

/// Values of the threads; every time is of the monotonic clock, in nanoseconds.
#[derive(Debug)]
struct CanaryState {
    /// The thread that touches; 0 until it runs.
    thread: AtomicU32,
    slowest_touch: Slowest,
    latest_turn: Slowest,
    interval_ns: AtomicU64,
    /// Both threads, once they run.
    threads: [OnceLock<Thread>; 2],
    stop: AtomicBool,
    /// Beginning of the touch under way, 0 when there is none.
    touch_began_ns: AtomicU64,
    /// Next wake-up of the thread that touches; far from now while it touches.
    touch_due_ns: AtomicU64,
    /// Next wake-up of the other thread.
    idle_due_ns: AtomicU64,
    touch_ns: AtomicU64,
    idle_ns: AtomicU64,
    late_ns: AtomicU64,
}

impl Canary {
    /// Starts both threads, which beat every `interval`; one touches `bytes` of base pages a turn.
    ///
    /// # Errors
    /// `InvalidInput` for an interval outside [`MIN_INTERVAL`] and [`MAX_INTERVAL`] or for bytes
    /// outside 1 and [`MAX_BYTES`]; the kernel gives no memory or no thread.
    pub fn start(interval: Duration, bytes: usize) -> io::Result<Self> {
        if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) || !(1..=MAX_BYTES).contains(&bytes) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let base = Scratch::with_base_pages((RETAINED_BYTES / bytes).max(1) * bytes)?;
        let huge = mw_sys::huge_page_bytes().ok().filter(|bytes| *bytes <= MAX_HUGE_BYTES);
        let huge = huge.map(Scratch::with_default_pages).transpose()?;
        let shared = Arc::new(CanaryState::new(interval));
        let stopped = Arc::clone(&shared);
        let mut threads = EndingThreads::new(move || stopped.stop());
        let (touching, idling) = (Arc::clone(&shared), Arc::clone(&shared));
        threads.spawn("mw-canary", STACK_BYTES, move || {
            Toucher::new(base, bytes, huge).run(&touching)
        })?;
        threads.spawn("mw-canary-idle", STACK_BYTES, move || idle(&idling))?;
        Ok(Self { shared, _threads: threads })
    }

    /// Changes the beat, within [`MIN_INTERVAL`] and [`MAX_INTERVAL`]: to a shorter one at once, to a longer one from
    /// the next turn on.
    pub fn set_interval(&self, interval: Duration) {
        let interval = nanos(interval.clamp(MIN_INTERVAL, MAX_INTERVAL));
        if interval < self.shared.interval_ns.swap(interval, SeqCst) {
            // A thread that is not given a CPU cannot say that it is due earlier now.
            self.shared.idle_due_ns.fetch_min(self.shared.next(IDLE_BEATS, 0), SeqCst);
            self.shared.unpark();
        }
    }

    /// The worst since the last call, what is under way included.
    pub fn take(&self) -> CanaryTick {
        let touching = self.touching_for().map_or(0, nanos);
        let late = self.late_for().map_or(0, nanos);
        let shared = &self.shared;
        CanaryTick {
            touch_us: shared.touch_ns.swap(0, SeqCst).max(touching) / NANOS_PER_MICRO,
            idle_us: shared.idle_ns.swap(0, SeqCst).max(late) / NANOS_PER_MICRO,
            late_us: shared.late_ns.swap(0, SeqCst).max(late) / NANOS_PER_MICRO,
        }
    }

    /// The thread that touches memory, once it runs.
    pub fn thread(&self) -> Option<u32> {
        Some(self.shared.thread.load(SeqCst)).filter(|thread| *thread > 0)
    }

    /// Begin and end of the slowest touch since [`Canary::forget`], in nanoseconds (`CLOCK_MONOTONIC`); the one
    /// under way has no end yet.
    pub fn slowest_touch(&self) -> Option<(u64, u64)> {
        let under_way = self.shared.touch_began_ns.load(SeqCst);
        self.shared.slowest_touch.with((under_way > 0).then_some(under_way))
    }

    /// Due time of the latest turn of the thread that touches, and the time at which it ran.
    pub fn latest_turn(&self) -> Option<(u64, u64)> {
        let due = self.shared.touch_due_ns.load(SeqCst);
        self.shared.latest_turn.with((due <= monotonic_ns()).then_some(due))
    }

    /// Begins the slowest touch and the latest turn anew.
    pub fn forget(&self) {
        self.shared.slowest_touch.forget();
        self.shared.latest_turn.forget();
    }

    /// Duration of the touch under way.
    pub fn touching_for(&self) -> Option<Duration> {
        let began = self.shared.touch_began_ns.load(SeqCst);
        (began > 0).then(|| Duration::from_nanos(monotonic_ns().saturating_sub(began)))
    }

    /// Delay of a turn that touches nothing.
    pub fn late_for(&self) -> Option<Duration> {
        let (now, shared) = (monotonic_ns(), &self.shared);
        let due = shared.idle_due_ns.load(SeqCst).min(shared.touch_due_ns.load(SeqCst));
        now.checked_sub(due).filter(|late| *late > 0).map(Duration::from_nanos)
    }
}

/// The longest of many intervals, written by one thread. A reader that catches it between two stores sees an
/// interval that is too short or too long once.
#[derive(Debug, Default)]
struct Slowest {
    from_ns: AtomicU64,
    to_ns: AtomicU64,
}

impl Slowest {
    fn add(&self, from_ns: u64, to_ns: u64) {
        let known = self.to_ns.load(SeqCst).saturating_sub(self.from_ns.load(SeqCst));
        if to_ns.saturating_sub(from_ns) > known {
            self.from_ns.store(from_ns, SeqCst);
            self.to_ns.store(to_ns, SeqCst);
        }
    }

    /// The longest, or the one under way since `since_ns` where that is longer already.
    fn with(&self, since_ns: Option<u64>) -> Option<(u64, u64)> {
        let ended = (self.from_ns.load(SeqCst), self.to_ns.load(SeqCst));
        let under_way = since_ns.map(|since_ns| (since_ns, monotonic_ns()));
        let longest =
            under_way.into_iter().chain([ended]).max_by_key(|(from, to)| to.saturating_sub(*from));
        longest.filter(|(from, to)| from < to)
    }

    fn forget(&self) {
        self.to_ns.store(0, SeqCst);
        self.from_ns.store(0, SeqCst);
    }
}

impl CanaryState {
    fn new(interval: Duration) -> Self {
        Self {
            thread: AtomicU32::new(0),
            slowest_touch: Slowest::default(),
            latest_turn: Slowest::default(),
            interval_ns: AtomicU64::new(nanos(interval)),
            threads: Default::default(),
            stop: AtomicBool::new(false),
            touch_began_ns: AtomicU64::new(0),
            touch_due_ns: AtomicU64::new(u64::MAX),
            idle_due_ns: AtomicU64::new(u64::MAX),
            touch_ns: AtomicU64::new(0),
            idle_ns: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
        }
    }

    fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.unpark();
    }

    fn unpark(&self) {
        self.threads.iter().filter_map(OnceLock::get).for_each(Thread::unpark);
    }

    /// The next turn, from `earliest` on; turns that were missed are left out. Turns are on whole multiples of the beat,
    /// as the recorder's other looks are on theirs: where several threads of one CPU are due
    /// at one moment, one interrupt serves them all.
    fn next(&self, beats: u64, earliest: u64) -> u64 {
        let interval = self.interval_ns.load(SeqCst).max(1).saturating_mul(beats);
        let longest = if beats == 1 { MAX_INTERVAL } else { MAX_IDLE_INTERVAL };
        let interval = interval.min(nanos(longest));
        (monotonic_ns().max(earliest) / interval).saturating_add(1).saturating_mul(interval)
    }

    /// Waits for the next turn, so many beats away and no sooner than `rest_ns` from now; when it was due.
    /// None when the thread is to stop.
    fn wait(&self, beats: impl Fn() -> u64, rest_ns: u64, due_ns: &AtomicU64) -> Option<u64> {
        let earliest = monotonic_ns().saturating_add(rest_ns);
        while !self.stop.load(SeqCst) {
            let interval = self.interval_ns.load(SeqCst);
            let due = self.next(beats(), earliest);
            due_ns.store(due, SeqCst);
            if self.rest(due, interval) {
                return Some(due);
            }
        }
        None
    }

    /// Sleeps until a turn is due; `false` where the beat has become shorter than it was, or the thread is to stop.
    fn rest(&self, due: u64, interval: u64) -> bool {
        loop {
            let left = due.saturating_sub(monotonic_ns());
            if left == 0 {
                return true;
            }
            if self.interval_ns.load(SeqCst) < interval || self.stop.load(SeqCst) {
                return false;
            }
            std::thread::park_timeout(Duration::from_nanos(left));
        }
    }

    /// A turn that was due began, and nothing was touched since. What a CPU that is not given
    /// costs the pair is in both.
    fn began(&self, due: u64) {
        self.late_ns.fetch_max(monotonic_ns().saturating_sub(due), SeqCst);
        self.idle_ns.fetch_max(monotonic_ns().saturating_sub(due), SeqCst);
    }

    fn touch_is_overdue(&self) -> bool {
        let began = self.touch_began_ns.load(SeqCst);
        began > 0 && monotonic_ns().saturating_sub(began) > self.interval_ns.load(SeqCst)
    }
}

struct Toucher {
    base: Scratch,
    /// Range that is touched a turn, and the beginning of the next one.
    bytes: usize,
    next: usize,
    huge: Option<Scratch>,
    huge_due_ns: u64,
    huge_touched: bool,
}

impl Toucher {
    fn new(base: Scratch, bytes: usize, huge: Option<Scratch>) -> Self {
        Self { base, bytes, next: 0, huge, huge_due_ns: 0, huge_touched: false }
    }

    fn run(mut self, shared: &CanaryState) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        shared.thread.store(thread.unsigned_abs(), SeqCst);
        shared.threads[0].get_or_init(std::thread::current);
        let (mut turn, mut rest_ns) = (Turn::begin(), 0);
        while let Some(due) = shared.wait(|| 1, rest_ns, &shared.touch_due_ns) {
            shared.began(due);
            shared.touch_due_ns.store(u64::MAX, SeqCst);
            let before_touch = mw_sys::thread_time();
            let began = monotonic_ns();
            shared.latest_turn.add(due, began);
            shared.touch_began_ns.store(began, SeqCst);
            self.touch(began);
            let ended = monotonic_ns();
            shared.touch_ns.fetch_max(ended.saturating_sub(began), SeqCst);
            shared.slowest_touch.add(began, ended);
            shared.touch_began_ns.store(0, SeqCst);
            turn.leave_out(before_touch);
            self.release();
            rest_ns = turn.end();
        }
    }

    /// Stores into memory that is mapped cannot fail: what the kernel does not give it does not
    /// refuse, it makes wait.
    fn touch(&mut self, began: u64) {
        let end = self.next + self.bytes;
        let _ = self.base.touch(self.next..end);
        self.next = end;
        let Some(huge) = self.huge.as_mut().filter(|_| began >= self.huge_due_ns) else { return };
        let begun = monotonic_ns();
        // A huge page is zeroed faster when its last base page is touched (Region).
        let bytes = huge.bytes();
        let _ = huge.touch(bytes - rustix::param::page_size()..bytes);
        let ended = monotonic_ns();
        let rest = HUGE_REST.saturating_mul(ended.saturating_sub(begun));
        self.huge_due_ns = ended.saturating_add(rest.max(HUGE_PAUSE_NS));
        self.huge_touched = true;
    }

    /// Memory that was not released is touched again without being fresh, at worst.
    fn release(&mut self) {
        if self.next + self.bytes > self.base.bytes() {
            let _ = self.base.discard();
            self.next = 0;
        }
        if std::mem::take(&mut self.huge_touched) {
            let _ = self.huge.as_mut().map(Scratch::discard);
        }
    }
}

fn idle(shared: &CanaryState) {
    shared.threads[1].get_or_init(std::thread::current);
    let beats = || if shared.touch_is_overdue() { 1 } else { IDLE_BEATS };
    let (mut turn, mut rest_ns) = (Turn::begin(), 0);
    while let Some(due) = shared.wait(beats, rest_ns, &shared.idle_due_ns) {
        shared.began(due);
        rest_ns = turn.end();
    }
}

/// Cost of a turn: CPU time of its thread.
struct Turn {
    began: Duration,
}

impl Turn {
    fn begin() -> Self {
        Self { began: mw_sys::thread_time() }
    }

    /// Leaves out the use since `before`.
    fn leave_out(&mut self, before: Duration) {
        self.began += mw_sys::thread_time().saturating_sub(before);
    }

    /// Rest after it, in nanoseconds; the next one begins.
    fn end(&mut self) -> u64 {
        let now = mw_sys::thread_time();
        let cost = now.saturating_sub(std::mem::replace(&mut self.began, now));
        nanos(cost).saturating_mul(COST_TO_REST).min(MAX_REST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(time: Duration) -> Duration {
        let begin = mw_sys::thread_time();
        while mw_sys::thread_time().saturating_sub(begin) < time {}
        begin
    }

    /// Promise (The recorder): On a slow or starved machine the recorder does less: provisional explanations wait for
    /// many times the CPU time that those of all stalls took, the first one of a stall for 6 s at most, and the
    /// canary's beat in a stall is up to 10 ms.
    #[test]
    fn a_turn_is_followed_by_many_times_what_it_cost_but_for_its_touch() {
        let mut turn = Turn::begin();
        spin(Duration::from_micros(100));
        let touch = spin(Duration::from_millis(20));
        turn.leave_out(touch);
        let rest = turn.end();
        assert!((2_000_000..MAX_REST_NS).contains(&rest), "{rest} ns");
        spin(Duration::from_millis(5));
        assert_eq!(turn.end(), MAX_REST_NS);
    }

    #[test]
    fn where_turns_are_expensive_the_beat_is_slower() {
        let shared = CanaryState::new(MIN_INTERVAL);
        let earliest = monotonic_ns() + 30_000_000;
        let next = shared.next(1, earliest);
        assert!((earliest..=earliest + nanos(MIN_INTERVAL)).contains(&next));
        assert!(shared.wait(|| 1, 30_000_000, &AtomicU64::new(0)).unwrap() >= earliest);
    }

    /// Promise (The recorder): The canary at rest beats twice a second, its idle thread once, and both end when they
    /// are told to.
    #[test]
    fn at_rest_the_thread_that_touches_nothing_rests_twice_as_long() {
        let shared = CanaryState::new(MAX_INTERVAL);
        let (second, due) = (nanos(MAX_IDLE_INTERVAL), shared.next(IDLE_BEATS, 0));
        assert!(
            due.is_multiple_of(second) && due.saturating_sub(monotonic_ns()) <= second,
            "{due}"
        );
        let due = shared.next(1, 0);
        assert!(
            due.is_multiple_of(second / 2) && due.saturating_sub(monotonic_ns()) <= second / 2,
            "{due}"
        );
    }

    #[test]
    fn a_thread_at_rest_ends_when_it_is_told_to() {
        let shared = Arc::new(CanaryState::new(MAX_INTERVAL));
        let waiting = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            waiting.threads[1].get_or_init(std::thread::current);
            waiting.wait(|| 1, nanos(Duration::from_secs(3600)), &waiting.idle_due_ns)
        });
        while shared.idle_due_ns.load(SeqCst) == u64::MAX {
            std::thread::yield_now();
        }
        // It is asleep by then, most times.
        std::thread::sleep(Duration::from_millis(20));
        shared.stop();
        assert_eq!(thread.join().unwrap(), None);
    }

    #[test]
    fn a_shorter_beat_is_due_at_once_also_for_a_thread_that_gets_no_processor() {
        let canary = Canary {
            shared: Arc::new(CanaryState::new(MAX_INTERVAL)),
            _threads: EndingThreads::new(|| {}),
        };
        canary.shared.idle_due_ns.store(canary.shared.next(IDLE_BEATS, 0), SeqCst);
        canary.set_interval(MIN_INTERVAL);
        std::thread::sleep(2 * MIN_INTERVAL * IDLE_BEATS as u32);
        assert!(canary.late_for().is_some());
    }
}
