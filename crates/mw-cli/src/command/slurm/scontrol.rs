//! Runs scontrol, for a limited time: without slurmctld it tries for 9 s, and it may hang.

use super::node::Node;
use crate::output::without_interruption;
use crate::{Exit, Failure};
use mw_sys::{ProgramLimits, run_command};
use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

const SCONTROL: &str = "scontrol";

/// Time limit of one command.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Size limit of its output; the record of a node has 1 KiB.
const MAX_BYTES: usize = 64 << 10;

/// Record of the node in slurmctld.
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

/// Its standard output.
fn run<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new(SCONTROL);
    command.args(words);
    let limits = ProgramLimits { input: &[], time: LIMIT, bytes: MAX_BYTES };
    let ended = without_interruption(|| run_command(command, limits).map_err(failure))?;
    if ended.status.success() {
        return Ok(ended.output);
    }
    // Some of its messages begin with its name.
    let said = ended.last_line();
    Err(failure(format_args!("{SCONTROL}: {}", said.trim_start_matches("scontrol: "))))
}

fn failure(why: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::CouldNotCheck, why)
}
