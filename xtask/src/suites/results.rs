//! The latest result of each suite with each option set, so that suites can be run one by one: all of
//! them together take hours.

use super::{Compared, SUITES};
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
pub(super) fn all(cache: &Path) -> anyhow::Result<Vec<Compared>> {
    let mut all = Vec::new();
    for suite in SUITES {
        for set in suite.sets {
            let path = path(cache, suite.name, set);
            if path.exists() {
                let json = crate::read(&path)?;
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
    use crate::suites::Difference;
    use crate::suites::outcome::Outcome;

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
                plain: Outcome::Passed,
                with: Outcome::Failed("exit status: 1".to_owned()),
                known: None,
            }],
        };
        assert!(all(cache.path()).unwrap().is_empty());
        keep(cache.path(), &compared).unwrap();
        compared.same = 3;
        keep(cache.path(), &compared).unwrap();
        assert_eq!(all(cache.path()).unwrap(), [compared]);
    }
}
