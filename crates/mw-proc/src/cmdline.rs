//! `/proc/cmdline`: the parameters that the kernel was booted with. Any kernel.

use crate::scan;

/// The most parameters that are read.
pub const MAX_PARAMETERS: usize = 4096;

/// A name, and the value behind its `=` when it has one.
pub type Parameter = (String, Option<String>);

/// The kernel's parameters in their order: of two with one name the later counts, mostly.
///
/// Double quotes keep spaces together and are taken away. What follows a lone `--` is for init and
/// left out, and so is what comes after [`MAX_PARAMETERS`].
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    let mut rest = text.trim_ascii();
    while !rest.is_empty() && parameters.len() < MAX_PARAMETERS {
        let (word, after) = next_word(rest);
        if word == b"--" {
            break;
        }
        parameters.push(parameter(word));
        rest = after;
    }
    parameters
}

/// The last value of a parameter; `Some(None)` if it has no value.
#[must_use]
pub fn find<'a>(parameters: &'a [Parameter], name: &str) -> Option<Option<&'a str>> {
    parameters.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_deref())
}

fn next_word(text: &[u8]) -> (&[u8], &[u8]) {
    let mut quoted = false;
    let end = text.iter().position(|&byte| {
        quoted ^= byte == b'"';
        !quoted && byte.is_ascii_whitespace()
    });
    let (word, rest) = end.and_then(|end| text.split_at_checked(end)).unwrap_or((text, b""));
    (word, rest.trim_ascii_start())
}

/// As the kernel does, only quotes around the whole or around the value are taken away.
fn parameter(word: &[u8]) -> Parameter {
    match word.strip_prefix(b"\"") {
        Some(inner) => {
            let inner = inner.strip_suffix(b"\"").unwrap_or(inner);
            match scan::split_once(inner, b'=') {
                Some((key, value)) => (scan::lossy(key), Some(scan::lossy(value))),
                None => (scan::lossy(inner), None),
            }
        }
        None => match scan::split_once(word, b'=') {
            Some((key, value)) => {
                let value = match value.strip_prefix(b"\"") {
                    Some(inner) => inner.strip_suffix(b"\"").unwrap_or(inner),
                    None => value,
                };
                (scan::lossy(key), Some(scan::lossy(value)))
            }
            None => (scan::lossy(word), None),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, Option<&str>)]) {
        let found = parse(text.as_bytes());
        let found: Vec<_> = found.iter().map(|(key, value)| (&**key, value.as_deref())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn reads() {
        check("", &[]);
        check(
            "console=ttyS0 quiet psi=1 -- --addr 0.0.0.0:2024\n",
            &[("console", Some("ttyS0")), ("quiet", None), ("psi", Some("1"))],
        );
        check(
            "a=\"b c\"  \"d=e f\" \"g h\" i=",
            &[("a", Some("b c")), ("d", Some("e f")), ("g h", None), ("i", Some(""))],
        );
        check("dyndbg=\"file a.c +p; unclosed", &[("dyndbg", Some("file a.c +p; unclosed"))]);
        assert_eq!(parse(&b"a ".repeat(MAX_PARAMETERS + 1)).len(), MAX_PARAMETERS);
    }

    #[test]
    fn finds_the_last() {
        let all = parse(b"hugepages=1 quiet hugepages=2");
        assert_eq!(find(&all, "hugepages"), Some(Some("2")));
        assert_eq!(find(&all, "quiet"), Some(None));
        assert_eq!(find(&all, "psi"), None);
    }
}
