//! The thread that verifies passwords, one at a time: each takes milliseconds to seconds of a CPU.
//!
//! A peer with many wrong passwords waits for itself alone: the next one verified is of the peer that was served the
//! longest ago.

use crate::NICE;
use crate::auth::{CredentialCache, PasswordQuestion};
use crate::peer::PeerNetwork;
use crate::wake::Waker;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

const STACK_BYTES: usize = 256 << 10;

/// Peers whose last turn is remembered.
const MAX_SERVED: usize = 1024;

/// A password that a connection waits for.
pub(crate) struct VerifyJob {
    /// The connection.
    pub(crate) id: u64,
    pub(crate) peer: PeerNetwork,
    pub(crate) question: PasswordQuestion,
}

/// Dropping it ends the thread after the password that it verifies.
pub(crate) struct Verifier {
    shared: Arc<VerifierState>,
    verdicts: Receiver<(u64, bool)>,
}

struct VerifierState {
    queue: Mutex<VerifyQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct VerifyQueue {
    /// The oldest first; at most one for each connection.
    jobs: VecDeque<VerifyJob>,
    /// The longest ago first.
    served: VecDeque<PeerNetwork>,
    is_over: bool,
}

impl Verifier {
    /// # Errors
    /// The kernel gives no thread.
    pub(crate) fn start(remembered: Arc<CredentialCache>, waker: Arc<Waker>) -> io::Result<Self> {
        let shared = Arc::new(VerifierState { queue: Mutex::default(), changed: Condvar::new() });
        let (sender, verdicts) = channel();
        let theirs = Arc::clone(&shared);
        let run = move || theirs.run(&remembered, &waker, &sender);
        Builder::new().name("mw-passwords".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(Self { shared, verdicts })
    }

    pub(crate) fn ask(&self, job: VerifyJob) {
        self.shared.queue().jobs.push_back(job);
        self.shared.changed.notify_one();
    }

    /// Forgets the password of a connection that is closed.
    pub(crate) fn forget(&self, id: u64) {
        self.shared.queue().jobs.retain(|job| job.id != id);
    }

    /// Connections with a verdict since the last call: whether their passwords are right.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = (u64, bool)> {
        self.verdicts.try_iter()
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_over = true;
        queue.jobs.clear();
        self.shared.changed.notify_one();
    }
}

impl VerifierState {
    fn queue(&self) -> MutexGuard<'_, VerifyQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, remembered: &CredentialCache, waker: &Waker, verdicts: &Sender<(u64, bool)>) {
        let _ = rustix::process::setpriority_process(None, NICE);
        while let Some(job) = self.wait() {
            let is_right = remembered.is_right(&job.question);
            if verdicts.send((job.id, is_right)).is_err() {
                return;
            }
            waker.wake();
        }
    }

    /// The next job; none when the verifier was dropped.
    fn wait(&self) -> Option<VerifyJob> {
        let is_idle = |queue: &mut VerifyQueue| queue.jobs.is_empty() && !queue.is_over;
        let queue = self.changed.wait_while(self.queue(), is_idle);
        queue.unwrap_or_else(PoisonError::into_inner).next()
    }
}

impl VerifyQueue {
    /// The oldest job of the peer that was served the longest ago, or never.
    fn next(&mut self) -> Option<VerifyJob> {
        let turn = |job: &VerifyJob| self.served.iter().position(|peer| *peer == job.peer);
        // None, never served, is the least.
        let (at, _) = self.jobs.iter().enumerate().min_by_key(|(_, job)| turn(job))?;
        let job = self.jobs.remove(at)?;
        self.served.retain(|peer| *peer != job.peer);
        self.served.push_back(job.peer);
        if self.served.len() > MAX_SERVED {
            self.served.pop_front();
        }
        Some(job)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn peers_take_turns_and_each_keeps_its_order() {
        let peer = |last: u8| PeerNetwork::new([192, 0, 2, last].into());
        let mut queue = VerifyQueue::default();
        let mut push = |id, last| {
            queue.jobs.push_back(VerifyJob {
                id,
                peer: peer(last),
                question: PasswordQuestion::default(),
            });
        };
        (0..4).for_each(|id| push(id, 1));
        push(4, 2);
        push(5, 2);
        push(6, 3);
        let order: Vec<u64> = std::iter::from_fn(|| queue.next()).map(|job| job.id).collect();
        assert_eq!(order, [0, 4, 6, 1, 5, 2, 3]);
    }
}
