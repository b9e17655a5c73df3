//! Runs a program with a message on its standard input.
//!
//! It has a process group of its own, which is killed when its time is over, and when it has ended: what it left running
//! would be one process more with every message.

use crate::failed::Failed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// What is kept of what a program writes to standard error; the rest is read and dropped.
const MAX_STDERR_BYTES: usize = 1024;

/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The program shares the recorder's memory limit; should that be reached, the kernel ends the program.
const OOM_SCORE_ADJUSTMENT: &str = "500";

/// What belongs to the recorder alone: a program could tell the service manager that the recorder is well.
const OWN_VARIABLES: [&str; 5] =
    ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID"];

pub(crate) fn run(words: &[String], input: &[u8], limit: Duration) -> Result<(), Failed> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failed::for_good("no command"));
    };
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    for name in OWN_VARIABLES {
        command.env_remove(name);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn();
    let mut child = child.map_err(|error| Failed::for_good(format!("{program}: {error}")))?;
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), OOM_SCORE_ADJUSTMENT);
    let mut streams = Streams::new(&mut child, input);
    let has_ended = streams.serve(&child, Instant::now() + limit);
    // Before it is waited for: until then its number is nobody else's.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let status = child.wait().map_err(|error| Failed::for_now(format!("{program}: {error}")))?;
    if !has_ended {
        return Err(Failed::for_now(format!("{program}: killed after {limit:?}")));
    }
    if status.success() {
        return Ok(());
    }
    streams.read();
    Err(Failed::for_now(format!("{program}: {status}{}", streams.said())))
}

struct Streams<'a> {
    stdin: Option<ChildStdin>,
    stderr: Option<ChildStderr>,
    input: &'a [u8],
    said: Vec<u8>,
}

impl<'a> Streams<'a> {
    fn new(child: &mut Child, input: &'a [u8]) -> Self {
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let _ = stdin.as_ref().map(|pipe| rustix::io::ioctl_fionbio(pipe, true));
        let _ = stderr.as_ref().map(|pipe| rustix::io::ioctl_fionbio(pipe, true));
        Self { stdin, stderr, input, said: Vec::new() }
    }

    /// Passes the message on until the program ends; `false` where its time is over before.
    fn serve(&mut self, child: &Child, until: Instant) -> bool {
        let look = Timespec::try_from(LOOK).ok();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            self.write();
            self.read();
            if !matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(None)) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            let stdin = self.stdin.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::OUT));
            let stderr = self.stderr.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN));
            let streams = stdin.into_iter().chain(stderr);
            let mut fds: Vec<PollFd<'_>> =
                streams.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
            let _ = poll(&mut fds, look.as_ref());
        }
    }

    fn write(&mut self) {
        let Some(pipe) = &mut self.stdin else { return };
        match pipe.write(self.input) {
            Ok(written) => self.input = self.input.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // A program may close its input early.
            Err(_) => self.input = &[],
        }
        if self.input.is_empty() {
            self.stdin = None;
        }
    }

    /// Reads a little: a program that writes without end is stopped by its time, not by this loop.
    fn read(&mut self) {
        let Some(pipe) = &mut self.stderr else { return };
        let mut buffer = [0; 64 << 10];
        match pipe.read(&mut buffer) {
            Ok(0) => self.stderr = None,
            Ok(count) => {
                let room = MAX_STDERR_BYTES.saturating_sub(self.said.len());
                self.said.extend(buffer.iter().take(count.min(room)));
            }
            Err(_) => {}
        }
    }

    fn said(&self) -> String {
        let text = String::from_utf8_lossy(&self.said);
        let first = text.lines().find(|line| !line.trim().is_empty());
        first.map_or(String::new(), |line| format!(": {}", mw_model::visible::line(line)))
    }
}
