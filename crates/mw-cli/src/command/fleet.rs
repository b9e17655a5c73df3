//! `memwright fleet`: questions to many nodes.
//!
//! - `node_set`: names of nodes such as `n[1-40]`, read and written; pure
//! - `prometheus`: asks a server that speaks PromQL
//! - `asking`: runs a command on many nodes, some at a time
//! - `answer`: what a node says of a request; pure
//! - `room`: which nodes can provide a request
//! - `facts`: how this machine is set
//! - `drift`: what differs between nodes
//! - `incidents`: the stalls of nodes, joined to events
//! - `lost`: how much time they took; pure
//! - `fixes`: what fixes brought
//! - `forecasts`: what runs out
//! - `report`: all of this as a page

mod answer;
mod asking;
pub(crate) mod drift;
pub(crate) mod facts;
mod fixes;
mod forecasts;
pub(crate) mod incidents;
mod lost;
mod node_set;
mod prometheus;
mod report;
pub(crate) mod room;

use crate::args::{FleetArgs, FleetCommand};
use crate::config::Config;
use crate::{Exit, Failure};

pub(crate) fn run(args: &FleetArgs, config: &Config) -> Result<Exit, Failure> {
    match &args.command {
        FleetCommand::Room(args) => room::run(args),
        FleetCommand::Drift(args) => drift::run(args),
        FleetCommand::Incidents(args) => incidents::run(args),
        FleetCommand::Report(args) => report::run(args),
        FleetCommand::Facts(args) => facts::run(args, config),
    }
}
