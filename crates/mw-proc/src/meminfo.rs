//! `/proc/meminfo` and `/sys/devices/system/node/nodeN/meminfo` of kernels 2.6.18 to 6.18.
//!
//! The kernel's kB are bytes here; the `HugePages_*` lines are counts of huge pages of
//! [`Meminfo::hugepagesize_bytes`]. What a kernel or a node does not print is `None`.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MeminfoUnit {
    Bytes,
    Pages,
}

macro_rules! meminfo {
    ($($field:ident $unit:ident $name:literal $doc:literal)*) => {
        /// Memory of the machine, or of one node.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Meminfo {
            $(#[doc = concat!("`", $name, "`: ", $doc)] pub $field: Option<u64>,)*
        }

        impl Meminfo {
            /// The kernel's names, in the order of the fields.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The value of the field at this place of [`Self::NAMES`].
            #[must_use]
            pub fn get(&self, place: usize) -> Option<u64> {
                [$(self.$field),*].get(place).copied().flatten()
            }

            fn slot(&mut self, name: &[u8]) -> Option<(&mut Option<u64>, MeminfoUnit)> {
                $(if name == $name.as_bytes() {
                    return Some((&mut self.$field, MeminfoUnit::$unit));
                })*
                None
            }
        }
    };
}

meminfo! {
    mem_total_bytes Bytes "MemTotal" "memory that the kernel manages."
    mem_free_bytes Bytes "MemFree" "in the free lists."
    mem_available_bytes Bytes "MemAvailable" "an estimate of what is available without swapping (3.14 and later)."
    mem_used_bytes Bytes "MemUsed" "`MemTotal` less `MemFree` (nodes only)."
    buffers_bytes Bytes "Buffers" "page cache of block devices."
    cached_bytes Bytes "Cached" "page cache of files, tmpfs and shared memory included."
    file_pages_bytes Bytes "FilePages" "page cache, buffers and swap cache (nodes only)."
    swap_cached_bytes Bytes "SwapCached" "in memory and in swap."
    active_bytes Bytes "Active" "on the active lists."
    inactive_bytes Bytes "Inactive" "on the inactive lists."
    active_anon_bytes Bytes "Active(anon)" "anonymous, active (2.6.28 and later)."
    inactive_anon_bytes Bytes "Inactive(anon)" "anonymous, inactive (2.6.28 and later)."
    active_file_bytes Bytes "Active(file)" "of files, active (2.6.28 and later)."
    inactive_file_bytes Bytes "Inactive(file)" "of files, inactive (2.6.28 and later)."
    unevictable_bytes Bytes "Unevictable" "not reclaimable: ramfs, locked (2.6.28 and later)."
    mlocked_bytes Bytes "Mlocked" "locked by mlock (2.6.28 and later)."
    swap_total_bytes Bytes "SwapTotal" "size of all swap."
    swap_free_bytes Bytes "SwapFree" "free swap."
    zswap_bytes Bytes "Zswap" "memory that zswap takes (5.19 and later)."
    zswapped_bytes Bytes "Zswapped" "what zswap holds, uncompressed (5.19 and later)."
    dirty_bytes Bytes "Dirty" "to be written back."
    writeback_bytes Bytes "Writeback" "being written back."
    anon_pages_bytes Bytes "AnonPages" "anonymous memory mapped by processes."
    mapped_bytes Bytes "Mapped" "page cache mapped by processes."
    shmem_bytes Bytes "Shmem" "tmpfs, shared memory (2.6.32 and later)."
    kreclaimable_bytes Bytes "KReclaimable" "kernel memory that can be reclaimed (4.20 and later)."
    slab_bytes Bytes "Slab" "kernel object caches."
    sreclaimable_bytes Bytes "SReclaimable" "the part of the slab that can be reclaimed (2.6.19 and later)."
    sunreclaim_bytes Bytes "SUnreclaim" "the part of the slab that cannot (2.6.19 and later)."
    kernel_stack_bytes Bytes "KernelStack" "kernel stacks (2.6.32 and later)."
    page_tables_bytes Bytes "PageTables" "page tables."
    sec_page_tables_bytes Bytes "SecPageTables" "page tables of KVM and IOMMU (6.1 and later)."
    nfs_unstable_bytes Bytes "NFS_Unstable" "sent to NFS, not yet committed (0 from 5.8 on)."
    bounce_bytes Bytes "Bounce" "bounce buffers."
    writeback_tmp_bytes Bytes "WritebackTmp" "FUSE's writeback buffers (2.6.26 and later)."
    commit_limit_bytes Bytes "CommitLimit" "the most that may be committed under strict overcommit."
    committed_as_bytes Bytes "Committed_AS" "what processes were promised."
    vmalloc_total_bytes Bytes "VmallocTotal" "addresses for vmalloc and mappings of devices."
    vmalloc_used_bytes Bytes "VmallocUsed" "in use by vmalloc (0 from 4.4 to 5.2)."
    percpu_bytes Bytes "Percpu" "per-CPU memory (4.20 and later)."
    hardware_corrupted_bytes Bytes "HardwareCorrupted" "poisoned after memory errors (2.6.32 and later)."
    anon_huge_pages_bytes Bytes "AnonHugePages" "transparent huge pages, anonymous (2.6.38 and later)."
    shmem_huge_pages_bytes Bytes "ShmemHugePages" "transparent huge pages of shared memory (4.8 and later)."
    file_huge_pages_bytes Bytes "FileHugePages" "transparent huge pages of files (5.4 and later)."
    cma_total_bytes Bytes "CmaTotal" "reserved for contiguous allocation (3.19 and later)."
    cma_free_bytes Bytes "CmaFree" "free of that (3.19 and later)."
    balloon_bytes Bytes "Balloon" "released to the hypervisor (6.16 and later)."
    gpu_active_bytes Bytes "GPUActive" "system memory that GPU drivers use (7.3 and later)."
    gpu_reclaim_bytes Bytes "GPUReclaim" "pages that GPU drivers keep for reuse (7.3 and later)."
    hugetlb_bytes Bytes "Hugetlb" "all huge pages of every size (4.16 and later)."
    hugepagesize_bytes Bytes "Hugepagesize" "the default huge page size."
    hugepages_total_pages Pages "HugePages_Total" "pool of the default size."
    hugepages_free_pages Pages "HugePages_Free" "not allocated yet, reserved ones included."
    hugepages_rsvd_pages Pages "HugePages_Rsvd" "promised, not allocated yet."
    hugepages_surp_pages Pages "HugePages_Surp" "above the pool's size (2.6.24 and later)."
}

impl Meminfo {
    /// Sets a field by the kernel's name of it; an unknown name changes nothing.
    pub fn set(&mut self, name: &str, value: Option<u64>) {
        if let Some((slot, _)) = self.slot(name.as_bytes()) {
            *slot = value;
        }
    }

    /// Reads either file; it allocates nothing.
    ///
    /// # Errors
    /// When a known line has no number, the text ends within a known line, or no line is known.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut info = Self::default();
        let mut known = false;
        let mut last = 1;
        for line in scan::lines(text) {
            known |= info.read(&line)?;
            last = line.number;
        }
        if known { Ok(info) } else { Err(ParseError::new(last, Problem::Expected("MemTotal"))) }
    }

    fn read(&mut self, line: &Line<'_>) -> Result<bool, ParseError> {
        let text = without_node(line.text);
        let Some((name, value)) = scan::split_once(text, b':') else { return Ok(false) };
        let Some((slot, unit)) = self.slot(name.trim_ascii()) else { return Ok(false) };
        *slot = Some(match unit {
            MeminfoUnit::Bytes => line.at(scan::parse_kb(value))?,
            MeminfoUnit::Pages => {
                // Without a unit behind it, nothing else shows that the number is whole.
                line.whole()?;
                line.at(scan::parse_u64(value.trim_ascii()))?
            }
        });
        Ok(true)
    }
}

/// Takes `Node 0 ` away from the front of a node's lines.
fn without_node(text: &[u8]) -> &[u8] {
    match text.strip_prefix(b"Node ") {
        Some(rest) => scan::first_field(rest).1,
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V6_18: &[u8] = include_bytes!("../tests/data/meminfo");
    const V6_18_NODE: &[u8] = include_bytes!("../tests/data/node_meminfo");
    /// CentOS 5.
    const V2_6_18: &[u8] = b"MemTotal:     49434824 kB
MemFree:       2273872 kB
Buffers:        196192 kB
Cached:       43208936 kB
SwapCached:          0 kB
Active:       25112016 kB
Inactive:     18560444 kB
HighTotal:           0 kB
HighFree:            0 kB
LowTotal:     49434824 kB
LowFree:       2273872 kB
SwapTotal:     8388600 kB
SwapFree:      8388600 kB
Dirty:             452 kB
Writeback:           0 kB
AnonPages:      267264 kB
Mapped:       32517116 kB
Slab:          2938896 kB
PageTables:      78544 kB
NFS_Unstable:        0 kB
Bounce:              0 kB
CommitLimit:  33106012 kB
Committed_AS: 34297540 kB
VmallocTotal: 34359738367 kB
VmallocUsed:    271716 kB
VmallocChunk: 34359466571 kB
HugePages_Total:     0
HugePages_Free:      0
HugePages_Rsvd:      0
Hugepagesize:     2048 kB
";

    #[test]
    fn newest() {
        let info = Meminfo::parse(V6_18).unwrap();
        assert_eq!(info.mem_total_bytes, Some(24_684_092 << 10));
        assert_eq!(info.active_file_bytes, Some(50_968 << 10));
        assert_eq!(info.kreclaimable_bytes, Some(133_780 << 10));
        assert_eq!(info.hugepagesize_bytes, Some(2 << 20));
        assert_eq!(info.hugepages_surp_pages, Some(0));
        assert_eq!(info.hardware_corrupted_bytes, None);
        assert_eq!(info.mem_used_bytes, None);
    }

    #[test]
    fn oldest() {
        let info = Meminfo::parse(V2_6_18).unwrap();
        assert_eq!(info.cached_bytes, Some(43_208_936 << 10));
        assert_eq!(info.slab_bytes, Some(2_938_896 << 10));
        assert_eq!((info.mem_available_bytes, info.unevictable_bytes), (None, None));
        assert_eq!(info.hugepages_rsvd_pages, Some(0));
    }

    #[test]
    fn node() {
        let info = Meminfo::parse(V6_18_NODE).unwrap();
        assert_eq!(info.mem_total_bytes, Some(13_199_572 << 10));
        assert_eq!(info.mem_used_bytes, Some(1_074_612 << 10));
        assert_eq!(info.file_pages_bytes, Some(165_592 << 10));
        assert_eq!(info.inactive_anon_bytes, Some(7_996 << 10));
        assert_eq!(info.hugepages_rsvd_pages, None);
        let thousandth = Meminfo::parse(b"Node 1023 MemFree:         1 kB\n").unwrap();
        assert_eq!(thousandth.mem_free_bytes, Some(1024));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(Meminfo::parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        refuse(b"", 1, Problem::Expected("MemTotal"));
        refuse(b"some: 1\nother\n", 2, Problem::Expected("MemTotal"));
        refuse(b"MemTotal: 1 kB\nMemFree: x kB\n", 2, Problem::NotANumber);
        refuse(b"MemTotal: 1\n", 1, Problem::Expected("kB"));
        refuse(b"MemTotal: 1 kB\nMemFree: 245", 2, Problem::Truncated);
        refuse(b"MemTotal: 1 kB\nHugePages_Total: 24", 2, Problem::Truncated);
        refuse(b"MemTotal: 99999999999999999999 kB\n", 1, Problem::Overflow);
    }

    #[test]
    fn only_what_is_whole_is_read() {
        let full = Meminfo::parse(V6_18).unwrap();
        assert!(Meminfo::parse(V6_18.trim_ascii_end()).is_ok_and(|info| info == full));
        let ends: Vec<_> = (0..V6_18.len()).filter(|&at| V6_18[at] == b'\n').collect();
        for end in 0..V6_18.len() {
            let Ok(info) = Meminfo::parse(&V6_18[..end]) else { continue };
            let lines = ends.partition_point(|&at| at < end);
            let whole = |lines: usize| Meminfo::parse(&V6_18[..=ends[lines]]);
            // Either the cut line is left out, or nothing but its newline was cut.
            let without = lines > 0 && whole(lines - 1) == Ok(info);
            assert!(without || whole(lines) == Ok(info), "{end}");
        }
        let saturated = Meminfo::parse(b"MemFree: 18446744073709551615 kB\n").unwrap();
        assert_eq!(saturated.mem_free_bytes, Some(u64::MAX));
    }
}
