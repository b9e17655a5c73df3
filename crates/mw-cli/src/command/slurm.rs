//! `memwright slurm`: takes a node with a hazard out of Slurm's scheduling, and back in.
//!
//! - `health`: what slurmd's HealthCheckProgram does with its node
//! - `decision`: what follows from the check and from the node's state; pure
//! - `node`: what `scontrol show node` prints; pure
//! - `scontrol`: runs it, for a limited time
//! - `prolog`: makes room before a job

mod decision;
mod health;
mod node;
mod prolog;
mod scontrol;

use crate::args::{MakeRoomArgs, MaxCost, SlurmArgs, SlurmCommand};
use crate::config::Config;
use crate::{Exit, Failure};
use mw_model::Request;
use std::path::PathBuf;

pub(crate) fn run(args: &SlurmArgs, config: &Config) -> Result<Exit, Failure> {
    match &args.command {
        SlurmCommand::Health(args) => health::run(args, config),
        SlurmCommand::Prolog(args) => Ok(prolog::run(args, config)),
    }
}

/// Makes room as `memwright make-room` does; what it reserves stays until `memwright undo`.
fn make_room(
    request: &Request,
    max_cost: MaxCost,
    state_dir: Option<PathBuf>,
    config: &Config,
) -> Result<Exit, Failure> {
    let args = MakeRoomArgs {
        request: request.clone(),
        hold: None,
        dry_run: false,
        max_cost,
        allow_swap: false,
        format: crate::args::FormatArgs::default(),
        state_dir,
        command: Vec::new(),
    };
    super::make_room::run(&args, config)
}
