//! Differences that are known and accepted: known.toml, each with its reason.

use anyhow::Context;
use serde::Deserialize;

const FILE: &str = include_str!("known.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    #[serde(default)]
    difference: Vec<KnownDifference>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownDifference {
    suite: String,
    /// Option sets that it is seen with.
    options: Vec<String>,
    tests: Vec<String>,
    reason: String,
}

impl Known {
    pub(super) fn load() -> anyhow::Result<Self> {
        toml::from_str(FILE).context("eval/src/suites/known.toml")
    }

    /// The reason why a test may differ.
    pub(super) fn reason(&self, suite: &str, set: &str, test: &str) -> Option<String> {
        let fits = |known: &&KnownDifference| {
            known.suite == suite
                && known.options.iter().any(|option| option == set)
                && known.tests.iter().any(|name| name == test)
        };
        self.difference.iter().find(fits).map(|known| known.reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::{OPTION_SETS, SUITES};

    #[test]
    fn every_known_difference_names_what_exists_and_its_reason() {
        for known in Known::load().unwrap().difference {
            assert!(SUITES.iter().any(|suite| suite.name == known.suite), "{known:?}");
            for option in &known.options {
                assert!(OPTION_SETS.iter().any(|set| set.name == option), "{known:?}");
            }
            assert!(known.reason.len() > 20 && !known.tests.is_empty(), "{known:?}");
        }
    }
}
