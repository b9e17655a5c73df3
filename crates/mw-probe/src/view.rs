//! A service's own view of its sessions, over the probe's login on a second connection.
//!
//! A login may wait behind the very stall, so that the connection is opened while all is well and stays idle.
//! Nothing here runs on the thread that probes.

use crate::link::{Deadline, Link, LinkError};
use crate::protocol::Protocol;
use mw_model::{Missing, Reading, ServiceView};
use mw_sys::unix_ms;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit of opening the second connection while all is well.
const OPEN_LIMIT: Duration = Duration::from_secs(1);
/// The most sessions of a view.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) const MAX_SESSIONS: usize = 32;
/// The longest text of a view that a service chose.
const MAX_TEXT_CHARS: usize = 200;

/// Queries for a service's view of itself.
pub(crate) trait SessionQuery: Protocol {
    /// True if texts of queries may be asked for.
    fn view(
        &mut self,
        link: &mut Link,
        queries: bool,
        deadline: &Deadline<'_>,
    ) -> Result<ServiceView, LinkError>;
}

/// A service with the connection for its views.
pub(crate) trait ViewSource: Send {
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<(), LinkError>;
    fn look(&mut self, queries: bool, deadline: &Deadline<'_>) -> Result<ServiceView, LinkError>;
}

pub(crate) struct ViewConnection<P> {
    protocol: P,
    link: Option<Link>,
}

impl<P> ViewConnection<P> {
    pub(crate) fn new(protocol: P) -> Self {
        Self { protocol, link: None }
    }
}

impl<P: SessionQuery + Send> ViewSource for ViewConnection<P> {
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<(), LinkError> {
        self.link = self.link.take().filter(Link::is_quiet);
        if self.link.is_none() {
            self.link = Some(self.protocol.open(deadline)?);
        }
        Ok(())
    }

    fn look(&mut self, queries: bool, deadline: &Deadline<'_>) -> Result<ServiceView, LinkError> {
        self.open(deadline)?;
        // A connection on which an answer is outstanding is of no more use.
        let mut link = self.link.take().ok_or(LinkError::Closed("asking"))?;
        link.set_phase("waiting for the service's view");
        let view = self.protocol.view(&mut link, queries, deadline)?;
        self.link = Some(link);
        Ok(view)
    }
}

/// The view of a prober's service.
pub(crate) struct Viewer {
    view: Mutex<Box<dyn ViewSource>>,
    queries: bool,
    /// Never readable: a deadline alone ends a view.
    stop: OwnedFd,
}

impl Viewer {
    pub(crate) fn new(view: Box<dyn ViewSource>, queries: bool) -> io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self { view: Mutex::new(view), queries, stop })
    }

    pub(crate) fn prepare(&self) {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = view.open(&Deadline::after(OPEN_LIMIT, self.stop.as_fd()));
    }

    pub(crate) fn look(&self, limit: Duration) -> Result<ServiceView, LinkError> {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let (at_unix_ms, begun) = (unix_ms(), Instant::now());
        let seen = view.look(self.queries, &Deadline::after(limit, self.stop.as_fd()))?;
        let took_ms = begun.elapsed().as_secs_f64() * 1000.0;
        Ok(ServiceView { at_unix_ms, took_ms, ..seen })
    }
}

impl std::fmt::Debug for Viewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Viewer").field("queries", &self.queries).finish_non_exhaustive()
    }
}

/// Text that a service chose, in one plain line.
pub(crate) fn plain(text: &str) -> String {
    let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    one_line.take(MAX_TEXT_CHARS).collect::<String>().trim().to_owned()
}

pub(crate) fn reading(result: Result<ServiceView, String>) -> Reading<ServiceView> {
    match result {
        Ok(view) => Reading::Value(view),
        Err(why) => Reading::Missing(Missing::failed("the service's own view", why)),
    }
}
