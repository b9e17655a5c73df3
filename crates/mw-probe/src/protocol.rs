//! The interface of the probes of all protocols.

use crate::link::{Deadline, Link, LinkError};

pub(crate) trait Probe {
    /// Sends one request, and ends with the deadline.
    fn send(&mut self, deadline: &Deadline<'_>) -> Result<(), LinkError>;
}

/// Connection and request of a service.
pub(crate) trait Protocol {
    /// Connects, and logs in where the server requires it.
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<Link, LinkError>;

    /// Sends a request on an open connection; whether the connection can be used again.
    fn request(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, LinkError>;
}
