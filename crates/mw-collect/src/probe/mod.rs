//! Active checks: they do something and time it.

mod alarm;
pub mod calibrate;
pub mod canary;
mod exec;
mod http;
mod kept;
mod link;
mod login;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
pub mod pressure;
mod redis;
pub mod service;
mod state;
mod target;
mod tcp;
mod threads;

use threads::{STACK_BYTES, Threads};

const NANOS_PER_MICRO: u64 = 1_000;

fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
