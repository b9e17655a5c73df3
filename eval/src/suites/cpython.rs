//! CPython's tests of mmap, shared memory and multiprocessing, from Debian's package, on Debian's
//! interpreter.

use super::outcome::{Outcomes, TestOutcome};
use super::runner::{Directories, Launcher, OpenedSuite, Runner};
use crate::packages;
use anyhow::Context;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const NAME: &str = "cpython";

const PYTHON: &str = "/usr/bin/python3";

/// The tests of shared memory are those of multiprocessing.
const TESTS: &[&str] = &[
    "test_mmap",
    "test_multiprocessing_fork",
    "test_multiprocessing_forkserver",
    "test_multiprocessing_main_handling",
    "test_multiprocessing_spawn",
];

struct Tests {
    work: PathBuf,
}

pub(super) fn open(directories: &Directories) -> anyhow::Result<OpenedSuite> {
    packages::install(&[("python3", PYTHON)])?;
    let output = Command::new(PYTHON).arg("--version").output().context(PYTHON)?;
    let version = String::from_utf8_lossy(&output.stdout).trim().replace("Python ", "");
    let (series, _) = version.rsplit_once('.').with_context(|| format!("version {version}"))?;
    let package = format!("libpython{series}-testsuite");
    packages::install(&[(&package, &format!("/usr/lib/python{series}/test/{}.py", TESTS[0]))])?;
    let work = directories.work.path().join(NAME);
    std::fs::create_dir(&work)?;
    Ok(OpenedSuite::Ready { version, runner: Box::new(Tests { work }) })
}

impl Runner for Tests {
    fn run(
        &self,
        launcher: &Launcher,
        only: Option<&BTreeSet<String>>,
    ) -> anyhow::Result<Outcomes> {
        let report = self.work.join("report.xml");
        let _ = std::fs::remove_file(&report);
        let path = report.display().to_string();
        // Sparse files of several GiB are mapped too; a test that hangs fails.
        let mut command = vec![PYTHON, "-m", "test", "-j2", "-u", "largefile", "--timeout", "900"];
        command.extend(["--junit-xml", path.as_str()]);
        for test in only.into_iter().flatten() {
            command.extend(["-m", test.as_str()]);
        }
        command.extend(TESTS);
        let words = launcher.words(&command);
        // It exits with 2 where a test failed: what counts is the report.
        Command::new(&words[0])
            .args(&words[1..])
            .current_dir(&self.work)
            .stdout(Stdio::null())
            .status()
            .with_context(|| words.join(" "))?;
        let xml = read_report(&report)?;
        Ok(outcomes(&xml))
    }
}

fn read_report(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{}: no report", path.display()))
}

/// From a report in JUnit's format.
fn outcomes(xml: &str) -> Outcomes {
    xml.split("<testcase ")
        .skip(1)
        .filter_map(|case| {
            let name = case.split_once("name=\"")?.1.split_once('"')?.0;
            let has = |tag: &str| case.contains(tag);
            let outcome = if has("<error") {
                TestOutcome::Failed("error".to_owned())
            } else if has("<failure") {
                TestOutcome::Failed("failed".to_owned())
            } else if has("<skipped") {
                TestOutcome::Skipped
            } else {
                TestOutcome::Passed
            };
            Some((name.to_owned(), outcome))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let xml = "<testsuites tests=\"4\"><testsuite><testcase name=\"t.A.a\" status=\"run\" \
                   time=\"0.1\" /><testcase name=\"t.A.b\" status=\"run\"><skipped>no</skipped>\
                   </testcase><testcase name=\"t.A.c\"><failure message=\"x\">y</failure>\
                   </testcase><testcase name=\"t.A.d\"><error>e</error></testcase></testsuite>";
        let failed = |how: &str| TestOutcome::Failed(how.to_owned());
        let want = [
            ("t.A.a", TestOutcome::Passed),
            ("t.A.b", TestOutcome::Skipped),
            ("t.A.c", failed("failed")),
            ("t.A.d", failed("error")),
        ];
        let want: Outcomes = want.into_iter().map(|(name, o)| (name.to_owned(), o)).collect();
        assert_eq!(outcomes(xml), want);
    }
}
