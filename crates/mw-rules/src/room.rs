//! Room for large memory: how to provide a size of one kind now, the cheapest way first.
//!
//! [`next`] decides from what was measured what to do next; [`plan`] runs it against the expected gain of
//! each step. The order follows what a step costs others: free blocks cost nothing; cache that a sequential
//! reader has left behind is rarely read again; reclaim takes the least recently used cache; compaction moves
//! pages that are in use and helps only where the sum is there; moving memory to other nodes and swapping out need
//! consent, and so does the kernel's own effort for a page of the pool where it may swap.

mod contiguous;
mod next;
mod node_state;
mod plan;
#[cfg(test)]
mod tests;

pub use contiguous::huge_pages_left;
pub use next::{FailedSteps, next};
pub use node_state::{Capabilities, NodeState, RequestPart, RoomConsent, node_states, split};
pub use plan::{RoomPlan, join, plan};
