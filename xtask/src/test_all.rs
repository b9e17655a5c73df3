//! All tests. On a machine with much else to do one that is about time may fail through no fault of
//! ours: the targets with a failed test are run once more, by themselves, and have to pass then.

use crate::{cargo, root};
use anyhow::Context;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

pub(crate) fn run() -> anyhow::Result<()> {
    let failed = first_run()?;
    for target in &failed {
        println!("== failed: {}; once more", target.join(" "));
        let again: Vec<&str> = target.iter().map(String::as_str).collect();
        cargo(&[&["test", "--locked"], again.as_slice()].concat())?;
    }
    if !failed.is_empty() {
        println!(
            "== failed at first and passed then: {}",
            failed.iter().map(|args| args.join(" ")).collect::<Vec<_>>().join(", ")
        );
    }
    Ok(())
}

/// Runs everything, and returns cargo's arguments for each target in which a test failed.
fn first_run() -> anyhow::Result<Vec<Vec<String>>> {
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
fn failed_targets(lines: &[String]) -> Vec<Vec<String>> {
    let listed = lines.iter().filter_map(|line| line.strip_prefix("    `")?.strip_suffix('`'));
    listed.map(|args| args.split_whitespace().map(str::to_owned).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_targets_are_taken_from_cargos_list() {
        let said = "error: test failed, to rerun pass `-p mw-cli --test watch`\nerror: 2 targets \
                    failed:\n    `-p mw-cli --test watch`\n    `-p mw-record --lib`";
        let lines: Vec<String> = said.lines().map(str::to_owned).collect();
        let want = [vec!["-p", "mw-cli", "--test", "watch"], vec!["-p", "mw-record", "--lib"]];
        assert_eq!(failed_targets(&lines), want);
        assert!(failed_targets(&["error: could not compile".to_owned()]).is_empty());
    }
}
