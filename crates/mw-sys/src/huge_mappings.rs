//! How much of each mapping of this process is mapped by transparent huge pages (proc_pid_smaps(5)), on
//! any kernel: before 6.7 nothing else says so to a process without privileges.

use std::io;

/// Memory that is mapped by transparent huge pages, as of one read of /proc/self/smaps. The kernel walks all
/// page tables of the process for it, so it is read once for many regions.
#[derive(Debug)]
pub struct HugeMappings(Vec<HugeMapping>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HugeMapping {
    start: usize,
    end: usize,
    huge_bytes: usize,
}

impl HugeMappings {
    /// Reads them.
    ///
    /// # Errors
    /// If /proc/self/smaps cannot be read: without procfs or `CONFIG_PROC_PAGE_MONITOR`.
    pub fn read() -> io::Result<Self> {
        Ok(Self(parse(&crate::kernel_file::read_to_string("/proc/self/smaps")?)))
    }

    /// Of `bytes` bytes from `start` on.
    ///
    /// # Errors
    /// `Unsupported` if they share a mapping with memory outside, which smaps does not distinguish.
    pub(crate) fn huge_bytes(&self, start: usize, bytes: usize) -> io::Result<usize> {
        let end = start.checked_add(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let overlapping =
            self.0.iter().filter(|mapping| mapping.start < end && start < mapping.end);
        overlapping.map(|mapping| mapping.within(start, end)).sum()
    }
}

impl HugeMapping {
    fn within(&self, start: usize, end: usize) -> io::Result<usize> {
        let is_inside = start <= self.start && self.end <= end;
        if is_inside { Ok(self.huge_bytes) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

fn parse(smaps: &str) -> Vec<HugeMapping> {
    let mut mappings: Vec<HugeMapping> = Vec::new();
    for line in smaps.lines() {
        if let Some(mapping) = parse_header(line) {
            mappings.push(mapping);
        } else if let (Some(bytes), Some(mapping)) = (parse_huge(line), mappings.last_mut()) {
            mapping.huge_bytes += bytes;
        }
    }
    mappings
}

/// `7f0000000000-7f0000200000 rw-s …`
fn parse_header(line: &str) -> Option<HugeMapping> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(HugeMapping { start: number(start)?, end: number(end)?, huge_bytes: 0 })
}

/// `ShmemPmdMapped:     2048 kB`
fn parse_huge(line: &str) -> Option<usize> {
    let (name, value) = line.split_once(':')?;
    if !["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"].contains(&name) {
        return None;
    }
    let kib: usize = value.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Region, ThpAdvice};

    const SMAPS: &str = "\
7f0000000000-7f0000400000 rw-s 00000000 00:01 7  /memfd:a (deleted)
Rss:                4096 kB
AnonHugePages:         0 kB
ShmemPmdMapped:     4096 kB
FilePmdMapped:         0 kB
VmFlags: rd wr sh mr mw me ms lo sd
7f0000400000-7f0000800000 rw-s 00000000 00:01 8  /memfd:b (deleted)
ShmemPmdMapped:     2048 kB
";

    /// Promise (The pool): Transparent huge pages that are returned are zeroed in place on every kernel, and
    /// exchanged only if they were split.
    #[test]
    fn huge_bytes_are_those_of_the_mappings_in_a_range() {
        let mappings = HugeMappings(parse(SMAPS));
        let bytes = |start, bytes| mappings.huge_bytes(start, bytes).ok();
        assert_eq!(bytes(0x7f00_0000_0000, 4 << 20), Some(4 << 20));
        assert_eq!(bytes(0x7f00_0040_0000, 4 << 20), Some(2 << 20));
        assert_eq!(bytes(0x7f00_0000_0000, 8 << 20), Some(6 << 20));
        assert_eq!(bytes(0x7f00_0000_0000, 2 << 20), None, "a part of a mapping");
        assert_eq!(bytes(0x7e00_0000_0000, 2 << 20), Some(0));
    }

    #[test]
    fn smaps_and_the_page_tables_agree() {
        const BYTES: usize = 8 << 20;
        let page = crate::page_bytes();
        let region = Region::reserve(BYTES, page, 2 << 20).unwrap();
        region.map_anonymous(0..BYTES, false).unwrap();
        let _ = region.advise_thp(ThpAdvice::Enable);
        region.populate(0..BYTES).unwrap();
        let read = region.huge_bytes_in(&HugeMappings::read().unwrap());
        // On an older kernel there is nothing to compare with.
        if let Ok(scanned) = region.huge_bytes(0..BYTES) {
            assert_eq!(read.unwrap(), scanned);
        }
    }
}
