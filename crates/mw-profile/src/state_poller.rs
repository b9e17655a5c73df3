//! States of a few tasks, read many times a second: for the critical path where scheduler events may not be traced.
//!
//! Reading needs no privilege for the caller's own tasks. Stacks need CAP_SYS_ADMIN; without it the function in
//! which a task waits is read instead (`wchan`), which the kernel shows to who may trace the task.

use crate::process::{Stat, TextBuffer, functions, numbers};
use mw_critical_path::{StackId, Task, TaskReading, TaskReadings, TaskState, Tid, Trace};
use mw_sys::monotonic_ns;
use std::time::{Duration, Instant};

/// Rounds a second that tell enough and cost little: a round of 100 threads takes 2 ms.
pub const POLLS_HZ: u32 = 30;
/// Threads that are read.
const MAX_THREADS: usize = 256;
/// Time limit of a round; the next one continues where it ended.
const ROUND_LIMIT: Duration = Duration::from_millis(5);
/// Rounds after which new threads are looked for.
const ROUNDS_TO_LIST: u32 = 8;
/// Reads what a request's task and the threads of its service do.
#[derive(Debug)]
pub struct StatePoller {
    /// The requests' own, which are read in every round.
    tasks: Vec<PolledThread>,
    processes: Vec<Tid>,
    threads: Vec<PolledThread>,
    /// The thread with which the next round begins.
    next: usize,
    rounds: u32,
    readings: TaskReadings,
    text: TextBuffer,
}

#[derive(Debug, Clone, Copy)]
struct PolledThread {
    process: Tid,
    tid: Tid,
    /// Number of times that it has been on a CPU: while that stays, so does its stack.
    times_run: Option<u64>,
    gone: bool,
}

impl StatePoller {
    /// Begins with the threads that `processes` have; `tasks` belong to `process`.
    pub fn start(process: Tid, tasks: &[Tid], processes: &[Tid]) -> Self {
        let mut poller = Self {
            tasks: tasks.iter().map(|task| PolledThread::new(process, *task)).collect(),
            processes: processes.to_vec(),
            threads: Vec::new(),
            next: 0,
            rounds: 0,
            readings: TaskReadings::new(monotonic_ns()),
            text: TextBuffer::default(),
        };
        poller.poll();
        poller
    }

    /// Reads all threads once, within [`ROUND_LIMIT`].
    pub fn poll(&mut self) {
        let deadline = Instant::now() + ROUND_LIMIT;
        if self.rounds.is_multiple_of(ROUNDS_TO_LIST) {
            self.list(deadline);
        }
        self.rounds = self.rounds.wrapping_add(1);
        for task in &mut self.tasks {
            task.read(&mut self.readings, &mut self.text);
        }
        for _ in 0..self.threads.len() {
            self.next = self.next.checked_rem(self.threads.len()).unwrap_or(0);
            if let Some(thread) = self.threads.get_mut(self.next) {
                thread.read(&mut self.readings, &mut self.text);
            }
            self.next += 1;
            if Instant::now() >= deadline {
                return;
            }
        }
    }

    /// States that were read, as a trace that is marked as polled.
    pub fn finish(mut self) -> Trace {
        self.poll();
        self.readings.into_trace(monotonic_ns())
    }

    /// The same while it goes on.
    pub fn trace(&self) -> Trace {
        self.readings.clone().into_trace(monotonic_ns())
    }

    /// Learns the threads that are new.
    fn list(&mut self, deadline: Instant) {
        self.threads.retain(|thread| !thread.gone);
        for process in &self.processes {
            for tid in numbers(&format!("/proc/{process}/task"), deadline) {
                let mut known = self.tasks.iter().chain(&self.threads);
                let is_known = known.any(|of| of.tid == tid);
                if !is_known && self.threads.len() < MAX_THREADS {
                    self.threads.push(PolledThread::new(*process, tid));
                }
            }
        }
    }
}

impl PolledThread {
    fn new(process: Tid, tid: Tid) -> Self {
        Self { process, tid, times_run: None, gone: false }
    }

    fn read(&mut self, readings: &mut TaskReadings, text: &mut TextBuffer) {
        if self.gone {
            return;
        }
        let dir = format!("/proc/{}/task/{}", self.process, self.tid);
        let at = monotonic_ns();
        let Some(stat) = text.read(&format!("{dir}/stat")).and_then(Stat::parse) else {
            self.gone = true;
            // Who was never read has nothing to end.
            if let Some(last) = readings.last(self.tid).copied() {
                readings.push(
                    self.tid,
                    Task::default,
                    TaskReading { at, state: TaskState::Dead, ..last },
                );
            }
            return;
        };
        let (ran, delayed, times_run) =
            text.read(&format!("{dir}/schedstat")).and_then(clocks).unwrap_or_default();
        let state = match stat.state {
            'R' => TaskState::Runnable,
            'T' | 't' => TaskState::Stopped,
            'X' | 'Z' => TaskState::Dead,
            _ => TaskState::Waiting,
        };
        let last = readings.last(self.tid);
        let stack = match last {
            _ if state != TaskState::Waiting => StackId::default(),
            Some(last) if last.state == state && self.times_run == Some(times_run) => last.stack,
            _ => readings.stack(stack(&dir, text)),
        };
        self.times_run = Some(times_run);
        let ticks = (stat.user_ticks, stat.system_ticks);
        let process = self.process;
        let task = || Task { name: stat.comm, process };
        readings.push(self.tid, task, TaskReading { at, state, stack, ran, delayed, ticks });
    }
}

/// Time on a CPU, time waiting for one, and how often it was on one.
fn clocks(text: &str) -> Option<(u64, u64, u64)> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// Place of a task's wait: its stack, or the one function that is shown without a privilege.
fn stack(dir: &str, text: &mut TextBuffer) -> Vec<String> {
    let found = text.read(&format!("{dir}/stack")).map(functions).unwrap_or_default();
    if !found.is_empty() {
        return found;
    }
    let wchan = text.read(&format!("{dir}/wchan")).unwrap_or_default();
    let is_name = !wchan.is_empty() && wchan != "0";
    if is_name { vec![wchan.to_owned()] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_critical_path::{Basis, RequestSpan, TimeKind, Wait, critical_path};
    use mw_test::ChildGuard;
    use std::process::Command;

    #[test]
    fn clocks_are_read() {
        assert_eq!(clocks("12 34 56\n"), Some((12, 34, 56)));
        assert_eq!(clocks("12 x 56"), None);
        assert_eq!(clocks(""), None);
    }

    /// This task waits for a program that sleeps, as a client for its server.
    #[test]
    fn a_program_that_sleeps_is_found_without_a_trace() {
        let server = ChildGuard(Command::new("sleep").arg("60").spawn().unwrap());
        let task = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        let servers = [server.0.id()];
        let mut poller = StatePoller::start(std::process::id(), &[task], &servers);
        let until = Instant::now() + Duration::from_millis(300);
        // The sleeper may not have executed its program yet.
        while Instant::now() < until {
            poller.poll();
        }
        let trace = poller.finish();
        assert_eq!(trace.basis, Basis::Polling);
        assert!(trace.events.len() < 10_000, "{} events", trace.events.len());
        let request = RequestSpan {
            task: servers[0],
            from: trace.from,
            to: trace.to,
            ..RequestSpan::default()
        };
        let shares = critical_path(&trace, request).shares();
        assert_eq!(shares[0].kind, TimeKind::Waiting(Wait::Sleep), "{shares:?}");
        assert_eq!(trace.task_name(servers[0]), "sleep");
    }

    #[test]
    fn a_task_that_has_ended_is_gone() {
        let mut server = ChildGuard(Command::new("sleep").arg("60").spawn().unwrap());
        let pid = server.0.id();
        let mut poller = StatePoller::start(pid, &[pid], &[]);
        server.0.kill().unwrap();
        server.0.wait().unwrap();
        poller.poll();
        assert!(poller.tasks[0].gone);
        let trace = poller.finish();
        assert!(trace.lifetime(pid).1.is_some(), "{trace:?}");
    }
}
