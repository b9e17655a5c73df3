//! Captures the machines of `lab/CASE`: in them the case's condition holds (`firing…`) or does not (`quiet…`, and all of
//! `healthy`).

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::case::catalogue;
use crate::case::{CaseKind, Variant};
use crate::error::LabError;
use crate::judge::run_outcome;
use crate::vm::accel::Accel;
use crate::vm::guest::{self, GuestBase, GuestRole};
use crate::vm::kernel::GuestKernel;
use crate::vm::qemu::{self, GuestRun};

/// A machine that was captured.
#[derive(Debug, Clone)]
pub struct CapturedVariant {
    /// `CASE/VARIANT`.
    pub name: String,
    pub outcome: Outcome,
    /// What `memwright capture` wrote in the guest; empty unless it passed.
    pub capture: Vec<u8>,
    /// The machine, and how its condition was created.
    pub origin: String,
    /// From power-on to the guest's first byte.
    pub boot: Option<Duration>,
    pub wall: Duration,
}

/// Captures the variants called `names` (`CASE` or `CASE/VARIANT`; none: all of them) of the cases in `lab`, and passes
/// each to `keep`. `binary` is the `memwright` that captures. An error is one of the lab or of `keep`; a case that failed
/// is an outcome.
pub fn capture(
    lab: &Path,
    names: &[String],
    binary: &Path,
    progress: &mut dyn FnMut(&str),
    keep: &mut dyn FnMut(CapturedVariant) -> Result<(), String>,
) -> Result<(), LabError> {
    let mut variants = catalogue::select(lab, names, &[CaseKind::Rule])?;
    // Those are of a stall, which no captured state shows.
    variants.retain(|variant| variant.watched.is_none());
    let base = GuestBase::new(binary)?;
    for variant in variants {
        let name = variant.full_name();
        progress(&format!("{name}: kernel {}", variant.kernel));
        let captured = capture_one(&variant, &base, name.clone())?;
        let boot = captured.boot.map_or(0.0, |d| d.as_secs_f64());
        let wall = captured.wall.as_secs_f64();
        let outcome = &captured.outcome;
        progress(&format!("{name}: {outcome} (boot {boot:.1} s, total {wall:.1} s)"));
        keep(captured).map_err(|problem| LabError::case(&lab.join(name), problem))?;
    }
    Ok(())
}

fn capture_one(
    variant: &Variant,
    base: &GuestBase,
    name: String,
) -> Result<CapturedVariant, LabError> {
    let started = Instant::now();
    let mut run = run_guest(variant, base)?;
    let outcome = judge(&run);
    let capture = match outcome {
        Outcome::Passed => run.frames.files.remove("tree").unwrap_or_default(),
        _ => Vec::new(),
    };
    let (origin, boot, wall) = (origin(variant), run.boot, started.elapsed());
    Ok(CapturedVariant { name, outcome, capture, origin, boot, wall })
}

fn run_guest(variant: &Variant, base: &GuestBase) -> Result<GuestRun, LabError> {
    let kernel = GuestKernel::get(&variant.kernel)?;
    let image = guest::image(base, variant, &kernel, GuestRole::Capture)?;
    qemu::run(&variant.machine, Accel::Tcg, &kernel.image, &image, &mut |_| true)
}

/// The outcome, with the last lines of the console.
fn judge(run: &GuestRun) -> Outcome {
    match run_outcome::run_outcome(run) {
        Outcome::Failed(why) => {
            let tail = run_outcome::console_tail(run).replace('\n', "\n  ");
            Outcome::Failed(format!("{why}; the console's last lines:\n  {tail}"))
        }
        other => other,
    }
}

fn origin(variant: &Variant) -> String {
    let machine = &variant.machine;
    format!(
        "QEMU, {} MiB of memory in {} node(s), {} CPUs, {} disk(s), cgroup {}.\n{}\n",
        machine.memory_bytes >> 20,
        machine.nodes,
        machine.cpus,
        machine.disks.len(),
        variant.cgroup.name(),
        variant.how.trim(),
    )
}
