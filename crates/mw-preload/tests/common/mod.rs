//! What the tests of the library have in common.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

pub(crate) mod disk;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

pub(crate) const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The library's smallest threshold, so that tests need little memory.
const THRESHOLD: &str = "1048576";

/// The library.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        mw_test::built("mw-preload", "memwright_preload", "libmemwright_preload.so")
    })
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    output
}

pub(crate) fn text(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap()
}

/// A program in C, compiled; it goes with the folder.
pub(crate) struct Compiled {
    dir: TempDir,
}

impl Compiled {
    pub(crate) fn new(source: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        cc.arg(Path::new(HERE).join("tests/c").join(source)).arg("-o");
        let compiled = Self { dir };
        run(cc.arg(compiled.path()));
        compiled
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("it")
    }

    /// A command that runs it, and is ended where it hangs.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "120"]).arg(self.path()).args(args);
        command.current_dir(self.dir.path());
        command
    }
}

/// Has a command run with the library, and everything from 1 MiB on done in parallel.
pub(crate) fn preload(command: &mut Command) -> &mut Command {
    command.env("LD_PRELOAD", library()).env("MEMWRIGHT_THRESHOLD", THRESHOLD)
}

/// How many calls the library says that it has done in parallel, in all processes.
pub(crate) fn calls(stderr: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().filter(|line| line.contains(" done in parallel"));
    lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

/// A program that the machine has, or none.
pub(crate) fn program(places: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = places.iter().flat_map(|place| dirs.iter().map(move |dir| dir.join(place)));
    all.into_iter().find(|path| path.is_file())
}

/// What two runs said, where they differ.
pub(crate) fn same(what: &str, plain: &str, preloaded: &str) {
    let differ = |(a, b): &(&str, &str)| a != b;
    let first = plain.lines().zip(preloaded.lines()).find(differ);
    assert!(plain == preloaded, "{what}: without and with the library: {first:?}");
}

pub(crate) fn name(path: &OsStr) -> String {
    path.to_string_lossy().into_owned()
}
