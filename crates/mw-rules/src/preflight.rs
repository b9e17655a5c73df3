//! Preflight: the answer to `check --for SIZE[,lock][,huge=…][,page=…][,node=N]`.
//!
//! It follows the kernel's arithmetic, with a margin on both sides: *yes* counts only what the kernel
//! certainly allocates without a wait (free memory above the high watermark, clean page cache less a
//! reserve); *no* means that even every last free and reclaimable page is not enough, or that a limit
//! refuses the request. Everything between is *slowly*. If a limit on the calling process could not
//! be determined, or refuses the request to some programs and not to others, both *yes* and *slowly* become
//! *unknown*.
//!
//! - `ceiling`: requests beyond the size of the machine, which no setting can help.
//! - `node_memory`: each node's free, reclaimable and unreclaimable memory.
//! - `protected`: what cgroups keep of the reclaimable memory.
//! - `unreclaimable`: what the unreclaimable memory consists of.
//! - `hugetlb`: pages of a hugetlb pool; `growth`: how far it can be grown; `thp`: blocks for transparent huge
//!   pages; `folios`: blocks for smaller ones.
//! - `limits`: overcommit, cgroups, resource limits, shared memory.
//! - `memwright_pool`: memory of a pool of `memwright pool`.
//! - `facts`: the request, the snapshot and the nodes, which every stage needs.
//! - `plan`: how much each node contributes, and from what.
//! - `time`: how long it takes; `backing`: what the host of a virtual machine has to back first; `span`:
//!   a value with its range.
//!
//! Each stage returns constraints, from which the answer follows (`Answer::from_constraints`). They have no words:
//! mw-render makes them.

mod backing;
mod ceiling;
mod disk;
pub(crate) mod facts;
mod folios;
pub(crate) mod growth;
pub(crate) mod hugetlb;
mod limits;
mod memwright_pool;
pub(crate) mod node_memory;
mod plan;
mod span;
#[cfg(test)]
mod tests;
mod thp;
mod time;
mod unreclaimable;

use crate::shared_memory;
pub(crate) use disk::bytes_per_s as disk_bytes_per_s;
use facts::RequestFacts;
pub use memwright_pool::from_pool;
use mw_model::{
    Answer, Assessment, Calibration, Constraint, ConstraintEffect, ConstraintKind, MemorySources,
    Missing, PageSize, PoolGrowth, Request, Snapshot, Window,
};
use node_memory::NodeMemory;
use plan::SupplyPlan;

/// Assesses a request from a snapshot.
///
/// # Errors
/// meminfo was not read.
pub fn assess(window: &Window, request: &Request) -> Result<Assessment, Missing> {
    let facts = RequestFacts::read(&window.now, request)?;
    let unread = facts.unread.iter().cloned().map(Constraint::unread);
    let mut assessment = Assessment {
        request: request.clone(),
        constraints: unread.collect(),
        sources: MemorySources::default(),
        nodes: Vec::new(),
        ceiling: None,
        time: None,
        dev_shm_bytes: None,
    };
    if let Some(node) = facts.unreachable_node() {
        let kind = ConstraintKind::UnreachableNode(node);
        let constraint = Constraint::new(ConstraintEffect::Refuses, kind, None, None);
        assessment.constraints.push(constraint);
        return Ok(assessment);
    }
    let plan = supply_plan(&facts);
    assessment.nodes = plan.accounts(&facts);
    assessment.sources = plan.sources;
    assessment.constraints.extend(plan.constraints);
    assessment.constraints.extend(limits::constraints(&facts));
    assessment.ceiling = ceiling::exceeded(&facts);
    if !matches!(request.page, PageSize::Hugetlb(_)) {
        let room = shared_memory::posix_room(&window.now);
        assessment.dev_shm_bytes = room.filter(|room| *room < request.size_bytes);
    }
    Ok(assessment)
}

/// Adds the time that an assessed request takes, unless it is refused, as a calibration of the machine tells.
pub fn add_time(assessment: &mut Assessment, window: &Window, calibration: &Calibration) {
    if assessment.answer() == Answer::No {
        return;
    }
    match time::estimate(&window.now, assessment, calibration) {
        Ok(time) => assessment.time = Some(time),
        Err(missing) => assessment.constraints.push(Constraint::unread(missing)),
    }
}

/// Plan of a request by the kind of its pages.
fn supply_plan(facts: &RequestFacts<'_>) -> SupplyPlan {
    let mut plan = match facts.request.page {
        PageSize::Hugetlb(page_bytes) => return hugetlb::plan(facts, page_bytes),
        PageSize::Base | PageSize::Thp | PageSize::Folio(_) | PageSize::Best => {
            plan::ordinary(facts)
        }
    };
    match facts.request.page {
        PageSize::Thp => add_thp(&mut plan, facts),
        PageSize::Folio(_) | PageSize::Best => add_folios(&mut plan, facts),
        PageSize::Base | PageSize::Hugetlb(_) => {}
    }
    plan
}

fn add_thp(plan: &mut SupplyPlan, facts: &RequestFacts<'_>) {
    let found = thp::constraint(facts);
    let found = found.unwrap_or_else(|missing| Some(Constraint::unread(missing)));
    plan.sources.not_huge = found.as_ref().map_or(0, Constraint::lacking_bytes);
    plan.constraints.extend(found);
}

fn add_folios(plan: &mut SupplyPlan, facts: &RequestFacts<'_>) {
    let found = match folios::supplies(facts) {
        Ok(supplies) => {
            plan.sources.folios = supplies;
            folios::constraint(facts, &plan.sources.folios)
        }
        Err(missing) => {
            let kind = ConstraintKind::UnreadFolioBlocks(missing);
            Some(Constraint::new(ConstraintEffect::MayRefuse, kind, None, None))
        }
    };
    let slows = found.as_ref().filter(|found| found.effect == ConstraintEffect::Slows);
    plan.sources.not_folio = slows.map_or(0, Constraint::lacking_bytes);
    plan.constraints.extend(found);
}

/// The machine's answer to a request for base pages, without the limits of the calling process.
///
/// # Errors
/// meminfo was not read.
pub(crate) fn of_machine(snapshot: &Snapshot, size_bytes: u64) -> Result<Answer, Missing> {
    let plan = supply_plan(&RequestFacts::read(snapshot, &base_pages(size_bytes))?);
    Ok(Answer::from_constraints(&plan.constraints))
}

fn base_pages(size_bytes: u64) -> Request {
    Request { size_bytes, lock: false, page: PageSize::Base, node: None }
}

/// Memory that a node can provide in huge pages. All sizes in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HugeSupply {
    /// Now, and after reclaim and compaction where the snapshot has the page blocks.
    pub(crate) growth: PoolGrowth,
    /// All memory of the node.
    pub(crate) total_bytes: u64,
    /// Free, and clean page cache.
    pub(crate) ready_bytes: u64,
}

/// Memory that each node can provide in huge pages of `page_bytes`, by its number.
///
/// # Errors
/// meminfo was not read.
pub(crate) fn huge_supplies(
    snapshot: &Snapshot,
    page_bytes: u64,
) -> Result<Vec<(u32, HugeSupply)>, Missing> {
    let request = base_pages(0);
    let facts = RequestFacts::read(snapshot, &request)?;
    let supply = |node: &NodeMemory| HugeSupply {
        growth: growth::of_node(snapshot, page_bytes, node, 0),
        total_bytes: node.total,
        ready_bytes: node.free.saturating_add(node.clean),
    };
    Ok(facts.nodes.iter().map(|node| (node.node, supply(node))).collect())
}
