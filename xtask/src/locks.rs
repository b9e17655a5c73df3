//! The lock file of eval names the versions of the repository's, so that campaigns measure what is built and shipped.

use crate::workspace::{EVAL_MANIFEST, cargo, read, root};
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};

/// The versions of each package.
type Versions<'l> = BTreeMap<&'l str, BTreeSet<&'l str>>;

/// Fails where a version differs, or where the lock file of eval is out of date.
pub(crate) fn run() -> anyhow::Result<()> {
    let text = |path: &str| read(&root().join(path));
    let problems = differences(&text("Cargo.lock")?, &text("eval/Cargo.lock")?)?;
    let advice = "copy Cargo.lock to eval/Cargo.lock and run cargo tree --manifest-path";
    anyhow::ensure!(problems.is_empty(), "{}\n{advice} {EVAL_MANIFEST}", problems.join("\n"));
    cargo(&["tree", "--quiet", "--locked", "--depth=0", "--manifest-path", EVAL_MANIFEST])
}

/// The packages of `campaigns` in a version that `repository` does not have.
fn differences(repository: &str, campaigns: &str) -> anyhow::Result<Vec<String>> {
    let shipped = versions(repository)?;
    let is_known = |name: &str, version: &str| match shipped.get(name) {
        Some(versions) => versions.contains(version),
        // What campaigns alone use.
        None => true,
    };
    let mut problems = Vec::new();
    for (name, versions) in versions(campaigns)? {
        let unknown = versions.into_iter().filter(|version| !is_known(name, version));
        problems.extend(unknown.map(|version| {
            format!("eval/Cargo.lock has {name} {version}, which Cargo.lock does not have")
        }));
    }
    Ok(problems)
}

fn versions(lock: &str) -> anyhow::Result<Versions<'_>> {
    let mut all = Versions::new();
    for package in lock.split("[[package]]\n").skip(1) {
        let field = |name: &str| {
            let line =
                package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            line.map(|value| value.trim_matches('"'))
                .with_context(|| format!("no {name}: {package}"))
        };
        all.entry(field("name")?).or_default().insert(field("version")?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(packages: &[(&str, &str)]) -> String {
        let package = |(name, version): &(&str, &str)| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n")
        };
        format!("version = 4\n\n{}", packages.iter().map(package).collect::<String>())
    }

    #[test]
    fn a_version_of_its_own_is_a_problem_and_a_package_of_its_own_is_none() {
        let repository = lock(&[("a", "1.0.0"), ("a", "2.0.0"), ("b", "1.0.0")]);
        let differ =
            |campaigns: &[(&str, &str)]| differences(&repository, &lock(campaigns)).unwrap();
        assert_eq!(differ(&[("a", "2.0.0"), ("c", "7.0.0")]), [""; 0]);
        assert_eq!(
            differ(&[("a", "1.0.0"), ("b", "1.0.1")]),
            ["eval/Cargo.lock has b 1.0.1, which Cargo.lock does not have"]
        );
    }
}
