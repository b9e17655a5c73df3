//! Memory held for a time, or for a command.

use crate::error::{RoomError, Stop};
use mw_model::{Request, RoomStop};
use mw_rules::room::RequestPart;
use mw_segment::{Cancel, NumaPolicy, Options, Segment, SegmentKind};
use mw_sys::{SignalsBlocked, exit_descriptor, is_readable_within};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Interval at which it is asked whether a signal came.
const ROUND: Duration = Duration::from_millis(100);

/// Takes the memory that is free now, so that nobody else does.
pub(crate) fn segment(request: &Request, parts: &[RequestPart]) -> Result<Segment, Stop> {
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
        mw_segment::Error::Cancelled { .. } => Stop::Short(RoomStop::Interrupted),
        error => Stop::Failed(RoomError::NotHeld(error)),
    })
}

/// Waits until the time is over or a signal comes.
pub(crate) fn wait(time: Duration, signals: &SignalsBlocked) {
    let until = Instant::now() + time;
    while !signals.is_termination_requested() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(ROUND));
    }
}

/// Waits for the end of a command, and passes on a signal.
pub(crate) fn wait_for(mut child: Child, signals: &SignalsBlocked) -> io::Result<ExitStatus> {
    let ended = exit_descriptor(&child)?;
    let mut is_terminated = false;
    while !is_readable_within(ended.as_fd(), ROUND) {
        if signals.is_termination_requested() && !is_terminated {
            // Until it is waited for, the number is the command's.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            is_terminated = true;
        }
    }
    child.wait()
}
