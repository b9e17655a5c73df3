//! A host's reserve of warm memory: segments that are populated, placed, locked and zeroed before
//! anybody asks, so that a program's restart costs a mapping and no allocation.
//!
//! - [`spec`]: what a pool is. [`protocol`]: what is said over the socket. [`book`]: which memory
//!   is whose, and the diagram of it. All of them are pure.

pub mod book;
mod client;
#[cfg(feature = "server")]
mod clients;
#[cfg(feature = "server")]
mod connections;
#[cfg(feature = "server")]
mod grant;
#[cfg(feature = "server")]
mod image;
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
mod segment;
#[cfg(feature = "server")]
mod server;
mod socket;
pub mod spec;
#[cfg(feature = "server")]
mod store;
mod wire;
#[cfg(feature = "server")]
mod work;

pub use client::{Attach, Attachment, Client, Error, SOCKET, Stripes, Taken};
#[cfg(feature = "server")]
pub use server::{Config, Level, Log, Preflight, Server, StartError};
pub use spec::{BadName, Name, Nodes, Owners, Pages, Spec};
