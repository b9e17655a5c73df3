//! Text that others chose, as a page, a log or a message may show it: names of tasks, files, mounts,
//! cgroups and probes, and what servers answer, are whatever somebody wanted.

/// True if a character is not seen but does something: steers a terminal, turns the direction of
/// writing around, or hides.
#[must_use]
pub fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(character, '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
        || matches!(character, '\u{e0000}'..='\u{e007f}')
}

/// One line: what is invisible is spelt out, ends of lines too, which would forge others.
#[must_use]
pub fn line(text: &str) -> String {
    spelt_out(text, is_invisible)
}

/// Several lines: what is invisible is spelt out, except ends of lines.
#[must_use]
pub fn lines(text: &str) -> String {
    spelt_out(text, |character| character != '\n' && is_invisible(character))
}

fn spelt_out(text: &str, is_out: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_out(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown
}

/// JSON as a terminal may show it: what is invisible can only be within its strings, and is written
/// as these may have it. A reader of the JSON sees no difference.
#[must_use]
pub fn json(json: &str) -> String {
    use std::fmt::Write;
    let mut shown = String::with_capacity(json.len());
    let mut units = [0; 2];
    for character in json.chars() {
        if character == '\n' || !is_invisible(character) {
            shown.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

/// A text as one word of a POSIX shell's command line; none where it has what a terminal would not
/// show: whoever copies it could not see what it does.
#[must_use]
pub fn shell_word(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
    if text.chars().any(is_invisible) {
        return None;
    }
    if !text.is_empty() && text.chars().all(is_plain) {
        return Some(text.to_owned());
    }
    Some(format!("'{}'", text.replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn what_cannot_be_seen_is_spelt_out() {
        assert_eq!(line("a\u{1b}[2Jb\nc\u{202e}"), "a\\u{1b}[2Jb\\u{a}c\\u{202e}");
        assert_eq!(lines("Größe\nb\r\u{9b}31m"), "Größe\nb\\u{d}\\u{9b}31m");
        assert_eq!(json("\"\u{202e}\u{e0041}\"\n"), "\"\\u202e\\udb40\\udc41\"\n");
    }

    /// Words that each shell makes of `printf %s WORD`.
    fn check(text: &str) {
        let Some(word) = shell_word(text) else {
            assert!(text.chars().any(is_invisible), "{text:?}");
            return;
        };
        for shell in ["sh", "bash", "dash"] {
            let command = format!("printf '<%s>' {word}; printf end");
            let said = Command::new(shell).arg("-c").arg(&command).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&said.stdout), format!("<{text}>end"), "{shell}");
        }
    }

    /// Promise (Findings): Names in a command to copy are quoted for the shell, or no command is printed.
    #[test]
    fn a_word_does_nothing_else() {
        for text in [
            "",
            "/a b",
            "x;touch PWNED",
            "$(reboot)",
            "`id`",
            "it's",
            "''",
            "\\",
            "~",
            "*",
            "a\\'b",
            "#x",
            "!1",
            "-rf",
            "\"",
            "{a,b}",
            "a\nb",
            "\u{1b}[2J",
            "Größe",
            "=ls",
            "a=b",
            "^x",
        ] {
            check(text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_word_does_nothing_else(text in "[ -~\n\u{1b}äß€]{0,40}") {
            check(&text);
        }

        #[test]
        fn a_line_is_one_line(text in any::<String>()) {
            prop_assert!(!line(&text).chars().any(is_invisible));
        }
    }
}
