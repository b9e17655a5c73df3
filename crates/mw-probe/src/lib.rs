//! Monitors by which the recorder detects stalls: requests to services ([`Prober`]), threads that measure page-fault
//! and scheduling latency ([`canary`]), and the kernel's own pressure trigger ([`pressure`]).
//!
//! Each protocol has a file that parses its targets and sends its requests; `target.rs` has the table of schemes.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod address;
pub mod canary;
mod clock;
mod connection;
mod delivery;
mod exec;
mod http;
mod jvm_log;
mod link;
mod login;
#[cfg(feature = "mysql")]
mod mysql;
mod observation;
mod persistent;
#[cfg(feature = "postgres")]
mod postgres;
pub mod pressure;
mod prober;
mod protocol;
mod redis;
mod target;
mod tcp;
mod tempo;
mod threads;
mod timer;
mod view;

pub use address::TargetError;
pub use observation::{ProbeFailure, ProbeReading, ProbeRequest};
pub use prober::{Details, MAX_NAME_BYTES, MAX_TIME, MIN_INTERVAL, ProbeSpec, Prober};
pub use target::Target;
