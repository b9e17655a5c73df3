//! A window from a recording: its fast counters around a moment, the slow parts from the capture
//! before it.

use super::{captured, could_not_read};
use crate::args::TimeArg;
use crate::terminal::tell;
use crate::{Exit, Failure};
use mw_model::{Origin, OriginKind, Snapshot, Tick, Window};
use mw_record::Recording;
use mw_render::text;

/// Period in which rows are searched: recordings thin out with age.
const LOOK_BACK_MS: [u64; 3] = [15_000, 60_000, 300_000];

/// Interval between the two samples of a window, where rows are that dense.
const SPAN_MS: std::ops::RangeInclusive<u64> = 1_000..=10_000;

/// State of the machine at a moment, or at the end of the recording.
pub(super) fn window(recording: &Recording, at: Option<TimeArg>) -> Result<Window, Failure> {
    let range = recording.range().map_err(could_not_read)?;
    let empty = || format!("{}: no rows recorded yet", recording.path().display());
    let (first, last) = range.ok_or_else(|| Failure::new(Exit::CouldNotCheck, empty()))?;
    let at_unix_ms = at.map_or(last, |at| at.unix_ms(last));
    let (earlier, now) = ticks(recording, at_unix_ms)?.ok_or_else(|| {
        let (first, last) = (shown(first), shown(last));
        let line = format!(
            "{}: nothing recorded in the minutes before {} (the recording covers {first} to {last})",
            recording.path().display(),
            shown(at_unix_ms)
        );
        Failure::new(Exit::CouldNotCheck, line)
    })?;
    let mut snapshot = slow_parts(recording, now.unix_ms)?;
    snapshot.origin.taken_unix_ms = Some(now.unix_ms);
    snapshot.sample = now.sample;
    Ok(Window::since(earlier.map(|tick| tick.sample), snapshot))
}

/// The last tick until a time, and the one that a rate is taken against.
fn ticks(recording: &Recording, at_unix_ms: u64) -> Result<Option<(Option<Tick>, Tick)>, Failure> {
    for back_ms in LOOK_BACK_MS {
        let since = at_unix_ms.saturating_sub(back_ms);
        let mut ticks =
            recording.ticks(since, at_unix_ms).map_err(|error| Failure::from_error(&error))?;
        let Some(now) = ticks.pop() else { continue };
        let before_ms = |tick: &Tick| now.unix_ms.saturating_sub(tick.unix_ms);
        let near = ticks.iter().position(|tick| SPAN_MS.contains(&before_ms(tick)));
        let any = || ticks.iter().rposition(|tick| before_ms(tick) > *SPAN_MS.end());
        let earlier = near.or_else(any);
        if earlier.is_none() && Some(&back_ms) != LOOK_BACK_MS.last() {
            continue;
        }
        return Ok(Some((earlier.map(|at| ticks.swap_remove(at)), now)));
    }
    Ok(None)
}

/// Rarely sampled state, from the last capture before a time.
fn slow_parts(recording: &Recording, unix_ms: u64) -> Result<Snapshot, Failure> {
    let found = recording.capture_before(unix_ms).map_err(|error| Failure::from_error(&error))?;
    let Some((taken_unix_ms, bytes)) = found else {
        tell(format_args!("memwright: no settings captured before {}", shown(unix_ms)));
        return Ok(Snapshot { origin: origin(recording), ..Snapshot::default() });
    };
    let snapshot = captured::snapshot(&bytes, recording.path())?;
    let taken = shown(taken_unix_ms);
    tell(format_args!("memwright: settings and mounts as of {taken}"));
    Ok(snapshot)
}

/// Facts about the machine of a recording.
fn origin(recording: &Recording) -> Origin {
    let host = recording.host();
    Origin {
        kind: OriginKind::Tree,
        kernel: mw_proc::version::KernelVersion::parse(host.kernel.as_bytes()).ok(),
        page_bytes: host.page_bytes,
        cpus: Some(host.cpus),
        ..Origin::default()
    }
}

/// A time for people, in their time zone.
fn shown(unix_ms: u64) -> String {
    let time = text::time(unix_ms, &jiff::tz::TimeZone::system());
    time.unwrap_or_else(|| format!("{unix_ms} ms after 1970"))
}
