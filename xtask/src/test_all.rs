//! All tests. On a machine with much else to do one that is about time may fail through no fault of
//! ours: the targets with a failed test are run once more, by themselves, and have to pass then.

use crate::{cargo, root};
use anyhow::Context;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

pub(crate) fn run() -> anyhow::Result<()> {
    let failed = first_run()?;
    for target in &failed {
        println!("== failed: {target}; once more");
        cargo(&again(target))?;
    }
    if !failed.is_empty() {
        println!("== failed at first and passed then: {}", failed.join(", "));
    }
    Ok(())
}

/// The arguments to run a target like `-p mw-cli --test watch` again: chosen in the whole workspace and
/// not by its package, which by itself has fewer features, and may lack the very test that failed.
fn again(target: &str) -> Vec<&str> {
    let kind = target.split_whitespace().skip_while(|word| !word.starts_with("--"));
    ["test", "--locked", "--workspace"].into_iter().chain(kind).collect()
}

/// Runs everything, and returns what cargo calls each target in which a test failed.
fn first_run() -> anyhow::Result<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args(["test", "--locked", "--workspace", "--no-fail-fast"])
        .current_dir(root())
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take().context("no standard error")?;
    let mut lines = Vec::new();
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        eprintln!("{line}");
        lines.push(line);
    }
    let status = child.wait()?;
    let failed = failed_targets(&lines);
    anyhow::ensure!(status.success() || !failed.is_empty(), "cargo test failed");
    Ok(failed)
}

/// From the list at the end of what cargo says: `    `-p mw-cli --test watch``.
fn failed_targets(lines: &[String]) -> Vec<String> {
    let listed = lines.iter().filter_map(|line| line.strip_prefix("    `")?.strip_suffix('`'));
    listed.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_targets_are_taken_from_cargos_list() {
        let said = "error: test failed, to rerun pass `-p mw-cli --test watch`\nerror: 2 targets \
                    failed:\n    `-p mw-cli --test watch`\n    `-p mw-record --lib`";
        let lines: Vec<String> = said.lines().map(str::to_owned).collect();
        assert_eq!(failed_targets(&lines), ["-p mw-cli --test watch", "-p mw-record --lib"]);
        assert!(failed_targets(&["error: could not compile".to_owned()]).is_empty());
    }

    #[test]
    fn a_target_is_run_again_with_the_features_that_it_had() {
        let want = ["test", "--locked", "--workspace", "--test", "watch"];
        assert_eq!(again("-p mw-cli --test watch"), want);
    }
}
