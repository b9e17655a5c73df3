//! The request whose time is explained.

use crate::trace::{Nanos, Tid};

/// An interval of one task whose time is explained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestSpan {
    /// The task that waited for the answer.
    pub task: Tid,
    /// Time at which it asked.
    pub from: Nanos,
    /// Time at which the answer woke it.
    pub to: Nanos,
    /// Processes that have the other end of its connection, or listen at the address: where no task woke the
    /// request's, their threads are searched for the one that likely held it. May be empty.
    pub servers: Vec<Tid>,
    /// Pairs of processes: the first has opened a connection to the second, as a proxy does to its upstream. Where the
    /// first was idle, the threads of the second are searched for the one that held it. May be empty.
    pub upstreams: Vec<(Tid, Tid)>,
    /// The process of a command that asks in its stead, such as psql: it is explained where it was stuck itself.
    pub command: Option<Tid>,
}
