//! The latest result of each suite with each option set, so that suites can be run one by one: all of
//! them together take hours.

use super::compared::Compared;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// Keeps a result in place of the former one.
pub(super) fn keep(cache: &Path, compared: &Compared) -> anyhow::Result<()> {
    let path = path(cache, &compared.suite, &compared.set);
    std::fs::create_dir_all(path.parent().context("no parent")?)?;
    let json = serde_json::to_string_pretty(compared)?;
    std::fs::write(&path, json).with_context(|| path.display().to_string())
}

/// All that were kept, suite by suite.
pub(super) fn all<'a>(
    cache: &Path,
    suites: impl Iterator<Item = (&'a str, &'a [&'a str])>,
) -> anyhow::Result<Vec<Compared>> {
    let mut all = Vec::new();
    for (suite, sets) in suites {
        for set in sets {
            let path = path(cache, suite, set);
            if path.exists() {
                let json = crate::workspace::read(&path)?;
                all.push(serde_json::from_str(&json).with_context(|| path.display().to_string())?);
            }
        }
    }
    Ok(all)
}

fn path(cache: &Path, suite: &str, set: &str) -> PathBuf {
    cache.join("results").join(format!("{suite}-{set}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::compared::Difference;
    use crate::suites::outcome::TestOutcome;

    #[test]
    fn the_latest_result_is_kept() {
        let cache = tempfile::tempdir().unwrap();
        let mut compared = Compared {
            suite: "ltp".to_owned(),
            version: "1".to_owned(),
            set: "lock".to_owned(),
            same: 2,
            skipped: 1,
            differences: vec![Difference {
                test: "a".to_owned(),
                plain: TestOutcome::Passed,
                with: TestOutcome::Failed("exit status: 1".to_owned()),
                known: None,
            }],
        };
        let suites: [(&str, &[&str]); 1] = [("ltp", &["default", "lock"])];
        let all = || all(cache.path(), suites.into_iter()).unwrap();
        assert!(all().is_empty());
        keep(cache.path(), &compared).unwrap();
        compared.same = 3;
        keep(cache.path(), &compared).unwrap();
        assert_eq!(all(), [compared]);
    }
}
