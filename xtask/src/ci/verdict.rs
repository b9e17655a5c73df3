//! What `cargo xtask ci` prints last.

use super::step::CiStep;
use crate::tests::TestResults;
use std::fmt;

/// The counts of the last line, with what has to be said before it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CiVerdict {
    pub(super) passed: usize,
    /// Tests, and steps that are no tests.
    pub(super) failed: usize,
    pub(super) skipped: usize,
    /// The reason why something failed, a line each; and what was left out.
    remarks: Vec<String>,
}

impl CiVerdict {
    /// A test that is skipped for a reason that docs/testing.md does not accept has failed, but not for an ordinary
    /// user, who has many.
    pub(super) fn of(
        steps: &[CiStep],
        results: &TestResults,
        is_root: bool,
    ) -> anyhow::Result<Self> {
        let steps = steps.iter().filter(|step| step.result.is_err()).map(|step| step.name);
        let unexplained = if is_root { results.unexplained()? } else { Vec::new() };
        Ok(Self::new(&steps.collect::<Vec<_>>(), results, &unexplained, is_root))
    }

    fn new(steps: &[&str], results: &TestResults, unexplained: &[&str], is_root: bool) -> Self {
        let mut remarks: Vec<String> = steps.iter().map(|step| format!("failed: {step}")).collect();
        remarks.extend(unexplained.iter().map(|test| {
            format!("failed: {test} was skipped for a reason that docs/testing.md does not accept")
        }));
        let skipped = results.skipped();
        if !is_root && skipped > 0 {
            remarks.push(format!(
                "left out: {skipped} tests, most of which need root: run 'sudo cargo xtask ci' on a machine for tests"
            ));
        }
        Self {
            passed: results.passed(),
            failed: results.failed() + steps.len() + unexplained.len(),
            skipped: skipped - unexplained.len(),
            remarks,
        }
    }
}

impl fmt::Display for CiVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for remark in &self.remarks {
            writeln!(f, "{remark}")?;
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> TestResults {
        TestResults::example(
            5,
            &["a.rs:1 m::rooted", "a.rs:2 m::rooted", "b.rs:7 m::moon"],
            &["m::c"],
        )
    }

    fn last_line(verdict: &CiVerdict) -> String {
        verdict.to_string().lines().last().unwrap().to_owned()
    }

    #[test]
    fn the_last_line_counts_each_test_once() {
        let verdict = CiVerdict::new(&[], &results(), &[], true);
        assert_eq!(verdict.to_string(), "3 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn a_step_that_is_no_test_and_a_skip_without_a_reason_fail() {
        let verdict = CiVerdict::new(&["lint"], &results(), &["b.rs:7 m::moon"], true);
        assert_eq!(last_line(&verdict), "3 passed, 3 failed, 1 skipped");
        assert!(
            verdict.to_string().starts_with("failed: lint\nfailed: b.rs:7 m::moon was"),
            "{verdict}"
        );
    }

    #[test]
    fn an_ordinary_user_is_told_of_what_was_left_out() {
        let verdict = CiVerdict::new(&[], &results(), &[], false);
        assert!(verdict.to_string().starts_with("left out: 2 tests"), "{verdict}");
        assert_eq!(last_line(&verdict), "3 passed, 1 failed, 2 skipped");
    }
}
