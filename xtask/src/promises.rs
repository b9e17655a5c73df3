//! Every promise of docs/PROMISES.md names a test that exists, or says "pending".

use crate::workspace::{read, root};
use std::path::Path;

pub(crate) fn run() -> anyhow::Result<()> {
    let page = read(&root().join("docs/PROMISES.md"))?;
    let mut problems = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Promise"))
    {
        let enforced_by = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or("").trim();
        if enforced_by.starts_with("pending") {
            continue;
        }
        let names: Vec<&str> = enforced_by.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            problems.push(format!("no test is named, nor is it pending: {row}"));
        }
        for name in names {
            let (file, test) = name.split_once("::").unwrap_or((name, ""));
            if !names_a_test(&root().join(file), test) {
                problems.push(format!("there is no test {name}"));
            }
        }
    }
    anyhow::ensure!(problems.is_empty(), "docs/PROMISES.md:\n{}", problems.join("\n"));
    Ok(())
}

fn names_a_test(file: &Path, test: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(file) else { return false };
    text.contains(&format!("fn {test}("))
}
