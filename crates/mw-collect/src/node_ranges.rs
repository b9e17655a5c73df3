//! Anonymous memory of programs by NUMA node: what can be moved from one.

use crate::collector::processes::other_programs;
use crate::source::Source;
use mw_model::Missing;
use mw_proc::maps::Mapping;
use mw_proc::numa_maps::NumaMapping;
use mw_proc::{maps, numa_maps};
use mw_sys::HelperThread;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const WHAT: &str = "memory of programs by node";
/// Time limit of one process: the kernel goes through all of its pages, about 100 GiB in this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit of all processes.
const BUDGET: Duration = Duration::from_secs(20);
const MOST_PROCESSES: usize = 4096;
/// Smallest size that is worth a call.
const LEAST_BYTES: u64 = 1 << 20;
/// A range of which less than one page in so many is on the node takes longer to go through than it is worth.
const SPARSE: u64 = 64;

/// A range of a program's private memory with pages on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRange {
    pub pid: u32,
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// Size of it on the node, in bytes.
    pub bytes: u64,
}

/// Private memory that may be moved from the node, the largest ranges first. Left out is what has a memory policy of
/// its own, which chose the node, what is in pages of a pool, and ranges that are nearly empty. Processes that could not
/// be read in time are left out, too.
///
/// # Errors
/// /proc cannot be read, or the kernel has no NUMA.
pub fn movable_ranges(source: &Source, node: u32) -> Result<Vec<NodeRange>, Missing> {
    if !std::path::Path::new("/proc/self/numa_maps").exists() {
        return Err(Missing::absent("/proc/PID/numa_maps", "this kernel has no NUMA"));
    }
    let until = Instant::now() + BUDGET;
    let call = move |pid, node: &u32| ranges(pid, *node).unwrap_or_default();
    let mut helper = HelperThread::new(PATIENCE, call)
        .map_err(|error| Missing::failed(WHAT, error.to_string()))?;
    let mut found = Vec::new();
    let others = other_programs(source)?.into_iter();
    for pid in others.take(MOST_PROCESSES).take_while(|_| Instant::now() < until) {
        found.extend(helper.run(&[(pid, node)]).into_iter().flatten().flatten());
    }
    found.sort_by_key(|range: &NodeRange| std::cmp::Reverse(range.bytes));
    Ok(found)
}

fn ranges(pid: u32, node: u32) -> Option<Vec<NodeRange>> {
    let read = |file| mw_sys::read_file(format!("/proc/{pid}/{file}")).ok();
    let nodes = numa_maps::parse(&read("numa_maps")?).ok()?;
    let mappings = maps::parse(&read("maps")?).ok()?;
    Some(join(pid, node, &nodes, &mappings, rustix::param::page_size() as u64))
}

fn join(
    pid: u32,
    node: u32,
    nodes: &[NumaMapping],
    mappings: &[Mapping],
    base_bytes: u64,
) -> Vec<NodeRange> {
    let ends: BTreeMap<u64, u64> =
        mappings.iter().filter(|map| !map.shared).map(|map| (map.start, map.end)).collect();
    let of = |mapping: &NumaMapping| {
        let is_base = mapping.page_bytes == Some(base_bytes);
        let bytes = mapping.pages_on(node).min(mapping.anon_pages).saturating_mul(base_bytes);
        let is_movable = is_base && mapping.has_default_policy && bytes >= LEAST_BYTES;
        let end = *ends.get(&mapping.start).filter(|_| is_movable)?;
        let is_dense = end.saturating_sub(mapping.start) <= bytes.saturating_mul(SPARSE);
        is_dense.then_some(NodeRange { pid, start: mapping.start, end, bytes })
    };
    nodes.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_policy_a_pool_or_others_hold_stays() {
        // The last is 1 TiB with 4 MiB in it.
        let nodes = numa_maps::parse(
            b"10000000 default anon=1024 N0=256 N1=768 kernelpagesize_kB=4\n\
              20000000 bind:1 anon=1024 N1=1024 kernelpagesize_kB=4\n\
              30000000 default huge anon=4 N1=4 kernelpagesize_kB=2048\n\
              40000000 default anon=1024 N1=1024 kernelpagesize_kB=4\n\
              50000000 default anon=16 N1=16 kernelpagesize_kB=4\n\
              60000000 default file=/a mapped=1024 N1=1024 kernelpagesize_kB=4\n\
              70000000 default anon=1024 N0=1024 kernelpagesize_kB=4\n\
              100000000 default anon=1024 N1=1024 kernelpagesize_kB=4\n",
        );
        let mappings = maps::parse(
            b"10000000-10400000 rw-p 0 00:00 0\n20000000-20400000 rw-p 0 00:00 0\n\
              30000000-30800000 rw-p 0 00:00 0\n40000000-40400000 rw-s 0 00:00 0\n\
              50000000-50010000 rw-p 0 00:00 0\n60000000-60400000 r--p 0 08:01 7\n\
              70000000-70400000 rw-p 0 00:00 0\n\
              100000000-10100000000 rw-p 0 00:00 0\n",
        );
        let found = join(7, 1, &nodes.unwrap(), &mappings.unwrap(), 4096);
        let only = NodeRange { pid: 7, start: 0x1000_0000, end: 0x1040_0000, bytes: 768 * 4096 };
        assert_eq!(found, [only]);
    }
}
