//! The queue between the recorder and one receiver. A source that fills it loses its own messages.

use crate::Notice;
use mw_model::IncidentState;
use mw_model::fair::place_to_free;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Messages that wait for one table.
pub const MAX_QUEUED: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct NoticeQueue {
    state: Mutex<NoticeQueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct NoticeQueueState {
    notices: VecDeque<Notice>,
    is_closed: bool,
    dropped: u64,
}

/// Result of a wait for a message.
#[derive(Debug)]
pub(crate) enum NextNotice {
    Notice(Box<Notice>),
    Nothing,
    /// There is no other one.
    Closed,
}

impl NoticeQueue {
    /// Never waits. How many messages wait more than before: none where one had to go.
    pub(crate) fn push(&self, notice: Notice) {
        let state = &mut *self.state();
        let is_same = |known: &&mut Notice| {
            let is_open = known.state == IncidentState::Open && notice.state == IncidentState::Open;
            is_open && known.key() == notice.key()
        };
        match state.notices.iter_mut().find(is_same) {
            Some(known) => *known = notice,
            None => {
                state.notices.push_back(notice);
                state.dropped += free(&mut state.notices, |notice| notice);
            }
        }
        self.changed.notify_all();
    }

    /// The next message, waited for at most so long.
    pub(crate) fn pop(&self, at_most: Duration) -> NextNotice {
        let is_idle = |state: &mut NoticeQueueState| state.notices.is_empty() && !state.is_closed;
        let waited = self.changed.wait_timeout_while(self.state(), at_most, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.notices.pop_front() {
            Some(notice) => NextNotice::Notice(Box::new(notice)),
            None if state.is_closed => NextNotice::Closed,
            None => NextNotice::Nothing,
        }
    }

    /// No more messages come.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    pub(crate) fn len(&self) -> usize {
        self.state().notices.len()
    }

    /// Messages that had to go since that was last asked.
    pub(crate) fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.state().dropped)
    }

    fn state(&self) -> MutexGuard<'_, NoticeQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes room for [`MAX_QUEUED`] messages: those of a service go last. How many went.
pub(crate) fn free<T>(items: &mut VecDeque<T>, notice: impl Fn(&T) -> &Notice) -> u64 {
    if items.len() <= MAX_QUEUED {
        return 0;
    }
    let can_go = |of_service: bool| {
        let all = items.iter().map(&notice).enumerate();
        all.filter(move |(_, notice)| of_service || !notice.is_of_service())
    };
    let of_service = can_go(false).next().is_none();
    let sources = can_go(of_service).map(|(_, notice)| (notice.source.as_str(), 1));
    let place = place_to_free(sources).and_then(|place| can_go(of_service).nth(place));
    let place = place.map_or(0, |(place, _)| place);
    items.remove(place);
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Severity;

    #[test]
    fn a_flood_drops_its_own_and_not_the_database_s() {
        let queue = NoticeQueue::default();
        let of = |source: &str, at| Notice { source: source.to_owned(), ..Notice::test("h", at) };
        queue.push(of("canary", 0));
        queue.push(Notice { severity: Severity::Critical, ..of("probe/db", 1) });
        for n in 0..1000 {
            queue.push(of("oom_kill/user.slice/u1", n));
        }
        assert_eq!((queue.len(), queue.take_dropped()), (MAX_QUEUED, 1002 - MAX_QUEUED as u64));
        for expected in ["canary", "probe/db"] {
            let NextNotice::Notice(notice) = queue.pop(Duration::ZERO) else {
                panic!("it is empty")
            };
            assert_eq!(notice.source, expected);
        }
    }
}
