//! Waits of the tasks of a cgroup, by resource and by who made them wait.

use crate::Resource;

/// Who made the tasks of a cgroup wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitOrigin {
    /// A limit of the group.
    OwnLimit,
    /// A limit of a group above it.
    LimitAbove,
    /// Other threads of the group.
    Itself,
    /// Tasks outside the group.
    Neighbour,
    /// The machine's own reclaim.
    Machine,
    /// No counter tells.
    Unknown,
}

impl WaitOrigin {
    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OwnLimit => "own-limit",
            Self::LimitAbove => "limit-above",
            Self::Itself => "itself",
            Self::Neighbour => "neighbour",
            Self::Machine => "machine",
            Self::Unknown => "unknown",
        }
    }

    /// True of a limit of a cgroup.
    #[must_use]
    pub fn is_limit(self) -> bool {
        matches!(self, Self::OwnLimit | Self::LimitAbove)
    }
}

/// Time that some task of a cgroup waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupWait {
    pub resource: Resource,
    pub origin: WaitOrigin,
    pub waited_us: u64,
}
