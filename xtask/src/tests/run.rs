//! Runs one test program and reads its results.

use super::targets::TestTarget;
use crate::workspace::target_dir;
use anyhow::Context;
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A test program that takes longer hangs, and a single test of it.
const LIMIT: Duration = Duration::from_secs(900);
const SINGLE_LIMIT: Duration = Duration::from_secs(300);
/// With `MW_FULL`, campaigns take hours.
const FULL_LIMIT: Duration = Duration::from_secs(4 * 3600);

/// Settings with which test programs are started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSettings<'a> {
    pub(crate) full: bool,
    /// Collects skipped tests.
    pub(crate) skipped: &'a Path,
    /// The time of each test, too.
    pub(crate) times: bool,
}

/// Result of a test program.
#[derive(Debug, Default)]
pub(crate) struct RunOutcome {
    pub(crate) passed: usize,
    /// By name. Empty where the program ended without results.
    pub(crate) failed: Vec<String>,
    pub(crate) success: bool,
    pub(crate) took: Duration,
    /// Its output.
    pub(crate) output: String,
}

/// Runs all tests of a target, or those named.
pub(crate) fn run(
    target: &TestTarget,
    only: &[String],
    settings: RunSettings<'_>,
) -> anyhow::Result<RunOutcome> {
    let printed = tempfile::NamedTempFile::new()?;
    let file =
        || -> anyhow::Result<File> { Ok(File::options().append(true).open(printed.path())?) };
    let began = Instant::now();
    let mut command = Command::new(&target.program);
    command
        .args(only)
        .args((!only.is_empty()).then_some("--exact"))
        .current_dir(&target.folder)
        .env("CARGO_MANIFEST_DIR", &target.folder)
        .env(mw_test::SKIPPED_FILE, settings.skipped)
        .env(mw_test::BUILT_DIR, target_dir().join("debug"))
        .env(mw_test::FULL, OsStr::new(if settings.full { "1" } else { "0" }))
        .stdout(file()?)
        .stderr(file()?)
        .stdin(Stdio::null());
    if settings.times {
        command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    }
    let child = command.spawn().with_context(|| target.program.display().to_string())?;
    let limit = match (settings.full, only.len()) {
        (true, _) => FULL_LIMIT,
        (false, 1) => SINGLE_LIMIT,
        (false, _) => LIMIT,
    };
    let status = end(child, limit)?;
    let output = String::from_utf8_lossy(&std::fs::read(printed.path())?).into_owned();
    Ok(RunOutcome { took: began.elapsed(), ..outcome(status, output) })
}

/// Runs a bench, which fails where what it asserts does not hold.
pub(crate) fn bench(target: &TestTarget, args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(&target.program);
    let status = command.args(args).current_dir(&target.folder).status()?;
    anyhow::ensure!(status.success(), "{} failed", target.name);
    Ok(())
}

/// The status at the end; none where the program was killed for taking too long.
fn end(mut child: Child, limit: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let status = mw_test::exit_within(&mut child, limit)?;
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(status)
}

fn outcome(status: Option<ExitStatus>, mut output: String) -> RunOutcome {
    let passed = output.lines().filter_map(passed).sum();
    let failed = failures(&output);
    match status {
        None => output.push_str("\nkilled: it took too long\n"),
        Some(status) if !status.success() && failed.is_empty() => {
            output.push_str(&format!("\nended without results: {status}\n"));
        }
        Some(_) => {}
    }
    let success = status.is_some_and(|status| status.success());
    RunOutcome { passed, failed, success, output, ..RunOutcome::default() }
}

/// From `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
fn passed(line: &str) -> Option<usize> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    counts.split_once(" passed")?.0.parse().ok()
}

/// The last list of failures: `failures:` and a name in each line.
fn failures(output: &str) -> Vec<String> {
    let Some((_, list)) = output.rsplit_once("\nfailures:\n") else { return Vec::new() };
    list.lines().map_while(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
}

/// From `test a::b ... ok <1.234s>`: the test and its seconds.
pub(crate) fn times(output: &str) -> impl Iterator<Item = (&str, f64)> {
    output.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let seconds = rest.split_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
        Some((name, seconds))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "running 2 tests\ntest a ... ok <0.500s>\ntest m::b ... FAILED <1.250s>\n\n\
                          failures:\n\n---- m::b stdout ----\nno\n\n\nfailures:\n    m::b\n\n\
                          test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered \
                          out; finished in 1.25s\n";

    #[test]
    fn counts_failures_and_times_are_read() {
        let result = outcome(Some(ExitStatus::default()), FAILED.to_owned());
        assert_eq!((result.passed, &result.failed[..]), (1, &["m::b".to_owned()][..]));
        assert_eq!(times(FAILED).collect::<Vec<_>>(), [("a", 0.5), ("m::b", 1.25)]);
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_has_failed() {
        let child = Command::new("sleep").arg("100").spawn().unwrap();
        assert!(end(child, Duration::ZERO).unwrap().is_none());
        let result = outcome(None, String::new());
        assert!(!result.success && result.output.contains("took too long"), "{result:?}");
    }
}
