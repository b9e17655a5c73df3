//! A path with what was polled where nothing was traced.

use crate::path::{CriticalPath, Hop, PathPiece, TimeKind, UnseenReason};
use crate::request::RequestSpan;
use crate::trace::{Basis, Nanos, StackId, Trace};
use crate::walk::critical_path;

/// Finds where the time of a request went. What `trace` does not cover, since it began later, was suspended, or lost
/// records, is told by the states that were `polled` meanwhile, as far as these tell. The trace then has the tasks and
/// stacks of both, and says that it was polled where most of what is known of the request was.
pub fn filled_path(trace: &mut Trace, polled: Trace, request: RequestSpan) -> CriticalPath {
    let mut path = critical_path(trace, request.clone());
    if untraced(&path.parts) == 0 {
        return path;
    }
    let filling = critical_path(&polled, request);
    let (hops, stacks) = (path.hops.len(), trace.stacks.len());
    let before = std::mem::take(&mut path.parts);
    for part in before {
        if part.kind == UNTRACED {
            // What a task is found in is likely older than the first poll, which is no evidence of a gap before it.
            let polled_from = polled.from.clamp(part.from, part.to);
            path.parts.push(PathPiece { to: polled_from, ..part });
            let pieces = within(&filling.parts, polled_from, part.to);
            path.parts.extend(pieces.map(|piece| match piece.kind {
                TimeKind::Unseen(_) => PathPiece { from: piece.from, to: piece.to, ..part },
                _ => moved(piece, hops, stacks),
            }));
        } else {
            path.parts.push(part);
        }
    }
    path.parts.retain(|part| part.from < part.to);
    path.hops.extend(filling.hops.iter().map(|hop| Hop {
        waited_for_by: hop.waited_for_by.map(|(parent, wait)| (parent + hops, wait)),
        waiter_stack: moved_stack(hop.waiter_stack, stacks),
        ..*hop
    }));
    let is_polled = |part: &&PathPiece| part.hop >= hops;
    let of_polls: Nanos = path.parts.iter().filter(is_polled).map(PathPiece::duration).sum();
    let known = path.duration().saturating_sub(untraced(&path.parts));
    if of_polls > known / 2 {
        trace.basis = Basis::Polling;
    }
    trace.stacks.extend(polled.stacks);
    for (tid, task) in polled.tasks {
        trace.tasks.entry(tid).or_insert(task);
    }
    path
}

const UNTRACED: TimeKind = TimeKind::Unseen(UnseenReason::Untraced);

fn untraced(parts: &[PathPiece]) -> Nanos {
    parts.iter().filter(|part| part.kind == UNTRACED).map(PathPiece::duration).sum()
}

/// The parts within `[from, to)`, cut at both ends.
fn within(parts: &[PathPiece], from: Nanos, to: Nanos) -> impl Iterator<Item = PathPiece> {
    let first = parts.partition_point(|part| part.to <= from);
    let rest = parts.get(first..).unwrap_or_default().iter();
    rest.take_while(move |part| part.from < to).map(move |part| PathPiece {
        from: part.from.max(from),
        to: part.to.min(to),
        ..*part
    })
}

/// Stack 0 is the empty one of both.
fn moved(part: PathPiece, hops: usize, stacks: usize) -> PathPiece {
    PathPiece {
        hop: part.hop + hops,
        stack: moved_stack(part.stack, stacks),
        waker_stack: moved_stack(part.waker_stack, stacks),
        ..part
    }
}

fn moved_stack(id: StackId, stacks: usize) -> StackId {
    match id.0 {
        0 => id,
        id => StackId(u32::try_from(stacks).unwrap_or(0).saturating_add(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polled::{TaskReading, TaskReadings};
    use crate::trace::{Event, EventKind, Task, TaskState, UserStackId};
    use crate::wait::Wait;

    const CLIENT: u32 = 10;
    const SERVER: u32 = 20;

    fn reading(at: Nanos, stack: StackId) -> TaskReading {
        TaskReading { at, state: TaskState::Waiting, stack, ran: 0, delayed: 0, ticks: (0, 0) }
    }

    /// The client waits for an answer while the server reclaims; both were polled every 100 ns.
    fn polled(from: Nanos) -> Trace {
        let mut readings = TaskReadings::new(from);
        let receive = readings.stack(vec!["unix_stream_read_generic".to_owned()]);
        let reclaim = readings.stack(vec!["try_to_free_pages".to_owned()]);
        for at in (from..=1000).step_by(100) {
            let task = |process| move || Task { name: "task".to_owned(), process };
            readings.push(CLIENT, task(CLIENT), reading(at, receive));
            readings.push(SERVER, task(SERVER), reading(at, reclaim));
        }
        readings.into_trace(1000)
    }

    /// The client's wait is traced, but nothing of `gap`.
    fn traced(gap: (Nanos, Nanos)) -> Trace {
        let disk = StackId(1);
        let found = EventKind::Found { task: CLIENT, state: TaskState::Waiting, stack: disk };
        Trace {
            from: 0,
            to: 1000,
            events: vec![Event { at: 0, cpu: 0, user_stack: UserStackId::default(), kind: found }],
            stacks: vec![Vec::new(), vec!["folio_wait_bit_common".to_owned()]],
            gaps: vec![gap],
            ..Trace::default()
        }
    }

    #[track_caller]
    fn check(gap: (Nanos, Nanos), polled_from: Nanos, expected: [Nanos; 2], basis: Basis) {
        let request =
            RequestSpan { task: CLIENT, to: 1000, servers: vec![SERVER], ..RequestSpan::default() };
        let mut trace = traced(gap);
        let path = filled_path(&mut trace, polled(polled_from), request);
        let sum = |kind: TimeKind| -> Nanos {
            path.parts.iter().filter(|part| part.kind == kind).map(PathPiece::duration).sum()
        };
        let reclaim = TimeKind::Waiting(Wait::DirectReclaim);
        assert_eq!([sum(reclaim), sum(UNTRACED)], expected, "{:?}", path.parts);
        assert_eq!(path.parts.iter().map(PathPiece::duration).sum::<Nanos>(), 1000);
        assert_eq!(trace.basis, basis);
        let part = path.parts.iter().find(|part| part.kind == reclaim);
        if let Some(part) = part {
            assert_eq!(trace.stack(part.stack), ["try_to_free_pages"]);
            assert_eq!(path.hops[part.hop].task, SERVER);
            assert_eq!(trace.task_name(SERVER), "task");
        }
    }

    /// Promise (Tracing: why): What was not traced is explained by states that were polled meanwhile, or not at all.
    #[test]
    fn what_was_not_traced_is_as_it_was_polled() {
        check((200, 300), 0, [100, 0], Basis::Trace);
        check((200, 1000), 0, [800, 0], Basis::Polling);
    }

    #[test]
    fn what_was_neither_traced_nor_polled_is_not_known() {
        check((200, 900), 1000, [0, 700], Basis::Trace);
    }
}
