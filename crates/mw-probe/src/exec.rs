//! `exec:COMMAND`: the program ends with exit code 0.
//!
//! It runs in a process group of its own, which is killed as a whole when its time is over, and
//! also when it has ended: what it left running would be one process more with every probe.

use crate::address::{ParseResult, TargetAddress, TargetError, stem};
use crate::link::{Deadline, LinkError};
use crate::protocol::Probe;
use mw_model::FailureKind;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit of a program's standard error.
const MAX_STDERR_BYTES: usize = 64 << 10;
/// Time limit of a killed program's end before it is left for the next turn.
const KILLED: Duration = Duration::from_millis(100);
/// From one look at whether a program has ended to the next, where the kernel has no descriptors
/// for processes (before 5.3).
const LOOK: Duration = Duration::from_millis(5);
const WHAT: &str = "waiting for the program to end";

pub(crate) fn parse(rest: &str) -> ParseResult {
    let malformed = |what| TargetError::Malformed { scheme: "exec", what };
    let words = shlex::split(rest).ok_or(malformed("a quote is not closed"))?;
    if words.first().is_none_or(String::is_empty) {
        return Err(malformed("the command is missing (use for example exec:./ping.sh)"));
    }
    Ok(Arc::new(CommandLine(words)))
}

/// A program and its arguments.
struct CommandLine(Vec<String>);

impl CommandLine {
    fn program(&self) -> &str {
        self.0.first().map(String::as_str).unwrap_or_default()
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = if self.0.len() > 1 { " …" } else { "" };
        write!(f, "exec:{}{rest}", self.program())
    }
}

/// Arguments may hold a password.
impl fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TargetAddress for CommandLine {
    fn default_name(&self) -> String {
        format!("exec-{}", stem(self.program().as_ref()))
    }

    fn probe(&self) -> Box<dyn Probe> {
        Box::new(Exec { words: self.0.clone(), killed: None })
    }

    fn starts_programs(&self) -> bool {
        true
    }
}

struct Exec {
    words: Vec<String>,
    /// A program that was killed and has not ended yet: the kernel holds it.
    killed: Option<Child>,
}

impl Exec {
    fn spawn(&self) -> Result<RunningProgram, LinkError> {
        let (program, arguments) = self
            .words
            .split_first()
            .ok_or_else(|| LinkError::answer(FailureKind::Other, "no command"))?;
        let child = std::process::Command::new(program)
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| {
            let text = LinkError::io("starting the program", error).to_string();
            LinkError::answer(FailureKind::Other, text)
        })?;
        let pid = Pid::from_child(&child);
        let stderr = child.stderr.take();
        if let Some(stderr) = &stderr {
            let _ = rustix::io::ioctl_fionbio(stderr, true);
        }
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
        Ok(RunningProgram { child, pid, pidfd, stderr, said: Vec::new() })
    }
}

impl Probe for Exec {
    fn send(&mut self, deadline: &Deadline<'_>) -> Result<(), LinkError> {
        if let Some(mut child) = self.killed.take() {
            // The kernel lets go of it at some time; nothing is started before.
            while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                if let Err(failure) = deadline.pause(LOOK, "waiting for the program killed before")
                {
                    self.killed = Some(child);
                    return Err(failure);
                }
            }
        }
        let mut running = self.spawn()?;
        if let Some(connection) = deadline.connection {
            connection.started(running.child.id());
        }
        let waited = running.wait(deadline);
        let ended = running.end();
        if matches!(ended, ProgramOutcome::NotYet) {
            self.killed = Some(running.child);
            return waited;
        }
        waited?;
        match ended {
            ProgramOutcome::With(status) if !status.success() => {
                let is_killed = status.signal() == Some(Signal::KILL.as_raw());
                let kind = if is_killed { FailureKind::Killed } else { FailureKind::ExitCode };
                Err(LinkError::answer(kind, running.failure_text(status)))
            }
            ProgramOutcome::Unseen => {
                Err(LinkError::answer(FailureKind::Other, "its exit code was lost"))
            }
            ProgramOutcome::With(_) | ProgramOutcome::NotYet => Ok(()),
        }
    }
}

/// Outcome of a program that was to end.
enum ProgramOutcome {
    With(ExitStatus),
    Unseen,
    NotYet,
}

struct RunningProgram {
    child: Child,
    pid: Pid,
    pidfd: Option<OwnedFd>,
    stderr: Option<ChildStderr>,
    said: Vec<u8>,
}

impl RunningProgram {
    /// Waits until it has ended, without reaping it: its number stays its own until its group has
    /// been killed.
    fn wait(&mut self, deadline: &Deadline<'_>) -> Result<(), LinkError> {
        while !self.has_ended() {
            let mut wanted: Vec<(BorrowedFd<'_>, PollFlags)> = Vec::new();
            wanted.extend(self.pidfd.iter().map(|fd| (fd.as_fd(), PollFlags::IN)));
            wanted.extend(self.stderr.iter().map(|fd| (fd.as_fd(), PollFlags::IN)));
            let at_most = if self.pidfd.is_some() { None } else { Some(LOOK) };
            deadline.wait_any(&wanted, at_most, WHAT)?;
            self.listen()?;
        }
        self.listen()
    }

    fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), look) {
            Ok(status) => status.is_some(),
            Err(error) => error != Errno::INTR,
        }
    }

    /// Reads what it has written to standard error so far.
    fn listen(&mut self) -> Result<(), LinkError> {
        let Some(stderr) = &mut self.stderr else { return Ok(()) };
        let mut bytes = [0; 4096];
        loop {
            match stderr.read(&mut bytes) {
                Ok(0) => break,
                Ok(got) => self.said.extend_from_slice(bytes.get(..got).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => break,
            }
            if self.said.len() > MAX_STDERR_BYTES {
                let limit = MAX_STDERR_BYTES >> 10;
                let text = format!("the program wrote more than {limit} KiB to standard error");
                return Err(LinkError::answer(FailureKind::Other, text));
            }
        }
        self.stderr = None;
        Ok(())
    }

    /// Kills what is left of its group and reaps it; the program, should the kernel hold it.
    fn end(&mut self) -> ProgramOutcome {
        let _ = kill_process_group(self.pid, Signal::KILL);
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return ProgramOutcome::With(status),
                // Somebody has the kernel reap children by itself, and how it ended is lost.
                Err(_) => return ProgramOutcome::Unseen,
                Ok(None) if begun.elapsed() >= KILLED => return ProgramOutcome::NotYet,
                Ok(None) => std::thread::sleep(KILLED / 100),
            }
        }
    }

    /// The first line that it wrote, or how it ended.
    fn failure_text(&self, status: ExitStatus) -> String {
        let said = String::from_utf8_lossy(&self.said);
        let line = said.lines().map(str::trim).find(|line| !line.is_empty());
        match (line, status.code()) {
            (Some(line), Some(code)) => format!("exit code {code}: {line}"),
            (None, Some(code)) => format!("exit code {code}"),
            (_, None) => format!("ended by {status}"),
        }
    }
}
