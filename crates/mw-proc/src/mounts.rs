//! `/proc/mounts` and `/proc/PID/mounts`. Any kernel.

use crate::error::{ParseError, Problem};
use crate::scan;

/// The most mounts that are read (the kernel's own default limit is 100,000 a namespace).
pub const MAX_MOUNTS: usize = 200_000;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mount {
    /// The device, or any word for a file system without one; may be empty.
    pub source: String,
    pub target: String,
    pub fstype: String,
    /// `rw`, `size=24684092k`, and so on.
    pub options: Vec<String>,
}

impl Mount {
    /// The value of an option: `24684092k` for `size`.
    #[must_use]
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
    }

    /// True if the options contain a word such as `ro`.
    #[must_use]
    pub fn has_option(&self, word: &str) -> bool {
        self.options.iter().any(|option| option == word)
    }
}

/// Reads the mounts in the kernel's order; of two with one target, the later covers the earlier.
///
/// # Errors
/// When a line has fewer than four fields.
pub fn parse(text: &[u8]) -> Result<Vec<Mount>, ParseError> {
    parse_lines(text, mount)
}

/// One mount a line, as in this file and in mountinfo.
pub(crate) fn parse_lines<T>(
    text: &[u8],
    mount: impl Fn(&[u8]) -> Result<T, Problem>,
) -> Result<Vec<T>, ParseError> {
    let mut mounts = Vec::new();
    for line in scan::lines(text).filter(|line| !line.text.is_empty()) {
        if mounts.len() >= MAX_MOUNTS {
            return Err(line.error(Problem::TooMany("mounts")));
        }
        mounts.push(line.at(mount(line.text))?);
    }
    Ok(mounts)
}

/// The kernel escapes white space within fields and puts one space between them; a source may be
/// empty, so that runs of spaces count.
fn mount(text: &[u8]) -> Result<Mount, Problem> {
    let mut fields = text.split(|&byte| byte == b' ');
    let mut next = |name| fields.next().ok_or(Problem::Expected(name));
    let source = scan::unescape(next("a source")?);
    let target = scan::unescape(next("a target")?);
    let fstype = scan::unescape(next("a file system type")?);
    let options = next("options")?;
    let options = options.split(|&byte| byte == b',').map(scan::unescape).collect();
    Ok(Mount { source, target, fstype, options })
}

/// The size of a tmpfs as its option says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeOption {
    /// In bytes; 0 is unlimited to tmpfs.
    Bytes(u64),
    /// In percent of the memory.
    Percent(u64),
}

/// Reads `24684092k`, `4G`, `50%` or plain bytes, as the options `size=` and `pagesize=` hold
/// them.
///
/// # Errors
/// When it is none of these, or does not fit.
pub fn parse_size_option(text: &str) -> Result<SizeOption, ParseError> {
    size_option(text.as_bytes()).map_err(|problem| ParseError::new(1, problem))
}

fn size_option(text: &[u8]) -> Result<SizeOption, Problem> {
    let Some((unit, number)) = text.split_last() else { return Err(Problem::Empty) };
    let shift: u32 = match unit.to_ascii_lowercase() {
        b'%' => return Ok(SizeOption::Percent(scan::parse_u64(number)?)),
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        b't' => 40,
        b'p' => 50,
        b'e' => 60,
        _ => return Ok(SizeOption::Bytes(scan::parse_u64(text)?)),
    };
    let unit_bytes = 1_u64.checked_shl(shift).ok_or(Problem::Overflow)?;
    let bytes = scan::parse_u64(number)?.checked_mul(unit_bytes);
    bytes.map(SizeOption::Bytes).ok_or(Problem::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = br"proc /proc proc rw,relatime 0 0
devtmpfs /dev devtmpfs rw,relatime,size=12334492k,nr_inodes=3083623,mode=755 0 0
tmpfs /mnt/with\040space\011and\134 tmpfs ro,relatime,size=24684092k 0 0
 /nameless tmpfs rw 0 0
/dev/vda / ext4 rw,relatime,discard 0 0
";

    #[test]
    fn reads() {
        let mounts = parse(TEXT).unwrap();
        assert_eq!(mounts.len(), 5);
        assert_eq!(mounts[1].option("size"), Some("12334492k"));
        assert_eq!(mounts[1].option("siz"), None);
        assert_eq!(mounts[2].target, "/mnt/with space\tand\\");
        assert!(mounts[2].has_option("ro") && !mounts[2].has_option("rw"));
        assert_eq!((mounts[3].source.as_str(), mounts[3].target.as_str()), ("", "/nameless"));
        assert_eq!((mounts[4].source.as_str(), mounts[4].fstype.as_str()), ("/dev/vda", "ext4"));
    }

    #[test]
    fn wrong() {
        assert_eq!(parse(b""), Ok(vec![]));
        assert_eq!(
            parse(b"a /a tmpfs rw 0 0\nb /b\n"),
            Err(ParseError::new(2, Problem::Expected("a file system type")))
        );
        assert_eq!(parse(b"a /a"), Err(ParseError::new(1, Problem::Truncated)));
    }

    fn check(text: &str, expected: Result<SizeOption, Problem>) {
        assert_eq!(parse_size_option(text).map_err(|error| error.problem), expected, "{text}");
    }

    #[test]
    fn sizes() {
        check("24684092k", Ok(SizeOption::Bytes(24_684_092 << 10)));
        check("4G", Ok(SizeOption::Bytes(4 << 30)));
        check("2M", Ok(SizeOption::Bytes(2 << 20)));
        check("50%", Ok(SizeOption::Percent(50)));
        check("4096", Ok(SizeOption::Bytes(4096)));
        check("16e", Err(Problem::Overflow));
        check("k", Err(Problem::Empty));
        check("", Err(Problem::Empty));
        check("4x", Err(Problem::NotANumber));
    }
}
