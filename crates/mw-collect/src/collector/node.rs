//! /sys/devices/system/node: NUMA nodes.

use super::hugepages;
use crate::source::Source;
use mw_model::{Missing, Node};
use mw_proc::{cpulist, number};

const DIR: &str = "/sys/devices/system/node";

/// The most nodes of one machine: the kernel's own limit on x86 (MAX_NUMNODES).
pub(crate) const MAX_NODES: usize = 1024;

pub(crate) fn collect(source: &Source) -> Result<Vec<Node>, Missing> {
    let mut ids: Vec<u32> = source
        .list(DIR)?
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .take(MAX_NODES)
        .collect();
    if ids.is_empty() {
        return Err(source.not_there(Missing::absent(DIR, "no node in it")));
    }
    ids.sort_unstable();
    Ok(ids.into_iter().map(|id| node(source, id)).collect())
}

fn node(source: &Source, id: u32) -> Node {
    let dir = format!("{DIR}/node{id}");
    Node {
        id,
        cpus: source.parse(&format!("{dir}/cpulist"), cpulist::parse).unwrap_or_default(),
        distances: source
            .parse(&format!("{dir}/distance"), number::parse_list_u64)
            .unwrap_or_default(),
        hugepages: hugepages::pools(source, &format!("{dir}/hugepages")).unwrap_or_default(),
    }
}
