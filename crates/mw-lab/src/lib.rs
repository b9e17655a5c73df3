//! The lab: small virtual machines with stock distribution kernels, in which a memory condition is
//! made for real, and from which files are brought back.
//!
//! A *case* is a folder `lab/NAME` with `case.toml` (which machine, in which variants) and `make.sh`
//! (run inside the guest as `make.sh VARIANT`; it makes the condition and leaves it in force).
//!
//! The way of a run:
//! ```text
//! case.toml ─ Case ─ Machine ┐
//! kernel package ─ Kernel ───┼→ QEMU → console, frames → Run → Outcome
//! make.sh, programs ─ Image ─┘
//! ```
//! Nothing outlives a run: the machine is killed when its handle is dropped or its time is up, and
//! images live in a temporary folder.

pub mod case;
pub mod error;
pub mod fixtures;
pub mod guest;
pub mod initramfs;
pub mod kernel;
pub mod klog;
pub mod machine;
pub mod qemu;
pub mod serial;
mod workdir;

pub use case::{Case, Variant};
pub use error::LabError;
pub use kernel::Kernel;
pub use machine::{Disk, DiskFormat, Machine};
pub use qemu::Run;

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
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
