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
}
