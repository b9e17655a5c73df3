//! `memwright slurm`: takes a node with a hazard out of Slurm's scheduling, and back in.
//!
//! - `health`: slurmd's HealthCheckProgram
//! - `prolog`: makes room before a job
//! - `room`: what both do to make room

mod health;
mod prolog;
mod room;

use crate::args::{SlurmArgs, SlurmCommand};
use crate::config::Config;
use crate::{Exit, Failure};

pub(crate) fn run(args: &SlurmArgs, config: &Config) -> Result<Exit, Failure> {
    match &args.command {
        SlurmCommand::Health(args) => health::run(args, config),
        SlurmCommand::Prolog(args) => Ok(prolog::run(args, config)),
    }
}
