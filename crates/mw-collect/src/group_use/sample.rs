//! The counters of cgroups at one moment.

use super::files::{CgroupCounters, GroupLimits};
use std::collections::BTreeMap;
use std::time::Instant;

/// The counters of cgroups at one moment.
#[derive(Debug)]
pub struct GroupSample {
    pub(super) at: Instant,
    pub(super) groups: BTreeMap<String, GroupReading>,
    /// True if all groups were read.
    pub(super) complete: bool,
}

#[derive(Debug, Default)]
pub(super) struct GroupReading {
    pub(super) of_service: bool,
    pub(super) counters: CgroupCounters,
    /// Those of a service's group, which may go with the service, each time that they were read.
    pub(super) limits: Vec<GroupLimits>,
    /// Hierarchies in which it was read, one bit each.
    pub(super) read: u32,
}
