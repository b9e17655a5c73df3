//! Runs the test programs: several at once, those that measure by themselves. A test that fails runs once
//! more at the end, with nothing beside it; one that passes then is reported as flaky.

mod order;
mod run;
mod skips;
mod targets;

pub(crate) use order::{TestGroups, left_out};
pub(crate) use run::bench;
pub(crate) use targets::{TestPrograms, TestTarget};

use crate::share::CommitShare;
use anyhow::Context;
use run::{RunOutcome, RunSettings, run};
use skips::Skip;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

/// Number of test programs that run at once, beside other steps: most of them wait for something most of the time.
const JOBS: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct TestResults {
    passed: usize,
    skipped: Vec<Skip>,
    flaky: Vec<String>,
    failed: Vec<String>,
    /// Failed tests that are still to be run once more.
    again: Vec<(TestTarget, Vec<String>)>,
    /// Seconds of each test program, and of each test where those were measured.
    times: Vec<(f64, String)>,
}

impl TestResults {
    /// Tests that ran to their end: libtest counts those that were skipped, too.
    pub(crate) fn passed(&self) -> usize {
        self.passed.saturating_sub(self.skipped())
    }

    pub(crate) fn failed(&self) -> usize {
        self.failed.len()
    }

    /// Tests, of which some say so twice.
    pub(crate) fn skipped(&self) -> usize {
        self.skipped.iter().map(Skip::key).collect::<BTreeSet<_>>().len()
    }

    /// Tests that were skipped for reasons that docs/testing.md does not accept.
    pub(crate) fn unexplained(&self) -> anyhow::Result<Vec<&str>> {
        let unexplained = skips::unexplained(&self.skipped)?;
        let tests: BTreeMap<_, _> =
            unexplained.into_iter().map(|skip| (skip.key(), skip.test.as_str())).collect();
        Ok(tests.into_values().collect())
    }

    /// A line for the table of steps.
    pub(crate) fn summary(&self) -> String {
        let counts = format!(
            "{} passed, {} failed, {} skipped",
            self.passed(),
            self.failed(),
            self.skipped()
        );
        if self.flaky.is_empty() { counts } else { format!("{counts}; {} flaky", self.flaky.len()) }
    }

    /// Skipped, flaky and failed tests, a line each.
    pub(crate) fn details(&self) -> Vec<String> {
        let skipped =
            self.skipped.iter().map(|skip| format!("skipped: {}: {}", skip.test, skip.why));
        let flaky = self.flaky.iter().map(|test| format!("flaky: {test}: failed 1 of 2 runs"));
        let failed = self.failed.iter().map(|test| format!("failed: {test}"));
        skipped.chain(flaky).chain(failed).collect()
    }

    /// The slowest, as rows of a Markdown table.
    pub(crate) fn slowest(&self, count: usize) -> String {
        let mut times: Vec<&(f64, String)> = self.times.iter().collect();
        times.sort_by(|a, b| b.0.total_cmp(&a.0));
        times.iter().take(count).map(|(s, name)| format!("| {name} | {s:.1} |\n")).collect()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.skipped.extend(other.skipped);
        self.flaky.extend(other.flaky);
        self.failed.extend(other.failed);
        self.again.extend(other.again);
        self.times.extend(other.times);
    }

    /// Fails where a test failed, or was skipped for a reason that is not accepted.
    pub(crate) fn verify(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.failed.is_empty(), "failed: {}", self.failed.join(", "));
        let tests = self.unexplained()?;
        anyhow::ensure!(
            tests.is_empty(),
            "skipped for a reason that docs/testing.md does not accept: {}",
            tests.join(", ")
        );
        Ok(())
    }
}

#[cfg(test)]
impl TestResults {
    /// So many that libtest counts as passed, of which some were skipped.
    pub(crate) fn example(passed: usize, skipped: &[&str], failed: &[&str]) -> Self {
        let skip = |test: &&str| Skip { test: (*test).to_owned(), why: "needs root".to_owned() };
        let failed = failed.iter().map(|test| (*test).to_owned()).collect();
        Self { passed, skipped: skipped.iter().map(skip).collect(), failed, ..Self::default() }
    }
}

/// Tests to run, and the way to run them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TestOptions {
    pub(crate) full: bool,
    pub(crate) times: bool,
}

impl TestOptions {
    fn settings(self, skipped: &Path) -> RunSettings<'_> {
        RunSettings { full: self.full, times: self.times, skipped }
    }
}

impl TestGroups {
    /// Runs those that measure nothing, several at once, beside other work; one more when that has ended.
    pub(crate) fn run_beside(
        &self,
        others: impl FnOnce() + Send,
        options: TestOptions,
    ) -> anyhow::Result<TestResults> {
        run_all(&self.beside, JOBS, Some(others), options)
    }

    /// Runs those that measure, each with a CPU of its own.
    pub(crate) fn run_measuring(&self, options: TestOptions) -> anyhow::Result<TestResults> {
        const NOTHING: Option<fn()> = None;
        let mut results = run_all(&self.paired, 2, NOTHING, options)?;
        results.add(run_all(&self.alone, 1, NOTHING, options)?);
        Ok(results)
    }
}

/// Builds all test programs, and compares the lists of them with what was built.
pub(crate) fn build() -> anyhow::Result<TestPrograms> {
    let programs = targets::build()?;
    order::verify_names(&programs.tests)?;
    Ok(programs)
}

/// Builds and runs the targets with these names, or those of the packages with these names.
pub(crate) fn chosen(names: &[String], full: bool, slowest: usize) -> anyhow::Result<()> {
    let mut targets = build()?.tests;
    let is_chosen = |target: &TestTarget| {
        let package = target.name.split(' ').next();
        names.is_empty()
            || names.iter().any(|name| *name == target.name || Some(&**name) == package)
    };
    targets.retain(is_chosen);
    anyhow::ensure!(!targets.is_empty(), "no such test program");
    let options = TestOptions { full, times: true };
    let groups = TestGroups::of(targets, CommitShare::Whole);
    let mut results = groups.run_beside(|| (), options)?;
    results.add(groups.run_measuring(options)?);
    again(&mut results, options)?;
    println!("| test | s |\n|---|---|\n{}", results.slowest(slowest));
    results.details().iter().for_each(|line| println!("{line}"));
    println!("{}", results.summary());
    results.verify()
}

/// Runs targets, so many at once; one more from the end of `others` on.
fn run_all(
    targets: &[TestTarget],
    jobs: usize,
    others: Option<impl FnOnce() + Send>,
    options: TestOptions,
) -> anyhow::Result<TestResults> {
    let skipped = tempfile::NamedTempFile::new()?;
    let settings = options.settings(skipped.path());
    let queue = Mutex::new(targets.iter());
    let next = || queue.lock().map_or(None, |mut queue| queue.next());
    let worker = &|| {
        let mut results = TestResults::default();
        while let Some(target) = next() {
            one(target, settings, &mut results)?;
        }
        anyhow::Ok(results)
    };
    let all = std::thread::scope(|scope| {
        let mut workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        workers.extend(others.map(|others| {
            scope.spawn(move || {
                others();
                worker()
            })
        }));
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
        };
        workers.into_iter().map(join).collect::<anyhow::Result<Vec<TestResults>>>()
    })?;
    let mut results = TestResults::default();
    all.into_iter().for_each(|part| results.add(part));
    results.skipped = skips::skipped(skipped.path())?;
    Ok(results)
}

/// Runs one target; what fails is left for [`again`].
fn one(
    target: &TestTarget,
    settings: RunSettings<'_>,
    results: &mut TestResults,
) -> anyhow::Result<()> {
    let outcome = run(target, &[], settings).context(target.name.clone())?;
    report(target, &outcome);
    results.passed += outcome.passed;
    results.times.push((outcome.took.as_secs_f64(), target.name.clone()));
    let tests = run::times(&outcome.output);
    results.times.extend(tests.map(|(test, s)| (s, format!("{}: {test}", target.name))));
    match (outcome.success, outcome.failed.is_empty()) {
        (true, _) => {}
        (false, true) => results.failed.push(target.name.clone()),
        (false, false) => results.again.push((target.clone(), outcome.failed)),
    }
    Ok(())
}

/// Runs what failed once more, with nothing beside it.
pub(crate) fn again(results: &mut TestResults, options: TestOptions) -> anyhow::Result<()> {
    for (target, tests) in std::mem::take(&mut results.again) {
        for test in tests {
            let name = format!("{}: {test}", target.name);
            let skipped = tempfile::NamedTempFile::new()?;
            let settings = options.settings(skipped.path());
            let outcome = run(&target, &[test], settings)?;
            report(&target, &outcome);
            results.passed += outcome.passed;
            let list = if outcome.success { &mut results.flaky } else { &mut results.failed };
            list.push(name);
            results.skipped.extend(skips::skipped(skipped.path())?);
        }
    }
    Ok(())
}

fn report(target: &TestTarget, outcome: &RunOutcome) {
    let seconds = outcome.took.as_secs_f64();
    if outcome.success {
        println!("passed: {}: {} tests in {seconds:.1} s", target.name, outcome.passed);
    } else {
        println!("failed: {}: after {seconds:.1} s\n{}", target.name, outcome.output);
    }
}
