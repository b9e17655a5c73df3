//! The evidence by which the time that a cause explains has a culprit.

use crate::forced_work::ForcedWork;

/// Kind of evidence. Where it singles out nobody, the culprit is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accusation {
    /// The path: the limit or the quota that a task met, the task that had the CPU, the task that ended.
    ByPath,
    /// Memory of the machine was short: who took most of it.
    Takers,
    /// The disk had much to write: who wrote most of it. What reclaimed meanwhile, as for [`Self::Takers`].
    Writers,
    /// A task forced memory work by hand.
    Forced(ForcedWork),
    /// The kernel's own work, or a setting of it.
    Kernel,
    /// A disk that was slow: who wrote most of what it wrote, else the device.
    Disk,
    /// The device itself.
    Device,
    /// The hypervisor, for the share of CPU time that was stolen.
    Hypervisor,
    /// The program that the service waited for.
    Dependency,
    /// The cause says all that is known.
    Nobody,
}
