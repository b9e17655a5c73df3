//! Lines of the kernel that are no report: it refuses something at a limit that is not the machine's memory, or memory
//! itself is faulty.

use crate::warning_parts::{
    block_size, command_of, committing_program, copied_cache, crash_place, data_size,
    device_number, host_memory, is_of_page_allocator, kmem_size, left_cache, listen_port,
    mapping_program, megabytes, memory_module, percpu_request, percpu_size, pool_size,
    program_of_trace, refusal, requested, slots,
};
use crate::word_table::WordTable;
use mw_memory::format_count;
use std::collections::BTreeMap;

/// The most of a name that is kept.
const MAX_NAME_CHARS: usize = 120;

/// Limits that the kernel names when it refuses, and faults of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KernelWarning {
    /// `pids.max` of a cgroup (kernel/cgroup/pids.c).
    Tasks,
    /// Bounce buffers of devices (kernel/dma/swiotlb.c).
    BounceBuffers,
    /// `net.ipv4.tcp_max_orphans`; before 3.3 the same line was written at `tcp_mem` (net/ipv4/tcp_timer.c).
    OrphanedSockets,
    /// `net.ipv4.tcp_mem`.
    SocketMemory,
    /// `fs.file-max`.
    OpenFiles,
    /// `net.netfilter.nf_conntrack_max`.
    TrackedConnections,
    /// Memory that Hyper-V gives a running guest (drivers/hv/hv_balloon.c).
    HotAdd,
    /// Overcommit (mm/util.c, `__vm_enough_memory()`), which logs its refusals since 6.0.
    Commit,
    /// `RLIMIT_DATA` (`may_expand_vm()`).
    DataSize,
    /// `net.ipv4.neigh.default.gc_thresh3` (net/core/neighbour.c).
    Neighbours,
    /// Per-CPU memory (mm/percpu.c).
    Percpu,
    /// The same for a caller that may not wait, for whom no area is mapped (`pcpu_alloc()`); logged since 6.6.
    PercpuAtomic,
    /// A pool of ZFS whose devices failed (module/zfs/zio.c, `zio_suspend()`).
    SuspendedPool,
    /// The machine's memory: `out_of_memory()` first asks drivers, and i915 says that it freed nothing
    /// (drivers/gpu/drm/i915/gem/i915_gem_shrinker.c). A request without __GFP_FS has no process killed after that.
    Graphics,
    /// Memory that was plugged in beside the boundary of a block (mm/memory_hotplug.c, `check_hotplug_memory_range()`).
    UnalignedRange,
    /// Errors that the memory controller corrected (drivers/edac/edac_mc.c).
    CorrectedErrors,
    /// Errors that it could not correct (the same, and mm/memory-failure.c).
    UncorrectedErrors,
    /// Entries of page tables, or pages, that cannot be (mm/memory.c, `print_bad_pte()`; mm/page_alloc.c, `bad_page()`).
    CorruptPages,
    /// The kernel itself failed (include/asm-generic/bug.h; arch/x86/mm/fault.c; arch/arm64/mm/fault.c).
    Crash,
    /// Pages that were swapped out and cannot be read back (mm/page_io.c, `end_swap_bio_read()`).
    SwapRead,
    /// Pages that could not be written to swap (the same, `end_swap_bio_write()`); they stay in memory.
    SwapWrite,
    /// Pages that zram cannot unpack (drivers/block/zram/zram_drv.c, `zram_read_page()`).
    ZramRead,
    /// A compressor that zram could not start (drivers/block/zram/zcomp.c).
    ZramCompressor,
    /// A file that swapon(2) refused (mm/page_io.c, `generic_swapfile_activate()`; fs/iomap/swapfile.c; fs/btrfs/inode.c), or
    /// an area without a header of this machine's page size (mm/swapfile.c, `read_swap_header()`).
    SwapArea,
    /// The kernel's command line limits memory (`mem=`).
    MemoryLimited,
    /// A 32-bit kernel without CONFIG_HIGHMEM (arch/x86/mm/init_32.c, `lowmem_pfn_init()`).
    NoHighMemory,
    /// The files of the initramfs (init/initramfs.c).
    Initramfs,
    /// Memory set aside at boot for DMA that may not wait (kernel/dma/pool.c; arch/arm/mm/dma-mapping.c before 5.8).
    CoherentPool,
    /// A size that the per-CPU allocator never serves (mm/percpu.c, PCPU_MIN_UNIT_SIZE).
    PercpuSize,
    /// Memory for the kernel that saves a dump of a crashed one (kernel/crash_reserve.c, arch/*/kernel/setup.c before 6.8).
    CrashKernel,
    /// Memory that the kernel gave up at boot, as no MTRR covers it (arch/x86/kernel/cpu/mtrr/cleanup.c).
    UncoveredMemory,
    /// The command line of a kernel that saves a dump of a crashed one (Documentation/admin-guide/kdump/kdump.rst), or the
    /// tables of an IOMMU that it takes over (drivers/iommu/amd/init.c, drivers/iommu/intel/iommu.c).
    CaptureKernel,
    /// A table of settings that a module registered (fs/proc/proc_sysctl.c, `sysctl_check_table()`).
    SettingsTable,
    /// A reminder about flags of memfd_create(2) (mm/memfd.c), from 6.3 on.
    MemfdFlags,
    /// A request of ZFS that its authors want to know of, and that was served (module/os/linux/spl/spl-kmem.c).
    LargeRequest,
    /// The memory that an NVMe drive wants for its tables (drivers/nvme/host/pci.c, `nvme_setup_host_mem()`).
    HostMemoryBuffer,
    /// A file system that an error has made read-only (fs/ext4/super.c, `ext4_handle_error()`).
    ReadOnly,
    /// A limit of a network adapter's own (drivers/net/ethernet/mellanox/mlx5/core/cmd.c, MLX5_CMD_STAT_LIM_ERR).
    AdapterLimit,
    /// Addresses behind a PCI bridge (drivers/pci/setup-res.c, `pci_assign_resource()`).
    BusAddresses,
    /// A queue of connections that a program lets wait, listen(2) (net/ipv4/tcp_input.c, `tcp_syn_flood_action()`).
    ListenQueue,
    /// The same, with an answer to each request (`net.ipv4.tcp_syncookies`, which is on unless it was switched off).
    SynCookies,
    /// A cgroup of version 1 below one that does not count it, without `memory.use_hierarchy` (kernel/cgroup.c, up to 5.10).
    NestedCgroup,
    /// Objects that a module left in its cache (mm/slub.c, `list_slab_objects()`; mm/slab_common.c, `kmem_cache_destroy()`).
    LeftObjects,
    /// Memory that a module itself counts as leaked when it is unloaded.
    ModuleLeak,
    /// An object that may not be copied to or from a program (mm/usercopy.c, `usercopy_abort()`).
    Usercopy,
    /// A block that is larger than the page allocator has (mm/page_alloc.c, `__alloc_pages()`).
    LargeBlock,
    /// Pages of CMA that could not be moved at that moment (mm/page_alloc.c, `alloc_contig_range()`): `cma_alloc()` tries the
    /// next pages, and a caller that gets none says so itself.
    BusyRange,
    /// A file that is written with direct I/O and read through the page cache at once (mm/filemap.c,
    /// `dio_warn_stale_pagecache()`).
    MixedIo,
    /// A table that did not find its memory in one piece and took single pages (net/netfilter/nf_conntrack_core.c before
    /// 4.13).
    SinglePages,
}

/// What a warning is to the reader of a log without a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WarningRole {
    /// Something was refused or is faulty.
    Refusal,
    /// It is told when the machine starts, before there is anything to kill.
    Boot,
    /// The kernel itself failed.
    Crash,
    /// Nothing was refused and nothing is faulty.
    Reminder,
    /// Something else than memory was refused, which matters where nothing else was.
    Aside,
    /// It only tells which kernel this is.
    Context,
}

/// Words of the kernel, and the warning that each is of.
static WORDS: WordTable<KernelWarning> = WordTable::new(&[
    ("fork rejected by pids controller in ", KernelWarning::Tasks),
    ("swiotlb buffer is full", KernelWarning::BounceBuffers),
    ("Out of SW-IOMMU space", KernelWarning::BounceBuffers),
    ("too many orphaned sockets", KernelWarning::OrphanedSockets),
    ("Out of socket memory", KernelWarning::OrphanedSockets),
    ("consider tuning tcp_mem", KernelWarning::SocketMemory),
    ("VFS: file-max limit", KernelWarning::OpenFiles),
    ("table full, dropping packet", KernelWarning::TrackedConnections),
    ("hv_balloon: Memory hot add failed", KernelWarning::HotAdd),
    ("not enough memory for the allocation", KernelWarning::Commit),
    ("no enough memory for the allocation", KernelWarning::Commit),
    (" exceed data ulimit ", KernelWarning::DataSize),
    ("neighbor table overflow", KernelWarning::Neighbours),
    ("Neighbour table overflow", KernelWarning::Neighbours),
    ("atomic alloc failed, no space left", KernelWarning::PercpuAtomic),
    // Before 4.6 with PERCPU.
    ("percpu: allocation failed, size=", KernelWarning::Percpu),
    ("PERCPU: allocation failed, size=", KernelWarning::Percpu),
    ("I/O failure and has been suspended", KernelWarning::SuspendedPool),
    ("Purging GPU memory, 0 pages freed", KernelWarning::Graphics),
    ("unaligned hotplug range: start ", KernelWarning::UnalignedRange),
    (" CE error on ", KernelWarning::CorrectedErrors),
    (" CE memory ", KernelWarning::CorrectedErrors),
    (" CE page ", KernelWarning::CorrectedErrors),
    (" UE error on ", KernelWarning::UncorrectedErrors),
    (" UE memory ", KernelWarning::UncorrectedErrors),
    (" UE page ", KernelWarning::UncorrectedErrors),
    ("Memory failure: 0x", KernelWarning::UncorrectedErrors),
    ("Bad page map in process ", KernelWarning::CorruptPages),
    ("Bad page state in process ", KernelWarning::CorruptPages),
    ("Bad swap file entry ", KernelWarning::CorruptPages),
    ("Bad swap offset entry ", KernelWarning::CorruptPages),
    ("kernel BUG at ", KernelWarning::Crash),
    ("BUG: unable to handle ", KernelWarning::Crash),
    ("Unable to handle kernel ", KernelWarning::Crash),
    // That of a program has the address of its instruction here.
    ("general protection fault: 0", KernelWarning::Crash),
    ("general protection fault, probably ", KernelWarning::Crash),
    ("Read-error on swap-device (", KernelWarning::SwapRead),
    ("Write-error on swap-device (", KernelWarning::SwapWrite),
    ("Decompression failed! err=", KernelWarning::ZramRead),
    ("zram: Cannot initialise ", KernelWarning::ZramCompressor),
    ("swapon: swapfile has holes", KernelWarning::SwapArea),
    ("swapon: file ", KernelWarning::SwapArea),
    ("swapfile must ", KernelWarning::SwapArea),
    ("Unable to find swap-space signature", KernelWarning::SwapArea),
    ("Unable to handle swap header version", KernelWarning::SwapArea),
    ("Memory limited to ", KernelWarning::MemoryLimited),
    ("MB will be used.", KernelWarning::NoHighMemory),
    ("nitramfs unpacking failed: write error", KernelWarning::Initramfs),
    ("coherent pool is too small", KernelWarning::CoherentPool),
    ("pool for atomic allocation", KernelWarning::CoherentPool),
    ("Failed to get suitable pool for ", KernelWarning::CoherentPool),
    (" for percpu allocation", KernelWarning::PercpuSize),
    ("crashkernel reservation failed", KernelWarning::CrashKernel),
    ("cannot allocate crashkernel", KernelWarning::CrashKernel),
    ("cannot reserve crashkernel", KernelWarning::CrashKernel),
    ("don't cover all of memory, losing ", KernelWarning::UncoveredMemory),
    ("elfcorehdr=0x", KernelWarning::CaptureKernel),
    // The tables of the IOMMU, which only such a kernel takes over.
    ("Copied DEV table from previous kernel", KernelWarning::CaptureKernel),
    ("Copied translation tables from previous kernel", KernelWarning::CaptureKernel),
    (" PFNs busy", KernelWarning::BusyRange),
    ("Page cache invalidation failure on direct I/O", KernelWarning::MixedIo),
    ("sysctl table check failed: ", KernelWarning::SettingsTable),
    ("Large kmem_alloc(", KernelWarning::LargeRequest),
    ("Large kmem_zalloc(", KernelWarning::LargeRequest),
    (": falling back to vmalloc", KernelWarning::SinglePages),
    ("min host memory (", KernelWarning::HostMemoryBuffer),
    ("Remounting filesystem read-only", KernelWarning::ReadOnly),
    (" failed, status limits exceeded(", KernelWarning::AdapterLimit),
    ("no space for [mem size ", KernelWarning::BusAddresses),
    (": can't assign; no space", KernelWarning::BusAddresses),
    (". Sending cookies", KernelWarning::SynCookies),
    ("Possible SYN flooding on port ", KernelWarning::ListenQueue),
    ("nested cgroup for controller \"memory\"", KernelWarning::NestedCgroup),
    ("requires setting use_hierarchy to 1 on the root", KernelWarning::NestedCgroup),
    ("): Objects remaining ", KernelWarning::LeftObjects),
    (": Slab cache still has objects", KernelWarning::LeftObjects),
    (": Memory leaks:", KernelWarning::ModuleLeak),
    ("usercopy: Kernel memory ", KernelWarning::Usercopy),
    ("mm/page_alloc.c:", KernelWarning::LargeBlock),
    ("memfd_create() without MFD_EXEC", KernelWarning::MemfdFlags),
    ("memfd_create() called without MFD_EXEC", KernelWarning::MemfdFlags),
]);

/// Beginnings of the line that has the function of a crash: x86, ARM, arm64.
const PLACES: [&str; 3] = ["RIP: 0010:", "PC is at ", "pc : "];

/// Lines of one warning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WarningLines {
    pub(crate) count: u64,
    /// The first cgroup, device or program that was refused, the first module or address that is faulty.
    pub(crate) first: Option<String>,
    /// Amount that the first line has: `32768 of 32768` slots, `48 GiB`; of a crash, the function in which it happened.
    pub(crate) amount: Option<String>,
}

/// Warnings of a log by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelWarnings {
    by_kind: BTreeMap<KernelWarning, WarningLines>,
    /// The warning whose lines are read, where one of the next names the program that asked.
    without_program: Option<KernelWarning>,
    /// The line with the function of the first crash is still to come.
    without_place: bool,
}

impl KernelWarning {
    fn role(self) -> WarningRole {
        match self {
            Self::MemoryLimited
            | Self::NoHighMemory
            | Self::CrashKernel
            | Self::UncoveredMemory => WarningRole::Boot,
            Self::BusAddresses | Self::MixedIo => WarningRole::Aside,
            Self::MemfdFlags
            | Self::LargeRequest
            | Self::SinglePages
            | Self::NestedCgroup
            | Self::BusyRange
            | Self::SynCookies => WarningRole::Reminder,
            Self::CaptureKernel => WarningRole::Context,
            Self::Crash | Self::Usercopy => WarningRole::Crash,
            _ => WarningRole::Refusal,
        }
    }
}

impl KernelWarnings {
    /// Reads a line of the kernel; false if it is none of the warnings.
    pub(crate) fn read(&mut self, message: &str) -> bool {
        let Some((words, kind)) = WORDS.find(message) else { return false };
        let is_window = message.contains("bridge window") || !message.contains("[mem size ");
        if kind == KernelWarning::BusAddresses && is_window {
            return false;
        }
        let (before, after) = message.split_once(words).unwrap_or_default();
        if kind == KernelWarning::LargeBlock && !is_of_page_allocator(after) {
            return false;
        }
        let lines = self.by_kind.entry(kind).or_default();
        self.without_place = kind == KernelWarning::Crash && lines.count == 0;
        lines.count = lines.count.saturating_add(1);
        if lines.count == 1 {
            let first = match kind {
                KernelWarning::Tasks => Some(after.trim()),
                // The older of the two lines has the device at its end.
                KernelWarning::BounceBuffers => after
                    .split_once(" at device ")
                    .map(|(_, device)| device)
                    .or_else(|| before.trim().strip_suffix(':')),
                KernelWarning::Commit => committing_program(before),
                KernelWarning::DataSize => mapping_program(before),
                KernelWarning::UnalignedRange => after.split(',').next(),
                KernelWarning::CorrectedErrors | KernelWarning::UncorrectedErrors => {
                    memory_module(words, after)
                }
                KernelWarning::SwapRead | KernelWarning::SwapWrite => device_number(after),
                KernelWarning::ZramCompressor | KernelWarning::MemoryLimited => {
                    after.split(' ').next()
                }
                KernelWarning::NoHighMemory => message
                    .strip_prefix("Warning only ")
                    .and_then(|rest| rest.strip_suffix(" will be used.")),
                KernelWarning::MemfdFlags => {
                    after.rsplit_once(" '").and_then(|(_, name)| name.strip_suffix('\''))
                }
                KernelWarning::SwapArea => Some(refusal(message)),
                KernelWarning::Crash => Some(message.trim_end_matches('!')),
                KernelWarning::SettingsTable => after.split(' ').next(),
                KernelWarning::BusAddresses
                | KernelWarning::HostMemoryBuffer
                | KernelWarning::AdapterLimit => before.split(": ").next(),
                KernelWarning::ReadOnly => {
                    before.split_once('(').and_then(|(_, rest)| rest.split(')').next())
                }
                KernelWarning::SinglePages => before.rsplit(' ').next(),
                KernelWarning::SuspendedPool => before.split('\'').nth(1),
                KernelWarning::ListenQueue | KernelWarning::SynCookies => listen_port(message),
                KernelWarning::LeftObjects => left_cache(before),
                KernelWarning::ModuleLeak => before.rsplit(' ').next(),
                KernelWarning::Usercopy => copied_cache(after),
                // In a paste the next line may be joined to this one.
                KernelWarning::LargeBlock | KernelWarning::PercpuSize | KernelWarning::MixedIo => {
                    program_of_trace(after)
                }
                _ => None,
            };
            let asks = matches!(
                kind,
                KernelWarning::LargeBlock | KernelWarning::PercpuSize | KernelWarning::MixedIo
            );
            self.without_program = (asks && first.is_none()).then_some(kind);
            let first = first.filter(|name| !name.is_empty());
            lines.first = first.map(|name| name.chars().take(MAX_NAME_CHARS).collect());
            lines.amount = match kind {
                KernelWarning::BounceBuffers => slots(after),
                KernelWarning::Commit => requested(before),
                KernelWarning::DataSize => data_size(before, after),
                KernelWarning::UnalignedRange => block_size(before),
                KernelWarning::CoherentPool => pool_size(before),
                KernelWarning::PercpuSize => percpu_size(before),
                KernelWarning::PercpuAtomic => percpu_request(before),
                KernelWarning::LargeRequest => kmem_size(after),
                KernelWarning::UncoveredMemory => megabytes(after),
                KernelWarning::HostMemoryBuffer => host_memory(after),
                KernelWarning::AdapterLimit => command_of(before),
                _ => None,
            };
        }
        true
    }

    /// Reads the line below a crash that has the function in which it happened; it has none after a jump to nowhere.
    fn read_place(&mut self, message: &str) {
        if !self.without_place {
            return;
        }
        let is_place = PLACES.iter().any(|begins| message.starts_with(begins));
        self.without_place = !(is_place || message.contains("end trace"));
        if let Some(lines) = self.by_kind.get_mut(&KernelWarning::Crash).filter(|_| is_place) {
            lines.amount = crash_place(message);
        }
    }

    /// Reads a line of the call trace below a warning, which may name the program that asked.
    pub(crate) fn read_program(&mut self, message: &str) {
        self.read_place(message);
        let Some(kind) = self.without_program else { return };
        let program = program_of_trace(message);
        if program.is_none() && !message.contains("end trace") {
            return;
        }
        self.without_program = None;
        if let (Some(lines), Some(program)) = (self.by_kind.get_mut(&kind), program) {
            lines.first = Some(program.chars().take(MAX_NAME_CHARS).collect());
        }
    }

    /// The most frequent warning, in one line; a reminder is none.
    pub(crate) fn headline(&self) -> Option<String> {
        let is_warning = |kind: KernelWarning| {
            !matches!(
                kind.role(),
                WarningRole::Reminder | WarningRole::Aside | WarningRole::Context
            )
        };
        let warnings = self.by_kind.iter().filter(|(kind, _)| is_warning(**kind));
        // What the kernel crashed on is more than that it did.
        let is_reason = |kind: KernelWarning| kind == KernelWarning::Usercopy;
        let (kind, lines) =
            warnings.max_by_key(|(kind, lines)| (is_reason(**kind), lines.count))?;
        let headline = kind.headline(lines);
        Some(match kind.role() {
            WarningRole::Refusal => format!("the kernel killed nothing: {headline}"),
            _ => headline,
        })
    }

    /// A refusal of something else than memory.
    pub(crate) fn aside(&self) -> Option<String> {
        let mut asides = self.by_kind.iter().filter(|(kind, _)| kind.role() == WarningRole::Aside);
        asides.next().map(|(kind, lines)| kind.headline(lines))
    }

    /// A line that looks like a warning, and is a reminder.
    pub(crate) fn reminder(&self) -> Option<String> {
        let is_reminder = |kind: KernelWarning| kind.role() == WarningRole::Reminder;
        let (kind, lines) = self.by_kind.iter().find(|(kind, _)| is_reminder(**kind))?;
        Some(format!("nothing is wrong: {}", kind.headline(lines)))
    }

    /// A note for each warning.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        self.by_kind.iter().map(|(kind, lines)| {
            format!("{}: {}", format_count(lines.count, "line"), kind.note(lines))
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
#[path = "kernel_warnings_tests.rs"]
mod tests;
