//! Records who holds how much memory and how much is left of huge pages, once a minute, in a thread that may be late.

use crate::pages_left::PagesLeft;
use crate::priority::yield_to_others;
use crate::progress::Beat;
use mw_collect::service::FormerProcess;
use mw_collect::{SizeCollector, Source};
use mw_model::{HolderSize, MemoryHolder, ServiceProcess, SizedHolder, format_duration_ms};
use mw_record::{Recording, Writer, keep_supplies};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Until the first: programs that start with the recorder have their memory then.
const FIRST: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Sizes {
    is_stopped: Mutex<bool>,
    changed: Condvar,
    /// Time at which they were recorded last, and the sizes of processes.
    last: Mutex<(u64, Vec<HolderSize>)>,
}

/// Samples from one forecast to the next: an hour. Reading a week of sizes takes a tenth of a second.
const SAMPLES_PER_FORECAST: u32 = 60;

/// Period that is judged: the same as that of `trends`.
const FORECAST_SPAN_MS: u64 = 7 * 24 * 3_600_000;

/// The largest processes that an incident has.
const MAX_HOLDERS: usize = 8;

impl Sizes {
    /// Records sizes at this interval until the recorder stops, and forecasts beside the recording.
    pub(crate) fn run(
        &self,
        source: Source,
        interval: Duration,
        writer: &Writer,
        recording: &Path,
        beat: &Beat,
    ) {
        yield_to_others();
        let mut pages = PagesLeft::new(&source);
        let mut collector = SizeCollector::new(source);
        let mut rest = FIRST.min(interval);
        for sample in 0_u32.. {
            beat.rest();
            if !self.rest(rest) {
                return;
            }
            beat.step();
            rest = interval;
            let (unix_ms, mut sizes) = (mw_sys::unix_ms(), pages.collect(collector.source()));
            sizes.extend(collector.collect());
            let is_process =
                |size: &&HolderSize| matches!(size.holder, SizedHolder::Process { .. });
            let processes = sizes.iter().filter(is_process).take(MAX_HOLDERS).cloned().collect();
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (unix_ms, processes);
            if sample.is_multiple_of(SAMPLES_PER_FORECAST) {
                forecast(recording, unix_ms);
            }
            writer.keep_sizes(unix_ms, sizes);
        }
    }

    /// The largest processes as they were recorded last, and where that is from.
    pub(crate) fn largest_processes(&self) -> (Vec<MemoryHolder>, String) {
        let (unix_ms, sizes) = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let holders: Vec<MemoryHolder> = sizes.iter().filter_map(holder).collect();
        let ago_ms = mw_sys::unix_ms().saturating_sub(unix_ms) as f64;
        let source = match holders.is_empty() {
            true => String::new(),
            false => format!("/proc, {} before", format_duration_ms(ago_ms)),
        };
        (holders, source)
    }

    pub(crate) fn stop(&self) {
        *self.is_stopped() = true;
        self.changed.notify_all();
    }

    /// Lets time pass; `false` when the recorder stops.
    fn rest(&self, time: Duration) -> bool {
        let waits = |is_stopped: &mut bool| !*is_stopped;
        let waited = self.changed.wait_timeout_while(self.is_stopped(), time, waits);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn is_stopped(&self) -> MutexGuard<'_, bool> {
        self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps how supplies decline for `check`. Without it `check` says nothing of them; `trends` reads the recording itself,
/// and says what is wrong with it.
fn forecast(recording: &Path, until_unix_ms: u64) {
    let since = until_unix_ms.saturating_sub(FORECAST_SPAN_MS);
    let is_supply = |holder: &SizedHolder| {
        use SizedHolder::{Contiguous, Machine, PoolPages};
        matches!(holder, Machine | PoolPages { .. } | Contiguous { .. })
    };
    let read = Recording::open(recording)
        .and_then(|recording| recording.sizes_of(since, until_unix_ms, is_supply));
    let Ok(history) = read else { return };
    let _ = keep_supplies(recording, &mw_rules::supplies(&history));
}

fn holder(size: &HolderSize) -> Option<MemoryHolder> {
    let SizedHolder::Process { pid, started_ticks, name } = &size.holder else { return None };
    let process = ServiceProcess { pid: *pid, name: name.clone() };
    let has_ended = !FormerProcess::new(process.clone(), *started_ticks).runs();
    Some(MemoryHolder { process, resident_bytes: size.bytes, swapped_bytes: 0, has_ended })
}
