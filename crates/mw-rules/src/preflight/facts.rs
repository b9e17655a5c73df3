//! The request, the snapshot, and the memory of each node, which every stage needs.

use super::node_memory::{self, NodeMemory};
use mw_model::{Missing, Request, Snapshot, UnreachableNode, UnreachableReason};

/// Basis of an assessment.
pub(crate) struct RequestFacts<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) request: &'a Request,
    pub(crate) nodes: Vec<NodeMemory>,
    /// Files of nodes that could not be read.
    pub(crate) unread: Vec<Missing>,
}

impl<'a> RequestFacts<'a> {
    /// # Errors
    /// meminfo was not read.
    pub(crate) fn read(snapshot: &'a Snapshot, request: &'a Request) -> Result<Self, Missing> {
        let (nodes, unread) = node_memory::read(snapshot, request)?;
        Ok(Self { snapshot, request, nodes, unread })
    }

    /// Nodes that the request may take memory from.
    pub(crate) fn eligible(&self) -> impl Iterator<Item = &NodeMemory> {
        self.nodes.iter().filter(|node| node.eligible)
    }

    /// The requested node, if it can serve nothing, however much is free.
    pub(crate) fn unreachable_node(&self) -> Option<UnreachableNode> {
        let requested = self.request.node?;
        let allowed = self.snapshot.origin.memory_nodes.as_deref();
        let is_usable = |node: &&NodeMemory| {
            node.total > 0 && allowed.is_none_or(|nodes| nodes.contains(&node.node))
        };
        let reason = match self.nodes.iter().find(|node| node.node == requested) {
            None => UnreachableReason::Nonexistent,
            Some(node) if node.total == 0 => UnreachableReason::WithoutMemory,
            Some(node) if !node.eligible => UnreachableReason::OutsideCpuset,
            Some(_) => return None,
        };
        let usable = self.nodes.iter().filter(is_usable).map(|node| node.node).collect();
        Some(UnreachableNode { node: requested, reason, usable })
    }

    pub(super) fn free_swap_bytes(&self) -> Option<u64> {
        self.snapshot.sample.meminfo.value().and_then(|meminfo| meminfo.swap_free_bytes)
    }
}
