//! A node in Slurm's scheduling.
//!
//! - `decision`: what follows from the check and from the node's state; pure
//! - `node`: what `scontrol show node` prints; pure
//! - `scontrol`: runs it, for a limited time
//! - `extra`: what the node offers to jobs that ask for it; pure

mod decision;
mod extra;
mod node;
pub mod scontrol;

pub use decision::{
    DrainDecision, DrainPolicy, DrainReason, Inaction, Judgement, Permissions, decide,
};
pub use extra::MemoryOffer;
pub use node::SlurmNode;
