//! A program that is run for a limited time, with what it reads and writes.
//!
//! It has a process group of its own, which is killed when its time is over, and when it has ended: what it left running
//! would be one process more with every run. A program that the kernel holds beyond SIGKILL is not waited for. It is
//! reaped later, and while too many are held no other is started.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at whether it has ended.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Time limit of the end of a killed program.
const KILLED: Duration = Duration::from_secs(1);

/// Programs that the kernel may hold at a time.
const MAX_HELD: usize = 16;

/// Default capacity of a pipe, pipe(7).
const PIPE_BYTES: usize = 64 << 10;

/// Programs that were killed and had not ended.
#[derive(Debug)]
struct KilledPrograms(Mutex<Vec<Child>>);

static HELD: KilledPrograms = KilledPrograms(Mutex::new(Vec::new()));

/// Input of a program, and its limits.
#[derive(Debug, Clone, Copy)]
pub struct ProgramLimits<'a> {
    /// Its standard input; a program may close it early.
    pub input: &'a [u8],
    pub time: Duration,
    /// Of standard output, and of standard error: what is written beyond is read and dropped.
    pub bytes: usize,
}

/// A program that has ended by itself.
#[derive(Debug)]
pub struct ProgramEnd {
    pub status: ExitStatus,
    pub output: Vec<u8>,
    /// True if it wrote more than is kept of its output.
    pub is_cut: bool,
    pub errors: Vec<u8>,
}

/// The reason why there is no [`ProgramEnd`].
#[derive(Debug)]
pub enum ProgramError {
    NotStarted(io::Error),
    /// Its time was over, and it was killed.
    TimedOut,
    /// It was to stop, and was killed.
    Interrupted,
    /// Programs that were killed before have not ended.
    Held(usize),
}

/// Runs a program until it ends, its time is over or `is_stopped` says so; `started` is told its number.
///
/// # Errors
/// [`ProgramError`]
pub fn run_program(
    command: Command,
    limits: ProgramLimits<'_>,
    started: impl FnOnce(u32),
    is_stopped: impl Fn() -> bool,
) -> Result<ProgramEnd, ProgramError> {
    run(&HELD, command, limits, started, is_stopped)
}

fn run(
    held: &KilledPrograms,
    mut command: Command,
    limits: ProgramLimits<'_>,
    started: impl FnOnce(u32),
    is_stopped: impl Fn() -> bool,
) -> Result<ProgramEnd, ProgramError> {
    let count = held.reap();
    if count >= MAX_HELD {
        return Err(ProgramError::Held(count));
    }
    command.process_group(0);
    let stdin = if limits.input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(ProgramError::NotStarted)?;
    started(child.id());
    let pid = Pid::from_child(&child);
    let mut streams = Streams {
        input: ProgramInput::new(child.stdin.take(), limits.input),
        output: ProgramOutput::new(child.stdout.take(), limits.bytes),
        errors: ProgramOutput::new(child.stderr.take(), limits.bytes),
    };
    let until = Instant::now() + limits.time;
    let has_ended = streams.serve(pid, || Instant::now() >= until || is_stopped());
    // Before it is waited for: until then its number is nobody else's.
    let _ = kill_process_group(pid, Signal::KILL);
    if !has_ended {
        let killed_until = Instant::now() + KILLED;
        streams.serve(pid, || Instant::now() >= killed_until);
        held.add(child);
        return Err(if is_stopped() { ProgramError::Interrupted } else { ProgramError::TimedOut });
    }
    let status = child.wait().map_err(ProgramError::NotStarted)?;
    streams.output.read_rest();
    streams.errors.read_rest();
    let Streams { output, errors, .. } = streams;
    Ok(ProgramEnd { status, output: output.bytes, is_cut: output.is_cut, errors: errors.bytes })
}

impl KilledPrograms {
    /// Reaps what has ended since; how many have not.
    fn reap(&self) -> usize {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        held.len()
    }

    fn add(&self, mut child: Child) {
        if matches!(child.try_wait(), Ok(None)) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        }
    }
}

struct Streams<'a> {
    input: ProgramInput<'a>,
    output: ProgramOutput,
    errors: ProgramOutput,
}

impl Streams<'_> {
    /// Passes on what is written until the program ends; `false` where it is over before.
    fn serve(&mut self, pid: Pid, is_over: impl Fn() -> bool) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            self.input.write();
            self.output.read();
            self.errors.read();
            if !matches!(waitid(WaitId::Pid(pid), options), Ok(None)) {
                return true;
            }
            if is_over() {
                return false;
            }
            let read = [&self.output, &self.errors].into_iter().filter_map(|of| of.pipe.as_ref());
            let mut fds: Vec<PollFd<'_>> =
                read.map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)).collect();
            let write = self.input.pipe.as_ref();
            fds.extend(write.map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT)));
            let _ = poll(&mut fds, Some(&LOOK));
        }
    }
}

struct ProgramInput<'a> {
    pipe: Option<ChildStdin>,
    left: &'a [u8],
}

impl<'a> ProgramInput<'a> {
    fn new(pipe: Option<ChildStdin>, left: &'a [u8]) -> Self {
        let _ = pipe.as_ref().map(|pipe| ioctl_fionbio(pipe, true));
        Self { pipe, left }
    }

    fn write(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.write(self.left) {
            Ok(written) => self.left = self.left.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // A program may close its input early.
            Err(_) => self.left = &[],
        }
        if self.left.is_empty() {
            self.pipe = None;
        }
    }
}

/// A pipe, and the beginning of what came through it.
struct ProgramOutput {
    pipe: Option<Box<dyn Pipe>>,
    bytes: Vec<u8>,
    max_bytes: usize,
    is_cut: bool,
}

trait Pipe: Read + AsFd {}

impl<T: Read + AsFd> Pipe for T {}

impl ProgramOutput {
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
mod tests {
    use super::*;

    const LIMITS: ProgramLimits<'_> =
        ProgramLimits { input: b"", time: Duration::from_secs(30), bytes: 1 << 20 };

    fn sh(line: &str, limits: ProgramLimits<'_>) -> Result<ProgramEnd, ProgramError> {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        run_program(command, limits, |_| (), || false)
    }

    #[test]
    fn everything_that_fits_is_kept() {
        let ended = sh("head -c 300000 /dev/zero; echo end", LIMITS).unwrap();
        assert_eq!((ended.output.len(), ended.is_cut), (300_004, false));
        assert!(ended.output.ends_with(b"end\n"));
        let few = ProgramLimits { bytes: 1000, ..LIMITS };
        let ended = sh("head -c 300000 /dev/zero; echo no >&2", few).unwrap();
        assert_eq!((ended.output.len(), ended.is_cut), (1000, true));
        assert_eq!(ended.errors, b"no\n");
    }

    #[test]
    fn it_reads_its_input_or_does_not() {
        let input = vec![b'x'; 300_000];
        let limits = ProgramLimits { input: &input, ..LIMITS };
        assert_eq!(sh("wc -c", limits).unwrap().output.trim_ascii(), b"300000");
        assert!(sh("exit 0", limits).unwrap().status.success());
    }

    /// As of programs that the kernel holds beyond SIGKILL.
    #[test]
    fn while_too_many_have_not_ended_no_other_is_started() {
        let held = KilledPrograms(Mutex::default());
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").stdout(Stdio::null());
        (0..MAX_HELD).for_each(|_| held.add(sleep.spawn().unwrap()));
        let start = || run(&held, Command::new("true"), LIMITS, |_| (), || false);
        assert!(matches!(start(), Err(ProgramError::Held(MAX_HELD))));
        for child in held.0.lock().unwrap().iter_mut() {
            child.kill().unwrap();
        }
        let until = Instant::now() + Duration::from_secs(30);
        while matches!(start(), Err(ProgramError::Held(_))) && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(start().unwrap().status.success());
    }

    #[test]
    fn one_that_does_not_end_is_killed_with_what_it_started() {
        let start = Instant::now();
        let limits = ProgramLimits { time: Duration::from_millis(300), ..LIMITS };
        assert!(matches!(sh("sleep 100 & yes", limits), Err(ProgramError::TimedOut)));
        assert!(start.elapsed() < Duration::from_secs(20));
        let mut command = Command::new("sleep");
        command.arg("100");
        let stopped = run_program(command, LIMITS, |_| (), || true);
        assert!(matches!(stopped, Err(ProgramError::Interrupted)));
    }
}
