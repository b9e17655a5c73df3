//! Links of the documentation lead to files that exist and to headings of theirs, docs/README.md has every page of
//! docs/, and docs/benchmarks.md every record of an evaluation.

use crate::workspace::{read, root, tracked};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

const INDEX: &str = "docs/README.md";
/// The page that lists the records of evaluations.
const RESULTS: &str = "docs/benchmarks.md";
const RECORDS: &str = "eval/results/";

/// What is no page: heads of generated ones, whose links are those of docs/. Of the changelog, whose lines tell of what
/// was, none is changed later.
const NO_PAGES: &[&str] = &["CHANGELOG.md", "docgen/", "eval/src/"];

/// Directories of docs/ that the index has as a whole.
const WHOLE: &[&str] = &["docs/evaluations/", "docs/rules/"];

pub(crate) fn run() -> anyhow::Result<()> {
    let listed = tracked("*.md")?;
    let is_page = |page: &&str| !NO_PAGES.iter().any(|not| page.starts_with(not));
    let pages: Vec<&str> = listed.iter().map(String::as_str).filter(is_page).collect();
    let mut problems = Vec::new();
    for page in &pages {
        problems.extend(broken(&root(), page, &read(&root().join(page))?));
    }
    let index = read(&root().join(INDEX))?;
    let indexed: BTreeSet<&str> = targets(&index).collect();
    let is_listed = |page: &&&str| {
        let name = page.strip_prefix("docs/");
        name.is_none_or(|name| indexed.contains(name) || **page == INDEX)
            || WHOLE.iter().any(|folder| page.starts_with(folder))
    };
    let missing = pages.iter().filter(|page| !is_listed(page));
    problems.extend(missing.map(|page| format!("{INDEX} lacks {page}")));
    let results = read(&root().join(RESULTS))?;
    let is_record = |page: &&&str| page.starts_with(RECORDS);
    let unlisted = pages.iter().filter(is_record).filter(|page| !results.contains(**page));
    problems.extend(unlisted.map(|page| format!("{RESULTS} lacks {page}")));
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// The links of a page that lead nowhere.
fn broken(root: &Path, page: &str, text: &str) -> Vec<String> {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let leads_nowhere = |target: &&str| {
        if target.contains("://") || target.starts_with("mailto:") {
            return false;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { page.into() } else { plain(&folder.join(file)) };
        let Ok(found) = root.join(&path).canonicalize() else { return true };
        let is_page = found.extension().is_some_and(|ending| ending == "md");
        !heading.is_empty()
            && is_page
            && !std::fs::read_to_string(&found).is_ok_and(|text| anchors(&text).contains(heading))
    };
    let broken = targets(text).filter(leads_nowhere);
    broken.map(|target| format!("{page}: the link to {target} leads nowhere")).collect()
}

/// What the links of a page lead to. Code has none.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    outside_blocks(text).flat_map(|line| {
        let links = line.match_indices("](").map(|(at, mark)| &line[at + mark.len()..]);
        links.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
    })
}

fn outside_blocks(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        !inside && !is_fence
    })
}

/// The headings of a page, as GitHub names them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = outside_blocks(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// A path without `..`, whose directory need not exist.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_no_file_and_to_no_heading_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("docs")).unwrap();
        std::fs::write(dir.path().join("docs/b.md"), "# B\n\n## `c`, and d\n").unwrap();
        let text = "# A\n\n[1](b.md) [2](b.md#c-and-d) [3](../docs/b.md) [4](https://a.b/c) [5](#a)\n\
                    ```\n[6](none)\n```\n[7](none.md) [8](b.md#none)\n";
        std::fs::write(dir.path().join("docs/a.md"), text).unwrap();
        assert_eq!(
            broken(dir.path(), "docs/a.md", text),
            [
                "docs/a.md: the link to none.md leads nowhere",
                "docs/a.md: the link to b.md#none leads nowhere"
            ]
        );
    }

    #[test]
    fn every_link_leads_somewhere_and_every_page_is_in_the_index() {
        run().unwrap();
    }
}
