//! The paths that a source file writes, read from its tokens.

use std::collections::{BTreeMap, BTreeSet};

/// Paths are divided at `::`, and begin with `crate`, `self`, `super` or another name.
#[derive(Default)]
pub(super) struct References {
    /// Names that `use` brings in, with the path of each.
    pub(super) imports: BTreeMap<String, ModulePath>,
    /// The modules that it declares.
    pub(super) modules: BTreeSet<String>,
    /// Paths of private `use` declarations, and of all other code.
    pub(super) used: Vec<ModulePath>,
}

pub(super) type ModulePath = Vec<String>;

/// Maximum depth of braces in a `use` declaration.
const USE_DEPTH_MAX: usize = 16;

/// Leaves out what is compiled for tests only.
pub(super) fn parse(text: &str) -> References {
    let tokens = tokens(text);
    let mut references = References::default();
    let mut at = 0;
    let mut is_public = false;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "#" if is_test_attribute(&tokens[at..]) => at = item_end(&tokens, at + 7),
            "pub" => {
                is_public = true;
                at += 1;
                if tokens.get(at).is_some_and(|token| token == "(") {
                    at += tokens[at..].iter().take_while(|token| *token != ")").count() + 1;
                }
                continue;
            }
            "mod" => {
                references.modules.extend(tokens.get(at + 1).cloned());
                at += 2;
            }
            "use" => {
                let end = item_end(&tokens, at);
                add_use(&tokens[at + 1..end], is_public, &mut references);
                at = end;
            }
            _ => {
                let is_field = at.checked_sub(1).is_some_and(|before| tokens[before] == ".");
                let path = path_at(&tokens[at..]);
                at += (2 * path.len()).saturating_sub(1).max(1);
                if !path.is_empty() && !is_field {
                    references.used.push(path);
                }
            }
        }
        is_public = false;
    }
    references
}

fn is_test_attribute(tokens: &[String]) -> bool {
    tokens.len() > 6 && tokens[1..7] == ["[", "cfg", "(", "test", ")", "]"]
}

/// Behind the `;` or the block that ends the item at `start`.
fn item_end(tokens: &[String], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                let goes_on = tokens.get(at + 1).is_some_and(|next| next == ";");
                if depth == 0 && token == "}" && !goes_on {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The longest path at the start of the tokens, as `a :: b`.
fn path_at(tokens: &[String]) -> ModulePath {
    let mut path = ModulePath::new();
    let mut rest = tokens;
    while let Some((name, behind)) = rest.split_first().filter(|(name, _)| is_name(name)) {
        path.push(name.clone());
        match behind.split_first() {
            Some((separator, behind)) if separator == "::" => rest = behind,
            _ => break,
        }
    }
    path
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

fn add_use(tokens: &[String], is_public: bool, references: &mut References) {
    let mut leaves = Vec::new();
    use_tree(tokens, &mut ModulePath::new(), 0, &mut leaves);
    for (name, path) in leaves {
        if !is_public {
            references.used.push(path.clone());
        }
        if name != "*" {
            references.imports.insert(name, path);
        }
    }
}

/// Reads one tree of a `use` declaration and returns what stands behind it.
fn use_tree<'t>(
    tokens: &'t [String],
    prefix: &mut ModulePath,
    depth: usize,
    leaves: &mut Vec<(String, ModulePath)>,
) -> &'t [String] {
    let length = prefix.len();
    let path = path_at(tokens);
    let mut rest = &tokens[path.len().min(tokens.len())..];
    let separators = path.len().saturating_sub(1);
    rest = &rest[separators.min(rest.len())..];
    prefix.extend(path);
    if rest.first().is_some_and(|token| token == "::") {
        rest = &rest[1..];
    }
    match rest.first().map(String::as_str) {
        Some("{") if depth < USE_DEPTH_MAX => {
            rest = &rest[1..];
            while rest.first().is_some_and(|token| token != "}") {
                let behind = use_tree(rest, prefix, depth + 1, leaves);
                let behind = behind.strip_prefix(&[",".to_owned()]).unwrap_or(behind);
                if behind.len() == rest.len() {
                    break;
                }
                rest = behind;
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        Some("*") => {
            prefix.push("*".to_owned());
            leaves.push(("*".to_owned(), prefix.clone()));
            rest = &rest[1..];
        }
        other => {
            let renamed = other == Some("as");
            if prefix.last().is_some_and(|name| name == "self") && prefix.len() > 1 {
                prefix.pop();
            }
            let name = if renamed { rest.get(1) } else { prefix.last() };
            leaves.extend(name.map(|name| (name.clone(), prefix.clone())));
            rest = &rest[if renamed { 2.min(rest.len()) } else { 0 }..];
        }
    }
    prefix.truncate(length);
    rest
}

/// Names, `::` and single signs; without comments, texts, characters and lifetimes.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if let Some(length) = skipped(rest) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let length = name_length(rest);
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

fn name_length(text: &str) -> usize {
    text.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(text.len())
}

/// Length of the comment, text, character or lifetime that the text begins with.
fn skipped(text: &str) -> Option<usize> {
    let end = |pattern: &str, from: usize| {
        text[from..].find(pattern).map_or(text.len(), |at| from + at + pattern.len())
    };
    if text.starts_with("//") {
        return Some(end("\n", 2));
    }
    if text.starts_with("/*") {
        return Some(end("*/", 2));
    }
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| {
            let raw = prefix.ends_with('r');
            rest.starts_with('"') || raw && rest.trim_start_matches('#').starts_with('"')
        })
    });
    if let Some(prefix) = prefix {
        let hashes =
            text[prefix.len()..].len() - text[prefix.len()..].trim_start_matches('#').len();
        let from = prefix.len() + hashes + 1;
        if prefix.ends_with('r') {
            return Some(end(&format!("\"{}", "#".repeat(hashes)), from));
        }
        return Some(closed(text, from, '"'));
    }
    let quoted = text.strip_prefix("b'").or_else(|| text.strip_prefix('\''))?;
    let start = text.len() - quoted.len();
    let first = quoted.chars().next()?;
    let is_character = first == '\\' || quoted[first.len_utf8()..].starts_with('\'');
    Some(if is_character { closed(text, start, '\'') } else { start + name_length(quoted) })
}

/// Behind the unescaped `quote` at or after `from`.
fn closed(text: &str, from: usize, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, sign) in text[from..].char_indices() {
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if sign == quote => return from + at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn used(text: &str) -> Vec<String> {
        parse(text).used.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn trees_of_use_declarations_are_expanded() {
        let references = parse("pub(crate) use super::{a::{self, B}, c as d};");
        assert!(references.used.is_empty());
        let imports: Vec<String> = references
            .imports
            .iter()
            .map(|(name, path)| format!("{name}={}", path.join("::")))
            .collect();
        assert_eq!(imports, ["B=super::a::B", "a=super::a", "d=super::c"]);
        assert_eq!(
            used("use crate::{a, b::{c, d::*}};"),
            ["crate::a", "crate::b::c", "crate::b::d::*"]
        );
    }

    #[test]
    fn comments_texts_lifetimes_and_test_modules_are_left_out() {
        let text = r###"
            // crate::a
            /* crate::b */
            const X: &'static str = "crate::c \" crate::d";
            const Y: &str = r#"crate::e " crate::f"#;
            const Z: (char, u8) = ('"', b'\'');
            #[cfg(test)]
            mod tests { use crate::g; }
            #[cfg(test)]
            mod h;
            mod i;
            fn main() { crate::found() }
        "###;
        let used = used(text);
        assert!(used.contains(&"crate::found".to_owned()), "{used:?}");
        let others: Vec<_> = used
            .iter()
            .filter(|path| path.starts_with("crate") && *path != "crate::found")
            .collect();
        assert!(others.is_empty(), "{others:?}");
        assert!(!used.contains(&"i".to_owned()), "{used:?}");
    }

    #[test]
    fn fields_and_methods_are_no_paths() {
        assert_eq!(used("a.b(c::d)"), ["a", "c::d"]);
    }

    #[test]
    fn any_text_is_read() {
        for text in [
            "use",
            "use {",
            "use a::{b",
            "pub(",
            "\"",
            "'",
            "r#\"",
            "/*",
            "#[cfg(test)]",
            "mod",
            "ü'ü",
        ] {
            parse(text);
        }
    }
}
