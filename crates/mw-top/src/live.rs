//! The running machine: fast counters every interval through descriptors that stay open, the slow
//! parts (tasks, cgroups, settings) by a thread of their own, so that reading them does not delay the screen.

use crate::feed::Feed;
use crate::moment::{Moment, Screen, Timeline};
use crate::trail::{TRAIL_MS, Trail};
use mw_collect::{MIN_WINDOW, Sampler, Source};
use mw_model::{Missing, Processes, Reading, Sample, Snapshot, Window};
use mw_sys::unix_ms;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

/// Interval between samples of the slow parts.
const SLOW_EVERY: Duration = Duration::from_secs(5);

/// Time limit of a sample of the slow parts, as a multiple of that in `check`: half a percent of a
/// CPU at most, and only where there are thousands of processes.
const PATIENCE: u32 = 3;

/// Samples in the history: ten minutes at one a second.
const MAX_PAST: usize = 600;

/// The running machine.
pub struct Live {
    sampler: Sampler,
    window: Window,
    past: VecDeque<(u64, Sample)>,
    timeline: Timeline,
    slow: Receiver<Snapshot>,
    slow_at: Instant,
    /// The processes of the slow sample before the last, and the seconds between the two.
    before: Option<(Processes, f64)>,
    /// Dropped with the rest, which ends the thread.
    _until: Sender<()>,
}

impl Live {
    /// Takes the first sample.
    ///
    /// # Errors
    /// No thread can be created.
    pub fn open(source: Source) -> io::Result<Self> {
        let mut sampler = Sampler::open(&source, &mw_collect::nodes(&source));
        let now = mw_collect::snapshot(&source);
        let source = source.patient(PATIENCE);
        let (until, ended) = channel();
        let (snapshots, slow) = sync_channel(1);
        std::thread::Builder::new()
            .name("slow".to_owned())
            .spawn(move || sample_slowly(&source, &snapshots, &ended))?;
        let mut first = Sample::default();
        sampler.sample(&mut first);
        let mut live = Self {
            sampler,
            window: Window::new(Snapshot { sample: first.clone(), ..now }),
            past: VecDeque::from([(unix_ms(), first)]),
            timeline: Timeline::default(),
            slow,
            slow_at: Instant::now(),
            before: None,
            _until: until,
        };
        std::thread::sleep(MIN_WINDOW);
        live.sample();
        Ok(live)
    }

    fn take_slow(&mut self) {
        let Ok(snapshot) = self.slow.try_recv() else { return };
        let seconds = self.slow_at.elapsed().as_secs_f64();
        self.slow_at = Instant::now();
        let sample = std::mem::take(&mut self.window.now.sample);
        let former = std::mem::replace(&mut self.window.now, Snapshot { sample, ..snapshot });
        self.before = match former.processes {
            Reading::Value(processes) => Some((processes, seconds)),
            Reading::Missing(_) => None,
        };
    }

    /// The newest sample, with the slow parts.
    fn newest(&self) -> Moment {
        let report = mw_rules::check(&self.window, None);
        let mut moment = Moment::new(&self.window, report);
        moment.slow_age_ms = u64::try_from(self.slow_at.elapsed().as_millis()).ok();
        if let Some((processes, seconds)) = &self.before {
            moment.grown_since(processes, *seconds);
        }
        moment
    }

    /// An earlier sample; of the slow parts only the latest is stored.
    fn earlier(&self, last: usize) -> Moment {
        let sample = |at: usize| self.past.get(at).map(|(_, sample)| sample.clone());
        let mut now = self.window.now.clone();
        now.sample = sample(last).unwrap_or_default();
        now.origin.taken_unix_ms = self.past.get(last).map(|(unix_ms, _)| *unix_ms);
        let not_kept =
            |what: &str| Missing::skipped(what, "a running machine has no history to go back to");
        now.processes = Reading::Missing(not_kept("/proc/PID/status"));
        now.cgroups = Reading::Missing(not_kept("/sys/fs/cgroup"));
        let earlier = last.checked_sub(1).and_then(sample);
        let window = Window::since(earlier, now);
        let report = mw_rules::check(&window, None);
        Moment::new(&window, report)
    }
}

impl Feed for Live {
    fn sample(&mut self) {
        self.take_slow();
        let (former, mut sample) = match self.past.len() {
            MAX_PAST.. => (self.past.back().cloned(), self.past.pop_front().unwrap_or_default().1),
            _ => (self.past.back().cloned(), Sample::default()),
        };
        self.sampler.sample(&mut sample);
        let unix_ms = unix_ms();
        self.window.earlier = former.into_iter().map(|(_, sample)| sample).collect();
        self.window.now.sample = sample.clone();
        self.window.now.origin.taken_unix_ms = Some(unix_ms);
        self.past.push_back((unix_ms, sample));
        self.timeline.first_ms = self.past.front().map_or(unix_ms, |(first, _)| *first);
        self.timeline.last_ms = unix_ms;
    }

    fn screen(&mut self, at_ms: Option<u64>) -> Screen {
        let newest = self.past.len().saturating_sub(1);
        let last = at_ms.map_or(newest, |at_ms| {
            self.past.partition_point(|(unix_ms, _)| *unix_ms <= at_ms).saturating_sub(1)
        });
        let ends_ms = self.past.get(last).map_or(0, |(unix_ms, _)| *unix_ms);
        let trail = self.past.iter().take(last + 1);
        let trail = trail.skip_while(|(unix_ms, _)| unix_ms + TRAIL_MS < ends_ms);
        Screen {
            moment: if at_ms.is_none() { self.newest() } else { self.earlier(last) },
            trail: Trail::from_samples(trail.map(|(unix_ms, sample)| (*unix_ms, sample))),
            timeline: self.timeline.clone(),
            ..Screen::default()
        }
    }

    fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// Samples everything periodically until the receiver is dropped.
fn sample_slowly(
    source: &Source,
    snapshots: &std::sync::mpsc::SyncSender<Snapshot>,
    ended: &Receiver<()>,
) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SLOW_EVERY) {
        if let Err(TrySendError::Disconnected(_)) = snapshots.try_send(mw_collect::snapshot(source))
        {
            return;
        }
    }
}
