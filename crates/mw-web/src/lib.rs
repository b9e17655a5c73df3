//! A small HTTP/1.1 server for metrics, and the reader of the file that Prometheus exporters call `web.config.file`
//! (TLS, client certificates, basic authentication).
//!
//! - Clients are not trusted: connections, the size of a request and the time of a connection are bounded. One thread
//!   serves all connections and never blocks; a second one verifies passwords, so that nobody waits for the passwords of
//!   others.
//! - Beyond [`MAX_CONNECTIONS`] the peer with the most connections loses one, its oldest without a complete request
//!   first: clients that send nothing keep out nobody.
//! - A connection serves one request: GET or HEAD, without a body.
//! - The configuration and its certificates are read again for every connection, as exporters do. While they are
//!   wrong, connections are closed: a server that was to be protected is never open.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod auth;
mod config;
mod connection;
mod peer;
mod request;
mod server;
mod verifier;
mod wake;

pub use config::{Protection, WebConfig};
pub use request::{HttpRequest, Response};
pub use server::{HttpService, MAX_CONNECTIONS, WebServer};

use std::time::Duration;

/// Time limit of a connection, from its beginning to its end.
pub const MAX_TIME: Duration = Duration::from_secs(10);

/// The most that is read of a request.
pub const MAX_HEAD_BYTES: usize = 8 << 10;

/// The lowest priority: the machine is not there for its metrics.
const NICE: i32 = 19;
