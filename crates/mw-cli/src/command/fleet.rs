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
mod drift;
mod facts;
#[cfg(feature = "watch")]
mod fixes;
#[cfg(feature = "watch")]
mod forecasts;
mod incidents;
#[cfg(feature = "watch")]
mod lost;
mod node_set;
mod prometheus;
#[cfg(feature = "watch")]
mod report;
mod room;

use crate::args::{FleetArgs, FleetCommand};
use crate::config::Config;
use crate::{Exit, Failure};

pub(crate) fn run(args: &FleetArgs, config: &Config) -> Result<Exit, Failure> {
    match &args.command {
        FleetCommand::Room(args) => room::run(args),
        FleetCommand::Drift(args) => drift::run(args),
        FleetCommand::Incidents(args) => incidents::run(args),
        #[cfg(feature = "watch")]
        FleetCommand::Report(args) => report::run(args),
        FleetCommand::Facts(args) => facts::run(args, config),
    }
}

#[cfg(feature = "ship")]
pub(crate) use facts::own as own_facts;

/// JSON output of its commands: a name, the version of the format, and its JSON schema.
#[cfg(feature = "schema")]
pub(crate) fn schemas() -> [(&'static str, (u32, schemars::Schema)); 4] {
    [
        ("fleet-room", room::schema()),
        ("fleet-drift", drift::schema()),
        ("fleet-incidents", incidents::schema()),
        ("fleet-facts", facts::schema()),
    ]
}
