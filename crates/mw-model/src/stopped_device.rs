//! Block devices that are held still.

use serde::{Deserialize, Serialize};

/// A block device that completed nothing during a stall, because its driver or an administrator held it still.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoppedDevice {
    /// The kernel's name: `dm-0`, `sda`.
    pub name: String,
    /// The name of a device mapper device: `vg-data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapped_name: Option<String>,
    /// `suspended`, or the state in sysfs: `offline`, `blocked`, `resetting`.
    pub state: String,
    /// The devices that it consists of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
}
