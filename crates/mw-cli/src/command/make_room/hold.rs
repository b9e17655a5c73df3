//! Memory held for a time, or for a command.

use super::kept::ProvidedMemory;
use super::stop::Stop;
use crate::command::child;
use crate::{Exit, Failure};
use mw_model::Request;
use mw_rules::room::RequestPart;
use mw_segment::{Cancel, NumaPolicy, Options, Segment, SegmentKind};
use mw_sys::SignalsBlocked;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Takes the memory that is free now, so that nobody else does.
pub(super) fn segment(request: &Request, parts: &[RequestPart]) -> Result<Segment, Stop> {
    let bytes = usize::try_from(request.size_bytes).unwrap_or(usize::MAX);
    let cancel = Cancel::new();
    let mut options = Options::new(bytes)
        .kind(SegmentKind::Anon)
        .page_size(request.page)
        .locked(request.lock)
        .cancel(&cancel);
    if request.node.is_some() {
        options = options.placement(NumaPolicy::Bind(parts.iter().map(|part| part.node).collect()));
    }
    let created = options.create_with(&mut |_| {
        if mw_sys::is_termination_requested() {
            cancel.cancel();
        }
    });
    created.map_err(|error| match error {
        mw_segment::Error::Cancelled { .. } => Stop::Interrupted,
        error => {
            let line = format!("the memory was there and could not be held: {error}");
            Stop::Failed(Failure::new(Exit::Findings, line))
        }
    })
}

/// Keeps it until the time is over or a signal comes.
pub(super) fn keep(time: Duration, kept: ProvidedMemory, signals: &SignalsBlocked) {
    let until = Instant::now() + time;
    while !signals.is_termination_requested() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(child::ROUND));
    }
    drop(kept);
}

/// Starts the command, and waits for its end. A pool stays as it is until then; other memory is free from
/// its start on.
pub(super) fn command(
    words: &[OsString],
    kept: ProvidedMemory,
    signals: &SignalsBlocked,
) -> Result<Exit, Failure> {
    let Some((name, rest)) = words.split_first() else { return Ok(Exit::Fine) };
    let pool = match kept {
        ProvidedMemory::Pool(reserved) => reserved,
        ProvidedMemory::Free | ProvidedMemory::Segment { .. } => {
            drop(kept);
            Vec::new()
        }
    };
    // The command starts with all signals unblocked.
    let mut child = child::spawn(name, rest)?;
    let ended = child::end_of(&child)?;
    let mut told = false;
    while !child::is_readable(ended.as_fd()) {
        if signals.is_termination_requested() && !told {
            // Until it is waited for, the number is the command's.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            told = true;
        }
    }
    let status = child.wait().map_err(child::not_waited)?;
    drop(pool);
    Ok(Exit::from_status(status))
}
