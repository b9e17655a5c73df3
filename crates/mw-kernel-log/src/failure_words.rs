//! Failed and slow allocations, in words.

use crate::cause::{self, JudgedReport, LogCause};
use crate::holders::LogMemoryPart;
use crate::machine_words::{ATOMIC_BLOCKS_REMEDY, low_zone_remedy};
use crate::page::{Page, may_wait, size_bytes};
use crate::reader::MemoryHint;
use crate::report::{KernelReport, ReportKind};
use crate::zones;
use mw_memory::format_bytes;

pub(crate) fn headline(judged: &JudgedReport<'_>) -> String {
    let report = judged.report;
    let name = requester(report);
    let size = format_bytes(size_bytes(report));
    let pages = if size_bytes(report) == report.page_bytes() {
        "one page".to_owned()
    } else {
        size.clone()
    };
    if report.kind == ReportKind::AllocationStall {
        let seconds = report.waited_ms.unwrap_or_default().checked_div(1000).unwrap_or_default();
        return if judged.cause == LogCause::OptionalRequest {
            format!("{name} waited {seconds} s for {pages}: harmless, it works in the background")
        } else {
            format!("{name} waited {seconds} s for {pages}: reclaim freed memory too slowly")
        };
    }
    let waiting = if may_wait(report) { "" } else { " without waiting" };
    match judged.cause {
        LogCause::CgroupLimit => {
            let (cache, cgroup) = report.cache_of_cgroup().unwrap_or_default();
            format!(
                "cgroup {cgroup} had no room for kernel objects ({cache}): it was at its memory limit"
            )
        }
        LogCause::Fragmentation if report.remarks.is_repeated => {
            format!(
                "{name} waits for {size} in one piece: the kernel repeats the request until it succeeds"
            )
        }
        LogCause::Fragmentation => match largest(judged) {
            Some(largest) if largest >= size_bytes(report) => format!(
                "{name} could not get {size} in one piece{waiting}: free memory is fragmented, the few larger blocks are the kernel's reserve"
            ),
            Some(largest) => format!(
                "{name} could not get {size} in one piece{waiting}: the largest free block has {}",
                format_bytes(largest)
            ),
            None => format!("{name} could not get {size} in one piece{waiting}"),
        },
        LogCause::Cma if report.remarks.cma_pages.is_some() => {
            let driver = report.requester.name.as_deref().unwrap_or("a driver");
            let why = if report.remarks.cma_is_busy { "could not be moved" } else { "are in use" };
            format!("{driver} could not get {size} of CMA: pages there {why}")
        }
        LogCause::Cma => format!("{name} could not get {pages}{waiting}: free memory was in CMA"),
        LogCause::AtomicBlocks => format!(
            "{name} could not get {pages}{waiting}: free memory was in the reserve for atomic requests"
        ),
        LogCause::VmallocSpace => {
            let bytes = vmalloc_size(report);
            format!("the kernel could not map {bytes}: its vmalloc range of addresses is full")
        }
        LogCause::ModuleSpace => format!(
            "the kernel could not map {}: its range of addresses for modules and BPF programs is full",
            vmalloc_size(report)
        ),
        LogCause::ImpossibleSize if is_for_nothing(report) => {
            format!("{name} asked vmalloc for 0 bytes: harmless, no memory was short")
        }
        LogCause::ImpossibleSize => format!(
            "{name} asked vmalloc for {}, more than {}",
            vmalloc_size(report),
            if is_absurd(report) { "any machine has" } else { "this machine has" }
        ),
        LogCause::LowZone => {
            format!("{name} could not get {pages}: its zone had no memory left, others had")
        }
        LogCause::EmptyZone => {
            format!("{name} could not get {pages}: the zone that it asks for has no pages")
        }
        LogCause::OptionalRequest => {
            format!("{name} did not get {pages} at once: harmless, the caller has another way")
        }
        _ if zones::could_serve(&judged.zones) => {
            format!("{name} could not get {pages}{waiting}: free memory was short for a moment")
        }
        LogCause::AtomicReserve if report.requester.name.is_none() => {
            format!("{name} could not grow{waiting}: free memory was below the min watermark")
        }
        LogCause::AtomicReserve => {
            format!(
                "{name} could not get {pages}{waiting}: free memory was below the min watermark"
            )
        }
        _ => format!("{name} could not get {pages}{waiting}: memory was short"),
    }
}

fn vmalloc_size(report: &KernelReport) -> String {
    format_bytes(report.vmalloc.map_or(0, |request| request.bytes))
}

fn is_for_nothing(report: &KernelReport) -> bool {
    report.vmalloc.is_some_and(|request| request.bytes == 0)
}

fn is_absurd(report: &KernelReport) -> bool {
    report.vmalloc.is_some_and(|request| request.is_absurd())
}

/// The task, the driver that starts with the kernel, or the cache that could not grow.
fn requester(report: &KernelReport) -> String {
    match (&report.requester.name, &report.slab_cache) {
        (Some(name), _) if name.starts_with("swapper") => {
            report.initcall().map_or_else(|| name.clone(), |call| format!("{call} (at boot)"))
        }
        (Some(name), _) => name.clone(),
        (None, Some(cache)) if !cache.is_empty() => format!("the slab cache {cache}"),
        _ => "a task".to_owned(),
    }
}

/// Largest block of the zones that the request may use.
fn largest(judged: &JudgedReport<'_>) -> Option<u64> {
    zones::candidates(&judged.zones).filter_map(|zone| zone.largest_block_bytes).max()
}

pub(crate) fn rows(judged: &JudgedReport<'_>, hints: &[MemoryHint], page: &mut Page) {
    page.row("reason", reason(judged, hints));
    page.request(judged);
    if let Some(cache) = judged.report.slab_cache.as_ref().filter(|cache| !cache.is_empty()) {
        page.row("cache", format!("{cache}: its kernel objects could not grow"));
    }
    page.zones(judged);
    page.held(judged);
    page.row("effect", effect(judged.report));
    page.row("remedy", remedy(judged));
}

fn reason(judged: &JudgedReport<'_>, hints: &[MemoryHint]) -> String {
    let report = judged.report;
    let cache = judged.account.bytes(LogMemoryPart::PageCache);
    let could = if cache > 0 && !may_wait(report) {
        format!(
            "; {} of page cache could be reclaimed, but this request may not wait for it",
            format_bytes(cache)
        )
    } else {
        String::new()
    };
    match judged.cause {
        LogCause::Fragmentation => {
            let free = judged.zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(zone.free_bytes));
            let no_compaction = if report.remarks.has_no_compaction { "; this kernel cannot compact memory" } else { "" };
            let free = if free > 0 { format!("{} are free, but ", format_bytes(free)) } else { String::new() };
            let blocks = if judged.zones.is_empty() {
                "the free blocks are not in the log; a request of this order needs them in one piece"
            } else if largest(judged).is_some_and(|largest| largest >= size_bytes(report)) {
                "in small blocks; this kernel keeps the few larger ones as a reserve: memory is fragmented"
            } else {
                "no free block is large enough: memory is fragmented"
            };
            format!("{free}{blocks}{no_compaction}{could}")
        }
        LogCause::CgroupLimit => "the objects count against the cgroup's limit, and the request may not wait for reclaim. No allocation of \
             pages failed: the machine's memory was not the limit"
            .to_owned(),
        LogCause::AtomicReserve => format!(
            "an atomic request (interrupt context, or a task that may not sleep) takes pages that are free at once; \
             kswapd had not freed enough{could}"
        ),
        LogCause::OptionalRequest if cause::is_of_khugepaged(report) => {
            "khugepaged collects huge pages at the lowest priority (nice 19); no program waits for it".to_owned()
        }
        LogCause::EmptyZone => "the kernel of a dump (kdump) and some machines have no memory below 16 MiB or 4 GiB; other zones \
                                have free memory, which this request may not use"
            .to_owned(),
        LogCause::OptionalRequest => {
            "the flags ask the kernel not to try hard; such callers fall back to smaller or later requests".to_owned()
        }
        LogCause::Cma if report.remarks.cma_is_busy => {
            "the contiguous range has room for the request, but pages there that others use could not be moved elsewhere (error -16, \
             EBUSY): they are pinned, or this kernel takes them for pages that cannot be moved"
                .to_owned()
        }
        LogCause::Cma if report.remarks.cma_pages.is_some() => format!(
            "the contiguous range holds pages that cannot be moved, or is smaller than the request{}",
            if hints.contains(&MemoryHint::HostMemoryBuffer) {
                "; an NVMe drive of this log has a host memory buffer, which may be all of it (nvme.max_host_mem_size_mb= limits it)"
            } else {
                ""
            }
        ),
        LogCause::Cma => format!("pages of CMA serve movable requests only{could}"),
        LogCause::VmallocSpace => "the range of kernel addresses, not memory, has no room (32-bit kernels have little)".to_owned(),
        LogCause::ModuleSpace => "the range of kernel addresses for modules and compiled BPF programs, not memory, has no room: 1 to 1.5 \
                                  GiB on x86-64, 128 MiB and a little on many other machines; each seccomp filter of a container takes \
                                  some of it"
            .to_owned(),
        LogCause::ImpossibleSize if is_for_nothing(report) => {
            "vmalloc refuses a request for nothing and says so as if it had failed; kernels before 3.7 made one for a module \
             without such a part"
                .to_owned()
        }
        LogCause::ImpossibleSize if is_absurd(report) => "the caller computed a wrong size, such as a negative number or an address; \
                                                          memory was not short"
            .to_owned(),
        LogCause::ImpossibleSize => {
            let total = format_bytes(judged.account.total_bytes);
            format!("the kernel refuses at once what is larger than all memory ({total}); memory was not short")
        }
        LogCause::AtomicBlocks => "the free memory is in whole blocks of pages that the kernel has reserved for atomic requests".to_owned(),
        LogCause::LowZone => "the request may only use low zones; free memory is in zones above".to_owned(),
        _ => match judged.account.largest_held() {
            Some(share) => {
                let bytes = format_bytes(share.bytes);
                let preposition = if share.part == LogMemoryPart::Uncounted { "" } else { "in " };
                format!("memory was short: {bytes} {preposition}{}", crate::page::part_name(share.part))
            }
            None => "memory was short".to_owned(),
        },
    }
}

fn effect(report: &KernelReport) -> String {
    let has = |mark: &&str| report.trace.iter().any(|function| function.contains(*mark));
    let is_network =
        ["napi", "netif", "skb", "rx_", "tcp_", "net_rx", "__netdev", "dev_queue"].iter().any(has);
    let is_network = is_network
        || report.cache_of_cgroup().is_some_and(|(cache, _)| {
            ["TCP", "tw_sock", "request_sock", "skbuff"].iter().any(|name| cache.contains(name))
        });
    match (report.kind, is_network) {
        _ if report.remarks.is_repeated => "the task hangs until the request succeeds".to_owned(),
        // mm/memory_hotplug.c: page tables and struct page of the new memory come from the old.
        _ if has(&"add_memory_resource") => {
            "the memory that was being added (hotplug) is not there; no process was killed"
                .to_owned()
        }
        (ReportKind::AllocationStall, _) => "the task waited; no process was killed".to_owned(),
        (_, true) => "network packets may have been dropped; no process was killed".to_owned(),
        _ => "the caller got an error or used a fallback; no process was killed".to_owned(),
    }
}

fn remedy(judged: &JudgedReport<'_>) -> String {
    let report = judged.report;
    let min = judged.zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(zone.min_bytes));
    let now = if min > 0 {
        format!(" (the zones' min add up to {})", format_bytes(min))
    } else {
        String::new()
    };
    match judged.cause {
        LogCause::Fragmentation if may_wait(report) => {
            format!(
                "smaller requests where the driver or program can; a larger vm.min_free_kbytes{now} helps compaction"
            )
        }
        LogCause::Fragmentation => format!(
            "load the driver early after boot or let it use smaller buffers; a larger vm.min_free_kbytes{now} keeps larger blocks free"
        ),
        LogCause::CgroupLimit => "raise the limit of the cgroup, or use less in it; kernels from 5.4 on let atomic requests exceed the limit \
             for a moment"
            .to_owned(),
        LogCause::AtomicReserve => {
            format!("raise vm.min_free_kbytes{now}: such requests live from this reserve")
        }
        LogCause::OptionalRequest if cause::is_of_khugepaged(report) => "none needed".to_owned(),
        LogCause::OptionalRequest => "none needed unless the program reports errors".to_owned(),
        LogCause::EmptyZone => "none needed unless a device fails: kernels before 5.17 fill a pool for DMA from this zone at each start"
            .to_owned(),
        LogCause::Cma if report.remarks.cma_is_busy => {
            "where it fails at each boot, another kernel; else find who has pages there (boot with page_owner=on, /sys/kernel/debug/page_owner)"
                .to_owned()
        }
        LogCause::Cma if report.remarks.cma_pages.is_some() => {
            "a larger cma= at boot, or earlier use of the device".to_owned()
        }
        LogCause::Cma => format!(
            "a smaller area for CMA (cma= at boot, device tree), or a larger vm.min_free_kbytes{now}"
        ),
        LogCause::VmallocSpace => {
            "vmalloc= at boot for a larger range, or a 64-bit kernel".to_owned()
        }
        LogCause::ModuleSpace => {
            "find what loads them (bpftool prog, lsmod); a kernel that leaks compiled filters, as 5.10 did at times, needs an \
             update, and a restart until then"
                .to_owned()
        }
        LogCause::ImpossibleSize if is_for_nothing(report) => "none needed".to_owned(),
        LogCause::ImpossibleSize => match report.modules.first() {
            Some(module) => format!("update the module {module}, or what configures it; more memory does not help"),
            None => "update the driver that asks (in the call trace), or what configures it; more memory does not help".to_owned(),
        },
        LogCause::LowZone => low_zone_remedy(judged),
        LogCause::AtomicBlocks => ATOMIC_BLOCKS_REMEDY.to_owned(),
        _ if report.kind == ReportKind::AllocationStall => {
            "look at swap and dirty page cache: reclaim waits for the device".to_owned()
        }
        _ => "reduce what holds the memory (above)".to_owned(),
    }
}
