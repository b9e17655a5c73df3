//! What came of a test, and which tests came out differently.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Outcome of a test.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TestOutcome {
    Passed,
    Skipped,
    Failed(String),
}

impl fmt::Display for TestOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Skipped => f.write_str("skipped"),
            Self::Failed(how) => f.write_str(how),
        }
    }
}

/// By the test's name.
pub(super) type Outcomes = BTreeMap<String, TestOutcome>;

/// All outcomes that a test had.
pub(super) type OutcomeSets = BTreeMap<String, BTreeSet<TestOutcome>>;

pub(super) fn seen(outcomes: &Outcomes) -> OutcomeSets {
    let one = |(test, outcome): (&String, &TestOutcome)| (test.clone(), [outcome.clone()].into());
    outcomes.iter().map(one).collect()
}

/// Adds what tests came to when they ran again.
pub(super) fn merge(seen: &mut OutcomeSets, again: Outcomes, tests: &BTreeSet<String>) {
    for (test, outcome) in again.into_iter().filter(|(test, _)| tests.contains(test)) {
        seen.entry(test).or_default().insert(outcome);
    }
}

/// The tests that had no outcome in common, among them those that ran only one way.
pub(super) fn differing(plain: &OutcomeSets, with: &OutcomeSets) -> BTreeSet<String> {
    let none = BTreeSet::new();
    let differs = |test: &&String| {
        let outcomes = |seen: &OutcomeSets| seen.get(*test).unwrap_or(&none).clone();
        outcomes(plain).is_disjoint(&outcomes(with))
    };
    plain.keys().chain(with.keys()).filter(differs).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(list: &[(&str, TestOutcome)]) -> Outcomes {
        list.iter().map(|(test, outcome)| ((*test).to_owned(), outcome.clone())).collect()
    }

    fn failed() -> TestOutcome {
        TestOutcome::Failed("exit 1".to_owned())
    }

    #[test]
    fn a_test_differs_where_no_outcome_is_shared() {
        let plain = seen(&outcomes(&[
            ("a", TestOutcome::Passed),
            ("b", TestOutcome::Passed),
            ("c", failed()),
            ("gone", TestOutcome::Passed),
        ]));
        let with = seen(&outcomes(&[("a", TestOutcome::Passed), ("b", failed()), ("c", failed())]));
        let names: Vec<String> = differing(&plain, &with).into_iter().collect();
        assert_eq!(names, ["b", "gone"]);
    }

    #[test]
    fn a_test_with_several_outcomes_of_its_own_does_not_differ() {
        let tests = BTreeSet::from(["b".to_owned()]);
        let mut plain = seen(&outcomes(&[("b", TestOutcome::Passed)]));
        let with = seen(&outcomes(&[("b", failed())]));
        assert_eq!(differing(&plain, &with), tests);
        merge(&mut plain, outcomes(&[("b", failed()), ("other", failed())]), &tests);
        assert!(differing(&plain, &with).is_empty());
    }
}
