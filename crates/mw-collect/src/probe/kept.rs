//! A connection that stays open between probes, as a service's clients keep theirs.

use super::link::{Deadline, Failure, Link};
use super::service::Ask;

/// How a service is asked.
pub(super) trait Protocol {
    /// Connects, and logs in where that is asked for.
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<Link, Failure>;

    /// Asks the question on an open connection; whether it may be asked there again.
    fn ask(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, Failure>;
}

/// Asks on the connection of the last time. One that has ended since then is replaced within the
/// same probe: a server may end what is idle, and that it was restarted is no stall.
pub(super) struct Kept<P> {
    protocol: P,
    link: Option<Link>,
}

impl<P: Protocol> Kept<P> {
    pub(super) fn new(protocol: P) -> Self {
        Self { protocol, link: None }
    }

    fn ask_on(&mut self, mut link: Link, deadline: &Deadline<'_>) -> Result<(), Failure> {
        if self.protocol.ask(&mut link, deadline)? {
            self.link = Some(link);
        }
        Ok(())
    }
}

impl<P: Protocol> Ask for Kept<P> {
    fn ask(&mut self, deadline: &Deadline<'_>) -> Result<(), Failure> {
        if let Some(link) = self.link.take().filter(Link::is_quiet) {
            match self.ask_on(link, deadline) {
                Err(failure) if failure.is_of_old_connection() => {}
                other => return other,
            }
        }
        let link = self.protocol.open(deadline)?;
        self.ask_on(link, deadline)
    }
}
