//! `/proc/swaps`. Any kernel; kB there, bytes here.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

/// The most swap areas that are read (the kernel has at most 32).
pub const MAX_SWAPS: usize = 1024;

/// One swap area.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swap {
    /// The device or file; the kernel adds ` (deleted)` to that of a removed file.
    pub path: String,
    /// `partition` or `file`.
    pub kind: String,
    pub size_bytes: u64,
    /// Size in use.
    pub used_bytes: u64,
    /// The higher is used first.
    pub priority: i64,
}

impl Swap {
    /// True for compressed memory.
    #[must_use]
    pub fn is_zram(&self) -> bool {
        ["/dev/zram", "/dev/block/zram"].iter().any(|prefix| self.path.starts_with(prefix))
    }
}

/// Reads the swap areas below the heading.
///
/// # Errors
/// When the heading is missing or a line lacks a column.
pub fn parse(text: &[u8]) -> Result<Vec<Swap>, ParseError> {
    let mut lines = scan::lines(text);
    let heading = lines.next().ok_or(ParseError::new(1, Problem::Empty))?;
    if !heading.text.starts_with(b"Filename") {
        return Err(heading.error(Problem::Expected("Filename")));
    }
    let mut swaps = Vec::new();
    for line in lines {
        if swaps.len() >= MAX_SWAPS {
            return Err(line.error(Problem::TooMany("swap areas")));
        }
        swaps.push(read(&line)?);
    }
    Ok(swaps)
}

fn read(line: &Line<'_>) -> Result<Swap, ParseError> {
    let mut fields = line.fields();
    let path = line.at(fields.next().ok_or(Problem::Expected("a path")))?;
    let kind = line.at(fields.next().ok_or(Problem::Expected("a type")))?;
    let size_bytes = scan::kib(line.next_u64(&mut fields)?);
    let used_bytes = scan::kib(line.next_u64(&mut fields)?);
    let priority = fields.next().ok_or(Problem::Expected("a priority"));
    let priority = line.at(priority.and_then(scan::parse_i64))?;
    Ok(Swap {
        path: scan::unescape(path),
        kind: scan::lossy(kind),
        size_bytes,
        used_bytes,
        priority,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = br"Filename				Type		Size		Used		Priority
/dev/nvme0n1p2                          partition	8388604		1024		-2
/var/my\040swap\040(deleted)            file		1048572		0		10
";

    #[test]
    fn reads() {
        let swaps = parse(TEXT).unwrap();
        assert_eq!(swaps.len(), 2);
        assert_eq!((swaps[0].path.as_str(), swaps[0].priority), ("/dev/nvme0n1p2", -2));
        assert_eq!(swaps[0].size_bytes, 8_388_604 << 10);
        assert_eq!((swaps[0].used_bytes, swaps[0].kind.as_str()), (1 << 20, "partition"));
        assert_eq!(swaps[1].path, "/var/my swap (deleted)");
        assert_eq!(parse(b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"), Ok(vec![]));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        refuse(b"", 1, Problem::Empty);
        refuse(b"/dev/sda1 partition 1 1 1\n", 1, Problem::Expected("Filename"));
        refuse(b"Filename\n/dev/sda1 partition 1 1\n", 2, Problem::Expected("a priority"));
        refuse(b"Filename\n/dev/sda1 partition x 1 1\n", 2, Problem::NotANumber);
        refuse(b"Filename\n/dev/sda1 part", 2, Problem::Truncated);
    }
}
