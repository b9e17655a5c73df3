//! `memwright slurm prolog`: a prolog that fails drains the node and holds the job, so that this one never does.

use crate::args::SlurmPrologArgs;
use crate::config::Config;
use crate::{Exit, terminal};

pub(super) fn run(args: &SlurmPrologArgs, config: &Config) -> Exit {
    let state_dir = args.state_dir.clone();
    if let Err(failure) = super::room::make(&args.make_room, args.max_cost, state_dir, config) {
        terminal::tell(format_args!("memwright: {failure}"));
    }
    Exit::Fine
}
