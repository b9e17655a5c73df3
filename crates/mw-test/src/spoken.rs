//! A child whose lines a test waits for.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A child that is killed when it is dropped.
#[derive(Debug)]
pub struct ChildGuard(pub Child);

impl ChildGuard {
    /// # Panics
    /// If the child has been waited for.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child that is killed when it is dropped, and what it writes to standard error.
#[derive(Debug)]
pub struct LoggedChild {
    pub child: ChildGuard,
    /// The lines that were not waited for yet; they end with the child.
    pub lines: Receiver<String>,
}

impl LoggedChild {
    /// # Panics
    /// If the program cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // Read on without a receiver too: a full pipe would stop the child.
                let _ = sender.send(line);
            }
        });
        Self { child: ChildGuard(child), lines }
    }

    /// The lines up to the next that contains `part`.
    ///
    /// # Panics
    /// If there is none within `limit`.
    #[track_caller]
    pub fn lines_to(&self, part: &str, limit: Duration) -> Vec<String> {
        let until = Instant::now() + limit;
        let mut seen = Vec::new();
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let Ok(line) = self.lines.recv_timeout(left) else { break };
            seen.push(line);
            if seen.last().is_some_and(|line| line.contains(part)) {
                return seen;
            }
        }
        panic!("no line with {part:?}, but {seen:#?}");
    }

    /// The last of [`LoggedChild::lines_to`].
    ///
    /// # Panics
    /// If there is none within `limit`.
    #[track_caller]
    pub fn line(&self, part: &str, limit: Duration) -> String {
        self.lines_to(part, limit).pop().unwrap_or_default()
    }
}
