//! # offline-memory
//!
//! Memory that was added to the machine is offline.
//!
//! ## What it finds
//! Blocks of memory behind the end of all zones (/proc/zoneinfo) that are offline (/sys/devices/system/memory), at least 5% of
//! memory together. A block that was taken offline within the zones is not found: that was a choice.
//!
//! ## Why it hurts
//! The kernel knows the memory and does not use it: it is neither free nor in MemTotal. The hypervisor or the firmware shows
//! a larger machine than `free` does.
//!
//! ## What it looks like
//! Memory was added to a running virtual machine, or a device of memory (CXL, persistent memory as RAM) was
//! configured, and MemTotal did not grow. `lsmem` lists ranges that are offline.
//!
//! ## How to fix it
//! Set the blocks online, and have the kernel do so with those to come: `online` in
//! /sys/devices/system/memory/auto_online_blocks, or a rule of udev. `online_movable` keeps the memory removable, and no
//! kernel object is allocated from it.
//!
//! ## Threshold
//! 5% of memory, a note: nothing stalls as long as the rest suffices. On s390x standby memory is offline until it
//! is set online.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/memory-hotplug.rst; drivers/base/memory.c.

use crate::share::percent;
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Step, Window, derived, format_bytes,
    format_count,
};

const NOTE_PERCENT: f64 = 5.0;

const AUTO_ONLINE: &str = "/sys/devices/system/memory/auto_online_blocks";

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let blocks = snapshot.memory_blocks.required()?;
    let count = blocks.offline.len() as u64;
    let bytes = count.saturating_mul(blocks.block_bytes);
    let memory = derived::memory_bytes(&snapshot.sample)?;
    if percent(bytes, memory) < NOTE_PERCENT {
        return Ok(Vec::new());
    }
    let headline = format!(
        "{} of added memory are offline, besides the {} that are in use: {}",
        format_bytes(bytes),
        format_bytes(memory),
        format_count(count, "block")
    );
    let mut steps: Vec<Step> = Vec::new();
    if let Some(first) = blocks.offline.first() {
        let path = format!("/sys/devices/system/memory/memory{first}/state");
        steps.push(Step::manual(format!(
            "echo online > {path}, and so for each that lsmem lists as offline"
        )));
    }
    steps.push(Step::manual(format!("echo online > {AUTO_ONLINE}")));
    let mut finding = Finding::new(Severity::Note, Area::Memory, headline)
        .with_evidence("offline", Quantity::Bytes(bytes), "/sys/devices/system/memory")
        .with_evidence("MemTotal", Quantity::Bytes(memory), "/proc/meminfo");
    if let Some(policy) = &blocks.auto_online {
        finding = finding.with_evidence(
            "auto_online_blocks",
            Quantity::Text(policy.clone()),
            AUTO_ONLINE,
        );
    }
    Ok(vec![
        finding
            .with_impact("The kernel does not use this memory until its blocks are set online.")
            .with_remedy(Remedy::named(
                "set the blocks online, and have the kernel do so with those that are added later",
                steps,
            )),
    ])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{MemoryBlocks, Reading, Snapshot};
    use mw_proc::meminfo::Meminfo;

    /// Promise (Findings): Memory that was added and is offline is reported, with what sets it online.
    #[test]
    fn a_large_share_that_is_offline_is_a_note() {
        let found = |offline: u64| {
            let mut snapshot = Snapshot::default();
            let meminfo = Meminfo { mem_total_bytes: Some(4 << 30), ..Meminfo::default() };
            snapshot.sample.meminfo = Reading::Value(meminfo);
            snapshot.memory_blocks = Reading::Value(MemoryBlocks {
                block_bytes: 128 << 20,
                offline: (32..32 + offline).collect(),
                auto_online: Some("offline".to_owned()),
            });
            hazard(&Window::new(snapshot)).unwrap().pop()
        };
        assert_eq!(found(0), None);
        assert_eq!(found(1), None, "3%");
        let finding = found(16).unwrap();
        assert_eq!(finding.severity, Severity::Note);
        assert!(finding.headline.starts_with("2 GiB of added memory are offline"));
    }
}
