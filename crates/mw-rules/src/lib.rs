//! The catalogue: pure functions from a [`Window`](mw_model::Window) to findings.
//!
//! Nothing here reads a file, a clock or the environment: what a rule knows is in the window, so a
//! finding from a live machine, a captured tree and a recording is the same. [`RULES`] lists the
//! rules, [`check`] runs them all, [`preflight`] answers what a request of a given size would meet.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

mod check;
pub mod preflight;
mod registry;
mod rules;
mod share;
mod watermark;

pub use check::check;
pub use registry::{RULES, Rule, find};
