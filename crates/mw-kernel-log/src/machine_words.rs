//! Kills that no cgroup's limit explains, in words.

use crate::cause::{self, JudgedReport, LogCause};
use crate::holders::{self, LogMemoryPart, TaskShare};
use crate::page::{Page, bound, named, part_name, processes, size_bytes, victim_name};
use crate::reader::MemoryHint;
use crate::report::KernelReport;
use crate::zones;
use mw_memory::{format_bytes, format_count};
use mw_proc::oom_lines::OomConstraint;

/// Caches of kernel objects, and the subsystem that each is of.
const CACHES: &[(&str, &str)] = &[
    ("sio_cache", "ZFS: a scrub or resilver of a pool sorts its blocks in memory"),
    ("zio_", "ZFS"),
    ("zfs_", "ZFS"),
    ("arc_", "ZFS"),
    ("dnode_t", "ZFS"),
    ("dmu_", "ZFS"),
    ("dentry", "directory entries"),
    ("nf_conntrack", "connection tracking"),
    ("skbuff", "network buffers"),
    (
        "btrfs_extent_map",
        "btrfs: maps of extents of open files, with direct I/O one for each write; kernels before 6.10 cannot free them",
    ),
    ("btrfs", "btrfs"),
    ("xfs_", "XFS"),
    ("ext4_", "ext4"),
    ("nfs", "NFS"),
    ("ceph", "Ceph"),
    ("bcache", "bcache"),
    ("task_struct", "tasks"),
    ("vm_area_struct", "mappings of processes"),
    ("anon_vma", "mappings of processes"),
    ("TCP", "sockets"),
    ("sock_inode", "sockets"),
    ("kmalloc", "no single subsystem: /proc/allocinfo or kmemleak can attribute it"),
];

pub(crate) fn headline(judged: &JudgedReport<'_>) -> String {
    let report = judged.report;
    let victim = outcome(report);
    let total = format_bytes(judged.account.total_bytes);
    let of_total =
        if judged.account.total_bytes > 0 { format!(" of {total}") } else { String::new() };
    let of_part = |part: LogMemoryPart| {
        format!(
            "{victim}: {} held {}{of_total}",
            part_name(part),
            format_bytes(judged.account.bytes(part))
        )
    };
    match judged.cause {
        LogCause::Cpuset => {
            format!("{victim}: the nodes of its cpuset ({}) had no memory left", nodes(report))
        }
        LogCause::MemoryPolicy => {
            format!(
                "{victim}: the nodes of its memory policy ({}) had no memory left",
                nodes(report)
            )
        }
        LogCause::MovableOnly => {
            format!(
                "{victim} without effect: {} of the cpuset has movable memory only",
                nodes(report)
            )
        }
        LogCause::PageFault => match free_bytes(judged) {
            0 => format!("{victim}: a page fault failed, and no page had been requested"),
            free => {
                format!("{victim}: a page fault failed although {} were free", format_bytes(free))
            }
        },
        LogCause::Sysrq => format!("{victim}: an operator asked for it (SysRq f)"),
        LogCause::SwapOff => format!(
            "{victim}: memory has no room for what swapoff reads back from swap{}",
            holders::in_swap(report)
                .map_or(String::new(), |bytes| format!(" ({})", format_bytes(bytes)))
        ),
        LogCause::KsmUnmerge => {
            format!("{victim}: memory has no room for the pages that KSM had merged")
        }
        LogCause::TraceBuffers => {
            format!("{victim}: memory has no room for the ring buffers of ftrace that it enlarged")
        }
        LogCause::ProtectedAge => format!(
            "{victim}: kswapd may not reclaim pages as young as those in use (min_ttl_ms of the multi-gen LRU)"
        ),
        LogCause::LowZone => {
            let above = zones::free_above(report, &judged.zones);
            let zone = lowest(judged);
            format!(
                "{victim}: {zone} had no memory left while {} were free above",
                format_bytes(above)
            )
        }
        LogCause::Fragmentation => {
            format!("{victim}: no free block of {} in one piece", format_bytes(size_bytes(report)))
        }
        LogCause::Cma => format!("{victim}: free memory was in CMA, which the request may not use"),
        LogCause::AtomicBlocks => {
            format!("{victim}: free memory was in the reserve for atomic requests (highatomic)")
        }
        LogCause::HugePages => huge_pages(judged, &victim, &total),
        LogCause::UnreclaimableSlab => {
            let cache = holders::slabs(report).first().map(|(name, _)| format!(", mostly {name}"));
            format!("{}{}", of_part(LogMemoryPart::UnreclaimableSlab), cache.unwrap_or_default())
        }
        LogCause::SharedMemory => of_part(LogMemoryPart::SharedMemory),
        LogCause::PageTables => of_part(LogMemoryPart::PageTables),
        LogCause::KernelStacks => of_part(LogMemoryPart::KernelStacks),
        LogCause::Balloon => of_part(LogMemoryPart::Balloon),
        LogCause::CompressedSwap => of_part(LogMemoryPart::CompressedSwap),
        LogCause::Initramfs => {
            let bytes = format_bytes(judged.account.bytes(LogMemoryPart::Unevictable));
            format!("{victim}: files of the initramfs filled {bytes} of {total} at boot")
        }
        LogCause::Unevictable => {
            let bytes = format_bytes(judged.account.bytes(LogMemoryPart::Unevictable));
            format!("{victim}: {bytes} of {total} were locked in memory")
        }
        LogCause::GraphicsMemory => {
            let pages = report.memory.gpu_pinned_pages.unwrap_or_default();
            let bytes = format_bytes(pages.saturating_mul(report.page_bytes()));
            format!("{victim}: the graphics driver held {bytes} of {total}")
        }
        LogCause::Uncounted => {
            let bytes = format_bytes(judged.account.bytes(LogMemoryPart::Uncounted));
            format!("{victim}: {bytes} of {total} were in no counter of the kernel")
        }
        _ => of_programs(judged, &victim, &total),
    }
}

/// True if what is in no counter may be the compressed pages of zram: there is no more of it than in swap.
fn may_be_zram(judged: &JudgedReport<'_>) -> bool {
    let uncounted = judged.account.bytes(LogMemoryPart::Uncounted);
    holders::in_swap(judged.report).is_some_and(|bytes| bytes >= uncounted)
}

/// What became of the shortage: a kill, a panic, or nothing that the log shows.
fn outcome(report: &KernelReport) -> String {
    if !report.victims.is_empty() {
        let verb = if report.victims.len() > 1 { "were" } else { "was" };
        format!("{} {verb} killed", victim_name(report))
    } else if report.remarks.has_no_victim {
        "the kernel found no process to kill".to_owned()
    } else if report.remarks.is_panic {
        "the kernel panicked, as vm.panic_on_oom asks".to_owned()
    } else {
        let by = report.requester.name.as_ref().map_or(String::new(), |by| format!(" for {by}"));
        format!("the OOM killer ran{by}; no kill is in the log")
    }
}

fn huge_pages(judged: &JudgedReport<'_>, victim: &str, total: &str) -> String {
    let bytes = format_bytes(judged.account.bytes(LogMemoryPart::HugePages));
    let (pages, free) = pool_pages(judged.report);
    let used = if free == pages {
        "all of it unused".to_owned()
    } else {
        format!("{free} of {pages} pages unused")
    };
    format!("{victim}: the huge page pool reserved {bytes} of {total}, {used}")
}

fn pool_pages(report: &KernelReport) -> (u64, u64) {
    let sum = |of: fn(&crate::report::ReportPool) -> u64| {
        holders::pools(report).iter().map(of).fold(0, u64::saturating_add)
    };
    (sum(|pool| pool.total), sum(|pool| pool.free))
}

fn of_programs(judged: &JudgedReport<'_>, victim: &str, total: &str) -> String {
    if judged.is_over() {
        let free = format_bytes(judged.account.bytes(LogMemoryPart::Free));
        return format!("{victim}: {free} of {total} were free again when the report was printed");
    }
    let tasks = processes(judged.report);
    let Some(top) = tasks.first() else {
        return match judged.account.largest_held() {
            Some(share) if judged.account.is_at_least(share.bytes, 15) => format!(
                "{victim}: {} held {} of {total}",
                part_name(share.part),
                format_bytes(share.bytes)
            ),
            _ => match report_bytes(judged.report) {
                Some(bytes) => {
                    format!("{victim} with {bytes} of anonymous memory; the log has no more")
                }
                None => format!("{victim}: what held the memory is not in the log"),
            },
        };
    };
    let programs = judged.account.bytes(LogMemoryPart::Programs);
    if programs > 0 && top.resident_bytes > programs {
        // Pages that they share count in each.
        let bytes = format_bytes(programs);
        return format!("{victim}: programs held {bytes} of {total}, among them {}", counted(top));
    }
    let of_total =
        if judged.account.total_bytes > 0 { format!(" of {total}") } else { String::new() };
    let bytes = format_bytes(top.resident_bytes);
    let swapped = match top.swapped_bytes {
        swapped
            if swapped >= top.resident_bytes.checked_div(10).unwrap_or_default().max(1 << 20) =>
        {
            format!(" and {} in swap", format_bytes(swapped))
        }
        _ => String::new(),
    };
    let is_victim = judged.report.victims.iter().any(|killed| killed.name == top.name);
    if is_victim && top.count == 1 {
        format!("{victim}: it held {bytes}{of_total}{swapped}")
    } else {
        let exempt = if is_exempt(top) { " and may not be killed" } else { "" };
        format!("{victim}: {} held {bytes}{of_total}{swapped}{exempt}", counted(top))
    }
}

/// True if the OOM killer may choose no process of that name.
fn is_exempt(task: &TaskShare) -> bool {
    task.count > 0 && task.exempt == task.count
}

fn report_bytes(report: &KernelReport) -> Option<String> {
    let anon = report.victims.iter().filter_map(|victim| victim.anon_bytes);
    anon.reduce(u64::saturating_add).map(format_bytes)
}

/// `3 processes of java`.
fn counted(task: &TaskShare) -> String {
    match task.count {
        1 => task.name.clone(),
        count => format!("{} of {}", format_count(count, "process"), task.name),
    }
}

/// `node 4`, `nodes 0-1`; those that were logged.
fn nodes(report: &KernelReport) -> String {
    let mut listed: Vec<u32> = report.memory.zones.iter().map(|zone| zone.node).collect();
    listed.dedup();
    let text = match (&report.mems_allowed, listed.as_slice()) {
        (Some(nodes), _) if report.constraint != Some(OomConstraint::MemoryPolicy) => nodes.clone(),
        (_, listed) => {
            let numbers: Vec<String> = listed.iter().map(u32::to_string).collect();
            numbers.join(",")
        }
    };
    let is_one = text.parse::<u32>().is_ok();
    if is_one { format!("node {text}") } else { format!("nodes {text}") }
}

fn free_bytes(judged: &JudgedReport<'_>) -> u64 {
    let of_head = judged.report.bytes("free");
    let of_zones = judged.zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(zone.free_bytes));
    of_head.max(of_zones)
}

/// Zones that the request may use: `DMA`, `Normal`.
fn lowest(judged: &JudgedReport<'_>) -> String {
    let mut names: Vec<&str> =
        zones::candidates(&judged.zones).map(|zone| zone.zone.as_str()).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => "the zone of the request".to_owned(),
        [one] => format!("zone {one}"),
        names => format!("zones {}", names.join(" and ")),
    }
}

/// Unreclaimable slab in the zones that the request may use, where old kernels print it.
fn low_slab(judged: &JudgedReport<'_>) -> Option<String> {
    let is_candidate = |zone: &&crate::report::ReportZone| {
        zones::candidates(&judged.zones).any(|c| c.node == zone.node && c.zone == zone.name)
    };
    let low = judged.report.memory.zones.iter().filter(is_candidate);
    let slab = low.filter_map(|zone| zone.of("slab_unreclaimable")).reduce(u64::saturating_add)?;
    (slab > 1 << 20).then(|| format!(". They hold {} of unreclaimable slab", format_bytes(slab)))
}

pub(crate) fn rows(judged: &JudgedReport<'_>, hints: &[MemoryHint], page: &mut Page) {
    page.row("reason", reason(judged, hints));
    page.request(judged);
    page.held(judged);
    let slabs = holders::slabs(judged.report);
    if judged.cause == LogCause::UnreclaimableSlab && !slabs.is_empty() {
        let text: Vec<String> =
            slabs.iter().map(|(name, bytes)| format!("{name} {}", format_bytes(*bytes))).collect();
        page.row("caches", text.join(", "));
    }
    if let Some((bytes, place)) = judged.report.memory.allocations.first() {
        page.row("code", format!("{} allocated at {place}", format_bytes(*bytes)));
    }
    page.tasks(judged);
    if !judged.report.victims.is_empty() {
        page.row("killed", killed(judged));
    }
    page.row("remedy", remedy(judged, hints));
    page.zones(judged);
}

fn reason(judged: &JudgedReport<'_>, hints: &[MemoryHint]) -> String {
    let report = judged.report;
    match judged.cause {
        LogCause::Cpuset | LogCause::MemoryPolicy => {
            let hidden = cause::hidden_free_bytes(report);
            let elsewhere = match hidden {
                0 => String::new(),
                bytes => format!(" while other nodes had {} free", format_bytes(bytes)),
            };
            let whose = if judged.cause == LogCause::Cpuset { "cpuset" } else { "memory policy" };
            format!("the {whose} allows {} only{elsewhere}", nodes(report))
        }
        LogCause::MovableOnly => format!(
            "the cpuset allows {} only, all of it zone Movable: the kernel's own request, which cannot be moved, \
             may not use it, though {} are free there",
            nodes(report),
            format_bytes(judged.zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(zone.free_bytes)))
        ),
        LogCause::PageFault => "no request for pages failed (gfp_mask 0): a page-fault handler returned 'no \
             memory', as a rule that of a driver's mapping, or for a limit of kernel memory of a cgroup (v1)"
            .to_owned(),
        LogCause::Sysrq => "the kill was requested by hand (order -1)".to_owned(),
        LogCause::SwapOff => "swapoff reads everything back from swap, and the machine has no room for it. The kernel kills the \
             process that swaps off first, whatever its size: it holds nothing itself, and the rest stays in swap"
            .to_owned(),
        LogCause::KsmUnmerge => "2 in /sys/kernel/mm/ksm/run makes every merged page a page of each process again. The kernel kills \
             the writer first, whatever its size"
            .to_owned(),
        LogCause::TraceBuffers => "buffer_size_kb of ftrace is taken on every CPU. The kernel kills the writer first, whatever its \
             size"
            .to_owned(),
        LogCause::ProtectedAge => {
            let free = match free_bytes(judged) {
                0 => String::new(),
                bytes => format!(", while {} are free on all nodes together", format_bytes(bytes)),
            };
            format!(
                "kswapd starts the OOM killer itself where every page of its node is younger than \
                 /sys/kernel/mm/lru_gen/min_ttl_ms{free}"
            )
        }
        LogCause::AtomicBlocks => format!(
            "{} are free, in whole blocks of pages that the kernel has reserved for atomic requests",
            format_bytes(free_bytes(judged))
        ),
        LogCause::LowZone => format!(
            "the request may only use {}, without memory above their watermarks; the free memory is in higher zones{}",
            lowest(judged),
            low_slab(judged).unwrap_or_default()
        ),
        LogCause::Fragmentation => {
            let no_compaction = if report.remarks.has_no_compaction { "; this kernel cannot compact memory" } else { "" };
            let above = match zones::free_above(report, &judged.zones) {
                0 => String::new(),
                bytes => format!("; {} are free in higher zones, which it may not use", format_bytes(bytes)),
            };
            let zone = lowest(judged);
            format!(
                "free memory is fragmented: no free block of {} was in {zone}, which the request may use{above}{no_compaction}",
                format_bytes(size_bytes(report))
            )
        }
        LogCause::Cma => "pages of CMA serve movable requests only, and this one is not movable".to_owned(),
        LogCause::HugePages => {
            let (pages, free) = pool_pages(report);
            format!("vm.nr_hugepages reserved {pages} huge pages, {free} of them unused: other requests may not use them")
        }
        LogCause::UnreclaimableSlab => {
            let slabs = holders::slabs(report);
            let known = slabs.first().and_then(|(name, _)| {
                CACHES.iter().find(|(prefix, _)| name.starts_with(prefix))
            });
            let whose = known.map_or(String::new(), |(_, what)| format!(" ({what})"));
            let first = slabs.first().map_or(String::new(), |(name, _)| format!(", most of it {name}{whose}"));
            let programs = judged.account.bytes(LogMemoryPart::Programs);
            let slab = judged.account.bytes(LogMemoryPart::UnreclaimableSlab);
            let is_small = programs.saturating_mul(2) < slab;
            let programs = if is_small { "; programs are not the cause" } else { "" };
            format!("kernel objects in unreclaimable slab{first}{programs}")
        }
        LogCause::SharedMemory => "files in tmpfs and /dev/shm, shared segments, or buffers of a graphics \
             driver"
            .to_owned(),
        LogCause::PageTables => "page tables of many or large mappings; huge pages need few".to_owned(),
        LogCause::KernelStacks => format!("stacks of many threads: {}", format_count(report.tasks.tasks, "process")),
        LogCause::Balloon => "the host took memory back from this guest through the balloon driver".to_owned(),
        LogCause::CompressedSwap => match holders::in_swap(report) {
            Some(bytes) => format!(
                "what is swapped out to zram or zswap stays in memory, compressed (zspages): {} are in swap, and hardly less in memory",
                format_bytes(bytes)
            ),
            None => "files on zram stay in memory, compressed (zspages); no swap is in use".to_owned(),
        },
        LogCause::GraphicsMemory => "buffers that the graphics driver had pinned".to_owned(),
        LogCause::Initramfs => "no program runs yet: the root file system (rootfs) that the initramfs is unpacked into".to_owned(),
        LogCause::Unevictable => "memory that is locked (mlock, pinned) or on no list that reclaim scans".to_owned(),
        LogCause::Uncounted if hints.is_empty() && may_be_zram(judged) => format!(
            "a driver, a balloon or a file system took it page by page; or zram, where swap is on it: {} are in swap, and no \
             line of the report counts its compressed pages",
            format_bytes(holders::in_swap(report).unwrap_or(0))
        ),
        LogCause::Uncounted => format!("a driver, a balloon or a file system took it page by page{}", hinted(hints)),
        _ => machine_reason(judged),
    }
}

fn machine_reason(judged: &JudgedReport<'_>) -> String {
    let memory = &judged.report.memory;
    let swap = match (memory.swap_total_bytes, memory.swap_free_bytes) {
        (Some(0), _) => " and there is no swap",
        // Some pages of swap are free at any time: of those that are just being swapped in.
        (Some(total), Some(free)) if free.saturating_mul(100) <= total => " and swap is full",
        (Some(total), Some(free)) if free.saturating_mul(2) > total => {
            " though swap was mostly free"
        }
        _ => "",
    };
    let is_judged = zones::candidates(&judged.zones).next().is_some();
    if is_judged && !zones::could_serve(&judged.zones) {
        format!(
            "every zone was below its watermark{swap}: the machine as a whole was short of memory"
        )
    } else if judged.report.memory.zones.is_empty() {
        let is_of_machine = judged.report.constraint == Some(OomConstraint::Machine);
        // Of a cgroup's limit the kernel says `Memory cgroup out of memory`.
        if is_of_machine || !judged.report.victims.is_empty() {
            "not the limit of a cgroup: the machine as a whole, or the nodes of a cpuset or memory policy; the log has no \
             Mem-Info of this kill"
                .to_owned()
        } else {
            "the machine as a whole, the nodes of a cpuset or memory policy, or the limit of a cgroup: the log has no \
             Mem-Info of this kill, and does not tell"
                .to_owned()
        }
    } else {
        format!(
            "memory was short{swap}; a zone was above its watermark when the report was printed"
        )
    }
}

/// Software that is known to hold memory in no counter, if the log names it.
fn hinted(hints: &[MemoryHint]) -> String {
    let names = hints.iter().map(|hint| match hint {
        MemoryHint::Zfs => "the cache of ZFS (ARC)",
        MemoryHint::VmwareBalloon => "VMware's balloon (memory that the host took back)",
        MemoryHint::HyperVBalloon => "Hyper-V's balloon (memory that the host took back)",
        MemoryHint::VirtioBalloon => "the virtio balloon (memory that the host took back)",
        MemoryHint::Zram => "zram",
        MemoryHint::Nvidia => "the NVIDIA driver",
        MemoryHint::HostMemoryBuffer => "an NVMe drive that has a host memory buffer",
    });
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("; this log points to {}", names.join(", ")),
    }
}

fn killed(judged: &JudgedReport<'_>) -> String {
    let report = judged.report;
    let freed = report.victims.iter().filter_map(|victim| victim.anon_bytes);
    let freed = freed.reduce(u64::saturating_add);
    let size = freed.map_or(String::new(), |bytes| format!(", {} anonymous", format_bytes(bytes)));
    let effect = match judged.cause {
        LogCause::Programs | LogCause::Unknown | LogCause::Unevictable | LogCause::Initramfs => {
            match freed {
                Some(bytes) if judged.account.is_at_least(bytes, 5) => "that released memory",
                Some(_) if judged.account.total_bytes > 0 => "that released little",
                _ => "",
            }
        }
        LogCause::PageTables | LogCause::KernelStacks => "that released its share of them",
        LogCause::GraphicsMemory => "it helps only if the buffers were its own",
        LogCause::SharedMemory => "files in tmpfs and System V segments stay",
        LogCause::Uncounted => "the log does not show whether that released it",
        LogCause::Cpuset | LogCause::MemoryPolicy => {
            "it helps only as far as its memory is on these nodes"
        }
        LogCause::MovableOnly => {
            "it cannot help: the nodes have free memory that the request may not use"
        }
        LogCause::PageFault | LogCause::Sysrq => "memory was not short",
        LogCause::SwapOff | LogCause::KsmUnmerge | LogCause::TraceBuffers => {
            "that ends what needed the memory"
        }
        LogCause::Fragmentation => "it helps only if whole blocks become free",
        LogCause::LowZone => "it helps only as far as its memory is in these zones",
        LogCause::ProtectedAge => "it helps only as far as its memory is on that node",
        _ => "that does not release what holds the memory",
    };
    let effect = if effect.is_empty() { String::new() } else { format!(": {effect}") };
    format!("{}{size}{effect}", named(report))
}

fn remedy(judged: &JudgedReport<'_>, hints: &[MemoryHint]) -> String {
    let report = judged.report;
    match judged.cause {
        LogCause::Cpuset => format!("allow more nodes (cpuset.mems of the container or job), or move its other users off {}", nodes(report)),
        LogCause::MemoryPolicy => "prefer nodes instead of binding to them (numactl --preferred, --interleave), or bind to more".to_owned(),
        LogCause::MovableOnly => format!("allow a node with zone Normal in cpuset.mems, not {} alone", nodes(report)),
        LogCause::PageFault => "look at the driver whose memory the program maps (GPU, RDMA) and at its own limits: the machine's memory was not the limit".to_owned(),
        LogCause::Sysrq => format!(
            "none: find who wrote f to /proc/sysrq-trigger or pressed the keys{}",
            if report.remarks.is_panic { "; with vm.panic_on_oom=0 the kernel kills a process and does not panic" } else { "" }
        ),
        LogCause::SwapOff => "free memory first (end or restart the largest programs), then swapoff; or leave swap on".to_owned(),
        LogCause::KsmUnmerge => "free memory first, or write 0 instead, which stops merging and keeps what is merged".to_owned(),
        LogCause::TraceBuffers => "write a smaller size: it counts on every CPU".to_owned(),
        LogCause::ProtectedAge => "write 0, the kernel's default, or a smaller number to /sys/kernel/mm/lru_gen/min_ttl_ms".to_owned(),
        LogCause::LowZone => low_zone_remedy(judged),
        LogCause::AtomicBlocks => ATOMIC_BLOCKS_REMEDY.to_owned(),
        LogCause::Fragmentation if is_below_high_memory(judged) => low_zone_remedy(judged),
        LogCause::Fragmentation => "a larger vm.min_free_kbytes keeps larger blocks free; vm.compact_memory makes some for now".to_owned(),
        LogCause::Cma => "reserve less for CMA (cma= at boot), or less memory for movable use only".to_owned(),
        LogCause::HugePages => "lower vm.nr_hugepages to what is used; before, ask which program is configured for the pool".to_owned(),
        LogCause::UnreclaimableSlab => slab_remedy(report),
        LogCause::SharedMemory => "find the files and segments (df -t tmpfs, ipcs -m, lsof +L1) and delete them or limit tmpfs (size=)".to_owned(),
        LogCause::PageTables => "map the large segment with huge pages, or run fewer processes that map it".to_owned(),
        LogCause::KernelStacks => "limit the number of threads (TasksMax=, pids.max)".to_owned(),
        LogCause::Balloon => "give the guest a reservation at the host, or a smaller balloon".to_owned(),
        LogCause::Uncounted if hints.contains(&MemoryHint::Zfs) => "limit the ARC (zfs_arc_max)".to_owned(),
        LogCause::Uncounted if !hints.is_empty() => "look at the host or driver named above; memwright explain --all-memory on the machine lists what it can".to_owned(),
        LogCause::Uncounted if may_be_zram(judged) => "swapon --show: a zram device has to be smaller, since pages that do not compress take as much as before, or limited (mem_limit); else memwright explain --all-memory on the machine, and /proc/allocinfo (6.10 and later), name the driver".to_owned(),
        LogCause::Uncounted => "memwright explain --all-memory on the machine, and /proc/allocinfo (6.10 and later) name the driver".to_owned(),
        LogCause::CompressedSwap => "swap on a disk for what does not compress, a limit of the zram device (mem_limit), or fewer files on it".to_owned(),
        LogCause::GraphicsMemory => "look at the programs that hold buffers of the graphics driver (fdinfo, debugfs dri)".to_owned(),
        LogCause::Initramfs => "start the machine or guest with more memory (-m of QEMU), or make its initramfs smaller".to_owned(),
        LogCause::Unevictable => "find who locks memory (VmLck in /proc/PID/status, RLIMIT_MEMLOCK)".to_owned(),
        _ if judged.is_over() => {
            "the log does not say what was short: look at the lines before the report".to_owned()
        }
        _ => match processes(report).first() {
            Some(top) if is_exempt(top) => format!(
                "{}: the OOM killer may not choose it (oom_score_adj -1000, OOMScoreAdjust= of the unit), so that others end for it",
                bound(&top.name)
            ),
            Some(top) => format!(
                "{}, or give it a cgroup with a limit of its own; if it needs that much, the machine needs more memory, or swap",
                bound(&top.name)
            ),
            None => "the log does not show which program to bound".to_owned(),
        },
    }
}

/// True if a request of a 32-bit kernel may not use most of the free memory.
fn is_below_high_memory(judged: &JudgedReport<'_>) -> bool {
    let above = zones::free_above(judged.report, &judged.zones);
    judged.zones.iter().any(|zone| zone.zone == "HighMem") && judged.account.is_at_least(above, 3)
}

/// A block of pages has MAX_ORDER's size: the reserve, 1% of a zone, has at least one.
pub(crate) const ATOMIC_BLOCKS_REMEDY: &str = "a newer kernel, or one that is built with the default MAX_ORDER (CONFIG_ARCH_FORCE_MAX_ORDER, formerly \
     FORCE_MAX_ZONEORDER): the reserve has at least one block of pages, whose size follows from it";

pub(crate) fn low_zone_remedy(judged: &JudgedReport<'_>) -> String {
    let has_free = |name: &str| {
        judged
            .zones
            .iter()
            .any(|zone| zone.zone == name && zone.free_bytes > zone.min_bytes.saturating_mul(2))
    };
    if has_free("HighMem") {
        "a 64-bit kernel: on a 32-bit one the kernel's own memory must fit below 1 GiB, whatever is free in HighMem".to_owned()
    } else if has_free("Movable") {
        "less memory for movable use only (kernelcore=, movable_node, memory onlined as movable)"
            .to_owned()
    } else {
        "find the driver that asks for this zone: it holds most of it, or could use a higher one"
            .to_owned()
    }
}

fn slab_remedy(report: &KernelReport) -> String {
    let slabs = holders::slabs(report);
    let name = slabs.first().map_or("", |(name, _)| *name);
    if name.starts_with("sio_cache") {
        return "pause the scrub or resilver (zpool scrub -p); zfs_scan_mem_lim_fact bounds its memory".to_owned();
    }
    let known = CACHES.iter().find(|(prefix, _)| !name.is_empty() && name.starts_with(prefix));
    match known {
        Some((_, what)) => format!("look at what fills the cache {name}: {what}"),
        None => "slabtop -s c on the machine names the cache; a cache that only grows is a leak of its subsystem".to_owned(),
    }
}
