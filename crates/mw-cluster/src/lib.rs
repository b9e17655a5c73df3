//! A node for its cluster manager: Slurm drains it, Kubernetes schedules by its conditions; and the logs of cluster
//! software, which say when a heartbeat was late.
//!
//! - `sightings`: findings that last, for what acts on a node; pure
//! - `slurm`: the decision about a drain, what the node offers, and scontrol
//! - `k8s`: the conditions of a node, and the API server
//! - `heartbeats`: lines of logs, and what a recording has of the seconds before each

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod heartbeats;
pub mod k8s;
mod sightings;
pub mod slurm;

pub use sightings::Sightings;
