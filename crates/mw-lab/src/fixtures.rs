//! Makes `fixtures/CASE/VARIANT` from `lab/CASE`: the captured state of a machine in which the
//! case's condition holds (`firing…`) or does not (`quiet…`, and all of `healthy`).

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::case::catalogue;
use crate::case::{CaseKind, Variant};
use crate::command::output_of;
use crate::error::LabError;
use crate::judge::run_outcome;
use crate::vm::accel::Accel;
use crate::vm::guest::{self, GuestBase, Role};
use crate::vm::kernel::Kernel;
use crate::vm::qemu::{self, GuestRun};
use crate::workdir;

#[derive(Debug, Clone)]
pub struct MadeFixture {
    pub name: String,
    /// Unless it passed, the old tree is unchanged.
    pub outcome: Outcome,
    /// From power-on to the guest's first byte.
    pub boot: Option<Duration>,
    pub wall: Duration,
}

/// Makes the fixtures called `names` (`CASE` or `CASE/VARIANT`; none: all of them) under
/// `root/fixtures` from the cases under `root/lab`. `binary` is the `memwright` that captures. An
/// error is one of the lab; a case that failed is an outcome.
pub fn make(
    root: &Path,
    names: &[String],
    binary: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<MadeFixture>, LabError> {
    let mut all = Vec::new();
    let mut variants = catalogue::select(&root.join("lab"), names, &[CaseKind::Rule])?;
    // Those are of a stall, which no captured state shows.
    variants.retain(|variant| variant.watched.is_none());
    let base = GuestBase::new(binary)?;
    for variant in variants {
        let name = variant.full_name();
        progress(&format!("{name}: kernel {}", variant.kernel));
        let made = make_one(root, &variant, &base, name)?;
        let boot = made.boot.map_or(0.0, |d| d.as_secs_f64());
        let wall = made.wall.as_secs_f64();
        progress(&format!("{}: {} (boot {boot:.1} s, total {wall:.1} s)", made.name, made.outcome));
        all.push(made);
    }
    Ok(all)
}

fn make_one(
    root: &Path,
    variant: &Variant,
    base: &GuestBase,
    name: String,
) -> Result<MadeFixture, LabError> {
    let started = Instant::now();
    let fixtures = root.join("fixtures");
    std::fs::create_dir_all(&fixtures).map_err(LabError::io(&fixtures))?;
    let work = workdir::new_in(&fixtures)?;
    let tree = work.path().join("tree");
    let run = run_guest(variant, base)?;
    let outcome = judge(&run);
    if outcome == Outcome::Passed {
        unpack(&run, &tree)?;
        let origin = tree.join("origin.txt");
        std::fs::write(&origin, origin_text(variant, &tree)).map_err(LabError::io(&origin))?;
        replace(&fixtures.join(&name), &tree)?;
    }
    Ok(MadeFixture { name, outcome, boot: run.boot, wall: started.elapsed() })
}

fn run_guest(variant: &Variant, base: &GuestBase) -> Result<GuestRun, LabError> {
    let kernel = Kernel::get(&variant.kernel)?;
    let image = guest::image(base, variant, &kernel, Role::Capture)?;
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

/// `tar` detects the compression.
fn unpack(run: &GuestRun, tree: &Path) -> Result<(), LabError> {
    let archive = tree.with_extension("tar");
    let bytes = run.frames.files.get("tree").map(Vec::as_slice).unwrap_or_default();
    std::fs::write(&archive, bytes).map_err(LabError::io(&archive))?;
    std::fs::create_dir_all(tree).map_err(LabError::io(tree))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(tree).args(["--no-same-owner", "--touch"]);
    output_of(&mut tar, "tar zstd").map(drop)
}

fn origin_text(variant: &Variant, tree: &Path) -> String {
    let release = std::fs::read_to_string(tree.join("proc/sys/kernel/osrelease"));
    let release = release.unwrap_or_else(|_| variant.kernel.clone());
    let machine = &variant.machine;
    let what = format!(
        "QEMU, {} MiB of memory in {} node(s), {} CPUs, {} disk(s), cgroup {}",
        machine.memory_bytes >> 20,
        machine.nodes,
        machine.cpus,
        machine.disks.len(),
        variant.cgroup.name(),
    );
    format!("Linux {}; {what}.\n{}\n", release.trim(), variant.how.trim())
}

/// Replaces `target` with `tree`. Files in `target` itself, such as a test's expectations, are kept.
fn replace(target: &Path, tree: &Path) -> Result<(), LabError> {
    if target.exists() {
        keep_files(target, tree)?;
        std::fs::remove_dir_all(target).map_err(LabError::io(target))?;
    }
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent).map_err(LabError::io(parent))?;
    }
    std::fs::rename(tree, target).map_err(LabError::io(target))
}

/// Copies the regular files directly in `old` to `new`, unless they are there.
fn keep_files(old: &Path, new: &Path) -> Result<(), LabError> {
    for entry in old.read_dir().map_err(LabError::io(old))? {
        let path = entry.map_err(LabError::io(old))?.path();
        let copy = new.join(path.file_name().unwrap_or_default());
        if path.is_file() && !copy.exists() {
            std::fs::copy(&path, &copy).map_err(LabError::io(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_tree_keeps_what_lies_beside_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let (target, tree) = (dir.path().join("case/quiet"), dir.path().join("tree"));
        for (folder, origin) in [(&target, "old"), (&tree, "new")] {
            std::fs::create_dir_all(folder.join("proc")).unwrap();
            std::fs::write(folder.join("origin.txt"), origin).unwrap();
            std::fs::write(folder.join("proc").join(origin), "").unwrap();
        }
        std::fs::write(target.join("expect.txt"), "mine").unwrap();
        replace(&target, &tree).unwrap();
        let text = |name| std::fs::read_to_string(target.join(name)).unwrap_or_default();
        assert_eq!((text("origin.txt"), text("expect.txt")), ("new".into(), "mine".into()));
        assert!(target.join("proc/new").exists() && !target.join("proc/old").exists());
        assert!(!tree.exists());
    }
}
