//! Makes `fixtures/CASE/VARIANT` from `lab/CASE`: the captured state of a machine in which the
//! case's condition holds (`firing…`) or does not (`quiet…`, and all of `healthy`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::case::{Case, Variant};
use crate::error::LabError;
use crate::guest::{self, output_of};
use crate::kernel::Kernel;
use crate::klog::Trouble;
use crate::qemu::{self, Ended, Run};
use crate::workdir;

/// What became of one fixture.
#[derive(Debug, Clone)]
pub struct Made {
    /// `CASE/VARIANT`.
    pub name: String,
    /// Whether the tree was made anew; if not, the old one is as it was.
    pub outcome: Outcome,
    /// From the start of the machine to the guest's first word.
    pub boot: Option<Duration>,
    /// All of the time it took.
    pub wall: Duration,
}

/// Makes the fixtures called `names` (`CASE` or `CASE/VARIANT`; none: all of them) under
/// `root/fixtures` from the cases under `root/lab`. `binary` is the `memwright` that captures. An
/// error is one of the lab; that a case failed is said in its outcome.
pub fn make(
    root: &Path,
    names: &[String],
    binary: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Made>, LabError> {
    let mut all = Vec::new();
    for variant in chosen(&root.join("lab"), names)? {
        let name = format!("{}/{}", variant.case, variant.name);
        progress(&format!("{name}: kernel {}", variant.kernel));
        let made = make_one(root, &variant, binary, name)?;
        let boot = made.boot.map_or(0.0, |d| d.as_secs_f64());
        let wall = made.wall.as_secs_f64();
        progress(&format!(
            "{}: {} (boot {boot:.1} s, in all {wall:.1} s)",
            made.name, made.outcome
        ));
        all.push(made);
    }
    Ok(all)
}

/// The variants that `names` mean, in the order of the folders.
pub fn chosen(lab: &Path, names: &[String]) -> Result<Vec<Variant>, LabError> {
    let mut variants: Vec<Variant> = Vec::new();
    for dir in case_dirs(lab)? {
        variants.extend(Case::read(&dir)?.variants);
    }
    for name in names {
        if !variants.iter().any(|v| is_called(v, name)) {
            return Err(LabError::case(lab, format!("no case or variant is called {name:?}")));
        }
    }
    variants.retain(|v| names.is_empty() || names.iter().any(|name| is_called(v, name)));
    Ok(variants)
}

fn is_called(variant: &Variant, name: &str) -> bool {
    match name.split_once('/') {
        Some((case, one)) => case == variant.case && one == variant.name,
        None => name == variant.case,
    }
}

fn case_dirs(lab: &Path) -> Result<Vec<PathBuf>, LabError> {
    let mut dirs = Vec::new();
    for entry in lab.read_dir().map_err(LabError::io(lab))? {
        let path = entry.map_err(LabError::io(lab))?.path();
        if path.join("case.toml").is_file() {
            dirs.push(path);
        }
    }
    dirs.sort();
    Ok(dirs)
}

fn make_one(root: &Path, variant: &Variant, binary: &Path, name: String) -> Result<Made, LabError> {
    let started = Instant::now();
    let fixtures = root.join("fixtures");
    std::fs::create_dir_all(&fixtures).map_err(LabError::io(&fixtures))?;
    let work = workdir::new_in(&fixtures)?;
    let tree = work.path().join("tree");
    let run = run_guest(root, variant, binary)?;
    let outcome = judge(&run);
    if outcome == Outcome::Passed {
        unpack(&run, &tree)?;
        let origin = tree.join("origin.txt");
        std::fs::write(&origin, origin_text(variant, &tree)).map_err(LabError::io(&origin))?;
        replace(&fixtures.join(&name), &tree)?;
    }
    Ok(Made { name, outcome, boot: run.boot, wall: started.elapsed() })
}

fn run_guest(root: &Path, variant: &Variant, binary: &Path) -> Result<Run, LabError> {
    let kernel = Kernel::get(&variant.kernel)?;
    let image = guest::image(&root.join("lab"), variant, &kernel, binary)?;
    qemu::run(&variant.machine, &kernel.image, &image)
}

/// The outcome of a run: what the guest said, unless its kernel broke or it never said anything.
pub fn judge(run: &Run) -> Outcome {
    if let Some(trouble) = run.troubles.iter().find(|t| Trouble::is_fatal(t)) {
        let (before, _) = run.console.split_once(&trouble.line).unwrap_or((&run.console, ""));
        return failed(&format!("the guest's kernel broke: {}", trouble.line), before);
    }
    match run.ended {
        Ended::Done => {}
        Ended::TimedOut => return failed("its time was up", &run.console),
        Ended::Stopped => return failed("the machine stopped", &run.console),
    }
    let said = run.frames.text("outcome").unwrap_or_default();
    match said.split_once(": ") {
        None if said == "passed" => Outcome::Passed,
        Some(("skipped", why)) => Outcome::Skipped(why.to_owned()),
        _ => failed(&said, &run.console),
    }
}

const CONSOLE_LINES_SHOWN: usize = 20;

fn failed(why: &str, console: &str) -> Outcome {
    let lines: Vec<&str> = console.lines().collect();
    let tail = lines[lines.len().saturating_sub(CONSOLE_LINES_SHOWN)..].join("\n  ");
    Outcome::Failed(format!("{why}; the console's last lines:\n  {tail}"))
}

/// `tar` sees by itself how the archive is compressed.
fn unpack(run: &Run, tree: &Path) -> Result<(), LabError> {
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

/// Puts `tree` in the place of `target`. Files beside the tree, such as what a test expects of it,
/// stay.
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
    use crate::{klog, serial};

    fn run(ended: Ended, outcome: &str, console: &str) -> Run {
        let mut frames = serial::Frames::default();
        frames.files.insert("outcome".to_owned(), outcome.as_bytes().to_vec());
        Run {
            ended,
            frames,
            console: console.to_owned(),
            troubles: klog::scan(console),
            boot: None,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn the_guest_is_believed_unless_its_kernel_broke() {
        let of = |ended, said, log| judge(&run(ended, said, log));
        assert_eq!(of(Ended::Done, "passed\n", ""), Outcome::Passed);
        assert_eq!(of(Ended::Done, "skipped: no swap\n", ""), Outcome::Skipped("no swap".into()));
        let fails = |ended, said, log, why: &str| match of(ended, said, log) {
            Outcome::Failed(text) => assert!(text.starts_with(why), "{text}"),
            other => panic!("{other}"),
        };
        fails(Ended::Done, "passed", "BUG: bad page state", "the guest's kernel broke: BUG");
        fails(
            Ended::TimedOut,
            "passed",
            "last words",
            "its time was up; the console's last lines:\n  last words",
        );
        fails(Ended::Stopped, "", "", "the machine stopped");
        fails(Ended::Done, "failed: make.sh firing ended with 1: why", "", "failed: make.sh");
    }

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

    fn lab(dir: &Path) {
        for (case, variants) in [("healthy", vec!["quiet", "large"]), ("oom-kill", vec!["firing"])]
        {
            let mut text =
                "description = 'd'\n[machine]\nkernel = '6.1'\nmemory = '1G'\n".to_owned();
            for variant in variants {
                text += &format!("[variant.{variant}]\nhow = 'h'\n");
            }
            std::fs::create_dir_all(dir.join(case)).unwrap();
            std::fs::write(dir.join(case).join("case.toml"), text).unwrap();
        }
    }

    #[test]
    fn names_choose_variants() {
        let dir = tempfile::tempdir().unwrap();
        lab(dir.path());
        let check = |names: &[&str], want: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            let got = chosen(dir.path(), &names).unwrap();
            let got: Vec<String> = got.iter().map(|v| format!("{}/{}", v.case, v.name)).collect();
            assert_eq!(got, want);
        };
        check(&[], &["healthy/large", "healthy/quiet", "oom-kill/firing"]);
        check(&["healthy"], &["healthy/large", "healthy/quiet"]);
        check(&["healthy/large", "oom-kill"], &["healthy/large", "oom-kill/firing"]);
        assert!(chosen(dir.path(), &["nothing".to_owned()]).is_err());
    }
}
