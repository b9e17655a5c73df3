//! Other people's test suites, each without the library and under `memwright run`: the outcome of
//! every test must be the same.

mod compared;
mod cpython;
mod known;
mod ltp;
mod outcome;
mod page;
mod postgres;
mod results;
mod runner;

use crate::workspace::cargo;
use anyhow::Context;
use compared::{Compared, Difference};
use known::Known;
use outcome::{Outcomes, TestOutcome};
use runner::{Directories, Launcher, OPTION_SETS, OpenedSuite, OptionSet, Runner};
use std::path::{Path, PathBuf};

/// Number of further runs of a test whose outcome differs, both ways, before the difference counts.
const RETRIES: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// Suites; none: all.
    pub(crate) names: Vec<String>,
    /// Option sets; none: all.
    pub(crate) options: Vec<String>,
    pub(crate) ltp: Option<PathBuf>,
    /// Write eval/results/suites.md from the latest result of every suite.
    pub(crate) write: bool,
}

/// A suite: its name, the option sets that say something about it, and how to get it.
struct Suite {
    name: &'static str,
    sets: &'static [&'static str],
    open: fn(&Directories) -> anyhow::Result<OpenedSuite>,
}

const SUITES: &[Suite] = &[
    Suite {
        name: ltp::NAME,
        sets: &["default", "prefault", "lock", "huge", "direct-io"],
        open: ltp::open,
    },
    Suite {
        name: postgres::NAME,
        sets: &["default", "prefault", "lock", "huge", "direct-io"],
        open: postgres::open,
    },
    // It writes no file of any size.
    Suite {
        name: cpython::NAME,
        sets: &["default", "prefault", "lock", "huge"],
        open: cpython::open,
    },
];

/// Runs the suites, and fails on a difference that is not known.
pub(crate) fn run(choice: &Choice) -> anyhow::Result<()> {
    let suites = chosen(SUITES, |suite| suite.name, &choice.names, "suite")?;
    let sets = chosen(OPTION_SETS, |set| set.name, &choice.options, "option set")?;
    let known = Known::load()?;
    cargo(&["build", "--locked", "--package", "mw-preload"])?;
    cargo(&["build", "--locked", "--package", "mw-cli"])?;
    let directories = Directories::new(ltp::root(choice.ltp.as_deref()))?;
    let program = directories.program()?;
    let mut compared = Vec::new();
    let mut missing = 0;
    for suite in suites {
        match (suite.open)(&directories).with_context(|| suite.name)? {
            OpenedSuite::Missing(why) => {
                println!("== {}: skipped: {why}", suite.name);
                missing += 1;
            }
            OpenedSuite::Ready { version, runner } => {
                let sets = sets.iter().filter(|set| suite.sets.contains(&set.name));
                let sets: Vec<OptionSet> = sets.map(|set| **set).collect();
                compared.extend(compare(suite, &version, &*runner, &program, &sets, &known)?);
            }
        }
    }
    for one in &compared {
        results::keep(&directories.cache, one)?;
    }
    if choice.write {
        page::write(&results::all(
            &directories.cache,
            SUITES.iter().map(|suite| (suite.name, suite.sets)),
        )?)?;
    }
    finish(&compared, missing)
}

/// Those of a list that are named, or all.
fn chosen<'a, T>(
    all: &'a [T],
    name: fn(&T) -> &'static str,
    names: &[String],
    what: &str,
) -> anyhow::Result<Vec<&'a T>> {
    for asked in names {
        let known: Vec<&str> = all.iter().map(name).collect();
        let known_list = known.join(", ");
        anyhow::ensure!(known.contains(&&**asked), "unknown {what} '{asked}' (use {known_list})");
    }
    let is_chosen = |item: &&T| names.is_empty() || names.iter().any(|asked| asked == name(item));
    Ok(all.iter().filter(is_chosen).collect())
}

/// Runs a suite without the library, then with each option set.
///
/// Promise (Under unmodified programs): The test suites of LTP, PostgreSQL and CPython have the same outcomes as
/// without the library.
fn compare(
    suite: &Suite,
    version: &str,
    runner: &dyn Runner,
    program: &Path,
    sets: &[OptionSet],
    known: &Known,
) -> anyhow::Result<Vec<Compared>> {
    println!("== {} {version}: without the library", suite.name);
    let plain = runner.run(&Launcher::default(), None)?;
    anyhow::ensure!(!plain.is_empty(), "{}: no test ran", suite.name);
    let mut compared = Vec::new();
    for set in sets {
        println!("== {} {version}: {}", suite.name, set.name);
        let launcher = Launcher::new(program, *set);
        let with = runner.run(&launcher, None)?;
        let settled = settle(runner, &launcher, &plain, &with)?;
        let differences: Vec<Difference> = settled
            .into_iter()
            .map(|(test, plain, with)| Difference {
                known: known.reason(suite.name, set.name, &test),
                test,
                plain,
                with,
            })
            .collect();
        for difference in &differences {
            println!("{}", page::difference(difference));
        }
        let differs = |test: &String| differences.iter().any(|difference| difference.test == *test);
        let alike = || plain.iter().filter(|(test, _)| !differs(test));
        let skipped = alike().filter(|(_, outcome)| **outcome == TestOutcome::Skipped).count();
        let same = alike().count() - skipped;
        let (suite, version, set) = (suite.name.into(), version.into(), set.name.into());
        compared.push(Compared { suite, version, set, same, skipped, differences });
    }
    Ok(compared)
}

/// The differences that stay when both ways are run again: a test that has several outcomes by itself
/// differs only where none of them is seen with the library.
fn settle(
    runner: &dyn Runner,
    launcher: &Launcher,
    plain: &Outcomes,
    with: &Outcomes,
) -> anyhow::Result<Vec<(String, TestOutcome, TestOutcome)>> {
    let mut plain_seen = outcome::seen(plain);
    let mut with_seen = outcome::seen(with);
    for _ in 0..RETRIES {
        let differing = outcome::differing(&plain_seen, &with_seen);
        if differing.is_empty() {
            return Ok(Vec::new());
        }
        let list: Vec<&str> = differing.iter().map(String::as_str).collect();
        println!("   differ, run again: {}", list.join(" "));
        outcome::merge(&mut with_seen, runner.run(launcher, Some(&differing))?, &differing);
        let again = runner.run(&Launcher::default(), Some(&differing))?;
        outcome::merge(&mut plain_seen, again, &differing);
    }
    Ok(outcome::differing(&plain_seen, &with_seen)
        .into_iter()
        .map(|test| {
            let first = |outcomes: &Outcomes| {
                outcomes
                    .get(&test)
                    .cloned()
                    .unwrap_or_else(|| TestOutcome::Failed("not run".into()))
            };
            (test.clone(), first(plain), first(with))
        })
        .collect())
}

/// The last line, and whether all is well.
fn finish(compared: &[Compared], missing: usize) -> anyhow::Result<()> {
    let all = || compared.iter().flat_map(|compared| &compared.differences);
    let failed = all().filter(|difference| difference.known.is_none()).count();
    let known = all().count() - failed;
    let passed: usize = compared.iter().map(|compared| compared.same).sum();
    let skipped = missing + compared.iter().map(|compared| compared.skipped).sum::<usize>();
    if known > 0 {
        println!("== {known} known differences, with reasons in eval/src/suites/known.toml");
    }
    println!("== suites: {passed} passed, {failed} failed, {skipped} skipped");
    anyhow::ensure!(failed == 0, "{failed} tests have another outcome under memwright run");
    Ok(())
}
