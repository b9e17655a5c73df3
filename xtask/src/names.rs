//! Names of types: one name is one thing in the whole workspace, and a noun. Definitions that are indented are local to a
//! function, an implementation or a test module, and do not count; nor do files of tests.

use crate::workspace::{read, root, tracked};
use std::collections::BTreeMap;

/// Names that several types have, and the reason.
const SHARED: &[(&str, &str)] = &[
    ("Cachestat", "struct cachestat (linux/mman.h); mw-preload makes its system calls itself"),
    ("CachestatRange", "struct cachestat_range (linux/mman.h), likewise"),
    (
        "Error",
        "the error of a library that others link, as in std: mw_pool::Error, mw_segment::Error",
    ),
];
const _: () = assert!(SHARED.len() <= 20, "give a type its own name");

const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Nouns that end as participles do.
const NOUNS: &[&str] = &["Feed", "Need", "Seed", "Speed"];

/// Participles that do not end in `ed`, and other words that are no nouns.
const NO_NOUNS: &str = "Begun Broken Built Chosen Did Doing Done Drawn Found Frozen Given Gone Growing Grown Held \
    Hidden How Kept Known Lasting Left Lost Made Meant Outgoing Pending Persisting Running Said Says Seen Sent \
    Shown Spoken Standing Stuck Taken Taking Told Undoing Undone Unknown Unseen Viewing When Which Why Woken Written";

pub(crate) fn run() -> anyhow::Result<()> {
    let files = tracked("*.rs")?;
    let is_source =
        |file: &&str| file.contains("src/") && !file.starts_with("eval/") && !is_test(file);
    let mut texts = BTreeMap::new();
    for file in files.iter().map(String::as_str).filter(is_source) {
        texts.insert(file, read(&root().join(file))?);
    }
    let problems = problems(&texts);
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// The tests of a module lie in tests.rs; xtask has a module that runs tests.
fn is_test(file: &str) -> bool {
    !file.starts_with("xtask/") && (file.ends_with("tests.rs") || file.contains("/tests/"))
}

fn problems(texts: &BTreeMap<&str, String>) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, text) in texts {
        for name in definitions(text) {
            places.entry(name).or_default().push(file);
        }
    }
    let mut problems = Vec::new();
    for (name, files) in &places {
        let is_shared = SHARED.iter().any(|(shared, _)| shared == name);
        if files.len() > 1 && !is_shared {
            problems.push(format!("{name} names {} types: {}", files.len(), files.join(", ")));
        } else if files.len() < 2 && is_shared {
            problems
                .push(format!("{name} names one type: take it off the list in xtask/src/names.rs"));
        }
        if is_no_noun(name) {
            problems.push(format!("{}: {name} is no noun: name what it is", files.join(", ")));
        }
    }
    problems
}

/// Names of the types that a file defines at its top level.
fn definitions(text: &str) -> impl Iterator<Item = &str> {
    let before = std::iter::once("").chain(text.lines());
    text.lines().zip(before).filter(|(_, before)| *before != "#[cfg(test)]").filter_map(
        |(line, _)| {
            let line = line
                .strip_prefix("pub")
                .map_or(Some(line), |line| Some(line.split_once(' ')?.1))?;
            let (keyword, name) = line.strip_prefix("unsafe ").unwrap_or(line).split_once(' ')?;
            let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
            (KEYWORDS.contains(&keyword) && name.starts_with(|c: char| c.is_ascii_uppercase()))
                .then_some(name)
        },
    )
}

fn is_no_noun(name: &str) -> bool {
    let is_one_word = name.chars().filter(char::is_ascii_uppercase).count() == 1;
    let is_participle = name.ends_with("ed") && !NOUNS.contains(&name);
    is_one_word && (is_participle || NO_NOUNS.split_ascii_whitespace().any(|word| word == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(texts: &[(&'static str, &str)]) -> Vec<String> {
        problems(&texts.iter().map(|(file, text)| (*file, (*text).to_owned())).collect())
    }

    #[test]
    fn a_name_of_two_types_fails_unless_one_is_local_or_of_tests() {
        let twice = |text| {
            problems_of(&[("a/src/lib.rs", "pub(crate) struct Row;\n"), ("a/src/b.rs", text)]).len()
        };
        assert_eq!(twice("pub type Row<'a> = &'a str;\n"), 1);
        assert_eq!(twice("impl A {\n    type Row = u8;\n}\n"), 0);
        assert_eq!(twice("#[cfg(test)]\nstruct Row;\n"), 0);
        assert_eq!(twice("struct Rows;\nfn row() {}\n"), 0);
        assert!(is_test("crates/mw-a/src/b/tests.rs") && !is_test("xtask/src/tests.rs"));
    }

    #[test]
    fn a_participle_is_no_name_and_a_noun_that_looks_like_one_is() {
        let all = ["Seen", "Blocked", "Why", "Speed", "Need", "BlockedThreads", "Reading"];
        assert_eq!(all.map(is_no_noun), [true, true, true, false, false, false, false]);
    }
}
