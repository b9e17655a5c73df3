//! Tests that were skipped, and the reasons that docs/testing.md accepts.

use crate::workspace::{read, root};
use anyhow::Context;
use std::path::Path;

const PAGE: &str = "docs/testing.md";
/// Above the table of accepted reasons, whose first column is the beginning of a reason.
const BEGIN: &str = "<!-- accepted skips -->\n";

/// A test that could not run.
#[derive(Debug, PartialEq)]
pub(crate) struct Skip {
    pub(crate) test: String,
    pub(crate) why: String,
}

impl Skip {
    /// The file and the test, without the line that skipped it; a test in a program of one thread has no name.
    pub(crate) fn key(&self) -> (&str, &str) {
        let (place, name) = self.test.split_once(' ').unwrap_or((&self.test, ""));
        if name.is_empty() { (place, "") } else { (place.split(':').next().unwrap_or(place), name) }
    }
}

/// Lines of `mw_test::skip` in its file.
pub(crate) fn skipped(file: &Path) -> anyhow::Result<Vec<Skip>> {
    Ok(parse(&read(file)?))
}

fn parse(text: &str) -> Vec<Skip> {
    let split = text.lines().filter_map(|line| line.split_once('\t'));
    split.map(|(test, why)| Skip { test: test.to_owned(), why: why.to_owned() }).collect()
}

/// Those of which no accepted reason tells why.
pub(crate) fn unexplained(skips: &[Skip]) -> anyhow::Result<Vec<&Skip>> {
    let page = read(&root().join(PAGE))?;
    let reasons = accepted(&page).with_context(|| format!("{PAGE} has no {BEGIN:?}"))?;
    let is_accepted = |skip: &&Skip| reasons.iter().any(|reason| skip.why.starts_with(reason));
    Ok(skips.iter().filter(|skip| !is_accepted(skip)).collect())
}

fn accepted(page: &str) -> Option<Vec<&str>> {
    let (_, rest) = page.split_once(BEGIN)?;
    let rows = rest.trim_start().lines().take_while(|line| line.starts_with('|')).skip(2);
    Some(rows.filter_map(|row| row.split('`').nth(1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_come_from_the_table() {
        let page = format!(
            "# A\n\n{BEGIN}\n| why | what |\n|---|---|\n| `no sgx` | rare |\n\nmore\n| `b` |\n"
        );
        assert_eq!(accepted(&page), Some(vec!["no sgx"]));
        assert_eq!(accepted("# A\n"), None);
    }

    #[test]
    fn a_reason_that_the_page_does_not_list_is_unexplained() {
        let skips = parse("crates/a/tests/b.rs:7 c\tthe moon is full: 3\nbroken\n");
        assert_eq!(skips.len(), 1);
        assert_eq!(unexplained(&skips).unwrap(), [&skips[0]]);
    }
}
