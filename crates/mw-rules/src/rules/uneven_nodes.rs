//! # uneven-nodes
//!
//! One NUMA node has far less memory than the others.
//!
//! ## What it finds
//! A node with CPUs that has less than two thirds of the memory of the other nodes with CPUs, by their median.
//!
//! ## Why it hurts
//! Programs that place the same on each node, as MPI ranks and virtual machines do, get no more than the smallest one has;
//! what is bound to it is swapped out or killed first. With interleaved pages it is full before the others.
//!
//! ## What it looks like
//! `numactl --hardware` shows a node with a smaller size. The sum, which `free` shows, looks as if all were well.
//!
//! ## How to fix it
//! Find where the rest is: a module that is missing or was disabled by the firmware (`dmidecode -t memory`, its event
//! log), blocks that are offline (`lsmem`), or memory that was taken at boot: huge pages of one node, the crash kernel, or
//! the image of a root file system in memory, which is loaded into the highest node and leaves a hole of its size.
//!
//! ## Threshold
//! Two thirds is a note: the kernel and the firmware take a few percent of one node, and a machine may be built so. Nodes
//! without CPUs (persistent memory, CXL) have any size.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/numaperf.rst; numactl(8); lsmem(1).

use crate::share::percent;
use mw_model::{
    Finding, Missing, Quantity, Remedy, Severity, Step, Subject, Window, format_bytes, zones,
};

const NOTE_PERCENT: f64 = 200.0 / 3.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let nodes = snapshot.nodes.required()?;
    let has_cpus = |id: u32| nodes.iter().any(|node| node.id == id && !node.cpus.is_empty());
    let mut sizes: Vec<(u64, u32)> = zones::node_meminfos(snapshot)
        .into_iter()
        .filter(|(node, _)| has_cpus(*node))
        .filter_map(|(node, meminfo)| Some((meminfo.mem_total_bytes?, node)))
        .collect();
    sizes.sort_unstable();
    // Of an even number the larger of the two in the middle, so that two nodes are compared with each other.
    let Some((median, _)) = sizes.get(sizes.len().div_euclid(2)).copied() else {
        return Ok(Vec::new());
    };
    let small = sizes.iter().filter(|(bytes, _)| percent(*bytes, median) < NOTE_PERCENT);
    Ok(small.map(|(bytes, node)| finding(*node, *bytes, median)).collect())
}

fn finding(node: u32, bytes: u64, median: u64) -> Finding {
    let headline = format!(
        "node {node} has {} of memory, less than the other nodes, which have {}",
        format_bytes(bytes),
        format_bytes(median)
    );
    Finding::new(Severity::Note, Subject::Node(node), headline)
        .with_evidence(
            format!("MemTotal of node {node}"),
            Quantity::Bytes(bytes),
            format!("/sys/devices/system/node/node{node}/meminfo"),
        )
        .with_impact(
            "Programs that place the same on each node get what this one has; bound to it, they are killed first.",
        )
        .with_remedy(Remedy::named(
            "find where the rest is: a module that is missing, blocks that are offline, or memory that was taken at boot",
            vec![Step::manual("dmidecode -t memory"), Step::manual("lsmem")],
        ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{Node, NodeSample, Reading, Snapshot};
    use mw_proc::meminfo::Meminfo;

    /// Nodes with so many GiB, of which those behind the first `with_cpus` have no CPUs.
    fn found(gib: &[u64], with_cpus: usize) -> Vec<Finding> {
        let meminfo = |gib: u64| {
            Reading::Value(Meminfo { mem_total_bytes: Some(gib << 30), ..Meminfo::default() })
        };
        let mut snapshot = Snapshot::default();
        snapshot.sample.meminfo = meminfo(gib.iter().sum());
        let numbered = || gib.iter().enumerate().map(|(at, gib)| (at as u32, *gib));
        snapshot.sample.nodes =
            numbered().map(|(node, gib)| NodeSample { node, meminfo: meminfo(gib) }).collect();
        let node = |(id, _): (u32, u64)| {
            let cpus = if (id as usize) < with_cpus { vec![id] } else { Vec::new() };
            Node { id, cpus, ..Node::default() }
        };
        snapshot.nodes = Reading::Value(numbered().map(node).collect());
        hazard(&Window::new(snapshot)).unwrap()
    }

    /// Promise (Findings): A node that has far less memory than the others is reported with both sizes.
    #[test]
    fn a_node_with_half_of_the_memory_is_a_note() {
        let one = &found(&[16, 16, 16, 7], 4)[..];
        let [finding] = one else { panic!("{one:?}") };
        assert_eq!((finding.severity, &finding.subject), (Severity::Note, &Subject::Node(3)));
        let headline = "node 3 has 7 GiB of memory, less than the other nodes, which have 16 GiB";
        assert_eq!(finding.headline, headline);
        assert_eq!(found(&[8, 16], 2).len(), 1);
        assert_eq!(found(&[15, 16, 12], 3), [], "a part of one");
        assert_eq!(found(&[16, 16, 4], 2), [], "a node without CPUs");
        assert_eq!(found(&[16], 1), []);
    }
}
