//! A host's reserve of warm memory: segments that are populated, placed, locked and zeroed before
//! anybody asks, so that a program's restart costs a mapping and no allocation.
//!
//! - [`spec`]: what a pool is. [`protocol`]: what is said over the socket. [`lease_table`]: which memory
//!   is whose, and the diagram of it. All of them are pure.

#![warn(missing_docs)]

mod client;
#[cfg(feature = "server")]
mod clients;
#[cfg(feature = "server")]
mod connections;
#[cfg(feature = "server")]
mod descriptor_store;
#[cfg(feature = "server")]
mod grant;
pub mod lease_table;
#[cfg(feature = "server")]
mod linger;
#[cfg(feature = "server")]
mod listener;
#[cfg(feature = "server")]
mod memory;
#[cfg(feature = "server")]
mod peer;
pub mod protocol;
#[cfg(feature = "server")]
mod server;
mod socket;
pub mod spec;
#[cfg(feature = "server")]
mod state_file;
#[cfg(feature = "server")]
mod sysv_segment;
mod wire;
#[cfg(feature = "server")]
mod workers;

pub use client::{Attach, Attachment, Client, Error, SOCKET, Stripes, Taken};
pub use mw_memory::{NumaPolicy, PageSize};
#[cfg(feature = "server")]
pub use server::{Config, Level, Log, Preflight, Server, StartError};
pub use spec::{BadName, Name, Owners, Spec};
