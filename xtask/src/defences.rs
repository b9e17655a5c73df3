//! Every defence of docs/security.md that names a test names one that exists.

use crate::workspace::{read, root};
use std::path::Path;

/// A test is named as `mw-CRATE/FILE.rs::TEST`, below crates/.
pub(crate) fn run() -> anyhow::Result<()> {
    let page = read(&root().join("docs/security.md"))?;
    let named = page.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"));
    let missing = named.filter(|(file, test)| {
        file.starts_with("mw-") && !has_test(&root().join("crates").join(file), test)
    });
    let missing: Vec<String> =
        missing.map(|(file, test)| format!("there is no test {file}::{test}")).collect();
    anyhow::ensure!(missing.is_empty(), "docs/security.md: {}", missing.join("\n"));
    Ok(())
}

fn has_test(file: &Path, test: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(file) else { return false };
    text.contains(&format!("fn {test}("))
}
