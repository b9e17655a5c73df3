//! `memwright slurm`: takes a node with a hazard out of Slurm's scheduling, and back in.
//!
//! - `health`: what slurmd's HealthCheckProgram does with its node
//! - `decision`: what follows from the check and from the node's state; pure
//! - `node`: what `scontrol show node` prints; pure
//! - `scontrol`: runs it, for a limited time
//! - `extra`: what the node offers to jobs that ask for it; pure
//! - `prolog`: makes room before a job
//! - `room`: what both do to make room

mod decision;
mod extra;
mod health;
mod node;
mod prolog;
mod room;
mod scontrol;

use crate::args::{SlurmArgs, SlurmCommand};
use crate::config::Config;
use crate::{Exit, Failure};

pub(crate) fn run(args: &SlurmArgs, config: &Config) -> Result<Exit, Failure> {
    match &args.command {
        SlurmCommand::Health(args) => health::run(args, config),
        SlurmCommand::Prolog(args) => Ok(prolog::run(args, config)),
    }
}
