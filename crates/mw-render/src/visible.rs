//! Pages for a terminal.

use mw_model::visible::is_invisible;

/// Folds text to a width between words. Words with hyphens stay whole: a name of a rule can be copied.
pub(crate) fn whole_words<'a>(width: usize) -> textwrap::Options<'a> {
    textwrap::Options::new(width).word_splitter(textwrap::WordSplitter::NoHyphenation)
}

/// A page for a terminal, in which only ends of lines and, where it has `colour`, colours do
/// something; the rest is spelt out. Names are spelt out before they come into the page, or they
/// could forge lines and colours: this is for those that were forgotten.
pub(crate) fn on_terminal(page: &str, colour: bool) -> String {
    if !colour {
        return mw_model::visible::lines(page);
    }
    let mut seen = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(character) = rest.chars().next() {
        let colour = self::colour(rest);
        let length = colour.max(character.len_utf8());
        match character {
            _ if colour > 0 => seen.push_str(&rest[..colour]),
            '\n' => seen.push('\n'),
            _ if is_invisible(character) => seen.extend(character.escape_unicode()),
            _ => seen.push(character),
        }
        rest = &rest[length..];
    }
    seen
}

/// Length of the colour that a text begins with: ESC, `[`, numbers, `m`.
fn colour(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix("\u{1b}[") else { return 0 };
    match numbers.find(|c: char| !c.is_ascii_digit() && c != ';') {
        Some(end) if numbers[end..].starts_with('m') => "\u{1b}[".len() + end + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_none_stays() {
        assert_eq!(on_terminal("\u{1b}[31mred\n", false), "\\u{1b}[31mred\n");
    }

    #[test]
    fn colours_stay_and_all_else_is_spelt_out() {
        for (page, seen) in [
            ("a\u{1b}[1;31mred\u{1b}[0m\n", "a\u{1b}[1;31mred\u{1b}[0m\n"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("\u{1b}[", "\\u{1b}["),
            ("Größe\t\u{202e}", "Größe\\u{9}\\u{202e}"),
        ] {
            assert_eq!(on_terminal(page, true), seen);
        }
    }
}
