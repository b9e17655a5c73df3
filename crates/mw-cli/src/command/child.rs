//! A command that is started here: its failures as exit codes.

use crate::{Exit, Failure};
use std::ffi::OsString;
use std::process::{Child, Command};

/// Starts a command with its arguments. The failure's exit code is that of env(1).
pub(crate) fn spawn(name: &OsString, arguments: &[OsString]) -> Result<Child, Failure> {
    Command::new(name).args(arguments).spawn().map_err(|error| {
        let name = name.to_string_lossy();
        Failure::new(Exit::from_exec_error(&error), format!("{name}: {error}"))
    })
}

pub(crate) fn not_waited(error: std::io::Error) -> Failure {
    Failure::new(Exit::CouldNotCheck, format!("waiting for the command: {error}"))
}
