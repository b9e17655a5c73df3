//! States and stacks of threads from before a trace, read on a helper thread: a file of a process may wait for a lock
//! that it has while it waits for a file system that does not respond.

use super::options::STATES_LIMIT;
use crate::process::{BATCH, Stat, TextBuffer, functions, numbers};
use mw_critical_path::Tid;
use mw_sys::HelperThread;
use std::time::Instant;

/// The parent of the kernel's own threads.
const KTHREADD: Tid = 2;

/// The stacks that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StackChoice {
    /// Of all threads that do not run.
    All,
    /// Of those that are blocked or stopped.
    OfBlocked,
}

/// A thread, as it was found.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) tid: Tid,
    pub(super) stat: Stat,
    /// Innermost first; none where it was not read.
    pub(super) stack: Option<Vec<String>>,
}

impl Thread {
    /// A thread of a program that sleeps, and may serve a request.
    pub(super) fn is_sleeping_program(&self) -> bool {
        self.stat.state == 'S' && self.stat.parent != KTHREADD && self.tid != KTHREADD
    }
}

/// Reads threads; without the helper thread, none.
#[derive(Debug)]
pub(super) struct StateReader(Option<HelperThread<(StackChoice, Instant), Vec<Thread>>>);

impl StateReader {
    pub(super) fn start() -> Self {
        let read = |pid, request: &(StackChoice, Instant)| threads(pid, *request);
        Self(HelperThread::new(STATES_LIMIT, read).ok())
    }

    /// The threads of these processes, until the deadline; of one that does not answer none.
    pub(super) fn read(
        &mut self,
        pids: &[Tid],
        stacks: StackChoice,
        deadline: Instant,
    ) -> Vec<(Tid, Vec<Thread>)> {
        let Some(helper) = &mut self.0 else { return Vec::new() };
        let mut found = Vec::new();
        for batch in pids.chunks(BATCH).take_while(|_| Instant::now() < deadline) {
            let requests: Vec<_> = batch.iter().map(|pid| (*pid, (stacks, deadline))).collect();
            let answers = helper.run(&requests);
            found.extend(
                batch.iter().zip(answers).filter_map(|(pid, threads)| Some((*pid, threads?))),
            );
        }
        found
    }
}

fn threads(pid: Tid, (stacks, deadline): (StackChoice, Instant)) -> Vec<Thread> {
    let mut text = TextBuffer::default();
    let mut read = |tid: Tid| {
        let dir = format!("/proc/{pid}/task/{tid}");
        let stat = Stat::parse(text.read(&format!("{dir}/stat"))?)?;
        let is_wanted = match stat.state {
            'R' => false,
            'D' | 'T' | 't' => true,
            _ => stacks == StackChoice::All,
        };
        let stack = is_wanted.then(|| text.read(&format!("{dir}/stack")).map(functions));
        Some(Thread { tid, stat, stack: stack.map(Option::unwrap_or_default) })
    };
    numbers(&format!("/proc/{pid}/task"), deadline).filter_map(&mut read).collect()
}
