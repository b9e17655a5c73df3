//! Questions about processes that the kernel may not answer, asked on a thread apart.
//!
//! Files of /proc wait for a lock of the process that they are about: most of them, in kernels of late,
//! for an execve(2) under way, which closes files and so waits for their file system, and
//! `maps` for an mmap(2), in which NFS asks its server. Whoever reads them waits as long. So the
//! thread that asks is given up when it makes no progress, and another one goes on; processes that
//! one is stuck at are not asked about until it is back.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name of the threads.
pub const ASIDE_TASK: &str = "mw-aside";

/// Threads that may be stuck at a time; with more nothing is asked.
const MAX_STUCK: usize = 16;
/// From one look at whether a thread has ended to the next.
const LOOK: Duration = Duration::from_millis(2);
/// They may be locked in memory with all of their stack.
const STACK_BYTES: usize = 256 << 10;

type Answer<Q, A> = Arc<dyn Fn(u32, &Q) -> A + Send + Sync>;

/// Asks about processes, each question with the number of the process that it is about.
pub struct Aside<Q, A> {
    answer: Answer<Q, A>,
    patience: Duration,
    worker: Option<Worker<Q, A>>,
    stuck: Vec<Stuck>,
}

struct Worker<Q, A> {
    questions: Sender<Vec<(u32, Q)>>,
    shared: Arc<Shared<A>>,
    thread: JoinHandle<()>,
}

struct Stuck {
    pid: u32,
    thread: JoinHandle<()>,
}

struct Shared<A> {
    answers: Mutex<Vec<A>>,
    /// All questions were answered.
    changed: Condvar,
    given_up: AtomicBool,
}

impl<Q, A> Aside<Q, A>
where
    Q: Clone + Send + 'static,
    A: Send + 'static,
{
    /// `answer` runs on a thread apart; one answer that takes longer than `patience` is given up.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub fn new(
        patience: Duration,
        answer: impl Fn(u32, &Q) -> A + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let answer: Answer<Q, A> = Arc::new(answer);
        let worker = Some(Worker::start(&answer)?);
        Ok(Self { answer, patience, worker, stuck: Vec::new() })
    }

    /// The answers, in the order of the questions; `None` where there was none in time.
    pub fn ask(&mut self, questions: &[(u32, Q)]) -> Vec<Option<A>> {
        self.stuck.retain(|stuck| !stuck.thread.is_finished());
        let mut answers: Vec<Option<A>> = questions.iter().map(|_| None).collect();
        let mut from = 0;
        while from < questions.len() {
            let pending: Vec<usize> =
                (from..questions.len()).filter(|at| !self.is_stuck_at(questions[*at].0)).collect();
            let batch = pending.iter().map(|at| questions[*at].clone()).collect();
            let Some(answered) = self.ask_worker(batch) else { break };
            let count = answered.len();
            for (at, answer) in pending.iter().zip(answered) {
                answers[*at] = Some(answer);
            }
            let Some(at) = pending.get(count) else { break };
            self.give_up(questions[*at].0);
            from = at + 1;
        }
        answers
    }

    /// The processes that no answer comes about.
    pub fn stuck(&self) -> Vec<u32> {
        let stuck = self.stuck.iter().filter(|stuck| !stuck.thread.is_finished());
        stuck.map(|stuck| stuck.pid).collect()
    }

    fn is_stuck_at(&self, pid: u32) -> bool {
        self.stuck.iter().any(|stuck| stuck.pid == pid)
    }

    /// The answers to the first of these questions: to all, unless the thread is stuck.
    fn ask_worker(&mut self, batch: Vec<(u32, Q)>) -> Option<Vec<A>> {
        if self.worker.is_none() && self.stuck.len() < MAX_STUCK {
            self.worker = Worker::start(&self.answer).ok();
        }
        let worker = self.worker.as_ref()?;
        let wanted = batch.len();
        worker.questions.send(batch).ok()?;
        let mut answers = locked(&worker.shared.answers);
        let mut before = 0;
        loop {
            let waited =
                worker
                    .shared
                    .changed
                    .wait_timeout_while(answers, self.patience, |answers| answers.len() < wanted);
            (answers, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if answers.len() == wanted || answers.len() == before {
                return Some(std::mem::take(&mut answers));
            }
            before = answers.len();
        }
    }

    fn give_up(&mut self, pid: u32) {
        if let Some(worker) = self.worker.take() {
            worker.shared.given_up.store(true, Ordering::Release);
            self.stuck.push(Stuck { pid, thread: worker.thread });
        }
    }
}

impl<Q: Send + 'static, A: Send + 'static> Worker<Q, A> {
    fn start(answer: &Answer<Q, A>) -> io::Result<Self> {
        let (questions, batches) = channel::<Vec<(u32, Q)>>();
        let shared = Arc::new(Shared {
            answers: Mutex::default(),
            changed: Condvar::new(),
            given_up: AtomicBool::new(false),
        });
        let (answer, theirs) = (Arc::clone(answer), Arc::clone(&shared));
        let thread = std::thread::Builder::new().name(ASIDE_TASK.into()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || {
            for batch in batches {
                let wanted = batch.len();
                for (pid, question) in batch {
                    let answer = answer(pid, &question);
                    if theirs.given_up.load(Ordering::Acquire) {
                        return;
                    }
                    let mut answers = locked(&theirs.answers);
                    answers.push(answer);
                    if answers.len() == wanted {
                        theirs.changed.notify_one();
                    }
                }
            }
        })?;
        Ok(Self { questions, shared, thread })
    }
}

impl<Q, A> std::fmt::Debug for Aside<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aside").field("stuck", &self.stuck.len()).finish_non_exhaustive()
    }
}

/// Waits for the end of a thread; whether it came in time. One that sits in the kernel for longer is
/// left to end by itself.
pub fn join_within(thread: JoinHandle<()>, at_most: Duration) -> bool {
    let begun = Instant::now();
    while !thread.is_finished() && begun.elapsed() < at_most {
        std::thread::sleep(LOOK);
    }
    // One that panicked has nothing left to give.
    thread.is_finished() && thread.join().is_ok()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Receiver;

    const PATIENCE: Duration = Duration::from_millis(20);

    /// Doubles its question; stuck at odd processes until the other end is dropped.
    fn doubling() -> (Aside<u32, u32>, Sender<()>) {
        let (release, stuck): (_, Receiver<()>) = channel();
        let stuck = Mutex::new(stuck);
        let aside = Aside::new(PATIENCE, move |pid, question: &u32| {
            if pid % 2 == 1 {
                let _ = locked(&stuck).recv();
            }
            2 * question
        });
        (aside.unwrap(), release)
    }

    #[test]
    fn what_is_stuck_does_not_hold_up_the_others() {
        let (mut aside, release) = doubling();
        assert_eq!(aside.ask(&[(2, 1), (4, 2)]), [Some(2), Some(4)]);
        assert_eq!(aside.stuck(), []);
        let questions = [(2, 1), (1, 2), (4, 3), (1, 4), (6, 5)];
        assert_eq!(aside.ask(&questions), [Some(2), None, Some(6), None, Some(10)]);
        assert_eq!(aside.stuck.len(), 1, "it was asked about once");
        assert_eq!(aside.stuck(), [1]);
        drop(release);
        while !aside.stuck.iter().all(|stuck| stuck.thread.is_finished()) {
            std::thread::yield_now();
        }
        assert_eq!(aside.ask(&questions[1..2]), [Some(4)], "asked about again once it is back");
        assert_eq!(aside.stuck(), []);
    }

    #[test]
    fn threads_that_are_stuck_are_bounded() {
        let (mut aside, _release) = doubling();
        let odd = |number: usize| (2 * u32::try_from(number).unwrap() + 1, 0);
        let questions: Vec<_> = (0..2 * MAX_STUCK).map(odd).collect();
        assert!(aside.ask(&questions).iter().all(Option::is_none));
        assert_eq!(aside.stuck.len(), MAX_STUCK);
        assert_eq!(aside.ask(&[(2, 1)]), [None]);
    }
}
