//! Tests that cannot run on this machine. libtest knows no such outcome, so that they count as passed; `cargo
//! xtask ci` collects them through a file, prints them, and fails unless docs/testing.md lists the reason.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// Names the file that collects skipped tests, a line each: the test, a tab, the reason.
pub const SKIPPED_FILE: &str = "MW_SKIPPED_FILE";

/// Reports that the current test cannot run here; the test returns afterwards. `why` begins with words that
/// are the same on every machine, and has details after a colon: `no memory cgroup: {error}`.
///
/// # Panics
/// Where the file of `cargo xtask ci` cannot be written.
#[track_caller]
pub fn skip(why: impl Display) {
    report(&test(Location::caller()), &why.to_string().replace('\n', " "));
}

/// True if this is root; reports the test as skipped where not.
#[must_use]
#[track_caller]
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("needs root");
    }
    root
}

/// libtest runs each test in a thread with the test's name, unless there is only one thread.
fn test(caller: &Location<'_>) -> String {
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main").unwrap_or("");
    format!("{}:{} {name}", caller.file(), caller.line()).trim_end().to_owned()
}

/// Not by `eprintln!`, whose output libtest hides where a test passes.
fn report(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    if let Some(path) = std::env::var_os(SKIPPED_FILE) {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        // One write, so that lines of several programs do not mix.
        file.write_all(format!("{test}\t{why}\n").as_bytes()).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_is_named_by_its_thread_and_its_place() {
        let name = test(Location::caller());
        let (place, thread) = name.split_once(' ').unwrap();
        assert!(place.starts_with("crates/mw-test/src/skip.rs:"), "{name}");
        assert_eq!(thread, "skip::tests::a_skipped_test_is_named_by_its_thread_and_its_place");
    }
}
