//! The lab: small virtual machines with stock distribution kernels, in which a memory condition is
//! made for real, and from which files are brought back.
//!
//! A *case* is a folder `lab/NAME`:
//! - `case.toml`: which machine, in which variants, and what each promises (case.rs);
//! - `make.sh`, run inside the guest as `make.sh VARIANT`: makes the condition and leaves it in force;
//! - `measure.sh`, where there is an effect to be measured, run as `measure.sh VARIANT PHASE` in each
//!   phase: prints lines `NAME VALUE UNIT`;
//! - `setup.sh`, where something has to be there before the first measurement;
//! - programs in C, compiled for the guest: `tick.c` is `tick` there. Every guest has busybox,
//!   `memwright`, `hold`, which holds memory, and `took`, which times a command (lab/guest).
//!
//! A script says in /run/why what went wrong, and ends with 77 where the case cannot be tried on this
//! kernel. What a case leaves in /run/keep comes back with the logs.
//!
//! The way of a run:
//! ```text
//! case.toml ─ Case ─ Machine ┐
//! kernel package ─ Kernel ───┼→ QEMU → console, frames → Run ─┬→ judge → Play → report
//! scripts, programs ─ Image ─┘                                └→ capture → fixture
//! ```
//! A guest plays (before, make, during, fix, fixed, undo, undone), watches (the recorder runs while the
//! condition is made) or captures; lab/guest/play.sh, watch.sh and capture.sh are its side of it. What it promises is judged here alone, by pure functions.
//! An *evaluation* is a case whose variants are options that are measured against each other, and that
//! is played only when it is named (evaluation.rs).
//! Nothing outlives a run: the machine is killed when its handle is dropped or its time is up, and
//! images live in a temporary folder.

pub mod accel;
pub mod case;
pub mod cases;
pub mod confusion;
pub mod error;
pub mod evaluation;
pub mod expect;
pub mod fixtures;
pub mod guest;
pub mod host;
pub mod initramfs;
pub mod interrupt;
pub mod judge;
pub mod kernel;
pub mod klog;
pub mod logs;
pub mod machine;
pub mod play;
pub mod port;
pub mod qemu;
pub mod report;
mod rounds;
pub mod serial;
pub mod transcript;
pub mod verdict;
mod vmlinuz;
pub mod watched;
mod workdir;

pub use case::{Case, Kind, Variant};
pub use error::LabError;
pub use evaluation::{Claim, Evaluation};
pub use kernel::Kernel;
pub use machine::{Disk, DiskFormat, Machine};
pub use play::{Lab, Play};
pub use qemu::Run;

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "outcome", content = "why", rename_all = "lowercase")]
pub enum Outcome {
    /// It did what it says.
    Passed,
    /// It did not, and this is what was seen.
    Failed(String),
    /// It could not be tried here, and this is what is missing.
    Skipped(String),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Passed => f.write_str("passed"),
            Outcome::Failed(why) => write!(f, "failed: {why}"),
            Outcome::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}
