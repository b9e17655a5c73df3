//! A tree of kernel files in a temporary directory, and what a test needs around it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use mw_model::{Consent, Finding, Remedy, Severity, Step};
use mw_remedy::{
    ApplyError, ApplyOutcome, History, Journal, Kernel, Plan, UndoOutcome, UndoResult,
    UndoSelection, nobody,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

pub(crate) const ZONE_RECLAIM: &str = "/proc/sys/vm/zone_reclaim_mode";
pub(crate) const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
pub(crate) const DIRTY_RATIO: &str = "/proc/sys/vm/dirty_ratio";
pub(crate) const DIRTY_BYTES: &str = "/proc/sys/vm/dirty_bytes";
pub(crate) const DIRTY_BACKGROUND_RATIO: &str = "/proc/sys/vm/dirty_background_ratio";
pub(crate) const DIRTY_BACKGROUND_BYTES: &str = "/proc/sys/vm/dirty_background_bytes";
pub(crate) const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
pub(crate) const COMPACT: &str = "/proc/sys/vm/compact_memory";
pub(crate) const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
pub(crate) const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag";

/// The files of a tree as the tests find it.
const FILES: [(&str, &str); 8] = [
    (ZONE_RECLAIM, "7\n"),
    (SWAPPINESS, "60\n"),
    (DIRTY_RATIO, "0\n"),
    (DIRTY_BYTES, "100000\n"),
    (MIN_FREE, "20000\n"),
    (COMPACT, "0\n"),
    (THP, "always\n"),
    (KHUGEPAGED, "1\n"),
];

/// A tree: `root` with the kernel's files and `/etc`, `state` with the journal.
pub(crate) struct Tree {
    base: Base,
}

enum Base {
    Own(tempfile::TempDir),
    Borrowed(PathBuf),
}

impl Tree {
    pub(crate) fn new() -> Self {
        let tree = Self { base: Base::Own(scratch()) };
        for (path, content) in FILES {
            tree.set(path, content);
        }
        fs::create_dir_all(tree.file("/etc/sysctl.d")).unwrap();
        tree
    }

    /// A tree that another process made.
    pub(crate) fn at(base: &Path) -> Self {
        Self { base: Base::Borrowed(base.to_owned()) }
    }

    pub(crate) fn copy(&self) -> Self {
        let copy = scratch();
        let done = Command::new("cp")
            .args(["-a", "--", &format!("{}/.", self.base().display())])
            .arg(copy.path())
            .status();
        assert!(done.unwrap().success());
        Self { base: Base::Own(copy) }
    }

    pub(crate) fn base(&self) -> &Path {
        match &self.base {
            Base::Own(dir) => dir.path(),
            Base::Borrowed(path) => path,
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base().join("root")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.base().join("state")
    }

    pub(crate) fn journal_file(&self) -> PathBuf {
        self.state().join(mw_remedy::JOURNAL_FILE)
    }

    pub(crate) fn kernel(&self) -> Kernel {
        Kernel::at(self.root())
    }

    pub(crate) fn lock(&self) -> Journal {
        Journal::lock(&self.state(), Duration::from_secs(20)).unwrap()
    }

    pub(crate) fn history(&self) -> History {
        History::read(&self.state()).unwrap()
    }

    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    pub(crate) fn set(&self, path: &str, content: &str) {
        let file = self.file(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        fs::read_to_string(self.file(path)).unwrap()
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.file(path).exists()
    }

    /// Every file and directory below `root` with its content.
    pub(crate) fn everything(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut all = BTreeMap::new();
        let mut todo = vec![self.root()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    all.insert(path.strip_prefix(self.root()).unwrap().to_owned(), None);
                    todo.push(path);
                } else {
                    let content = fs::read(&path).unwrap_or_default();
                    all.insert(path.strip_prefix(self.root()).unwrap().to_owned(), Some(content));
                }
            }
        }
        all
    }

    pub(crate) fn plan(&self, findings: &[Finding]) -> Plan {
        Plan::new(&self.kernel(), findings).unwrap()
    }

    pub(crate) fn fix(
        &self,
        findings: &[Finding],
        persist: bool,
    ) -> Result<ApplyOutcome, ApplyError> {
        let plan = self.plan(findings);
        mw_remedy::apply(&self.kernel(), &mut self.lock(), &plan, persist, &mut nobody)
    }

    pub(crate) fn undo(&self, which: &UndoSelection, force: bool) -> Vec<UndoResult> {
        mw_remedy::undo(&self.kernel(), &mut self.lock(), which, force, &mut nobody).unwrap()
    }

    pub(crate) fn undo_all(&self) -> Vec<UndoOutcome> {
        self.undo(&UndoSelection::All, false).into_iter().map(|undone| undone.outcome).collect()
    }
}

/// A directory that vanishes with the test; in memory where that can be, for the tests sync a lot.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let builder = || tempfile::Builder::new();
    match memory.is_dir() {
        true => builder().prefix("memwright-test-").tempdir_in(memory).unwrap(),
        false => builder().prefix("memwright-test-").tempdir().unwrap(),
    }
}

pub(crate) fn finding(rule: &str, severity: Severity, steps: Vec<Step>) -> Finding {
    Finding {
        rule: rule.to_owned(),
        severity,
        subject: mw_model::Subject::Other("the test".to_owned()),
        headline: String::new(),
        evidence: Vec::new(),
        impact: String::new(),
        remedy: Some(Remedy { summary: String::new(), consent: Consent::Automatic, steps }),
    }
}

pub(crate) fn wants(rule: &str, path: &str, value: &str) -> Finding {
    finding(rule, Severity::Warning, vec![Step::write(path, value)])
}

pub(crate) fn once(rule: &str, path: &str, value: &str) -> Finding {
    let step = Step::Once { path: path.to_owned(), value: value.to_owned() };
    finding(rule, Severity::Warning, vec![step])
}

/// Findings that touch everything there is to touch: a plain setting, one of two partners, one that
/// moves a third, an action, and both files under /etc.
pub(crate) fn all_kinds() -> Vec<Finding> {
    vec![
        wants("zone-reclaim", ZONE_RECLAIM, "0"),
        wants("dirty-limit-too-high", DIRTY_RATIO, "10"),
        wants("thp-compaction", THP, "madvise"),
        once("fragmented-node", COMPACT, "1"),
        wants("khugepaged-churn", KHUGEPAGED, "0"),
    ]
}

/// This test binary again, with one of its tests alone and `variables` set.
pub(crate) fn again(test: &str, variables: &[(&str, String)]) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("FAILED") && !said.contains(" 0 passed"), "{said}");
    output.status
}

/// Whether mounting and rlimits can be tested here; says so where they cannot.
pub(crate) fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        mw_test::skip(format!("needs root: {test}"));
    }
    root
}

/// Small, fast, and the same every time (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    }
}
