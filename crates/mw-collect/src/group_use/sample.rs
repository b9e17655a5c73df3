//! The counters of cgroups at one moment.

use super::files::{Counters, Limits};
use std::collections::BTreeMap;
use std::time::Instant;

/// The counters of cgroups at one moment.
#[derive(Debug)]
pub struct GroupSample {
    pub(super) at: Instant,
    pub(super) groups: BTreeMap<String, Group>,
    /// True if all groups were read.
    pub(super) complete: bool,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) of_service: bool,
    pub(super) counters: Counters,
    /// Read of the service's groups, which may go with the service.
    pub(super) limits: Option<Limits>,
    /// Hierarchies in which it was read, one bit each.
    pub(super) read: u32,
}
