//! Files of a snapshot that contradict each other: what [`mw_memory::contradictions`] finds in meminfo, and the nodes,
//! zones and cgroups that have more than the machine.

use crate::{Snapshot, derived};
use mw_memory::{Contradiction, exceeds};
use mw_proc::zoneinfo::Zone;

/// Source of what cgroups use: `memory.current`, or `memory.usage_in_bytes`.
pub const GROUP_FILES: &str = "memory cgroups";

/// All that contradicts MemTotal, or what it is the sum of.
pub fn all(snapshot: &Snapshot) -> Vec<Contradiction> {
    let Some(meminfo) = snapshot.sample.meminfo.value() else { return Vec::new() };
    let mut found = mw_memory::contradictions(meminfo);
    let Some(total) = meminfo.mem_total_bytes else { return found };
    let of = |counter: String, source, bytes| Contradiction {
        counter,
        source,
        bytes,
        bound: "MemTotal",
        bound_bytes: total,
    };
    let sums = [
        ("MemTotal of all nodes", "/sys/devices/system/node", nodes_bytes(snapshot)),
        ("managed memory of all zones", "/proc/zoneinfo", zones_bytes(snapshot)),
    ];
    let sums = sums.into_iter().filter(|(.., bytes)| exceeds(*bytes, total));
    found.extend(sums.map(|(counter, source, bytes)| of(counter.to_owned(), source, bytes)));
    let groups = snapshot.cgroups.value().into_iter();
    let groups = groups.flat_map(|groups| groups.own.iter().chain(&groups.limited));
    let mut groups: Vec<Contradiction> = groups
        .filter_map(|group| Some((group, group.current_bytes.filter(|b| exceeds(*b, total))?)))
        .map(|(group, bytes)| of(format!("memory of cgroup {}", group.path), GROUP_FILES, bytes))
        .collect();
    groups.dedup();
    found.extend(groups);
    found
}

/// True if a cgroup may use so much memory: no group has more than the machine.
pub fn is_possible_use(snapshot: &Snapshot, bytes: u64) -> bool {
    derived::memory_bytes(&snapshot.sample).map_or(true, |total| !exceeds(bytes, total))
}

/// True if the nodes have more memory than the machine: something else than the kernel answered for one of the files.
pub fn nodes_are_of_another_machine(snapshot: &Snapshot) -> bool {
    let total = derived::memory_bytes(&snapshot.sample);
    total.is_ok_and(|total| exceeds(nodes_bytes(snapshot), total))
}

fn nodes_bytes(snapshot: &Snapshot) -> u64 {
    let nodes = snapshot.sample.nodes.iter().filter_map(|node| node.meminfo.value());
    derived::total(nodes.filter_map(|meminfo| meminfo.mem_total_bytes))
}

fn zones_bytes(snapshot: &Snapshot) -> u64 {
    let zones = snapshot.sample.zoneinfo.value().map_or(&[][..], |info| info.zones.as_slice());
    let managed = zones.iter().filter_map(|zone: &Zone| zone.managed_pages);
    derived::total(managed).saturating_mul(snapshot.origin.page_bytes)
}
