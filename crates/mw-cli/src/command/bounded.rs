//! A command whose output is kept, for a limited time and up to a limit of bytes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Between two looks at whether it has ended.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// How long the end of one that was killed is waited for.
const KILLED: Duration = Duration::from_secs(1);

/// What it may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) time: Duration,
    /// Of standard output, and of standard error: what is written beyond is read and dropped.
    pub(super) bytes: usize,
}

/// A command that has ended by itself.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) output: Vec<u8>,
    /// Whether it wrote more than is kept of its output.
    pub(super) is_cut: bool,
    errors: Vec<u8>,
}

impl Ended {
    /// The first line of standard error: of a hint it is what matters.
    #[cfg(feature = "watch")]
    pub(super) fn first_error(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.errors);
        text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// The last line of standard error, or else of standard output, or else the status: what led to a failure comes
    /// before it.
    pub(super) fn last_line(&self) -> String {
        let line = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
            line.map(str::to_owned)
        };
        let line = line(&self.errors).or_else(|| line(&self.output));
        line.unwrap_or_else(|| self.status.to_string())
    }
}

/// Runs it without standard input. It has a process group of its own, which is killed when its time is over, when it has
/// ended, and when this program is told to end.
///
/// # Errors
/// It could not be started, or did not end in time.
pub(super) fn run(mut command: Command, limits: Limits) -> Result<Ended, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let pid = Pid::from_child(&child);
    let mut output = Stream::new(child.stdout.take(), limits.bytes);
    let mut errors = Stream::new(child.stderr.take(), limits.bytes);
    let until = Instant::now() + limits.time;
    let is_over = |now| now >= until || mw_sys::is_termination_requested();
    let has_ended = wait(pid, &mut output, &mut errors, is_over);
    // Before it is waited for: until then its number is nobody else's.
    let _ = kill_process_group(pid, Signal::KILL);
    if !has_ended {
        let killed_until = Instant::now() + KILLED;
        wait(pid, &mut output, &mut errors, |now| now >= killed_until);
        // Where the kernel holds it for longer, whoever inherits it reaps it.
        let _ = child.try_wait();
        if mw_sys::is_termination_requested() {
            return Err(format!("{program} was interrupted"));
        }
        return Err(format!("{program} did not end within {} s; killed", limits.time.as_secs()));
    }
    let status = child.wait().map_err(|error| format!("{program}: {error}"))?;
    output.read_rest();
    errors.read_rest();
    Ok(Ended { status, is_cut: output.is_cut, output: output.bytes, errors: errors.bytes })
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
    max_bytes: usize,
    is_cut: bool,
}

trait Pipe: Read + AsFd {}

impl<T: Read + AsFd> Pipe for T {}

/// What a pipe holds by default, pipe(7).
const PIPE_BYTES: usize = 64 << 10;

impl Stream {
    fn new(pipe: Option<impl Pipe + 'static>, max_bytes: usize) -> Self {
        let _ = pipe.as_ref().map(|pipe| ioctl_fionbio(pipe, true));
        let pipe = pipe.map(|pipe| Box::new(pipe) as Box<dyn Pipe>);
        Self { pipe, bytes: Vec::new(), max_bytes, is_cut: false }
    }

    /// Reads what is there; one that writes without end is stopped by its time, not by this loop.
    fn read(&mut self) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        let mut buffer = [0; PIPE_BYTES];
        match pipe.read(&mut buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                let room = self.max_bytes.saturating_sub(self.bytes.len());
                self.bytes.extend(buffer.iter().take(count.min(room)));
                self.is_cut |= count > room;
                return count;
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.pipe = None,
        }
        0
    }

    /// Reads what a process has left in the pipe that has ended: no more than the pipe holds.
    fn read_rest(&mut self) {
        let mut left = PIPE_BYTES;
        while left > 0 {
            match self.read() {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn sh(line: &str, limits: Limits) -> Result<Ended, String> {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        run(command, limits)
    }

    const LIMITS: Limits = Limits { time: Duration::from_secs(30), bytes: 1 << 20 };

    #[test]
    fn everything_that_fits_is_kept() {
        let ended = sh("head -c 300000 /dev/zero; echo end", LIMITS).unwrap();
        assert_eq!((ended.output.len(), ended.is_cut), (300_004, false));
        assert!(ended.output.ends_with(b"end\n"));
        let ended = sh("head -c 300000 /dev/zero; echo no >&2", Limits { bytes: 1000, ..LIMITS });
        let ended = ended.unwrap();
        assert_eq!((ended.output.len(), ended.is_cut), (1000, true));
        assert_eq!(ended.last_line(), "no");
    }

    #[test]
    fn one_that_does_not_end_is_killed_with_what_it_started() {
        let start = Instant::now();
        let limits = Limits { time: Duration::from_millis(300), ..LIMITS };
        let why = sh("sleep 100 & yes", limits).map(|ended| ended.status).unwrap_err();
        assert!(
            why.starts_with("sh did not end within 0 s")
                && start.elapsed() < Duration::from_secs(20),
            "{why}"
        );
    }

    #[test]
    fn a_failure_says_its_last_line() {
        assert_eq!(sh("echo a >&2; echo b >&2; exit 1", LIMITS).unwrap().last_line(), "b");
        assert_eq!(sh("echo c; exit 1", LIMITS).unwrap().last_line(), "c");
        assert!(sh("exit 7", LIMITS).unwrap().last_line().contains('7'));
    }
}
