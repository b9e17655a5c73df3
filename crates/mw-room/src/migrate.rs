//! Moves memory of other programs to another node.

use mw_collect::NodeRange;
use mw_sys::{is_termination_requested, move_pages_to_node, nodes_of_pages};
use std::time::{Duration, Instant};

/// Pages of one system call: the kernel holds the process's lock for no longer.
const PAGES: u64 = 4096;
/// The longest step: what it has cost others is known only when it is over.
const STEP_TIME: Duration = Duration::from_secs(2);

/// Moves pages of these ranges from one node to another until `bytes` are moved or the step has lasted long enough,
/// and removes what was gone through from the list. What cannot be moved stays where it is.
pub(crate) fn migrate(ranges: &mut Vec<NodeRange>, bytes: u64, from: u32, to: u32) {
    let page = rustix::param::page_size() as u64;
    let until = Instant::now() + STEP_TIME;
    let mut moved = 0;
    ranges.reverse();
    while moved < bytes && Instant::now() < until && !is_termination_requested() {
        let Some(range) = ranges.pop() else { break };
        let end = range.end.min(range.start.saturating_add(PAGES * page));
        let pages: Vec<u64> = (range.start..end).step_by(page as usize).collect();
        let Some(count) = move_chunk(range.pid, &pages, from, to) else { continue };
        moved += count as u64 * page;
        if end < range.end {
            ranges.push(NodeRange { start: end, ..range });
        }
    }
    ranges.reverse();
}

/// Number of these pages that were moved; `None` if no further page of the process can be.
fn move_chunk(pid: u32, pages: &[u64], from: u32, to: u32) -> Option<usize> {
    let nodes = nodes_of_pages(pid, pages).ok()?;
    let here = pages.iter().zip(nodes).filter(|(_, node)| *node == Some(from));
    let here: Vec<u64> = here.map(|(page, _)| *page).collect();
    if here.is_empty() {
        return Some(0);
    }
    move_pages_to_node(pid, &here, to).ok()
}
