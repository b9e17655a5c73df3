//! Runs scontrol, for a limited time: without slurmctld it tries for 9 s, and it may hang.

use super::node::Node;
use crate::output::without_interruption;
use crate::{Exit, Failure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SCONTROL: &str = "scontrol";

/// How long one command may take.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Between two looks at whether it has ended.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// How long the end of one that was killed is waited for.
const KILLED: Duration = Duration::from_secs(1);

/// What is kept of its output; the record of a node has 1 KiB.
const MAX_BYTES: usize = 64 << 10;

/// What slurmctld has of the node.
pub(super) fn node(name: &str) -> Result<Node, Failure> {
    let output = run([OsStr::new("show"), OsStr::new("node"), OsStr::new(name)])?;
    Node::parse(&output)
        .ok_or_else(|| failure(format_args!("no state of node {name} in scontrol's output")))
}

pub(super) fn drain(name: &str, reason: &str) -> Result<(), Failure> {
    update(name, &["State=DRAIN".to_owned(), format!("Reason={reason}")])
}

pub(super) fn resume(name: &str) -> Result<(), Failure> {
    update(name, &["State=RESUME".to_owned()])
}

pub(super) fn set_extra(name: &str, extra: &str) -> Result<(), Failure> {
    update(name, &[format!("Extra={extra}")])
}

fn update(name: &str, fields: &[String]) -> Result<(), Failure> {
    let name = format!("NodeName={name}");
    let words = ["update", &name].into_iter().chain(fields.iter().map(String::as_str));
    run(words.map(OsStr::new)).map(|_| ())
}

/// Its standard output. It has a process group of its own, which is killed when its time is over, when it has ended,
/// and when this program is told to end.
fn run<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Result<Vec<u8>, Failure> {
    without_interruption(|| run_to_end(words))
}

fn run_to_end<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new(SCONTROL);
    command.args(words).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| failure(format_args!("{SCONTROL}: {error}")))?;
    let pid = Pid::from_child(&child);
    let mut output = Stream::new(child.stdout.take());
    let mut errors = Stream::new(child.stderr.take());
    let until = Instant::now() + LIMIT;
    let is_over = |now| now >= until || mw_sys::is_termination_requested();
    let has_ended = wait(pid, &mut output, &mut errors, is_over);
    // Before it is waited for: until then its number is nobody else's.
    let _ = kill_process_group(pid, Signal::KILL);
    if !has_ended {
        let killed_until = Instant::now() + KILLED;
        wait(pid, &mut output, &mut errors, |now| now >= killed_until);
        // Where the kernel holds it for longer, whoever inherits it reaps it.
        let _ = child.try_wait();
        let limit = LIMIT.as_secs();
        return Err(failure(format_args!("{SCONTROL} did not end within {limit} s; killed")));
    }
    let status = child.wait().map_err(|error| failure(format_args!("{SCONTROL}: {error}")))?;
    output.read();
    errors.read();
    if status.success() { Ok(output.bytes) } else { Err(refused(status, &output, &errors)) }
}

/// Whether it ends before its time is over.
fn wait(
    pid: Pid,
    output: &mut Stream,
    errors: &mut Stream,
    is_over: impl Fn(Instant) -> bool,
) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        output.read();
        errors.read();
        if !matches!(waitid(WaitId::Pid(pid), options), Ok(None)) {
            return true;
        }
        if is_over(Instant::now()) {
            return false;
        }
        let mut fds: Vec<PollFd<'_>> = [&*output, &*errors]
            .into_iter()
            .filter_map(|stream| stream.pipe.as_ref())
            .map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN))
            .collect();
        let _ = poll(&mut fds, Some(&LOOK));
    }
}

/// A pipe, and the beginning of what came through it.
struct Stream {
    pipe: Option<Box<dyn Pipe>>,
    bytes: Vec<u8>,
}

trait Pipe: Read + AsFd {}

impl<T: Read + AsFd> Pipe for T {}

impl Stream {
    fn new(pipe: Option<impl Pipe + 'static>) -> Self {
        let _ = pipe.as_ref().map(|pipe| ioctl_fionbio(pipe, true));
        Self { pipe: pipe.map(|pipe| Box::new(pipe) as Box<dyn Pipe>), bytes: Vec::new() }
    }

    /// Reads what is there; one that writes without end is stopped by its time, not by this loop.
    fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut buffer = [0; MAX_BYTES];
        match pipe.read(&mut buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                let room = MAX_BYTES.saturating_sub(self.bytes.len());
                self.bytes.extend(buffer.iter().take(count.min(room)));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.pipe = None,
        }
    }

    /// Its last line: what led to a failure comes before it.
    fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        line.map(str::to_owned)
    }
}

fn refused(status: ExitStatus, output: &Stream, errors: &Stream) -> Failure {
    let said = errors.last_line().or_else(|| output.last_line());
    let said = said.unwrap_or_else(|| status.to_string());
    // Some of its messages begin with its name.
    failure(format_args!("{SCONTROL}: {}", said.trim_start_matches("scontrol: ")))
}

fn failure(why: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::CouldNotCheck, why)
}
