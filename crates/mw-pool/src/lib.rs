//! A host's reserve of memory: segments that are populated, bound to nodes, locked and zeroed in
//! advance, so that a program's restart costs a mapping and no allocation.
//!
//! - [`spec`]: the specification of a pool. [`protocol`]: the messages. [`lease_table`]: which memory
//!   is whose, with a diagram. All three are pure.
//! - The server has parts, none of which knows another's fields: clients, lease sockets, the reclaimer
//!   (returned memory), the replenisher (populating and zeroing), stripes, the descriptor store and
//!   the state file.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod client;
#[cfg(feature = "server")]
mod clients;
#[cfg(feature = "server")]
mod config;
#[cfg(feature = "server")]
mod descriptor_store;
#[cfg(feature = "server")]
mod freed_watch;
#[cfg(feature = "server")]
mod lease_sockets;
pub mod lease_table;
#[cfg(feature = "server")]
mod listener;
#[cfg(feature = "server")]
mod peer;
pub mod protocol;
#[cfg(feature = "server")]
mod rate_limits;
#[cfg(feature = "server")]
mod reclaimer;
#[cfg(feature = "server")]
mod replenisher;
#[cfg(feature = "server")]
mod server;
mod socket;
pub mod spec;
#[cfg(feature = "server")]
mod state_file;
#[cfg(feature = "server")]
mod stripe_memory;
#[cfg(feature = "server")]
mod stripes;
#[cfg(feature = "server")]
mod sysv_segment;
mod wire;
#[cfg(feature = "server")]
mod workers;

pub use client::{Attach, Attachment, Client, Error, LeaseFiles, LeasedStripes, SOCKET};
#[cfg(feature = "server")]
pub use config::{Level, LogFn, PoolServerConfig, PreflightFn, StartError};
pub use mw_memory::{NumaPolicy, PageSize};
#[cfg(feature = "server")]
pub use server::Server;
pub use spec::{BadName, Owners, PoolName, PoolSpec};
