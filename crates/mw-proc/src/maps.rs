//! `/proc/PID/maps`: what a process has mapped. Any kernel.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

/// The most mappings that are read: twice the default of vm.max_map_count.
pub const MAX_MAPPINGS: usize = 1 << 17;

/// One mapping, without what is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mapping {
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// True if it may be read.
    pub readable: bool,
    /// True if it may be written.
    pub writable: bool,
    /// True if it may be executed.
    pub executable: bool,
    /// True if what is written is seen by others.
    pub shared: bool,
    /// Major and minor number of the file's device; zeros where there is no file.
    pub device: (u32, u32),
    /// The number of the file's inode; zero where there is no file.
    pub inode: u64,
}

/// Reads the mappings, in the order of their addresses.
///
/// # Errors
/// When a line lacks a column.
pub fn parse(text: &[u8]) -> Result<Vec<Mapping>, ParseError> {
    each(text, read)
}

/// A file, or memory without one, that is mapped to be executed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MappedCode {
    pub mapping: Mapping,
    /// Offset in the file at which the mapping begins.
    pub file_offset: u64,
    /// The file's path as the kernel prints it, a name such as `[vdso]`, or empty.
    pub name: Vec<u8>,
}

/// Reads the mappings that may be executed, in the order of their addresses.
///
/// # Errors
/// When a line lacks a column.
pub fn code(text: &[u8]) -> Result<Vec<MappedCode>, ParseError> {
    let all = each(text, |line| {
        let mapping = read(line)?;
        if !mapping.executable {
            return Ok(None);
        }
        let mut rest = line.text;
        let mut columns = [b"".as_slice(); 5];
        for column in &mut columns {
            (*column, rest) = scan::first_field(rest);
        }
        let file_offset = line.at(scan::parse_hex_u64(columns[2]))?;
        Ok(Some(MappedCode { mapping, file_offset, name: rest.to_vec() }))
    })?;
    Ok(all.into_iter().flatten().collect())
}

/// Reads a mapping a line.
pub(crate) fn each<T>(
    text: &[u8],
    read: impl Fn(&Line<'_>) -> Result<T, ParseError>,
) -> Result<Vec<T>, ParseError> {
    let mut mappings = Vec::new();
    for line in scan::lines(text) {
        if mappings.len() >= MAX_MAPPINGS {
            return Err(line.error(Problem::TooMany("mappings")));
        }
        line.whole()?;
        mappings.push(read(&line)?);
    }
    Ok(mappings)
}

fn read(line: &Line<'_>) -> Result<Mapping, ParseError> {
    let mut fields = line.fields();
    let mut next = |what| line.at(fields.next().ok_or(Problem::Expected(what)));
    let (range, rights, _offset) = (next("addresses")?, next("rights")?, next("an offset")?);
    let (device, inode) = (next("a device")?, next("an inode")?);
    let (start, end) = pair(line, range, b'-')?;
    let (major, minor) = pair(line, device, b':')?;
    let number = |value: u64| line.at(u32::try_from(value).map_err(|_| Problem::Overflow));
    let &[read, write, execute, share] = rights else {
        return Err(line.error(Problem::Expected("rights such as rw-p")));
    };
    Ok(Mapping {
        start,
        end,
        readable: read == b'r',
        writable: write == b'w',
        executable: execute == b'x',
        shared: share == b's',
        device: (number(major)?, number(minor)?),
        inode: line.at(scan::parse_u64(inode))?,
    })
}

fn pair(line: &Line<'_>, text: &[u8], separator: u8) -> Result<(u64, u64), ParseError> {
    let two = scan::split_once(text, separator).ok_or(Problem::Expected("two numbers"));
    let (first, second) = line.at(two)?;
    Ok((line.at(scan::parse_hex_u64(first))?, line.at(scan::parse_hex_u64(second))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
55d0c0a00000-55d0c0a02000 r--p 00000000 08:01 393226                     /usr/bin/cat
7f1c40000000-7f1c80000000 rw-s 00000000 00:01 2055                       /dev/zero (deleted)
7f1c80000000-7f1c80021000 rw-p 00000000 00:00 0 
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn every_kind_of_line_is_read() {
        let mappings = parse(TEXT).unwrap();
        assert_eq!(mappings.len(), 4);
        let shared = mappings[1];
        assert_eq!((shared.start, shared.end), (0x7f1c_4000_0000, 0x7f1c_8000_0000));
        assert!(shared.readable && shared.writable && shared.shared && !shared.executable);
        assert_eq!((shared.device, shared.inode), ((0, 1), 2055));
        assert_eq!((mappings[0].device, mappings[0].shared), ((8, 1), false));
        assert!(mappings[3].executable && !mappings[3].readable);
    }

    #[test]
    fn code_has_its_file() {
        let text = b"1000-2000 r-xp 00003000 08:01 7   /opt/a b (deleted)\n3000-4000 r-xp 00000000 00:00 0 \n";
        let code = code(&[&text[..], TEXT].concat()).unwrap();
        assert_eq!(code.len(), 3);
        let first = (code[0].mapping.inode, code[0].file_offset, code[0].name.as_slice());
        assert_eq!(first, (7, 0x3000, &b"/opt/a b (deleted)"[..]));
        assert_eq!(
            (code[1].name.as_slice(), code[2].name.as_slice()),
            (&b""[..], &b"[vsyscall]"[..])
        );
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        for (text, line) in [(&b"55d0-55d1 r--p\n"[..], 1), (&TEXT[..100], 2), (b"zz-1 r 0 0\n", 1)]
        {
            assert_eq!(parse(text).unwrap_err().line, line);
        }
    }
}
