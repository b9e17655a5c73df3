//! Regenerates the fixtures: each case's condition is created on a real kernel in a virtual machine, memwright captures it
//! there, and the capture becomes a text archive.

use crate::workspace::{cargo, root, target_dir};
use anyhow::{Context, anyhow};
use mw_collect::text_archive::TextArchive;
use mw_collect::{MemoryTree, capture};
use mw_lab::Outcome;
use mw_lab::fixtures::CapturedVariant;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const SUFFIX: &str = ".txt";

/// The base of a case's other archives, unless they have one.
const USUAL_BASE: &str = "quiet.txt";

const RELEASE: &str = "proc/sys/kernel/osrelease";

pub(crate) fn run(names: &[String]) -> anyhow::Result<()> {
    cargo(&["build", "--locked", "--release", "--package", "mw-cli"])?;
    let binary = target_dir().join("release/memwright");
    let root = root();
    let mut keep = |captured: CapturedVariant| {
        keep(&root.join("fixtures"), &captured).map_err(|error| format!("{error:#}"))
    };
    let mut progress = |line: &str| println!("{line}");
    mw_lab::fixtures::capture(&root.join("lab"), names, &binary, &mut progress, &mut keep)?;
    Ok(())
}

fn keep(fixtures: &Path, captured: &CapturedVariant) -> anyhow::Result<()> {
    if captured.outcome != Outcome::Passed {
        return Ok(());
    }
    let mut tree = capture::tree(captured.capture.as_slice(), Path::new(&captured.name))?;
    let release = tree.file(RELEASE).context(RELEASE)?;
    let release = String::from_utf8_lossy(release).trim().to_owned();
    let origin = format!("Linux {release}; {}", captured.origin);
    tree.insert("origin.txt", origin.into_bytes()).map_err(|problem| anyhow!(problem))?;
    let (case, variant) = captured.name.split_once('/').context("CASE/VARIANT")?;
    replace(&fixtures.join(case), &format!("{variant}{SUFFIX}"), tree)
}

/// Replaces the tree of an archive; files that people wrote, such as a test's expectations, are kept. What is based on it
/// is written again.
fn replace(case: &Path, name: &str, mut tree: MemoryTree) -> anyhow::Result<()> {
    fs::create_dir_all(case)?;
    let mut trees = BTreeMap::new();
    let mut base = USUAL_BASE.to_owned();
    for entry in case.read_dir()? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if file.ends_with(SUFFIX) {
            let archive = TextArchive::load(&path)?;
            trees.insert(file, archive.tree);
            base = archive.base.map_or(base, |(name, _)| name);
        }
    }
    if let Some(old) = trees.get(name) {
        let by_hand = |path: &str| !path.contains('/') && tree.file(path).is_err();
        let kept: Vec<_> = old.files().filter(|(path, _)| by_hand(path)).collect();
        for (path, contents) in kept {
            tree.insert(path, contents.to_vec()).map_err(|problem| anyhow!(problem))?;
        }
    }
    trees.insert(name.to_owned(), tree);
    for name in trees.keys() {
        let path = case.join(name);
        fs::write(&path, text(&trees, name, &base)?).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The archive of a tree, based on another one if that is shorter.
fn text(trees: &BTreeMap<String, MemoryTree>, name: &str, base: &str) -> anyhow::Result<String> {
    let tree = trees.get(name).context("no such tree")?.clone();
    let base = trees.get_key_value(base).filter(|(base, _)| *base != name);
    let mut archive = TextArchive { tree, base: None };
    let whole = archive.to_text().map_err(|problem| anyhow!("{name}: {problem}"))?;
    let Some((base, tree)) = base else { return Ok(whole) };
    archive.base = Some((base.clone(), tree.clone()));
    let part = archive.to_text().map_err(|problem| anyhow!("{name}: {problem}"))?;
    Ok(if part.len() < whole.len() { part } else { whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> MemoryTree {
        let mut tree = MemoryTree::default();
        for (path, text) in files {
            tree.insert(path, text.as_bytes().to_vec()).unwrap();
        }
        tree
    }

    #[test]
    fn a_new_tree_keeps_what_people_wrote_and_those_based_on_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let case = dir.path().join("case");
        let load = |name: &str| TextArchive::load(&case.join(name)).unwrap();
        let long = "a line\n".repeat(20);
        let firing = tree(&[("expect.txt", "mine\n"), ("proc/a", &long), ("proc/b", "1\n")]);
        replace(&case, "firing.txt", firing.clone()).unwrap();
        replace(&case, USUAL_BASE, tree(&[("proc/a", &long), ("proc/b", "2\n")])).unwrap();
        assert_eq!(load("firing.txt").base.unwrap().0, USUAL_BASE);
        assert_eq!(load("firing.txt").tree, firing);
        replace(&case, USUAL_BASE, tree(&[("proc/a", "other\n")])).unwrap();
        assert_eq!(load("firing.txt").tree, firing);
        replace(&case, "firing.txt", tree(&[("proc/b", "3\n")])).unwrap();
        assert_eq!(load("firing.txt").tree, tree(&[("expect.txt", "mine\n"), ("proc/b", "3\n")]));
    }
}
