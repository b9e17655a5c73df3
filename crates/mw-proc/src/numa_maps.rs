//! `/proc/PID/numa_maps`: the memory policy of each mapping, and on which nodes its pages are. Kernels with NUMA.

use crate::error::{ParseError, Problem};
use crate::maps;
use crate::scan::{self, Line};

/// The most nodes of a mapping: what the kernel supports.
const MAX_NODES: usize = 1024;

/// One mapping. Its end is only in [`crate::maps`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NumaMapping {
    pub start: u64,
    /// True if neither the mapping nor its process has a memory policy.
    pub has_default_policy: bool,
    /// Anonymous pages, and copies of pages of a file.
    pub anon_pages: u64,
    /// Pages by node, of nodes that have any.
    pub node_pages: Vec<(u32, u64)>,
    /// The size of its pages; absent where there are none.
    pub page_bytes: Option<u64>,
}

impl NumaMapping {
    /// Pages on a node.
    pub fn pages_on(&self, node: u32) -> u64 {
        self.node_pages.iter().find(|(id, _)| *id == node).map_or(0, |(_, pages)| *pages)
    }
}

/// Reads the mappings, in the order of their addresses.
///
/// # Errors
/// When a line lacks its address or policy, or a number is none.
pub fn parse(text: &[u8]) -> Result<Vec<NumaMapping>, ParseError> {
    maps::each(text, read)
}

fn read(line: &Line<'_>) -> Result<NumaMapping, ParseError> {
    let mut fields = line.fields();
    let start = line.at(fields.next().ok_or(Problem::Expected("an address")))?;
    let policy = line.at(fields.next().ok_or(Problem::Expected("a policy")))?;
    let mut mapping = NumaMapping {
        start: line.at(scan::parse_hex_u64(start))?,
        has_default_policy: policy == b"default",
        ..NumaMapping::default()
    };
    for field in fields {
        let Some((name, value)) = scan::split_once(field, b'=') else { continue };
        let number = || line.at(scan::parse_u64(value));
        match name {
            b"anon" => mapping.anon_pages = number()?,
            b"kernelpagesize_kB" => mapping.page_bytes = Some(scan::kib(number()?)),
            // The name of a file is escaped, and begins with `file=`.
            [b'N', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => {
                if mapping.node_pages.len() >= MAX_NODES {
                    return Err(line.error(Problem::TooMany("nodes")));
                }
                let node = line.at(scan::parse_u32(digits))?;
                mapping.node_pages.push((node, number()?));
            }
            _ => {}
        }
    }
    Ok(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
55d0c0a00000 default file=/usr/bin/N1=7\\040x mapped=2 mapmax=3 N0=2 kernelpagesize_kB=4
7f1c40000000 bind:1 anon=512 dirty=512 active=0 N1=512 kernelpagesize_kB=4
7f1c80000000 prefer (many):0-1 huge anon=1 dirty=1 N0=1 kernelpagesize_kB=2048
7f1c90000000 default
7ffd2a1d8000 default stack anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4
";

    #[test]
    fn every_kind_of_line_is_read() {
        let mappings = parse(TEXT).unwrap();
        assert_eq!(mappings.len(), 5);
        assert_eq!((mappings[0].anon_pages, mappings[0].pages_on(0)), (0, 2));
        assert_eq!(mappings[0].node_pages.len(), 1);
        assert!(!mappings[1].has_default_policy && !mappings[2].has_default_policy);
        assert_eq!((mappings[1].start, mappings[1].pages_on(1)), (0x7f1c_4000_0000, 512));
        assert_eq!(mappings[2].page_bytes, Some(2 << 20));
        assert_eq!((mappings[3].page_bytes, mappings[3].anon_pages), (None, 0));
        let stack = &mappings[4];
        assert!(stack.has_default_policy);
        assert_eq!((stack.pages_on(0), stack.pages_on(1), stack.pages_on(2)), (1, 2, 0));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        for (text, line) in [(&b"55d0\n"[..], 1), (&TEXT[..100], 2), (b"1 default anon=x\n", 1)] {
            assert_eq!(parse(text).unwrap_err().line, line);
        }
    }
}
