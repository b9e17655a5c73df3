//! Interrupts the lab: guests, and the programs of the host that it waits for.
//!
//! An interrupt holds for the whole process and is never cleared. Code that waits for a program or a guest
//! polls it, so that the program is killed and its files are removed at once.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Most programs end before the first poll.
const FIRST_POLL: Duration = Duration::from_millis(1);
const LAST_POLL: Duration = Duration::from_millis(50);

/// Ends all runs of this process.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

#[must_use]
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// [`Command::output`] that fails once the lab is interrupted. The output goes to unnamed files, so that
/// nothing waits for a process that has inherited a pipe.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    // Programs of its own are killed with it.
    command.process_group(0);
    let mut program = KillOnDrop(command.spawn()?);
    let mut poll = FIRST_POLL;
    let status = loop {
        if let Some(status) = program.0.try_wait()? {
            break status;
        }
        if is_interrupted() {
            return Err(io::Error::other("interrupted"));
        }
        std::thread::sleep(poll);
        poll = LAST_POLL.min(poll * 2);
    };
    let mut output = Output { status, stdout: Vec::new(), stderr: Vec::new() };
    for (file, bytes) in [(&mut out, &mut output.stdout), (&mut err, &mut output.stderr)] {
        file.rewind()?;
        file.read_to_end(bytes)?;
    }
    Ok(output)
}

/// Kills the process group of a program when it is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Waited for, its number may already be another's.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}
