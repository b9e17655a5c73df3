//! `memwright doctor`: what the recorder and the other commands need of this machine, whether it is there, and the
//! command that turns it on. Reading (`read`) is apart from judging (`judge`, `judge_service`), which is pure.

pub(crate) mod diagnosis;
mod judge;
mod judge_service;
#[cfg(test)]
mod judge_tests;
mod machine;
mod read;
mod unit;

use crate::args::DoctorArgs;
use crate::{Exit, Failure, live, terminal};
use diagnosis::Diagnosis;
use std::path::Path;

pub(crate) fn run(args: &DoctorArgs, file: Option<&Path>) -> Result<Exit, Failure> {
    // Fails where a FUSE file system answers for the kernel and does not respond.
    live::source()?;
    let diagnosis = Diagnosis::new(judge::checks(&read::machine(file)));
    if args.format.is_json() {
        super::print_json(&diagnosis)?;
    } else {
        terminal::print(&diagnosis.text(args.verbose));
    }
    Ok(diagnosis.exit())
}
