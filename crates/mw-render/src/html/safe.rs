//! Makes what came from outside harmless: names of tasks and paths are whatever somebody chose.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mw_model::visible::is_invisible;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Characters that one text may have in the page; the rest is cut off.
const MOST_CHARACTERS: usize = 400;

/// Characters that a command may have: half a command is not one.
const MOST_OF_A_COMMAND: usize = 4000;

/// Text as the page may show it: of bounded length, and what steers terminals or turns the
/// direction of writing around is spelt out. Escaping for HTML is the template's.
pub(super) fn shown(text: &str) -> String {
    visible(text, MOST_CHARACTERS)
}

/// A command as the page may show it.
pub(super) fn command(text: &str) -> String {
    visible(text, MOST_OF_A_COMMAND)
}

fn visible(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    for (number, character) in text.chars().enumerate() {
        if number == most {
            shown.push('…');
            break;
        }
        match character {
            _ if is_invisible(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

/// JSON that is safe within a `script` element: it cannot end the element, begin a comment, or
/// hold what JavaScript takes for the end of a line.
pub(super) fn json_in_script<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    Ok(json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

/// The source of a Content-Security-Policy that lets exactly this text run.
pub(super) fn csp_hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_spelt_out() {
        assert_eq!(shown("a\u{202e}b\0\tc"), "a\\u{202e}b\\u{0}\\u{9}c");
        assert_eq!(shown("Größe\nzwei"), "Größe\\u{a}zwei");
        assert_eq!(shown(&"x".repeat(MOST_CHARACTERS + 9)).chars().count(), MOST_CHARACTERS + 1);
    }

    #[test]
    fn json_does_not_end_its_element() {
        let json = json_in_script(&"</script><!--\u{2028}\u{2029}&").unwrap();
        assert!(json.is_ascii() && !json.contains(['<', '>', '&']), "{json}");
        let again: String = serde_json::from_str(&json).unwrap();
        assert_eq!(again, "</script><!--\u{2028}\u{2029}&");
    }

    #[test]
    fn a_policy_names_its_script_by_hash() {
        let known = "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='";
        assert_eq!(csp_hash("alert('Hello, world.');"), known);
    }
}
