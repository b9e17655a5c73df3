//! Characters that would steer a terminal or turn writing around: names of tasks and files are
//! whatever somebody chose.

/// Whether a character is not seen but does something.
pub(crate) fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(character, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A page for a terminal, in which only its own ends of lines and colours do something; the rest
/// is spelt out.
pub(crate) fn on_terminal(page: &str) -> String {
    let mut seen = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(character) = rest.chars().next() {
        let colour = colour(rest);
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

/// How long the colour is that a text begins with: ESC, `[`, numbers, `m`.
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
    fn colours_stay_and_all_else_is_spelt_out() {
        for (page, seen) in [
            ("a\u{1b}[1;31mred\u{1b}[0m\n", "a\u{1b}[1;31mred\u{1b}[0m\n"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("\u{1b}[", "\\u{1b}["),
            ("Größe\t\u{202e}", "Größe\\u{9}\\u{202e}"),
        ] {
            assert_eq!(on_terminal(page), seen);
        }
    }
}
