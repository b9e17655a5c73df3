//! The table, a line a path, as VxFS's tunefstab(4) has them:
//!
//! ```text
//! # tablespaces
//! /u01/oradata discovered_direct_iosz=64k
//! /u01/oradata/hot discovered_direct_iosz=off
//! /backup discovered_direct_iosz=256k,discovered_direct_reads=on
//! ```
//!
//! The longest path that a file lies at or below wins. Spaces, tabs, line ends and backslashes of a
//! path are written as in fstab(5): `\040`.

use std::fmt::{self, Write};

/// The longest table that is read.
pub const TABLE_MAX_BYTES: usize = 16 << 10;

/// The pages of a file cannot be distinguished below it.
pub const SIZE_MIN_BYTES: u64 = 4096;

/// Settings of a line; settings that it lacks stay as they are for the programs' other files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineSetting {
    /// From how many bytes on transfers go uncached; 0: none.
    pub size: Option<u64>,
    /// True if that holds for reads too.
    pub reads: Option<bool>,
}

impl fmt::Display for LineSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        if let Some(size) = self.size {
            write!(f, "discovered_direct_iosz=")?;
            match size {
                0 => write!(f, "off")?,
                _ if size % (1 << 20) == 0 => write!(f, "{}m", size >> 20)?,
                _ if size % (1 << 10) == 0 => write!(f, "{}k", size >> 10)?,
                _ => write!(f, "{size}")?,
            }
            before = ",";
        }
        match self.reads {
            Some(reads) => {
                let value = if reads { "on" } else { "off" };
                write!(f, "{before}discovered_direct_reads={value}")
            }
            None => Ok(()),
        }
    }
}

/// A line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLine<'a> {
    /// The path as it is written there, escaped.
    pub path: &'a [u8],
    /// Settings at and below it.
    pub setting: LineSetting,
}

/// The lines that say something, with their numbers from 1; an error is what is wrong with one.
pub fn lines(text: &[u8]) -> impl Iterator<Item = (usize, Result<TableLine<'_>, &'static str>)> {
    text.split(|byte| *byte == b'\n').zip(1..).filter_map(|(line, number)| {
        let line = line.trim_ascii();
        let says_something = !line.is_empty() && !line.starts_with(b"#");
        says_something.then(|| (number, parse(line)))
    })
}

fn parse(line: &[u8]) -> Result<TableLine<'_>, &'static str> {
    let end = line.iter().position(u8::is_ascii_whitespace);
    let (path, rest) = end.and_then(|end| line.split_at_checked(end)).ok_or("it has no setting")?;
    if !path.starts_with(b"/") {
        return Err("the path does not begin with /");
    }
    Ok(TableLine { path, setting: setting(rest.trim_ascii())? })
}

/// Parses `KEY=VALUE,KEY=VALUE`.
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn setting(text: &[u8]) -> Result<LineSetting, &'static str> {
    let mut setting = LineSetting::default();
    for pair in text.split(|byte| *byte == b',') {
        if let Some(value) = pair.strip_prefix(b"discovered_direct_iosz=") {
            setting.size = Some(size(value)?);
        } else if let Some(value) = pair.strip_prefix(b"discovered_direct_reads=") {
            setting.reads = Some(match value {
                b"on" => true,
                b"off" => false,
                _ => return Err("write discovered_direct_reads=on or =off"),
            });
        } else {
            return Err("write discovered_direct_iosz=SIZE or discovered_direct_reads=on");
        }
    }
    Ok(setting)
}

fn size(text: &[u8]) -> Result<u64, &'static str> {
    const WRONG: &str = "write a size of 4k or more, as in discovered_direct_iosz=64k, or =off";
    if text == b"off" {
        return Ok(0);
    }
    let (digits, unit) = match text.split_last() {
        Some((b'k' | b'K', digits)) => (digits, 1_u64 << 10),
        Some((b'm' | b'M', digits)) => (digits, 1 << 20),
        Some((b'g' | b'G', digits)) => (digits, 1 << 30),
        _ => (text, 1),
    };
    let number: Option<u64> = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| (SIZE_MIN_BYTES..=i64::MAX as u64).contains(bytes)).ok_or(WRONG)
}

/// The line that holds for a file: of the longest path that it lies at or below; of two that are the
/// same the last. Lines that are wrong hold for nothing.
pub fn find<'a>(text: &'a [u8], file: &[u8]) -> Option<TableLine<'a>> {
    let sound = lines(text).filter_map(|(_, line)| line.ok());
    let holding = sound.filter_map(|line| Some((below(line.path, file)?, line)));
    holding.max_by_key(|(length, _)| *length).map(|(_, line)| line)
}

/// Length of the path that a file lies at or below.
fn below(path: &[u8], file: &[u8]) -> Option<usize> {
    let mut rest = file.iter();
    let mut length = 0;
    let mut last = 0;
    for byte in unescaped(path) {
        if rest.next() != Some(&byte) {
            return None;
        }
        (length, last) = (length + 1, byte);
    }
    (last == b'/' || matches!(rest.next(), None | Some(b'/'))).then_some(length)
}

/// A path of the table as the kernel knows it.
pub fn unescaped(path: &[u8]) -> impl Iterator<Item = u8> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = path.get(at..)?;
        let (byte, took) = match rest {
            [b'\\', digits @ ..] => octal(digits).map_or((b'\\', 1), |byte| (byte, 4)),
            [byte, ..] => (*byte, 1),
            [] => return None,
        };
        at += took;
        Some(byte)
    })
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then_some(())?;
    u8::from_str_radix(digits, 8).ok()
}

/// A path as the table has it.
pub fn escape(path: &str) -> String {
    path.chars().fold(String::new(), |mut escaped, letter| {
        if matches!(letter, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c' | '\\' | '#') {
            let _ = write!(escaped, "\\{:03o}", u32::from(letter));
        } else {
            escaped.push(letter);
        }
        escaped
    })
}

/// A number for a path as the table has it, by which a program's counts of it are found; never 0. That
/// of the empty path is for files of no line.
pub fn key(path: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    path.iter().fold(0xcbf2_9ce4_8422_2325, mix) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"# table spaces\n\n/u01 discovered_direct_iosz=64k\n\
        \t/u01/hot   discovered_direct_iosz=off \r\n\
        /u01/scan discovered_direct_reads=on,discovered_direct_iosz=1M\n\
        /a\\040b discovered_direct_iosz=4096\n\
        relative discovered_direct_iosz=64k\n/u02\n/u03 discovered_direct_iosz=1\n";

    fn of(file: &str) -> Option<LineSetting> {
        find(TABLE, file.as_bytes()).map(|line| line.setting)
    }

    #[test]
    fn the_longest_path_wins() {
        let size = |size| Some(LineSetting { size: Some(size), reads: None });
        assert_eq!(of("/u01/x"), size(65536));
        assert_eq!(of("/u01"), size(65536));
        assert_eq!(of("/u01/hot/x/y"), size(0));
        assert_eq!(of("/u01/hotter"), size(65536));
        assert_eq!(of("/u01/scan/1"), Some(LineSetting { size: Some(1 << 20), reads: Some(true) }));
        assert_eq!(of("/a b/c"), size(4096));
        for file in ["/u", "/u011", "/", "relative/x", "/u02/x", "/u03/x", ""] {
            assert_eq!(of(file), None, "{file}");
        }
        assert_eq!(
            find(b"/ discovered_direct_iosz=8k", b"/any/file").map(|line| line.path),
            Some(&b"/"[..])
        );
    }

    #[test]
    fn of_two_lines_of_a_path_the_last_holds() {
        let text = b"/a discovered_direct_iosz=64k\n/a discovered_direct_iosz=off\n";
        assert_eq!(find(text, b"/a/b").and_then(|line| line.setting.size), Some(0));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong: Vec<usize> =
            lines(TABLE).filter_map(|(number, line)| line.is_err().then_some(number)).collect();
        assert_eq!(wrong, [7, 8, 9]);
        for text in [
            &b"x=1"[..],
            b"",
            b"discovered_direct_iosz=",
            b"discovered_direct_iosz=1k",
            b"discovered_direct_iosz=-5",
            b"discovered_direct_iosz=99999999999999999999g",
            b"discovered_direct_reads=yes",
            b"discovered_direct_iosz=64k,,",
        ] {
            assert!(setting(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_setting_is_written_as_it_is_read() {
        for text in [
            "discovered_direct_iosz=64k",
            "discovered_direct_iosz=off",
            "discovered_direct_iosz=1m,discovered_direct_reads=on",
            "discovered_direct_iosz=4097",
            "discovered_direct_reads=off",
        ] {
            assert_eq!(
                setting(text.as_bytes()).map(|setting| setting.to_string()),
                Ok(text.into())
            );
        }
    }

    #[test]
    fn any_path_comes_back_as_it_was() {
        for path in
            ["/plain", "/with space", "/tab\tand\nline", "/back\\slash", "/\\040", "/#x", "/ü"]
        {
            let escaped = escape(path);
            assert!(!escaped.contains(' ') && !escaped.contains('\n'));
            assert_eq!(unescaped(escaped.as_bytes()).collect::<Vec<_>>(), path.as_bytes());
        }
        assert_ne!(key(b"/a"), key(b"/b"));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let mut text = TABLE.to_vec();
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % text.len();
                text[at] = (seed >> 24) as u8;
            }
            let _ = find(&text, b"/u01/scan/1");
        }
    }
}
