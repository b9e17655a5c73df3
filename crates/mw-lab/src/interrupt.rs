//! Ends whatever the lab is doing: guests, and the programs of the host that it waits for.
//!
//! It is asked for once, for the whole process and for good. Whoever starts a program or a guest looks
//! here while it waits, so that it is killed and its files are removed within moments.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Most programs end sooner than the first look at them.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(50);

/// Asks all runs of this process to end.
pub fn interrupt() {
    ASKED.store(true, Ordering::SeqCst);
}

/// Whether that was asked for.
#[must_use]
pub fn is_interrupted() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// [`Command::output`] that ends early, with an error, once the lab is interrupted. What the program
/// says goes to files without a name, so that nothing waits for whoever has inherited a pipe.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    // Programs of its own are killed with it.
    command.process_group(0);
    let mut program = Killed(command.spawn()?);
    let mut look = FIRST_LOOK;
    let status = loop {
        if let Some(status) = program.0.try_wait()? {
            break status;
        }
        if is_interrupted() {
            return Err(io::Error::other("interrupted"));
        }
        std::thread::sleep(look);
        look = LAST_LOOK.min(look * 2);
    };
    let mut output = Output { status, stdout: Vec::new(), stderr: Vec::new() };
    for (file, bytes) in [(&mut out, &mut output.stdout), (&mut err, &mut output.stderr)] {
        file.rewind()?;
        file.read_to_end(bytes)?;
    }
    Ok(output)
}

/// A program whose group of processes does not outlive its handle.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Waited for, its number may already be another's.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}
