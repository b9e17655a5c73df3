//! Words of pages, messages and doc comments: docs/GLOSSARY.md binds them, and a doc comment begins with its noun.

use crate::workspace::{read, root, tracked};

/// Words that are not used, and those that are.
const BANNED: &[(&str, &str)] = &[
    ("sure", "confidence, certain"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("in vain", "without freeing any, without effect"),
    ("want of", "shortage"),
    ("put down to", "attributed to"),
    ("held against", "compared with"),
    ("table space", "tablespace"),
    ("over a reboot", "across reboots"),
    ("time-out", "timeout"),
    ("time-outs", "timeouts"),
    ("processor", "CPU, architecture"),
    ("processors", "CPUs"),
    ("folder", "directory"),
    ("folders", "directories"),
    ("could not be told", "undetermined"),
    ("give back", "release"),
    ("gives back", "releases"),
    ("given back", "released"),
    ("gave back", "released"),
];

/// Words that pages do not use; code has them in other senses.
const BANNED_IN_PAGES: &[(&str, &str)] =
    &[("play", "run"), ("plays", "runs"), ("whoever", "the user or task that")];

/// Texts of other software, names of fields, and headlines of incidents.
const QUOTES: &[&str] =
    &["A processor failed, forming new configuration", "\"processors\"", "\"mended\"", "{folder}"];

/// Pages that list the words, tell of what was, or print what was measured.
const NO_PAGES: &[&str] =
    &["CHANGELOG.md", "docs/GLOSSARY.md", "docs/evaluations/", "eval/", "docgen/", "fixtures/"];

/// Pages with fixed headings.
const RULES: &str = "docs/rules/";

/// Share of doc comments that may begin with a question word, in thousandths. It only falls.
const QUESTIONS_MAX_MILLI: usize = 22;
const QUESTIONS: &[&str] =
    &["what", "how", "whether", "where", "why", "who", "whose", "whom", "when", "which"];

pub(crate) fn run() -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for page in tracked("*.md")? {
        if !NO_PAGES.iter().any(|not| page.starts_with(not)) {
            let text = read(&root().join(&page))?;
            let lines = prose(&text);
            let words = BANNED.iter().chain(BANNED_IN_PAGES);
            problems.extend(banned(&page, words, &lines));
            if !page.starts_with(RULES) {
                problems.extend(questions(&page, &lines));
            }
        }
    }
    let (mut comments, mut questions) = (0, 0);
    for file in tracked("*.rs")? {
        let text = read(&root().join(&file))?;
        let firsts = first_lines(&text);
        comments += firsts.len();
        questions += firsts.iter().filter(|line| is_question(line)).count();
        let is_test = file.ends_with("tests.rs");
        if file.starts_with("crates/") && file.contains("/src/") && !is_test {
            problems.extend(banned(&file, BANNED.iter(), &shown(&text)));
        }
    }
    if questions * 1000 > comments * QUESTIONS_MAX_MILLI {
        problems.push(format!(
            "{questions} of {comments} doc comments begin with a question word; {} may: give the noun",
            comments * QUESTIONS_MAX_MILLI / 1000
        ));
    }
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

fn banned<'a>(
    file: &str,
    words: impl Iterator<Item = &'a (&'a str, &'a str)> + Clone,
    lines: &[(usize, String)],
) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, line) in lines {
        if ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)) {
            problems.push(format!("{file}:{at}: the mark of a merge"));
        }
        let line = QUOTES.iter().fold(line.clone(), |line, quote| line.replace(quote, ""));
        let line = line.to_lowercase();
        for (word, instead) in words.clone().filter(|(word, _)| has_word(&line, word)) {
            problems.push(format!("{file}:{at}: '{word}' (use: {instead})"));
        }
    }
    problems
}

/// Headings of a page that begin with a question word: they are no noun phrases.
fn questions(page: &str, lines: &[(usize, String)]) -> Vec<String> {
    let headings = lines.iter().filter(|(_, line)| line.starts_with('#'));
    let heading = |line: &str| is_question(line.trim_start_matches('#').trim());
    let wrong = headings.filter(|(_, line)| heading(line));
    wrong.map(|(at, line)| format!("{page}:{at}: a heading is a noun phrase: {line}")).collect()
}

/// True if a line has a word or words that no letter, number, hyphen or underscore continues.
fn has_word(line: &str, word: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(continues) && !after.is_some_and(continues)
    })
}

/// Lines of a page, without blocks and spans of code.
fn prose(page: &str) -> Vec<(usize, String)> {
    let mut inside = false;
    let mut lines = Vec::new();
    for (at, line) in page.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        if !inside && !is_fence && !line.starts_with("    ") {
            lines.push((at + 1, without_code(line)));
        }
    }
    lines
}

/// A line without spans of code and targets of links.
fn without_code(line: &str) -> String {
    let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let mut parts = text.split("](");
    let mut kept = parts.next().unwrap_or("").to_owned();
    for part in parts {
        kept += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    kept
}

/// Doc comments and literals of a source file, except its tests.
fn shown(source: &str) -> Vec<(usize, String)> {
    let end = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
    let text: Vec<char> = source[..end].chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(&c) = text.get(at) {
        let began = line;
        let next = text.get(at + 1).copied();
        let end = match (c, next) {
            ('/', Some('/')) => {
                let end = end_of_line(&text, at);
                let comment: String = text[at..end].iter().collect();
                if comment.starts_with("///") || comment.starts_with("//!") {
                    found.push((began, without_code(&comment)));
                }
                end
            }
            ('r', Some('"' | '#')) if at == 0 || !text[at - 1].is_alphanumeric() => {
                match raw_literal(&text, at) {
                    Some(end) => {
                        found.push((began, text[at..end].iter().collect()));
                        end
                    }
                    None => at + 1,
                }
            }
            ('"', _) => {
                let end = end_of_literal(&text, at);
                found.push((began, text[at..end].iter().collect()));
                end
            }
            ('\'', Some('\\')) => at + 3,
            ('\'', _) if text.get(at + 2) == Some(&'\'') => at + 3,
            _ => at + 1,
        };
        let end = end.min(text.len());
        line += text[at..end].iter().filter(|c| **c == '\n').count();
        at = end;
    }
    found
}

fn end_of_line(text: &[char], at: usize) -> usize {
    text[at..].iter().position(|c| *c == '\n').map_or(text.len(), |length| at + length)
}

fn end_of_literal(text: &[char], quote: usize) -> usize {
    let mut at = quote + 1;
    while let Some(c) = text.get(at) {
        match c {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// End of the raw literal that begins here, if one does.
fn raw_literal(text: &[char], at: usize) -> Option<usize> {
    let marks = text[at + 1..].iter().take_while(|c| **c == '#').count();
    let quote = at + 1 + marks;
    if text.get(quote) != Some(&'"') {
        return None;
    }
    let is_end = |from: &usize| {
        text[*from] == '"'
            && text[from + 1..].iter().take(marks).filter(|c| **c == '#').count() == marks
    };
    (quote + 1..text.len()).find(is_end).map(|end| end + 1 + marks)
}

/// First line of each doc comment of an item.
fn first_lines(source: &str) -> Vec<&str> {
    let mut firsts = Vec::new();
    let mut inside = false;
    for line in source.lines() {
        let comment = line.trim_start().strip_prefix("///").filter(|rest| !rest.starts_with('/'));
        if let Some(rest) = comment.filter(|_| !inside) {
            firsts.push(rest.trim());
        }
        inside = comment.is_some();
    }
    firsts
}

fn is_question(line: &str) -> bool {
    let word: String = line.chars().take_while(|c| c.is_alphabetic()).collect();
    QUESTIONS.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_prose_and_not_in_code() {
        let page = "It is `sure` in code.\n```\nsure\n```\nWe are sure [a](sure.md).\nmeasure\n";
        let found = banned("a.md", BANNED.iter(), &prose(page));
        assert_eq!(found, ["a.md:5: 'sure' (use: confidence, certain)"]);
    }

    #[test]
    fn doc_comments_and_literals_are_checked_and_tests_are_not() {
        let source = "/// A folder.\n// folder\nfn a<'a>() { b(\"a \\\" folder\", '\"', r#\"folder\"#); }\n\
                      #[cfg(test)]\nmod tests {\n    /// A folder.\n}\n";
        let lines: Vec<usize> = shown(source)
            .iter()
            .filter(|(_, line)| has_word(line, "folder"))
            .map(|(at, _)| *at)
            .collect();
        assert_eq!(lines, [1, 3, 3]);
    }

    #[test]
    fn the_first_lines_of_comments_are_counted() {
        let source = "/// What it is.\n/// How.\nfn a() {}\n/// Size.\nfn b() {}\n";
        let firsts = first_lines(source);
        assert_eq!(firsts, ["What it is.", "Size."]);
        assert_eq!(firsts.iter().filter(|line| is_question(line)).count(), 1);
    }

    #[test]
    fn pages_messages_and_comments_use_the_words_of_the_glossary() {
        run().unwrap();
    }
}
