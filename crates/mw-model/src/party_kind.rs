//! Kinds of those who lose time in a stall, or take it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of a victim or a culprit.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PartyKind {
    /// A systemd unit.
    Unit,
    Pod,
    Container,
    /// A cgroup that is none of these.
    Cgroup,
    /// A process in the root cgroup, or in one that is not known.
    Process,
    /// A probe of a service that was not found.
    Probe,
    /// The machine as a whole: no service was probed.
    Machine,
    Kernel,
    Hypervisor,
    /// A block device that was slow.
    Device,
    /// The evidence proves no culprit.
    #[default]
    Unknown,
}
