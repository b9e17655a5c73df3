//! The pages of rules: their own text, and the kernels on which they were checked.

use anyhow::Context;
use mw_rules::{RULES, Rule};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use xtask::workspace::{read, root};

const KERNELS: &str = "kernels";
const LAB_RESULTS: &str = "eval/results/lab/results.json";
/// The page of the results.
const LAB_REPORT: &str = "eval/results/lab.md";

/// Adds a page for each rule, and their index.
pub(crate) fn write(files: &mut BTreeMap<PathBuf, Vec<u8>>) -> anyhow::Result<()> {
    let mut index = String::from(
        "# Rules\n\nGenerated from the rules' own source files by `cargo xtask docs`; the same \
         text is shown by `memwright explain RULE`.\n\n",
    );
    let kernels = stored_kernels()?;
    let runs = passed_runs()?;
    for rule in RULES {
        index += &format!("- [{0}]({0}.md): {1}\n", rule.id, rule.summary());
        let page = rule.page() + &checked_kernels(rule, &kernels, &runs);
        files.insert(format!("docs/rules/{}.md", rule.id).into(), page.into());
    }
    files.insert("docs/rules/README.md".into(), index.into());
    Ok(())
}

/// Functions of each stored kernel, by its name without the architecture.
fn stored_kernels() -> anyhow::Result<Vec<(String, BTreeSet<String>)>> {
    let mut kernels = Vec::new();
    for entry in fs::read_dir(root().join(KERNELS))? {
        let folder = entry?.file_name().into_string().ok().context("a name in kernels/")?;
        let Some(name) = folder.strip_suffix("-amd64") else { continue };
        let symbols = read(&root().join(KERNELS).join(&folder).join("symbols.txt"))?;
        kernels.push((name.to_owned(), symbols.lines().map(str::to_owned).collect()));
    }
    kernels.sort_by_key(|(name, _)| version(name));
    Ok(kernels)
}

/// Cases and kernels of passed runs of the lab.
fn passed_runs() -> anyhow::Result<BTreeSet<(String, String)>> {
    let results: Value = serde_json::from_str(&read(&root().join(LAB_RESULTS))?)?;
    let runs = results["runs"].as_array().context(LAB_RESULTS)?;
    let passed = runs.iter().filter(|run| run["outcome"] == "passed");
    let text = |run: &Value, field: &str| run[field].as_str().unwrap_or_default().to_owned();
    Ok(passed.map(|run| (text(run, "case"), text(run, "kernel"))).collect())
}

/// The section on the kernels with which a rule was compared, and on which its lab case passed; empty where it has no
/// functions and no run of the lab is stored.
fn checked_kernels(
    rule: &Rule,
    kernels: &[(String, BTreeSet<String>)],
    runs: &BTreeSet<(String, String)>,
) -> String {
    let sets = rule.functions_of_stalls();
    let has_one = |functions: &BTreeSet<String>| {
        functions.iter().any(|name| sets.iter().any(|set| set.has(name)))
    };
    let (with, without): (Vec<_>, Vec<_>) =
        kernels.iter().partition(|(_, functions)| has_one(functions));
    let names = |kernels: &[&(String, BTreeSet<String>)]| {
        let names: Vec<&str> = kernels.iter().map(|(name, _)| &**name).collect();
        names.join(", ")
    };
    let mut lines = Vec::new();
    if !sets.is_empty() {
        lines.push(format!("- Kernel functions of its stalls: {}.", names(&with)));
    }
    if !sets.is_empty() && !without.is_empty() {
        lines.push(format!("- None of these functions: {}.", names(&without)));
    }
    let mut lab: Vec<&str> =
        runs.iter().filter(|(case, _)| case == rule.id).map(|(_, kernel)| &**kernel).collect();
    lab.sort_by_key(|name| version(name));
    if !lab.is_empty() {
        lines.push(format!("- Lab: passed on {}.", lab.join(", ")));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "\n## Kernels\nChecked on these kernels ([kernels.md](../kernels.md), \
         [results of the lab](../../{LAB_REPORT})):\n{}\n",
        lines.join("\n")
    )
}

/// The numbers of a kernel's name, to sort by.
fn version(name: &str) -> (Vec<u32>, String) {
    let (series, flavour) = name.split_once('-').unwrap_or((name, ""));
    (series.split('.').filter_map(|part| part.parse().ok()).collect(), flavour.to_owned())
}
