//! Where all memory is: parts that exclude each other and add up to MemTotal.
//!
//! No file lists them. /proc/meminfo counts some pages twice (swap cache that is mapped, shared memory in the
//! page cache, kernel stacks in vmalloc) and some not at all (free pages in the lists of the CPUs, compressed
//! swap, what drivers allocate). What each of its lines counts is in fs/proc/meminfo.c and mm/vmstat.c; the
//! comments below name the counters behind them.
//!
//! The counters are read one after the other and are updated in batches for each CPU, so that parts may exceed
//! the total by a little: [`Account::overcounted_bytes`]. What is below the total is [`MemoryPart::Unaccounted`].

use crate::contradiction::sound;
use crate::reclaimable::{kernel_reclaimable_bytes, unwritten_bytes};
use mw_proc::meminfo::Meminfo;
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::{Counter, Vmstat};
use mw_proc::zoneinfo::Zone;

macro_rules! parts {
    ($($part:ident $id:literal $source:literal $doc:literal)*) => {
        /// A part of memory. No two parts have a page in common.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum MemoryPart {
            $(#[doc = $doc] $part,)*
        }

        impl MemoryPart {
            /// All parts, in the order of their discriminants.
            pub const ALL: &'static [Self] = &[$(Self::$part),*];

            /// The name for programs.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$part => $id,)* }
            }

            /// The files and lines that it is computed from.
            #[must_use]
            pub const fn source(self) -> &'static str {
                match self { $(Self::$part => $source,)* }
            }
        }
    };
}

parts! {
    Free "free" "/proc/meminfo MemFree"
        "The free lists of the zones, what the zones have not got yet and free CMA included."
    PerCpuLists "per_cpu_lists" "/proc/zoneinfo pagesets"
        "Free pages in the lists of the CPUs, which MemFree does not count."
    CleanCache "clean_cache" "/proc/meminfo Cached + Buffers - Shmem, less the next three"
        "Page cache of files and block devices that can be dropped."
    DirtyCache "dirty_cache" "/proc/meminfo Dirty"
        "Page cache to be written."
    WritebackCache "writeback_cache" "/proc/meminfo Writeback + NFS_Unstable"
        "Page cache that is being written; the kernel counts pages on their way to swap here too."
    UnevictableCache "unevictable_cache" "/proc/meminfo Cached + Buffers - Shmem - Active(file) - Inactive(file), at most Unevictable"
        "Files of ramfs and locked files."
    Anonymous "anonymous" "/proc/meminfo AnonPages"
        "Anonymous memory that processes have mapped."
    SwapCache "swap_cache" "/proc/meminfo SwapCached, the part that AnonPages and Shmem do not count"
        "Swapped-in or swapped-out pages that no process has mapped."
    UnmappedAnonymous "unmapped_anonymous" "/proc/meminfo Active + Inactive + Unevictable, less what is mapped or cached"
        "Pages on the LRU lists that no process has mapped and no file has: parts of transparent huge pages that were unmapped and are not split yet, pages in pipes, or pinned for I/O."
    Shared "shared" "/proc/meminfo Shmem"
        "tmpfs, System V segments, memfds and shared anonymous mappings."
    HugePages "huge_pages" "/proc/meminfo Hugetlb"
        "The pools of huge pages, free ones included."
    SlabReclaimable "slab_reclaimable" "/proc/meminfo SReclaimable"
        "Caches of kernel objects that have a shrinker, with the objects in use."
    SlabUnreclaimable "slab_unreclaimable" "/proc/meminfo SUnreclaim"
        "Caches of other kernel objects."
    OtherReclaimable "other_reclaimable" "/proc/meminfo KReclaimable - SReclaimable"
        "Kernel memory with a shrinker that is not slab."
    KernelStacks "kernel_stacks" "/proc/meminfo KernelStack"
        "Kernel stacks of tasks."
    PageTables "page_tables" "/proc/meminfo PageTables"
        "Page tables of processes."
    SecondaryPageTables "secondary_page_tables" "/proc/meminfo SecPageTables"
        "Page tables of KVM and IOMMU."
    Percpu "percpu" "/proc/meminfo Percpu"
        "Variables of each CPU."
    Vmalloc "vmalloc" "/proc/meminfo VmallocUsed - KernelStack"
        "vmalloc: modules, BPF programs and maps, large tables. Kernel stacks are left out: with CONFIG_VMAP_STACK both lines count them."
    PageStructures "page_structures" "/proc/vmstat nr_memmap_pages"
        "struct page of memory that was added after boot (6.11 and later); those of boot are not in MemTotal."
    CompressedSwap "compressed_swap" "/proc/vmstat nr_zspages"
        "What zram and zswap have compressed."
    Bounce "bounce" "/proc/meminfo Bounce"
        "Bounce buffers of block devices."
    FuseWriteback "fuse_writeback" "/proc/meminfo WritebackTmp"
        "Copies of pages that FUSE writes."
    GpuActive "gpu_active" "/proc/meminfo GPUActive"
        "System memory that GPU drivers use (7.3 and later; unaccounted before)."
    GpuReclaimable "gpu_reclaimable" "/proc/meminfo GPUReclaim"
        "Pages that GPU drivers keep for reuse and free when memory is short (7.3 and later)."
    Corrupted "corrupted" "/proc/meminfo HardwareCorrupted"
        "Pages taken out of use after memory errors."
    Balloon "balloon" "/proc/meminfo Balloon"
        "Given to the hypervisor, where MemTotal still counts it."
    Unaccounted "unaccounted" "/proc/meminfo MemTotal, less all other parts"
        "What no counter has: buffers of pipes, sockets and drivers, and pages that the kernel allocated for itself."
}

/// Files that the parts are computed from.
#[derive(Debug, Clone, Copy)]
pub struct AccountCounters<'a> {
    pub meminfo: &'a Meminfo,
    /// Empty where they are unknown; lists of CPUs are then unaccounted.
    pub zones: &'a [Zone],
    pub vmstat: Option<&'a Vmstat>,
    /// All huge pages of all sizes, for kernels before 4.16; from the pools.
    pub huge_pages_bytes: u64,
    pub kernel: Option<KernelVersion>,
    pub page_bytes: u64,
}

/// All memory of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    total_bytes: u64,
    parts: [u64; MemoryPart::ALL.len()],
    overcounted_bytes: u64,
}

impl Account {
    /// None without MemTotal or MemFree.
    #[must_use]
    pub fn new(counters: &AccountCounters<'_>) -> Option<Self> {
        let sound = sound(counters.meminfo);
        let counters = &AccountCounters { meminfo: &sound, ..*counters };
        let meminfo = counters.meminfo;
        let total_bytes = meminfo.mem_total_bytes?;
        let mut account =
            Self { total_bytes, parts: [0; MemoryPart::ALL.len()], overcounted_bytes: 0 };
        account.set(MemoryPart::Free, meminfo.mem_free_bytes);
        account.set(MemoryPart::PerCpuLists, Some(counters.per_cpu_lists_bytes()));
        account.set(MemoryPart::Anonymous, meminfo.anon_pages_bytes);
        account.set(MemoryPart::Shared, meminfo.shmem_bytes);
        let (hugetlb, pools) = (meminfo.hugetlb_bytes, counters.huge_pages_bytes);
        account.set(MemoryPart::HugePages, hugetlb.or(Some(pools)));
        account.cache(meminfo);
        account.unmapped(meminfo);
        account.kernel(counters);
        account.set(MemoryPart::GpuActive, meminfo.gpu_active_bytes);
        account.set(MemoryPart::GpuReclaimable, meminfo.gpu_reclaim_bytes);
        account.set(MemoryPart::Corrupted, meminfo.hardware_corrupted_bytes);
        account.set(MemoryPart::Balloon, Some(counters.counted_balloon_bytes()));
        let known = sum(account.parts);
        account.set(MemoryPart::Unaccounted, Some(total_bytes.saturating_sub(known)));
        account.overcounted_bytes = known.saturating_sub(total_bytes);
        meminfo.mem_free_bytes.map(|_| account)
    }

    /// MemTotal.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    #[must_use]
    pub fn bytes(&self, part: MemoryPart) -> u64 {
        self.parts.get(part as usize).copied().unwrap_or(0)
    }

    /// By how much the parts exceed the total, because counters lag behind each other.
    #[must_use]
    pub const fn overcounted_bytes(&self) -> u64 {
        self.overcounted_bytes
    }

    fn set(&mut self, part: MemoryPart, bytes: Option<u64>) {
        if let Some(slot) = self.parts.get_mut(part as usize) {
            *slot = bytes.unwrap_or(0);
        }
    }

    /// NR_FILE_PAGES without swap cache is Cached + Buffers and contains Shmem.
    fn cache(&mut self, meminfo: &Meminfo) {
        let cache = file_pages_bytes(meminfo).saturating_sub(meminfo.shmem_bytes.unwrap_or(0));
        let dirty = meminfo.dirty_bytes.unwrap_or(0).min(cache);
        let unwritten = unwritten_bytes(meminfo).min(cache);
        let lists = meminfo.active_file_bytes.zip(meminfo.inactive_file_bytes);
        // Files on no list of files are on the unevictable one, but for a few in batches of the CPUs.
        let unlisted = lists.map_or(0, |(a, b)| cache.saturating_sub(a.saturating_add(b)));
        let unevictable = unlisted
            .min(meminfo.unevictable_bytes.unwrap_or(0))
            .min(cache.saturating_sub(unwritten));
        self.set(MemoryPart::DirtyCache, Some(dirty));
        self.set(MemoryPart::WritebackCache, Some(unwritten.saturating_sub(dirty)));
        self.set(MemoryPart::UnevictableCache, Some(unevictable));
        let clean = cache.saturating_sub(unwritten).saturating_sub(unevictable);
        self.set(MemoryPart::CleanCache, Some(clean));
    }

    /// The LRU lists have all pages of processes and files; NR_ANON_MAPPED has no page that is only in the
    /// swap cache, and no page that only a pipe or a device still holds.
    fn unmapped(&mut self, meminfo: &Meminfo) {
        let lists = [meminfo.active_bytes, meminfo.inactive_bytes, meminfo.unevictable_bytes];
        let counted =
            file_pages_bytes(meminfo).saturating_add(meminfo.anon_pages_bytes.unwrap_or(0));
        let others = sum(lists.into_iter().flatten()).saturating_sub(counted);
        let swap_cache = others.min(meminfo.swap_cached_bytes.unwrap_or(0));
        self.set(MemoryPart::SwapCache, Some(swap_cache));
        self.set(MemoryPart::UnmappedAnonymous, Some(others.saturating_sub(swap_cache)));
    }

    fn kernel(&mut self, counters: &AccountCounters<'_>) {
        let meminfo = counters.meminfo;
        let reclaimable = meminfo.sreclaimable_bytes;
        // Before 2.6.19 the slab is not told apart.
        let unreclaimable = meminfo.sunreclaim_bytes.or(meminfo.slab_bytes);
        let all_reclaimable = kernel_reclaimable_bytes(meminfo);
        self.set(MemoryPart::SlabReclaimable, reclaimable);
        self.set(MemoryPart::SlabUnreclaimable, unreclaimable);
        let other = all_reclaimable.saturating_sub(reclaimable.unwrap_or(0));
        self.set(MemoryPart::OtherReclaimable, Some(other));
        self.set(MemoryPart::KernelStacks, meminfo.kernel_stack_bytes);
        self.set(MemoryPart::PageTables, meminfo.page_tables_bytes);
        self.set(MemoryPart::SecondaryPageTables, meminfo.sec_page_tables_bytes);
        self.set(MemoryPart::Percpu, meminfo.percpu_bytes);
        self.set(MemoryPart::Vmalloc, Some(counters.vmalloc_bytes()));
        self.set(MemoryPart::PageStructures, Some(counters.pages(Counter::NrMemmapPages)));
        let zspages = counters.pages(Counter::NrZspages);
        // zswap with another allocator than zsmalloc is in none of zsmalloc's pages.
        self.set(MemoryPart::CompressedSwap, Some(zspages.max(meminfo.zswap_bytes.unwrap_or(0))));
        self.set(MemoryPart::Bounce, meminfo.bounce_bytes);
        self.set(MemoryPart::FuseWriteback, meminfo.writeback_tmp_bytes);
    }
}

impl AccountCounters<'_> {
    fn pages(&self, counter: Counter) -> u64 {
        let pages = self.vmstat.and_then(|vmstat| vmstat.get(counter)).unwrap_or(0);
        pages.saturating_mul(self.page_bytes)
    }

    fn zone_bytes(&self, pages: impl Fn(&Zone) -> u64) -> u64 {
        sum(self.zones.iter().map(pages)).saturating_mul(self.page_bytes)
    }

    fn per_cpu_lists_bytes(&self) -> u64 {
        self.zone_bytes(|zone| zone.pcp_pages.unwrap_or(0))
    }

    /// Before 5.3 the line is 0, or counts addresses and not memory.
    fn vmalloc_bytes(&self) -> u64 {
        const COUNTS_PAGES: KernelVersion = KernelVersion::new(5, 3, 0);
        if self.kernel.is_none_or(|kernel| kernel < COUNTS_PAGES) {
            return 0;
        }
        let stacks = self.meminfo.kernel_stack_bytes.unwrap_or(0);
        self.meminfo.vmalloc_used_bytes.unwrap_or(0).saturating_sub(stacks)
    }

    /// Most balloons take their pages out of MemTotal, and out of what the zones manage; one that deflates
    /// when memory runs out does not.
    fn counted_balloon_bytes(&self) -> u64 {
        let balloon = self.meminfo.balloon_bytes.unwrap_or(0);
        let unmanaged = self
            .zone_bytes(|zone| zone.present_pages.saturating_sub(zone.managed_or_present_pages()));
        if unmanaged >= balloon { 0 } else { balloon }
    }
}

/// The page cache with shared memory and without swap cache.
fn file_pages_bytes(meminfo: &Meminfo) -> u64 {
    sum([meminfo.cached_bytes, meminfo.buffers_bytes].into_iter().flatten())
}

/// Saturating: the numbers of a damaged file must not overflow.
fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(meminfo: &Meminfo) -> AccountCounters<'_> {
        AccountCounters {
            meminfo,
            zones: &[],
            vmstat: None,
            huge_pages_bytes: 0,
            kernel: Some(KernelVersion::new(6, 12, 0)),
            page_bytes: 4096,
        }
    }

    fn machine() -> Meminfo {
        Meminfo {
            mem_total_bytes: Some(1000),
            mem_free_bytes: Some(100),
            cached_bytes: Some(400),
            buffers_bytes: Some(50),
            shmem_bytes: Some(150),
            active_file_bytes: Some(120),
            inactive_file_bytes: Some(100),
            active_bytes: Some(400),
            inactive_bytes: Some(250),
            unevictable_bytes: Some(90),
            dirty_bytes: Some(30),
            writeback_bytes: Some(10),
            anon_pages_bytes: Some(200),
            swap_cached_bytes: Some(70),
            ..Meminfo::default()
        }
    }

    fn parts(account: &Account) -> Vec<(MemoryPart, u64)> {
        let some = |part: &MemoryPart| Some((*part, account.bytes(*part))).filter(|(_, b)| *b > 0);
        MemoryPart::ALL.iter().filter_map(some).collect()
    }

    #[test]
    fn no_page_is_counted_twice() {
        let meminfo = machine();
        let account = Account::new(&counters(&meminfo)).unwrap();
        let expected = [
            (MemoryPart::Free, 100),
            // 450 of files, 150 of them shared memory, 80 on no list of files.
            (MemoryPart::CleanCache, 180),
            (MemoryPart::DirtyCache, 30),
            (MemoryPart::WritebackCache, 10),
            (MemoryPart::UnevictableCache, 80),
            (MemoryPart::Anonymous, 200),
            // 740 on lists, 650 of them counted; no more than the swap cache.
            (MemoryPart::SwapCache, 70),
            (MemoryPart::UnmappedAnonymous, 20),
            (MemoryPart::Shared, 150),
            (MemoryPart::Unaccounted, 160),
        ];
        assert_eq!(parts(&account), expected);
    }

    #[test]
    fn kernel_stacks_are_part_of_vmalloc() {
        let stacks = |kernel| {
            let meminfo = Meminfo {
                mem_total_bytes: Some(1000),
                mem_free_bytes: Some(0),
                vmalloc_used_bytes: Some(300),
                kernel_stack_bytes: Some(100),
                ..Meminfo::default()
            };
            let account = Account::new(&AccountCounters { kernel, ..counters(&meminfo) }).unwrap();
            (account.bytes(MemoryPart::Vmalloc), account.bytes(MemoryPart::Unaccounted))
        };
        assert_eq!(stacks(Some(KernelVersion::new(5, 10, 0))), (200, 700));
        assert_eq!(stacks(Some(KernelVersion::new(3, 10, 0))), (0, 900), "of addresses");
        assert_eq!(stacks(None), (0, 900));
    }

    #[test]
    fn pages_in_the_lists_of_cpus_are_free_too() {
        let meminfo = Meminfo { mem_total_bytes: Some(1 << 20), ..machine() };
        let zones = [Zone { pcp_pages: Some(3), ..Zone::default() }, Zone::default()];
        let account =
            Account::new(&AccountCounters { zones: &zones, ..counters(&meminfo) }).unwrap();
        assert_eq!(account.bytes(MemoryPart::PerCpuLists), 12_288);
    }

    #[test]
    fn a_balloon_counts_where_memtotal_counts_it() {
        let meminfo =
            Meminfo { mem_total_bytes: Some(1 << 20), balloon_bytes: Some(1 << 18), ..machine() };
        let balloon = |managed_pages| {
            let (managed_pages, present_pages) = (Some(managed_pages), 256);
            let zones = [Zone { managed_pages, present_pages, ..Zone::default() }];
            let counters = AccountCounters { zones: &zones, ..counters(&meminfo) };
            Account::new(&counters).unwrap().bytes(MemoryPart::Balloon)
        };
        assert_eq!((balloon(250), balloon(180)), (1 << 18, 0));
    }

    #[test]
    fn memory_of_gpus_is_accounted_for_where_the_kernel_counts_it() {
        let text = b"MemTotal: 1000 kB\nMemFree: 100 kB\nGPUActive: 300 kB\nGPUReclaim: 50 kB\n";
        let meminfo = Meminfo::parse(text).unwrap();
        let expected = [
            (MemoryPart::Free, 100 << 10),
            (MemoryPart::GpuActive, 300 << 10),
            (MemoryPart::GpuReclaimable, 50 << 10),
            (MemoryPart::Unaccounted, 550 << 10),
        ];
        assert_eq!(parts(&Account::new(&counters(&meminfo)).unwrap()), expected);
    }

    #[test]
    fn counters_that_lag_are_said() {
        let meminfo = Meminfo { mem_total_bytes: Some(800), ..machine() };
        let account = Account::new(&counters(&meminfo)).unwrap();
        assert_eq!((account.bytes(MemoryPart::Unaccounted), account.overcounted_bytes()), (0, 40));
        assert_eq!(Account::new(&counters(&Meminfo::default())), None);
    }
}
