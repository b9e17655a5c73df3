//! Questions to many nodes, for `memwright fleet`.
//!
//! - `node_set`: names of nodes such as `n[1-40]`, read and written; pure
//! - `prometheus`: asks a server that speaks PromQL
//! - `asking`: runs a command on many nodes, some at a time
//! - `answer`: the answer of a node to a request; pure
//! - `room`: which nodes can provide a request
//! - `facts`: settings of this machine
//! - `drift`: differences between nodes; pure once they have answered
//! - `incidents`: the stalls of nodes, joined to events
//! - `lost`: the time that they took; pure
//! - `fixes`: the effect of fixes
//! - `forecasts`: what runs out
//! - `report`: all of this as a page

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answer;
mod asking;
mod drift;
mod facts;
mod fixes;
mod forecasts;
mod incidents;
mod lost;
mod node_set;
mod prometheus;
mod report;
mod room;

pub use answer::{NodeAnswer, NodeVerdict};
pub use asking::{NodeAccess, SilentNode};
pub use drift::{DRIFT_SCHEMA, FleetDrift};
pub use facts::{FACTS_SCHEMA, NodeFacts};
pub use incidents::{FLEET_INCIDENTS_SCHEMA, FleetIncidents};
pub use prometheus::{Credentials, FleetCandidate, MetricsServer};
pub use report::FleetReport;
pub use room::{FLEET_ROOM_SCHEMA, FleetRoom, RoomQuery};
