//! `memwright fleet`: questions to many nodes.
//!
//! - `node_set`: names of nodes such as `n[1-40]`, read and written; pure
//! - `prometheus`: asks a server that speaks PromQL
//! - `asking`: runs a command on many nodes, some at a time
//! - `answer`: what a node says of a request; pure
//! - `room`: which nodes can provide a request

mod answer;
mod asking;
mod node_set;
mod prometheus;
mod room;

#[cfg(feature = "schema")]
pub(crate) use room::schema;

use crate::args::{FleetArgs, FleetCommand};
use crate::{Exit, Failure};

pub(crate) fn run(args: &FleetArgs) -> Result<Exit, Failure> {
    match &args.command {
        FleetCommand::Room(args) => room::run(args),
    }
}
