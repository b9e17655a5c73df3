//! A connection that stays open between probes, as a service's clients keep theirs.

use crate::link::{Deadline, Link, LinkError};
use crate::protocol::{Probe, Protocol};

/// Uses the connection of the last request. One that was closed since then is replaced within the
/// same probe: a server may close idle connections, and its restart is not a stall.
pub(crate) struct PersistentProbe<P> {
    protocol: P,
    link: Option<Link>,
}

impl<P: Protocol> PersistentProbe<P> {
    pub(crate) fn new(protocol: P) -> Self {
        Self { protocol, link: None }
    }

    fn request_on(&mut self, mut link: Link, deadline: &Deadline<'_>) -> Result<(), LinkError> {
        if self.protocol.request(&mut link, deadline)? {
            self.link = Some(link);
        }
        Ok(())
    }
}

impl<P: Protocol> Probe for PersistentProbe<P> {
    fn send(&mut self, deadline: &Deadline<'_>) -> Result<(), LinkError> {
        if let Some(link) = self.link.take().filter(Link::is_quiet) {
            match self.request_on(link, deadline) {
                Err(failure) if failure.is_of_old_connection() => {}
                other => return other,
            }
        }
        let link = self.protocol.open(deadline)?;
        self.request_on(link, deadline)
    }
}
