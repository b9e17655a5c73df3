//! The lab: creates memory conditions in small virtual machines with stock distribution kernels, and
//! judges what memwright does about them.
//!
//! A *case* is a directory `lab/NAME`:
//! - `case.toml`: the machine, the variants, and what each promises (case.rs);
//! - `make.sh`, run in the guest as `make.sh VARIANT`: creates the condition and leaves it in force;
//! - `measure.sh`, where there is an effect to measure, run as `measure.sh VARIANT PHASE` in each phase:
//!   prints lines `NAME VALUE UNIT`;
//! - `setup.sh`, for mounts and servers that the first measurement needs;
//! - programs in C, compiled for the guest: `tick.c` is `tick` there. Every guest has busybox,
//!   `memwright`, `hold`, which holds memory, and `took`, which times a command (lab/guest).
//!
//! A script writes the reason of a failure to /run/why, and exits with 77 where the case cannot run on this
//! kernel. Files in /run/keep come back with the logs.
//!
//! ```text
//! case.toml ─ Case ─ Machine ┐
//! kernel package ─ Kernel ───┼→ QEMU → console, frames → GuestRun ─┬→ judge → CaseRun → report
//! scripts, programs ─ image ─┘                                     └→ capture → fixture
//! ```
//! `case` knows nothing of the others; `vm` boots a variant; `judge` holds what came back against what
//! the case promises, in pure functions; `runner` joins them, and `report` renders the runs. In the guest,
//! lab/guest/check.sh goes through the phases (before, during, fixed, reverted), watch.sh runs the
//! recorder, and capture.sh makes a fixture.
//!
//! An *evaluation* is a case whose variants are options that are compared; it runs only when it is named
//! (case/evaluation.rs). Nothing outlives a run: the machine is killed when its handle is dropped or its
//! time limit is reached, and images live in a temporary directory.

#![allow(missing_docs, reason = "a doc comment that repeats the name is noise")]

pub mod case;
mod command;
pub mod error;
pub mod fixtures;
pub mod interrupt;
pub mod judge;
mod outcome;
pub mod report;
pub mod runner;
pub mod vm;
mod workdir;

pub use case::evaluation::{Claim, Evaluation};
pub use case::machine::{DiskFormat, GuestDisk, GuestMachine, NetworkLink};
pub use case::{Case, CaseKind, Variant, catalogue};
pub use error::LabError;
pub use outcome::Outcome;
pub use report::logs;
pub use runner::{CaseRun, Lab};
pub use vm::kernel::{self, GuestKernel};
pub use vm::qemu::GuestRun;
