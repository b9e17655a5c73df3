//! Every promise of xtask/PROMISES.md names a test that exists, or says "pending"; so does every defence of
//! docs/security.md that names one.

use crate::workspace::{read, root};
use std::path::Path;

pub(crate) fn run() -> anyhow::Result<()> {
    let page = read(&root().join("xtask/PROMISES.md"))?;
    let mut problems = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Promise"))
    {
        let enforced_by = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or("").trim();
        if enforced_by.starts_with("pending") {
            continue;
        }
        let names: Vec<&str> = enforced_by.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            problems.push(format!("xtask/PROMISES.md: no test is named, nor is it pending: {row}"));
        }
        for name in names {
            let (file, test) = name.split_once("::").unwrap_or((name, ""));
            if !names_a_test(&root().join(file), test) {
                problems.push(format!("xtask/PROMISES.md: there is no test {name}"));
            }
        }
    }
    problems.extend(defences()?);
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// Tests that docs/security.md names, `mw-CRATE/FILE.rs::TEST` below crates/, and that do not exist.
fn defences() -> anyhow::Result<Vec<String>> {
    let page = read(&root().join("docs/security.md"))?;
    let named = page.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"));
    let missing = named.filter(|(file, test)| {
        file.starts_with("mw-") && !names_a_test(&root().join("crates").join(file), test)
    });
    Ok(missing
        .map(|(file, test)| format!("docs/security.md: there is no test {file}::{test}"))
        .collect())
}

fn names_a_test(file: &Path, test: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(file) else { return false };
    text.contains(&format!("fn {test}("))
}
