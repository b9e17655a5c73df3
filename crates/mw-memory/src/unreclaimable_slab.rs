//! The part of SReclaimable that cannot be reclaimed: kernel objects in use.
//!
//! SReclaimable, and so MemAvailable, counts every object of the caches that have a shrinker, also
//! those in use: each file of a ramfs or tmpfs keeps its dentry for as long as it exists (there is no
//! disk to read it from again), a ramfs its inodes as well; sockets, pipes and open files have both.
//! 720,000 empty files on a ramfs are 620 MiB that count as reclaimable and are not.
//!
//! /proc/sys/fs/dentry-state and inode-state count the unused objects, but do not say why the others
//! are in use. A directory is in use while anything below it is cached, and the file below an overlay
//! while the overlay's is cached; both become free when what keeps them is reclaimed. So there are two
//! estimates, a lower and an upper one.

use mw_proc::dentry_state::DentryState;
use mw_proc::inode_state::InodeState;
use mw_proc::meminfo::Meminfo;
use mw_proc::slabinfo::Slab;

/// A dentry on 64-bit kernels, with its part of the slab's waste.
const DENTRY_BYTES: u64 = 196;

/// The smallest kind of inode, that of ramfs, on kernels 5 and 6.
const INODE_BYTES: u64 = 616;

/// No inode of any file system is as small; what has the word in its name and is, is none.
const LEAST_INODE_BYTES: u64 = 400;

/// The number of unused dentries for one directory that only they keep in use.
const UNUSED_PER_DIRECTORY: u64 = 8;

/// Bytes of index (XArray nodes of 576 bytes for 64 pages) for a page of a file.
const INDEX_BYTES_PER_PAGE: u64 = 9;

/// Caches whose objects are in use as a rule, in this order: sockets, then ramfs and pipes.
const MOSTLY_IN_USE: [&str; 2] = ["sock_inode_cache", "inode_cache"];

/// The inodes of tmpfs, which SReclaimable does not count.
const TMPFS_INODES: &str = "shmem_inode_cache";

/// Caches with a shrinker beside those of dentries and inodes; the beginnings of their names.
const OTHER_RECLAIMABLE: [&str; 5] =
    ["buffer_head", "ext4_extent_status", "extent_status", "kmalloc-rcl-", "radix_tree_node"];

/// True if SReclaimable counts a cache (`SLAB_RECLAIM_ACCOUNT`), by its name.
#[must_use]
pub fn is_reclaimable_cache(slab: &Slab) -> bool {
    let name = slab.name.as_str();
    let other = OTHER_RECLAIMABLE.iter().any(|other| name.starts_with(other));
    name == "dentry" || other || is_inode_cache(slab)
}

fn is_inode_cache(slab: &Slab) -> bool {
    slab.name.contains("inode")
        && slab.name != TMPFS_INODES
        && slab.object_bytes >= LEAST_INODE_BYTES
}

/// Kernel objects in use that SReclaimable counts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnreclaimableSlab {
    /// At least this much is in use.
    pub min_bytes: u64,
    /// At most this much is in use.
    pub max_bytes: u64,
}

/// Report of the kernel about its objects.
#[derive(Debug, Clone, Copy)]
pub struct KernelObjects<'a> {
    pub meminfo: &'a Meminfo,
    pub dentries: DentryState,
    /// Inodes, where they are known.
    pub inodes: Option<InodeState>,
    /// slabinfo, which only root may read.
    pub slabs: Option<&'a [Slab]>,
    /// Inodes of tmpfs, as far as known without slabinfo.
    pub tmpfs_inodes: u64,
    /// The size of a base page.
    pub page_bytes: u64,
}

impl UnreclaimableSlab {
    /// The estimate, never more than SReclaimable.
    #[must_use]
    pub fn new(objects: &KernelObjects<'_>) -> Self {
        let in_use = objects.dentries.in_use();
        let least = in_use.saturating_sub(objects.kept_by_unused());
        let of = |dentries: u64, order: CacheOrder| {
            let inodes = objects.inodes_in_use().min(dentries);
            let parts = [
                objects.dentry_bytes(dentries),
                objects.inode_bytes(inodes, order),
                objects.index_bytes(),
            ];
            let bytes = parts.into_iter().fold(0, u64::saturating_add);
            bytes.min(objects.meminfo.sreclaimable_bytes.unwrap_or(0))
        };
        Self {
            min_bytes: of(least, CacheOrder::SmallFirst),
            max_bytes: of(in_use, CacheOrder::LargeFirst),
        }
    }
}

/// Inode caches that those in use are taken from, where the kernel does not report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CacheOrder {
    SmallFirst,
    LargeFirst,
}

impl KernelObjects<'_> {
    fn slab(&self, name: &str) -> Option<&Slab> {
        self.slabs?.iter().find(|slab| slab.name == name)
    }

    /// Dentries in use that are free as soon as the unused ones are.
    fn kept_by_unused(&self) -> u64 {
        let unused = self.dentries.unused;
        if self.slabs.is_none() {
            // Overlays keep one for each of theirs, and nothing says how many there are.
            return unused;
        }
        let overlay = self.slab("ovl_inode").map_or(0, |slab| slab.active_objects);
        (unused / UNUSED_PER_DIRECTORY).saturating_add(overlay)
    }

    /// Inodes that neither are unused nor belong to an unused dentry, without those of tmpfs.
    fn inodes_in_use(&self) -> u64 {
        let Some(inodes) = self.inodes else { return u64::MAX };
        let by_unused = self.dentries.unused.saturating_sub(self.dentries.negative);
        let tmpfs = self.slab(TMPFS_INODES).map_or(self.tmpfs_inodes, |slab| slab.active_objects);
        let others = inodes.unused.saturating_add(by_unused).saturating_add(tmpfs);
        inodes.inodes.saturating_sub(others)
    }

    /// The part of the dentry cache that this many of them keep: in a cache with gaps, the gaps
    /// too.
    fn dentry_bytes(&self, count: u64) -> u64 {
        let size = count.saturating_mul(DENTRY_BYTES);
        let cache = self.slab("dentry").map(|slab| slab.bytes(self.page_bytes));
        cache.map_or(size, |bytes| part(bytes, count, self.dentries.dentries))
    }

    fn inode_bytes(&self, count: u64, order: CacheOrder) -> u64 {
        let all = self.slabs.into_iter().flatten();
        let mut caches: Vec<&Slab> = all.filter(|slab| is_inode_cache(slab)).collect();
        if caches.is_empty() {
            return count.saturating_mul(INODE_BYTES);
        }
        let rank = |slab: &Slab| {
            let known = MOSTLY_IN_USE.iter().position(|name| *name == slab.name);
            let size = match order {
                CacheOrder::SmallFirst => slab.object_bytes,
                CacheOrder::LargeFirst => u64::MAX.saturating_sub(slab.object_bytes),
            };
            (known.unwrap_or(MOSTLY_IN_USE.len()), size)
        };
        caches.sort_by_key(|slab| rank(slab));
        let mut left = count;
        let bytes = caches.into_iter().map(|slab| {
            let taken = left.min(slab.active_objects);
            left = left.saturating_sub(taken);
            part(slab.bytes(self.page_bytes), taken, slab.active_objects)
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// The index of shared memory and tmpfs, which stays as long as their pages do.
    fn index_bytes(&self) -> u64 {
        let huge = self.meminfo.shmem_huge_pages_bytes.unwrap_or(0);
        let shmem = self.meminfo.shmem_bytes.unwrap_or(0).saturating_sub(huge);
        shmem.checked_div(self.page_bytes).unwrap_or(0).saturating_mul(INDEX_BYTES_PER_PAGE)
    }
}

/// `bytes` in proportion of `count` to `all`, at most all of them.
fn part(bytes: u64, count: u64, all: u64) -> u64 {
    let part = u128::from(bytes).saturating_mul(u128::from(count.min(all)));
    u64::try_from(part.checked_div(u128::from(all)).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Part of a cache of `bytes` that MemAvailable counts: it leaves out half of it, at most the low
/// watermarks.
fn counted(bytes: u64, low_watermark_bytes: u64) -> u64 {
    bytes.saturating_sub((bytes / 2).min(low_watermark_bytes))
}

/// By how much MemAvailable is too high when `in_use_bytes` of `reclaimable_bytes` are in use.
pub(crate) fn overcounted_bytes(
    reclaimable_bytes: u64,
    in_use_bytes: u64,
    low_watermark_bytes: u64,
) -> u64 {
    let left = reclaimable_bytes.saturating_sub(in_use_bytes);
    let before = counted(reclaimable_bytes, low_watermark_bytes);
    before.saturating_sub(counted(left, low_watermark_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn slab(name: &str, active: u64, object_bytes: u64, mib: u64) -> Slab {
        let (slabs, pages_per_slab) = (mib << 8, 1);
        let name = name.to_owned();
        Slab {
            name,
            active_objects: active,
            object_bytes,
            slabs,
            pages_per_slab,
            ..Slab::default()
        }
    }

    fn estimate(
        sreclaimable_mib: u64,
        (dentries, unused, negative): (u64, u64, u64),
        (inodes, unused_inodes): (u64, u64),
        slabs: Option<&[Slab]>,
    ) -> (u64, u64) {
        let sreclaimable_bytes = Some(sreclaimable_mib * MIB);
        let slab = UnreclaimableSlab::new(&KernelObjects {
            meminfo: &Meminfo { sreclaimable_bytes, ..Meminfo::default() },
            dentries: DentryState { dentries, unused, negative },
            inodes: Some(InodeState { inodes, unused: unused_inodes }),
            slabs,
            tmpfs_inodes: 0,
            page_bytes: 4096,
        });
        (slab.min_bytes / MIB, slab.max_bytes / MIB)
    }

    #[test]
    fn files_of_a_ramfs_are_in_use() {
        let slabs = [slab("dentry", 722_000, 192, 136), slab("inode_cache", 721_000, 600, 428)];
        let known = estimate(626, (722_000, 1600, 300), (721_300, 0), Some(&slabs));
        assert_eq!(known, (563, 563));
        // Without slabinfo, by the usual sizes.
        assert_eq!(estimate(626, (722_000, 1600, 300), (721_300, 0), None), (556, 557));
    }

    #[test]
    fn files_that_were_only_read_are_not_in_use() {
        // A tree of an ext4 that a backup has read: 60,000 directories have cached children.
        let slabs =
            [slab("dentry", 720_000, 192, 136), slab("ext4_inode_cache", 700_000, 1096, 800)];
        let state = ((720_000, 660_000, 20_000), (700_000, 0));
        let (least, most) = estimate(950, state.0, state.1, Some(&slabs));
        assert_eq!(least, 0);
        assert!(most < 100, "{most}");
        assert_eq!(estimate(950, state.0, state.1, None).0, 0);
    }

    #[test]
    fn what_an_overlay_keeps_is_free_with_the_overlay() {
        let slabs = [
            slab("dentry", 400_000, 192, 80),
            slab("ovl_inode", 200_000, 700, 150),
            slab("ext4_inode_cache", 200_000, 1096, 220),
        ];
        assert_eq!(estimate(450, (400_000, 200_000, 0), (400_000, 0), Some(&slabs)).0, 0);
        assert_eq!(estimate(450, (400_000, 200_000, 0), (400_000, 0), None).0, 0);
    }

    #[test]
    fn files_of_a_tmpfs_keep_only_their_dentries() {
        let slabs = [
            slab("dentry", 500_000, 192, 96),
            slab("shmem_inode_cache", 490_000, 760, 370),
            slab("ext4_inode_cache", 9_000, 1096, 10),
        ];
        let state = ((500_000, 9_000, 0), (500_000, 0));
        let (least, most) = estimate(110, state.0, state.1, Some(&slabs));
        assert!((93..=95).contains(&least) && (94..=96).contains(&most), "{least} {most}");
    }

    #[test]
    fn a_fragmented_cache_is_in_use_as_a_whole() {
        // Nine files in ten were removed again; every slab still has one.
        let slabs = [slab("dentry", 72_000, 192, 136), slab("inode_cache", 72_000, 600, 428)];
        assert_eq!(estimate(570, (72_000, 0, 0), (72_000, 0), Some(&slabs)), (564, 564));
    }

    #[test]
    fn never_more_than_what_is_counted() {
        let max = u64::MAX;
        assert_eq!(estimate(1, (max, 0, 0), (max, 0), None), (1, 1));
        let slabs = [slab("dentry", max, max, 1 << 40), slab("inode_cache", max, max, 1 << 40)];
        assert_eq!(estimate(1, (max, 0, 0), (max, 0), Some(&slabs)), (1, 1));
        assert_eq!(estimate(1, (0, max, max), (0, max), Some(&slabs)), (0, 0));
    }

    #[test]
    fn memavailable_counts_less_than_the_whole_cache() {
        assert_eq!(counted(100, 10), 90);
        assert_eq!(counted(10, 10), 5);
        assert_eq!(overcounted_bytes(600, 600, 20), 580);
        assert_eq!(overcounted_bytes(600, 100, 20), 100);
        assert_eq!(overcounted_bytes(600, 0, 20), 0);
        assert_eq!(overcounted_bytes(600, 900, 0), 600);
    }
}
