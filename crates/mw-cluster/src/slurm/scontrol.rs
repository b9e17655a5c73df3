//! Runs scontrol, for a limited time: without slurmctld it tries for 9 s, and it may hang.

use super::node::SlurmNode;
use mw_sys::{ProgramLimits, run_command};
use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

const SCONTROL: &str = "scontrol";

/// Time limit of one command.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Size limit of its output; the record of a node has 1 KiB.
const MAX_BYTES: usize = 64 << 10;

/// Record of the node in slurmctld.
///
/// # Errors
/// The message of scontrol, or why there is none.
pub fn node(name: &str) -> Result<SlurmNode, String> {
    let output = run([OsStr::new("show"), OsStr::new("node"), OsStr::new(name)])?;
    SlurmNode::parse(&output).ok_or_else(|| format!("no state of node {name} in scontrol's output"))
}

/// Drains the node.
///
/// # Errors
/// The message of scontrol, or why there is none.
pub fn drain(name: &str, reason: &str) -> Result<(), String> {
    update(name, &["State=DRAIN".to_owned(), format!("Reason={reason}")])
}

/// Ends the drain of the node.
///
/// # Errors
/// The message of scontrol, or why there is none.
pub fn resume(name: &str) -> Result<(), String> {
    update(name, &["State=RESUME".to_owned()])
}

/// Sets the field `Extra` of the node.
///
/// # Errors
/// The message of scontrol, or why there is none.
pub fn set_extra(name: &str, extra: &str) -> Result<(), String> {
    update(name, &[format!("Extra={extra}")])
}

fn update(name: &str, fields: &[String]) -> Result<(), String> {
    let name = format!("NodeName={name}");
    let words = ["update", &name].into_iter().chain(fields.iter().map(String::as_str));
    run(words.map(OsStr::new)).map(|_| ())
}

/// Runs scontrol; its standard output.
fn run<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> Result<Vec<u8>, String> {
    let mut command = Command::new(SCONTROL);
    command.args(words);
    let limits = ProgramLimits { input: &[], time: LIMIT, bytes: MAX_BYTES };
    let ended = run_command(command, limits)?;
    if ended.status.success() {
        return Ok(ended.output);
    }
    // Some of its messages begin with its name.
    let said = ended.last_line();
    Err(format!("{SCONTROL}: {}", said.trim_start_matches("scontrol: ")))
}
