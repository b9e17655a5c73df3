//! The output of `df -al`: how full each local file system is, in 1 KiB blocks as `df` prints
//! them by default.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

/// The most lines that are read.
pub const MAX_LINES: usize = 200_000;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DfLine {
    /// The device, or any word for a file system without one.
    pub source: String,
    /// Its size; `None` where `df` prints `-`.
    pub size_bytes: Option<u64>,
    /// Bytes in use; `None` where `df` prints `-`.
    pub used_bytes: Option<u64>,
    /// Bytes available to ordinary users; `None` where `df` prints `-`.
    pub available_bytes: Option<u64>,
    pub target: String,
}

/// Reads the output of `df -al` in the C locale. A source that is too long for its column may
/// have a line of its own.
///
/// # Errors
/// When the heading is another, or a line lacks columns.
pub fn parse(text: &[u8]) -> Result<Vec<DfLine>, ParseError> {
    let mut lines = scan::lines(text);
    let heading = lines.next().ok_or(ParseError::new(1, Problem::Empty))?;
    check_heading(&heading)?;
    let mut all = Vec::new();
    let mut source: Option<&[u8]> = None;
    let mut last = heading.number;
    for line in lines {
        last = line.number;
        if all.len() >= MAX_LINES {
            return Err(line.error(Problem::TooMany("lines")));
        }
        match read(&line, source) {
            Some(found) => {
                all.push(found);
                source = None;
            }
            None if source.is_none() => source = Some(line.text.trim_ascii()),
            None => return Err(line.error(Problem::Expected("six columns"))),
        }
    }
    match source {
        Some(rest) if !rest.is_empty() => Err(ParseError::new(last, Problem::Truncated)),
        _ => Ok(all),
    }
}

fn check_heading(line: &Line<'_>) -> Result<(), ParseError> {
    match line.fields().nth(1) {
        Some(b"1K-blocks" | b"1024-blocks") => Ok(()),
        _ => Err(line.error(Problem::Expected("1K-blocks"))),
    }
}

/// Four columns between a source and a target, either of which may contain spaces.
fn read(line: &Line<'_>, source: Option<&[u8]>) -> Option<DfLine> {
    let mut before = line.text.get(..0)?;
    let mut rest = line.text.trim_ascii();
    if source.is_none() {
        (before, rest) = scan::first_field(rest);
    }
    loop {
        if let Some((columns, target)) = columns(rest) {
            let [size_bytes, used_bytes, available_bytes] = columns;
            let source = scan::lossy(source.unwrap_or(before));
            let target = scan::lossy(target);
            return Some(DfLine { source, size_bytes, used_bytes, available_bytes, target });
        }
        let (word, after) = scan::first_field(rest);
        if word.is_empty() || source.is_some() {
            return None;
        }
        before = up_to(line.text.trim_ascii(), after)?;
        rest = after;
    }
}

/// The part of `text` before its end `rest`.
fn up_to<'a>(text: &'a [u8], rest: &[u8]) -> Option<&'a [u8]> {
    text.get(..text.len().checked_sub(rest.len())?).map(<[u8]>::trim_ascii)
}

fn columns(text: &[u8]) -> Option<([Option<u64>; 3], &[u8])> {
    let (size, rest) = scan::first_field(text);
    let (used, rest) = scan::first_field(rest);
    let (available, rest) = scan::first_field(rest);
    let (percent, target) = scan::first_field(rest);
    if target.is_empty() || !(percent == b"-" || percent.ends_with(b"%")) {
        return None;
    }
    Some(([blocks(size)?, blocks(used)?, blocks(available)?], target))
}

/// 1 KiB blocks in bytes. What is available may be below zero when root has used the reserve.
fn blocks(text: &[u8]) -> Option<Option<u64>> {
    match text {
        b"-" => Some(None),
        [b'-', digits @ ..] => scan::parse_u64(digits).ok().map(|_| Some(0)),
        digits => scan::parse_u64(digits).ok().map(|value| Some(scan::kib(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
Filesystem              1K-blocks     Used Available Use% Mounted on
proc                            0        0         0    - /proc
devtmpfs                 12334492        0  12334492   0% /dev
/dev/vda                264212084 11809396  83691868  13% /
/dev/mapper/a-very-long-name-of-a-volume
                          1000000  1000000       -51 100% /srv/my files
//server/my share            2048     1024      1024  50% /mnt/share
systemd-1                       -        -         -    - /proc/sys/fs/binfmt_misc
";

    #[test]
    fn reads() {
        let all = parse(TEXT).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!((all[0].size_bytes, all[0].target.as_str()), (Some(0), "/proc"));
        assert_eq!(all[2].used_bytes, Some(11_809_396 << 10));
        assert_eq!(all[3].source, "/dev/mapper/a-very-long-name-of-a-volume");
        assert_eq!((all[3].available_bytes, all[3].target.as_str()), (Some(0), "/srv/my files"));
        assert_eq!(
            (all[4].source.as_str(), all[4].size_bytes),
            ("//server/my share", Some(2 << 20))
        );
        assert_eq!((all[5].used_bytes, all[5].source.as_str()), (None, "systemd-1"));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        refuse(b"", 1, Problem::Empty);
        refuse(b"Filesystem Size Used\n", 1, Problem::Expected("1K-blocks"));
        refuse(b"Filesystem 1K-blocks\na b\nc d\n", 3, Problem::Expected("six columns"));
        refuse(b"Filesystem 1K-blocks\n/dev/sda 1 2", 2, Problem::Truncated);
    }
}
