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
//! - `notes`: obstacles, and what could not be read.
//! - `plan`: how much each node contributes, and from what.
//! - `time`: how long it takes; `backing`: what the host of a virtual machine has to back first; `span`:
//!   a value with its range.
//! - `summary`: the answer in one line.

mod backing;
mod ceiling;
mod disk;
mod folios;
pub(crate) mod growth;
pub(crate) mod hugetlb;
mod limits;
mod memwright_pool;
pub(crate) mod node_memory;
pub(crate) mod notes;
mod plan;
mod protected;
mod span;
mod summary;
#[cfg(test)]
mod tests;
mod thp;
mod time;
mod unreclaimable;

pub(crate) use disk::bytes_per_s as disk_bytes_per_s;
pub use memwright_pool::from_pool;
use mw_model::{
    Answer, Calibration, Missing, Obstacle, PageSize, PoolGrowth, Preflight, Request, Snapshot,
    Window,
};
use node_memory::NodeMemory;
use notes::Notes;
use plan::Plan;

/// Answers a request from a snapshot; with a calibration, also how long it takes.
///
/// # Errors
/// meminfo was not read.
pub fn answer(
    window: &Window,
    request: &Request,
    calibration: Option<&Calibration>,
) -> Result<Preflight, Missing> {
    let snapshot = &window.now;
    let mut notes = Notes::default();
    let nodes = node_memory::read(snapshot, request, &mut notes)?;
    if let Some(obstacle) = node_memory::unreachable_node(snapshot, request, &nodes) {
        return Ok(refused(request, obstacle, notes));
    }
    let plan = match request.page {
        PageSize::Hugetlb(page_bytes) => {
            hugetlb::plan(snapshot, request, page_bytes, &nodes, &mut notes)
        }
        PageSize::Base | PageSize::Thp | PageSize::Folio(_) | PageSize::Best => {
            ordinary(snapshot, request, &nodes, &mut notes)
        }
    };
    limits::check(snapshot, request, &mut notes);
    if let Some(ceiling) = ceiling::exceeded(snapshot, request, &nodes) {
        notes.beyond(&ceiling);
    }
    let machine = notes.answer(plan.is_slow());
    let answer = notes.within_limits(machine);
    let nodes = plan.accounts(&nodes, request);
    let time = match (answer, calibration) {
        (Answer::No, _) | (_, None) => None,
        (_, Some(calibration)) => {
            time::estimate(snapshot, request, &plan, &nodes, calibration, &notes)
                .map_err(|missing| notes.unseen(&missing))
                .ok()
        }
    };
    notes.sort();
    let mut summary = summary::for_answer(request, machine, &nodes, time.as_ref(), &notes);
    if let Some(why) = notes.undecided.as_ref().filter(|_| answer == Answer::Unknown) {
        summary = summary::for_unknown(why, &summary);
    }
    Ok(Preflight {
        request: request.clone(),
        answer,
        summary,
        nodes,
        time,
        obstacles: notes.obstacles,
        pool_growth: notes.pool_growth,
        folios: notes.folios,
        unseen: notes.unseen,
    })
}

/// The machine's answer to a request for base pages, without the limits of the calling process.
///
/// # Errors
/// meminfo was not read.
pub(crate) fn of_machine(snapshot: &Snapshot, size_bytes: u64) -> Result<Answer, Missing> {
    let request = base_pages(size_bytes);
    let mut notes = Notes::default();
    let nodes = node_memory::read(snapshot, &request, &mut notes)?;
    let plan = ordinary(snapshot, &request, &nodes, &mut notes);
    Ok(notes.within_limits(notes.answer(plan.is_slow())))
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
    let nodes = node_memory::read(snapshot, &base_pages(0), &mut Notes::default())?;
    let supply = |node: &NodeMemory| HugeSupply {
        growth: growth::of_node(snapshot, page_bytes, node, 0),
        total_bytes: node.total,
        ready_bytes: node.free.saturating_add(node.clean),
    };
    Ok(nodes.iter().map(|node| (node.node, supply(node))).collect())
}

/// The answer where one obstacle rules the request out by itself.
fn refused(request: &Request, obstacle: Obstacle, mut notes: Notes) -> Preflight {
    notes.obstacles = vec![obstacle];
    Preflight {
        request: request.clone(),
        answer: Answer::No,
        summary: summary::for_answer(request, Answer::No, &[], None, &notes),
        nodes: Vec::new(),
        time: None,
        obstacles: notes.obstacles,
        pool_growth: None,
        folios: Vec::new(),
        unseen: notes.unseen,
    }
}

/// Memory from the free lists and from reclaim.
fn ordinary(
    snapshot: &Snapshot,
    request: &Request,
    nodes: &[NodeMemory],
    notes: &mut Notes,
) -> Plan {
    let mut plan = plan::ordinary(snapshot, request, nodes, notes);
    match request.page {
        PageSize::Thp => plan.not_huge_bytes = thp::not_huge_bytes(snapshot, request, notes),
        PageSize::Folio(_) | PageSize::Best => {
            plan.not_folio_bytes = folios::not_folio_bytes(snapshot, request, nodes, notes);
        }
        PageSize::Base | PageSize::Hugetlb(_) => {}
    }
    plan
}
