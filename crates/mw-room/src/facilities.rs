//! What this kernel offers for making room, and the writes that do a step.

use crate::error::RoomError;
use crate::measure::RoomSampler;
use mw_collect::SequentialFile;
use mw_model::{CgroupVersion, Missing, RoomStep, RoomStepKind, Snapshot};
use mw_remedy::{Kernel, KernelError};
use mw_rules::room::Capabilities;
use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::path::Path;

/// Reclaim takes page cache alone, or mostly anonymous memory.
const CACHE_ONLY: u32 = 0;
const MOSTLY_ANONYMOUS: u32 = 200;
/// From this version on the kernel takes a swappiness with a request to reclaim.
const WITH_SWAPPINESS: (u32, u32) = (6, 9);

/// Files of the kernel that reclaim on request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ReclaimBy {
    /// A file of each node (6.17).
    Node,
    /// `memory.reclaim` of the root group (5.19), which takes memory of all nodes.
    Group(String),
}

pub(crate) struct Facilities {
    pub(crate) kernel: Kernel,
    pub(crate) capabilities: Capabilities,
    reclaim: Option<ReclaimBy>,
    takes_swappiness: bool,
    /// Steps that cannot be used, with the reason.
    pub(crate) unseen: Vec<Missing>,
}

impl Facilities {
    pub(crate) fn find(measure: &RoomSampler) -> Self {
        let snapshot = &measure.snapshot;
        let mut unseen = Vec::new();
        let has_swap = snapshot.swaps.value().is_some_and(|swaps| !swaps.is_empty());
        let version = snapshot.origin.kernel.map(|kernel| (kernel.major, kernel.minor));
        let takes_swappiness = version.is_some_and(|version| version >= WITH_SWAPPINESS);
        let mut reclaim = Self::reclaim_by(measure, &mut unseen);
        if reclaim.is_some() && !takes_swappiness && has_swap && !measure.consent.swap {
            let why = "before Linux 6.9 it may swap out memory of other programs; allow it with --allow-swap";
            unseen.push(Missing::skipped("memory.reclaim", why));
            reclaim = None;
        }
        let node = first_node(snapshot);
        let compact = compact_file(node).is_some();
        if !compact {
            let why = "this kernel does not compact on request";
            unseen.push(Missing::absent("/sys/devices/system/node/nodeN/compact", why));
        }
        let capabilities = Capabilities {
            reclaim: reclaim.is_some(),
            compact,
            consent: measure.consent,
            has_swap,
        };
        Self { kernel: Kernel::live(), capabilities, reclaim, takes_swappiness, unseen }
    }

    fn reclaim_by(measure: &RoomSampler, unseen: &mut Vec<Missing>) -> Option<ReclaimBy> {
        let snapshot = &measure.snapshot;
        let node = measure.request.node.unwrap_or_else(|| first_node(snapshot));
        if Path::new(&reclaim_file(node)).exists() {
            return Some(ReclaimBy::Node);
        }
        let groups = snapshot.cgroups.value().filter(|groups| groups.version == CgroupVersion::V2);
        let file = groups.map(|groups| format!("{}/memory.reclaim", groups.mount));
        let Some(file) = file.filter(|file| Path::new(file).exists()) else {
            let why = "needs Linux 6.17, or 5.19 with memory cgroups of version 2";
            unseen.push(Missing::absent("reclaim on request", why));
            return None;
        };
        let nodes = snapshot.nodes.value().map_or(1, Vec::len);
        if nodes > 1 && measure.request.node.is_some() {
            let why = "it would take memory of all nodes; reclaim of one node needs Linux 6.17";
            unseen.push(Missing::skipped(file, why));
            return None;
        }
        Some(ReclaimBy::Group(file))
    }

    /// Reclaims or compacts. How much it has provided is measured afterwards.
    pub(crate) fn perform(&self, step: &RoomStep) -> Result<(), RoomError> {
        let swappiness = match step.kind {
            RoomStepKind::Reclaim => CACHE_ONLY,
            RoomStepKind::Swap => MOSTLY_ANONYMOUS,
            RoomStepKind::Compact => {
                let file = compact_file(step.node);
                return file.map_or(Ok(()), |file| write(&self.kernel, &file, "1"));
            }
            RoomStepKind::DropRead
            | RoomStepKind::Migrate
            | RoomStepKind::GrowPool
            | RoomStepKind::ForcePool => {
                return Ok(());
            }
        };
        let file = match &self.reclaim {
            Some(ReclaimBy::Node) => reclaim_file(step.node),
            Some(ReclaimBy::Group(file)) => file.clone(),
            None => return Ok(()),
        };
        let bytes = step.bytes;
        let value = match self.takes_swappiness {
            true => format!("{bytes} swappiness={swappiness}"),
            false => bytes.to_string(),
        };
        write(&self.kernel, &file, &value)
    }
}

fn reclaim_file(node: u32) -> String {
    format!("/sys/devices/system/node/node{node}/reclaim")
}

/// A kernel without NUMA compacts all memory.
fn compact_file(node: u32) -> Option<String> {
    let of_node = format!("/sys/devices/system/node/node{node}/compact");
    let of_all = "/proc/sys/vm/compact_memory".to_owned();
    [of_node, of_all].into_iter().find(|file| Path::new(file).exists())
}

fn first_node(snapshot: &Snapshot) -> u32 {
    snapshot.nodes.value().and_then(|nodes| nodes.first()).map_or(0, |node| node.id)
}

/// Writes an action, which leaves no setting. That less was reclaimed than requested is no failure.
fn write(kernel: &Kernel, file: &str, value: &str) -> Result<(), RoomError> {
    match kernel.write(file, value) {
        Err(KernelError::Io { source, .. })
            if matches!(
                Errno::from_io_error(&source),
                Some(Errno::AGAIN | Errno::BUSY | Errno::INTR)
            ) =>
        {
            Ok(())
        }
        written => written.map_err(RoomError::Step),
    }
}

/// Drops the clean pages behind the position of these files until `bytes` are dropped, and removes those files from the
/// list. Pages that a program maps stay.
pub(crate) fn drop_read(files: &mut Vec<SequentialFile>, bytes: u64) -> u64 {
    let mut dropped = 0;
    let mut used = 0;
    for file in files.iter() {
        if dropped >= bytes {
            break;
        }
        used += 1;
        let length = NonZeroU64::new(file.position);
        if fadvise(&file.file, 0, length, Advice::DontNeed).is_ok() {
            let left = mw_collect::clean_bytes_before(&file.file, file.position);
            dropped += file.clean_bytes.saturating_sub(left.unwrap_or(0));
        }
    }
    files.drain(..used);
    dropped
}
