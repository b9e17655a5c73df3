//! Helpers of the tests of the library.

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

/// A compiled C program, deleted when it is dropped.
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

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("program")
    }

    /// A command that runs it, and kills it if it hangs.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "120"]).arg(self.path()).args(args);
        command.current_dir(self.dir.path());
        command
    }
}

/// Makes a command run with the library, and a threshold of 1 MiB.
pub(crate) fn preload(command: &mut Command) -> &mut Command {
    command.env("LD_PRELOAD", library()).env("MEMWRIGHT_THRESHOLD", THRESHOLD)
}

/// Number of parallel calls that the library reports for all processes.
pub(crate) fn calls(stderr: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().filter(|line| line.contains(" done in parallel"));
    lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

/// The path of the first of these programs that is installed.
pub(crate) fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = names.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
    all.into_iter().find(|path| path.is_file())
}

/// Asserts that two runs have the same output.
pub(crate) fn assert_same(what: &str, plain: &str, preloaded: &str) {
    let differ = |(a, b): &(&str, &str)| a != b;
    let first = plain.lines().zip(preloaded.lines()).find(differ);
    assert!(plain == preloaded, "{what}: without and with the library: {first:?}");
}

pub(crate) fn name(path: &OsStr) -> String {
    path.to_string_lossy().into_owned()
}
