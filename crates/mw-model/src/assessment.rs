//! Assessment of a request: the constraints on it, from which the answer follows, and the sources of its memory. It
//! has no words; mw-render makes them.

use crate::caller::GroupLimit;
use crate::{
    Answer, FolioSupply, HugePool, Missing, NodeAccount, PoolGrowth, Request, ResourceLimit, Share,
    TimeEstimate,
};

/// An assessed [`Request`].
#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    pub request: Request,
    /// In the order of the stages that found them.
    pub constraints: Vec<Constraint>,
    pub sources: MemorySources,
    /// Contribution of each node.
    pub nodes: Vec<NodeAccount>,
    /// Size of the machine, if the request exceeds it: no setting makes it succeed.
    pub ceiling: Option<Ceiling>,
    /// Time that one thread takes, once it was estimated from a calibration.
    pub time: Option<TimeEstimate>,
    /// Free space of /dev/shm, where that is less than the request.
    pub dev_shm_bytes: Option<u64>,
}

impl Assessment {
    pub fn answer(&self) -> Answer {
        Answer::from_constraints(&self.constraints)
    }

    /// Evidence that could not be read, each once.
    pub fn unread(&self) -> Vec<Missing> {
        let mut unread = Vec::new();
        for constraint in &self.constraints {
            if let ConstraintKind::Unread(missing) | ConstraintKind::UnreadFolioBlocks(missing) =
                &constraint.kind
                && !unread.contains(missing)
            {
                unread.push(missing.clone());
            }
        }
        unread
    }

    /// Possible growth of a pool that is too small.
    pub fn pool_growth(&self) -> Option<PoolGrowth> {
        self.constraints.iter().find_map(|constraint| match constraint.kind {
            ConstraintKind::HugePool { growth, .. } => Some(growth),
            _ => None,
        })
    }
}

impl Answer {
    /// The answer that constraints leave; unknown if one of them may refuse what the machine would serve.
    pub fn from_constraints(constraints: &[Constraint]) -> Self {
        match Self::without_doubts(constraints) {
            Self::No => Self::No,
            _ if has(constraints, ConstraintEffect::MayRefuse) => Self::Unknown,
            answer => answer,
        }
    }

    /// The same if nothing refuses that may.
    pub fn without_doubts(constraints: &[Constraint]) -> Self {
        if has(constraints, ConstraintEffect::Refuses) {
            Self::No
        } else if has(constraints, ConstraintEffect::Slows) {
            Self::Slowly
        } else {
            Self::Yes
        }
    }
}

fn has(constraints: &[Constraint], effect: ConstraintEffect) -> bool {
    constraints.iter().any(|constraint| constraint.effect == effect)
}

/// A limit or condition, and its effect on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    pub effect: ConstraintEffect,
    pub kind: ConstraintKind,
    /// Size of it that the request needs.
    pub needed_bytes: Option<u64>,
    pub available_bytes: Option<u64>,
}

impl Constraint {
    pub fn new(
        effect: ConstraintEffect,
        kind: ConstraintKind,
        needed_bytes: impl Into<Option<u64>>,
        available_bytes: impl Into<Option<u64>>,
    ) -> Self {
        let (needed_bytes, available_bytes) = (needed_bytes.into(), available_bytes.into());
        Self { effect, kind, needed_bytes, available_bytes }
    }

    /// Evidence that could not be read, without which the answer stands.
    pub fn unread(missing: Missing) -> Self {
        Self::new(ConstraintEffect::Informs, ConstraintKind::Unread(missing), None, None)
    }

    /// By how much the request exceeds it.
    pub fn lacking_bytes(&self) -> u64 {
        self.needed_bytes.unwrap_or(0).saturating_sub(self.available_bytes.unwrap_or(u64::MAX))
    }
}

/// Effect of a constraint on the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintEffect {
    Refuses,
    /// Makes the answer unknown.
    MayRefuse,
    Slows,
    /// None: some programs meet it, or it is an obstacle of the way that was chosen.
    Informs,
}

/// The limit or condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConstraintKind {
    Unread(Missing),
    /// Free blocks that folios are made of.
    UnreadFolioBlocks(Missing),
    UnreachableNode(UnreachableNode),
    /// All that can be allocated on a node, or on the machine.
    Memory {
        node: Option<u32>,
        /// True if more swap would help.
        swap_helps: bool,
        /// The largest part of the unreclaimable memory.
        largest: Option<Share>,
        /// Where `vm.min_free_kbytes` keeps free what is missing, the value, in KiB, with which it does not.
        min_free_kib: Option<u64>,
    },
    /// The last of the memory, of which the kernel may keep some.
    LastMemory,
    Dirty,
    Swap,
    BelowWatermarks,
    /// `vm.zone_reclaim_mode`.
    ZoneReclaim {
        mode: u64,
    },
    /// A pool that is too small, on one node if that is requested.
    HugePool {
        pool: HugePool,
        node: Option<u32>,
        growth: PoolGrowth,
    },
    /// The kernel has no pool of such pages, but of these sizes.
    NoHugePool {
        page_bytes: u64,
        sizes: Vec<u64>,
    },
    SurplusPages,
    /// A limit of the hugetlb controller.
    HugetlbGroup {
        path: String,
        file: String,
    },
    ThpDisabled,
    /// Free blocks for transparent huge pages.
    ThpBlocks {
        defrag: Option<String>,
    },
    /// Folios of this size are not allowed, or of no size.
    FoliosNotAllowed {
        page_bytes: Option<u64>,
        why: String,
    },
    FolioBlocks {
        page_bytes: u64,
        defrag: Option<String>,
    },
    /// The heuristic of vm.overcommit_memory 0.
    Overcommit,
    CommitLimit,
    /// A memory cgroup, by its path where it is visible.
    MemoryGroup {
        path: Option<String>,
        limit: GroupLimit,
    },
    /// A resource limit.
    Rlimit {
        resource: ResourceLimit,
        /// True if the hard limit allows what is needed.
        is_within_hard_limit: bool,
    },
    /// The addresses that one process can have.
    AddressSpace,
    ShmMax,
    ShmAll,
    /// Pages of this pool of memwright are of another size.
    OtherPoolPages {
        pool: String,
    },
    /// This pool of memwright, of `size_bytes` in all.
    MemwrightPool {
        pool: String,
        size_bytes: u64,
    },
}

/// The requested node, which can serve nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreachableNode {
    pub node: u32,
    pub reason: UnreachableReason,
    /// Nodes that can be requested instead.
    pub usable: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreachableReason {
    Nonexistent,
    WithoutMemory,
    OutsideCpuset,
}

impl UnreachableNode {
    pub fn what(&self) -> String {
        let node = self.node;
        match self.reason {
            UnreachableReason::Nonexistent => format!("node {node} does not exist"),
            UnreachableReason::WithoutMemory => format!("node {node} has no memory"),
            UnreachableReason::OutsideCpuset => {
                format!("node {node} is not in this process's cpuset")
            }
        }
    }

    pub fn remedy(&self) -> String {
        let which = match self.reason {
            UnreachableReason::Nonexistent | UnreachableReason::WithoutMemory => "with memory",
            UnreachableReason::OutsideCpuset => "that the process may use",
        };
        let usable: Vec<String> = self.usable.iter().map(u32::to_string).collect();
        format!("request a node {which}: {}", usable.join(", "))
    }
}

/// The most that the eligible nodes could provide if they were idle and without limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    /// The eligible nodes, if they are not all of the machine.
    pub nodes: Option<Vec<u32>>,
    pub memory_bytes: u64,
    /// Swap that the request could use.
    pub swap_bytes: u64,
}

/// Sources of the memory of a request. All sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemorySources {
    /// From clean page cache and slab.
    pub clean: u64,
    /// From dirty memory, which has to be written back first.
    pub dirty: u64,
    /// By swapping out other memory, or the request itself.
    pub swapped: u64,
    /// From memory below the watermarks and cache in active use.
    pub scraped: u64,
    /// From other nodes while every page first tries to reclaim the local node.
    pub zone_reclaimed: u64,
    /// Without transparent huge pages, or only after compaction.
    pub not_huge: u64,
    /// In pages that are smaller than the folios that were requested.
    pub not_folio: u64,
    /// Huge pages allocated beyond the pool for the request.
    pub overcommitted: u64,
    /// From free memory that was never touched.
    pub untouched: u64,
    /// Free memory for folios, where they are requested; the largest size first.
    pub folios: Vec<FolioSupply>,
}
