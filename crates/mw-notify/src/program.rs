//! Runs a program with a message on its standard input.

use crate::delivery_error::DeliveryError;
use mw_sys::{ProgramEnd, ProgramError, ProgramLimits, run_program};
use std::process::Command;
use std::time::Duration;

/// Bytes that are kept of a program's standard error; the rest is read and dropped.
const MAX_STDERR_BYTES: usize = 1024;

/// The program shares the recorder's memory limit; should that be reached, the kernel ends the program.
const OOM_SCORE_ADJUSTMENT: &str = "500";

/// Variables of the recorder alone: a program could tell the service manager that the recorder is well.
const OWN_VARIABLES: [&str; 5] =
    ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID"];

pub(crate) fn run(words: &[String], input: &[u8], limit: Duration) -> Result<(), DeliveryError> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(DeliveryError::for_good("no command"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    for name in OWN_VARIABLES {
        command.env_remove(name);
    }
    let limits = ProgramLimits { input, time: limit, bytes: MAX_STDERR_BYTES };
    let started = |pid: u32| {
        let _ =
            mw_sys::kernel_file::write(format!("/proc/{pid}/oom_score_adj"), OOM_SCORE_ADJUSTMENT);
    };
    match run_program(command, limits, started, || false) {
        Ok(ProgramEnd { status, .. }) if status.success() => Ok(()),
        Ok(ProgramEnd { status, errors, .. }) => {
            Err(DeliveryError::for_now(format!("{program}: {status}{}", first_line(&errors))))
        }
        Err(ProgramError::NotStarted(error)) => {
            Err(DeliveryError::for_good(format!("{program}: {error}")))
        }
        Err(ProgramError::TimedOut | ProgramError::Interrupted) => {
            Err(DeliveryError::for_now(format!("{program}: killed after {limit:?}")))
        }
        Err(ProgramError::Held(count)) => Err(DeliveryError::for_now(format!(
            "{program}: not started: the kernel holds {count} programs that were killed"
        ))),
    }
}

fn first_line(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.map_or(String::new(), |line| format!(": {}", mw_model::visible::line(line)))
}
