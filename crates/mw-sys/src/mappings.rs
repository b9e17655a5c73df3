//! The mapping at an address (`PROCMAP_QUERY`, linux/fs.h).

use crate::direct::control;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// `_IOWR('f', 17, struct procmap_query)`, kernel 6.11.
const PROCMAP_QUERY: libc::c_ulong = 0xC068_6611;
const READABLE: u64 = 0x01;
const WRITABLE: u64 = 0x02;
const SHARED: u64 = 0x08;
const COVERING_OR_NEXT: u64 = 0x10;

/// `struct procmap_query` (linux/fs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// A mapping of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnMapping {
    pub addresses: Range<usize>,
    /// True if it may be read.
    pub readable: bool,
    /// True if it may be written.
    pub writable: bool,
    /// True if writes are visible to other processes.
    pub shared: bool,
    /// The size of its pages; base pages also for transparent huge pages.
    pub page_bytes: usize,
    /// The device of its file; zeros where there is no file.
    pub device: (u32, u32),
    /// The inode of its file; zero where there is no file.
    pub inode: u64,
}

/// The mapping that contains an address, or the next one above it. `maps` is `/proc/self/maps`.
///
/// # Errors
/// `ENOTTY` on kernels before 6.11.
pub fn mapping_from(maps: BorrowedFd<'_>, address: usize) -> io::Result<Option<OwnMapping>> {
    let mut query = Query {
        size: size_of::<Query>() as u64,
        query_flags: COVERING_OR_NEXT,
        query_addr: address as u64,
        ..Query::default()
    };
    // SAFETY: `query` is as the kernel defines it and says its size; no name and no build ID is
    // requested, so that nothing else is written.
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let asked = unsafe { control(maps, PROCMAP_QUERY, &raw mut query) };
    if let Err(error) = asked {
        return if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
    }
    let number = |value: u64| usize::try_from(value).map_err(io::Error::other);
    let has = |flag| query.vma_flags & flag != 0;
    Ok(Some(OwnMapping {
        addresses: number(query.vma_start)?..number(query.vma_end)?,
        readable: has(READABLE),
        writable: has(WRITABLE),
        shared: has(SHARED),
        page_bytes: number(query.vma_page_size)?,
        device: (query.dev_major, query.dev_minor),
        inode: query.inode,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;
    use mw_memory::PageSize;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_mapping_is_found_by_its_addresses() {
        let region = Region::anonymous(1 << 20, PageSize::Base).unwrap();
        let start = region.as_ptr().as_ptr().expose_provenance();
        let maps = File::open("/proc/self/maps").unwrap();
        let found = match mapping_from(maps.as_fd(), start) {
            Ok(found) => found.unwrap(),
            Err(error) => return mw_test::skip(format!("needs PROCMAP_QUERY (6.11): {error}")),
        };
        assert!(found.addresses.start <= start && found.addresses.end >= start + (1 << 20));
        assert!(found.readable && found.writable && !found.shared);
        assert_eq!((found.page_bytes, found.device, found.inode), (4096, (0, 0), 0));
        assert_eq!(mapping_from(maps.as_fd(), usize::MAX - 4096).unwrap_or(None), None);
    }
}
