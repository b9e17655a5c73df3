//! `tcp://HOST:PORT` and `unix:/PATH`: the connection is taken.
//!
//! The kernel takes connections for a server that listens, until its queue is full: this shows that
//! the machine answers and that the server is there, and only later that it is stuck. A server may
//! take a client that hangs up at once for a broken one: MySQL shuts out hosts other than its own
//! after a hundred of them (`max_connect_errors`), so ask it by `mysql://`.

use super::link::{Connector, Deadline, Endpoint, Failure};
use super::service::Ask;

/// Connects, and hangs up.
pub(super) struct Tcp(Connector);

impl Tcp {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self(Connector::new(endpoint))
    }
}

impl Ask for Tcp {
    fn ask(&mut self, deadline: &Deadline<'_>) -> Result<(), Failure> {
        self.0.connect(deadline).map(drop)
    }
}
