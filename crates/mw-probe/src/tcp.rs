//! `tcp://HOST:PORT` and `unix:/PATH`: the connection is taken.
//!
//! The kernel takes connections for a server that listens, until its queue is full: this shows that
//! the machine answers and that the server is there, and only later that it is stuck. A server may
//! take a client that hangs up at once for a broken one: MySQL shuts out hosts other than its own
//! after a hundred of them (`max_connect_errors`), so ask it by `mysql://`.

use crate::address::{ParseResult, TargetAddress, endpoint, name, socket};
use crate::link::{Connector, Deadline, Endpoint, LinkError};
use crate::protocol::Probe;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn parse(rest: &str) -> ParseResult {
    Ok(Arc::new(TcpAddress(endpoint("tcp", rest, None)?)))
}

pub(crate) fn parse_unix(rest: &str) -> ParseResult {
    Ok(Arc::new(TcpAddress(socket("unix", rest)?)))
}

#[derive(Debug)]
struct TcpAddress(Endpoint);

impl fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Endpoint::Tcp(..) => write!(f, "tcp://{}", self.0),
            Endpoint::Unix(_) => write!(f, "unix:{}", self.0),
        }
    }
}

impl TargetAddress for TcpAddress {
    fn default_name(&self) -> String {
        let scheme = if matches!(self.0, Endpoint::Tcp(..)) { "tcp" } else { "unix" };
        name(scheme, &self.0)
    }

    fn socket_path(&self) -> Option<&Path> {
        self.0.socket_path()
    }

    fn probe(&self) -> Box<dyn Probe> {
        Box::new(TcpProbe(Connector::new(self.0.clone())))
    }
}

/// Connects, and hangs up.
struct TcpProbe(Connector);

impl Probe for TcpProbe {
    fn send(&mut self, deadline: &Deadline<'_>) -> Result<(), LinkError> {
        self.0.connect(deadline).map(drop)
    }
}
