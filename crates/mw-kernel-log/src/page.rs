//! Rows of a page that several causes have.

use crate::answer::AnswerRow;
use crate::cause::{JudgedReport, LogCause};
use crate::gfp::GfpMask;
use crate::holders::{self, LogMemoryPart, TaskShare};
use crate::report::{KernelReport, ReportKind};
use crate::zones::{ZoneObstacle, ZoneVerdict};
use mw_memory::{format_bytes, format_count};

/// Zones, names and victims that are listed.
const MAX_ZONES: usize = 6;
const MAX_NAMES: usize = 3;

/// A page that is being written.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) rows: Vec<AnswerRow>,
}

impl Page {
    pub(crate) fn row(&mut self, label: &str, text: impl Into<String>) {
        self.rows.push(AnswerRow { label: label.to_owned(), text: text.into() });
    }

    /// Who asked, for how much, with which flags.
    pub(crate) fn request(&mut self, judged: &JudgedReport<'_>) {
        let report = judged.report;
        if !report.has_head {
            self.row("asked by", "not in the log: the beginning of the report is missing");
            return;
        }
        let name = report.requester.name.as_deref().unwrap_or("a task");
        let pid = report.requester.pid.map_or(String::new(), |pid| format!(" (thread {pid})"));
        let size = size(report).map_or(String::new(), |size| format!(" for {size}"));
        let flags = report.gfp.as_ref().map_or(String::new(), |gfp| {
            let waits = match (report.kind, gfp.may_wait()) {
                (ReportKind::AllocationFailure, false) if gfp.mask != 0 => {
                    ": it may not wait for reclaim"
                }
                _ => "",
            };
            format!(", {}{waits}", gfp.text())
        });
        let by = caller(report).map_or(String::new(), |by| format!(", {by}"));
        let waited = report.waited_ms.map_or(String::new(), |ms| {
            format!(", for {} s", ms.checked_div(1000).unwrap_or_default())
        });
        self.row("asked by", format!("{name}{pid}{size}{flags}{by}{waited}"));
    }

    /// What each zone lacked.
    pub(crate) fn zones(&mut self, judged: &JudgedReport<'_>) {
        let wanted = size_bytes(judged.report);
        let lines: Vec<String> =
            judged.zones.iter().map(|zone| zone_text(judged.report, zone, wanted)).collect();
        let more = lines.len().saturating_sub(MAX_ZONES);
        for (at, line) in lines.into_iter().take(MAX_ZONES).enumerate() {
            self.row(if at == 0 { "zones" } else { "" }, line);
        }
        if more > 0 {
            self.row("", format!("{more} more zones"));
        }
    }

    /// Parts of the machine's memory.
    pub(crate) fn held(&mut self, judged: &JudgedReport<'_>) {
        let account = &judged.account;
        let shown = account.parts.iter().filter(|share| account.is_at_least(share.bytes, 2));
        let shown: Vec<String> = shown
            .take(6)
            .map(|share| format!("{} {}", format_bytes(share.bytes), part_name(share.part)))
            .collect();
        if account.total_bytes > 0 && !shown.is_empty() {
            self.row(
                "held",
                format!("of {}: {}", format_bytes(account.total_bytes), shown.join(", ")),
            );
        }
        let memory = &judged.report.memory;
        if let (Some(total), Some(free)) = (memory.swap_total_bytes, memory.swap_free_bytes) {
            let swap = match (total, free) {
                (0, _) if judged.cause == LogCause::SwapOff => "being swapped off".to_owned(),
                (0, _) => "none".to_owned(),
                (total, 0) => format!("{}, all in use", format_bytes(total)),
                (total, free) => format!("{} of {} free", format_bytes(free), format_bytes(total)),
            };
            self.row("swap", swap);
        }
    }

    /// Tasks by name.
    pub(crate) fn tasks(&mut self, judged: &JudgedReport<'_>) {
        let tasks = processes(judged.report);
        let shown: Vec<String> = tasks.iter().take(MAX_NAMES).map(task_text).collect();
        if shown.is_empty() {
            return;
        }
        let programs = judged.account.bytes(LogMemoryPart::Programs);
        let sum = tasks.iter().fold(0_u64, |sum, task| sum.saturating_add(task.resident_bytes));
        let is_shared = programs > 0 && sum > programs;
        let note = if is_shared { " (shared pages count in each process)" } else { "" };
        self.row("programs", format!("{}{note}", shown.join(", ")));
    }
}

/// `java (3 processes) 1.5 GiB and 20 MiB in swap`.
pub(crate) fn task_text(task: &TaskShare) -> String {
    let count = if task.count > 1 {
        format!(" ({})", format_count(task.count, "process"))
    } else {
        String::new()
    };
    let swap = match task.swapped_bytes {
        0 => String::new(),
        bytes => format!(" and {} in swap", format_bytes(bytes)),
    };
    format!("{}{count} {}{swap}", task.name, format_bytes(task.resident_bytes))
}

/// Tasks by name, the largest first.
pub(crate) fn processes(report: &KernelReport) -> Vec<TaskShare> {
    holders::tasks(report)
}

pub(crate) fn part_name(part: LogMemoryPart) -> &'static str {
    match part {
        LogMemoryPart::Programs => "programs",
        LogMemoryPart::SharedMemory => "shared memory and tmpfs",
        LogMemoryPart::PageCache => "page cache",
        LogMemoryPart::UnreclaimableSlab => "unreclaimable slab",
        LogMemoryPart::ReclaimableSlab => "reclaimable slab",
        LogMemoryPart::PageTables => "page tables",
        LogMemoryPart::KernelStacks => "kernel stacks",
        LogMemoryPart::HugePages => "pools of huge pages",
        LogMemoryPart::Balloon => "balloon",
        LogMemoryPart::CompressedSwap => "compressed swap (zram, zswap)",
        LogMemoryPart::Unevictable => "unevictable",
        LogMemoryPart::Free => "free",
        LogMemoryPart::Uncounted => "in no counter",
    }
}

/// `order 2 (16 KiB)`.
pub(crate) fn size(report: &KernelReport) -> Option<String> {
    if let Some(request) = &report.vmalloc {
        return Some(format!("{} of vmalloc", format_bytes(request.bytes)));
    }
    if let Some(pages) = report.remarks.cma_pages {
        return Some(format!("{pages} pages of CMA ({})", format_bytes(size_bytes(report))));
    }
    let order = report.order.filter(|order| *order >= 0)?;
    Some(format!("order {order} ({})", format_bytes(size_bytes(report))))
}

pub(crate) fn size_bytes(report: &KernelReport) -> u64 {
    if let Some(pages) = report.remarks.cma_pages {
        return report.page_bytes().saturating_mul(pages);
    }
    let order = report.order.and_then(|order| u32::try_from(order).ok()).unwrap_or(0);
    report.page_bytes().checked_shl(order.min(30)).unwrap_or(u64::MAX)
}

/// The module that asked, or the kernel's function, if the call trace has one.
fn caller(report: &KernelReport) -> Option<String> {
    match report.modules.first() {
        Some(module) => Some(format!("in the module {module}")),
        None if report.kind == ReportKind::AllocationFailure || report.remarks.has_no_victim => {
            report.asking_function().map(|(function, is_certain)| {
                let certainty = if is_certain { "" } else { "probably " };
                format!("{certainty}in {function}()")
            })
        }
        None => None,
    }
}

fn zone_text(report: &KernelReport, zone: &ZoneVerdict, wanted: u64) -> String {
    let free = format_bytes(zone.free_bytes);
    let min = format_bytes(zone.min_bytes);
    let needed = match zone.reserve_bytes {
        0 => format!("min {min}"),
        reserve => format!("min {min} plus the reserve of {}", format_bytes(reserve)),
    };
    let block = zone.largest_block_bytes.unwrap_or_default();
    let name = match report.gfp.as_ref().map(|gfp| gfp.names.as_str()) {
        None | Some("") => "this request".to_owned(),
        Some(names) => names.split('|').next().unwrap_or_default().to_owned(),
    };
    let what = match zone.obstacle {
        ZoneObstacle::TooHigh => format!("{free} free, not usable by {name}"),
        ZoneObstacle::BelowMin => format!("{free} free, below {needed}"),
        ZoneObstacle::OnlyCma => format!(
            "{free} free, {} of it in CMA and not usable by {name}; below {needed} without it",
            format_bytes(zone.free_cma_bytes)
        ),
        ZoneObstacle::OnlyAtomic => format!(
            "{free} free, in blocks reserved for atomic requests (highatomic); below {needed} without them"
        ),
        ZoneObstacle::NoBlock => {
            format!(
                "{free} free, above {needed}; largest block {}, needed {}",
                format_bytes(block),
                format_bytes(wanted)
            )
        }
        ZoneObstacle::FewBlocks => format!(
            "{free} free, above {needed}, but too little of it in blocks of {} (this kernel keeps half of min in each larger size)",
            format_bytes(wanted)
        ),
        ZoneObstacle::ForeignBlock => format!(
            "{free} free; blocks of {} only in CMA or the atomic reserve, otherwise {}",
            format_bytes(wanted),
            format_bytes(block)
        ),
        ZoneObstacle::None => format!("{free} free, above {needed} when the report was printed"),
    };
    format!("node {} {}: {what}", zone.node, zone.zone)
}

/// `app (812)`, the first of those that were killed.
pub(crate) fn victim_name(report: &KernelReport) -> String {
    match report.victims.as_slice() {
        [] => "no process".to_owned(),
        [one] => format!("{} ({})", one.name, one.pid),
        [one, others @ ..] => {
            let others = format_count(others.len(), "other");
            format!("{} ({}) and {others}", one.name, one.pid)
        }
    }
}

/// All that were killed, as far as there is room.
pub(crate) fn named(report: &KernelReport) -> String {
    let mut names: Vec<String> = report
        .victims
        .iter()
        .take(MAX_NAMES)
        .map(|victim| format!("{} ({})", victim.name, victim.pid))
        .collect();
    let more = report.victims.len().saturating_sub(MAX_NAMES) as u64;
    let more = more.saturating_add(report.more_victims);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Settings that bound the memory of a program, by the name of its process.
pub fn memory_setting(name: &str) -> Option<&'static str> {
    let own = [
        ("java", "-Xmx or -XX:MaxRAMPercentage: the heap and the rest of the JVM must fit"),
        ("postgres", "work_mem times the connections, and shared_buffers"),
        ("mysqld", "innodb_buffer_pool_size and the buffers of each connection"),
        ("mariadbd", "innodb_buffer_pool_size and the buffers of each connection"),
        ("redis-server", "maxmemory"),
        ("mongod", "wiredTigerCacheSizeGB"),
        ("node", "--max-old-space-size"),
        (
            "clamd",
            "ConcurrentDatabaseReload no: it loads its signatures twice while it reloads them",
        ),
        ("php-fpm", "pm.max_children, and pm.max_spare_servers for those that idle"),
        ("httpd", "MaxRequestWorkers"),
        ("apache2", "MaxRequestWorkers"),
        ("qemu-system-x86", "the memory of the guests"),
        ("qemu-kvm", "the memory of the guests"),
    ];
    own.iter().find(|(program, _)| name.starts_with(program)).map(|(_, setting)| *setting)
}

/// How a program's memory is bounded.
pub(crate) fn bound(name: &str) -> String {
    match memory_setting(name) {
        Some(setting) => format!("bound {name} ({setting})"),
        None => format!("bound the memory of {name}"),
    }
}

/// True if the request may wait: the kernel reclaims for it.
pub(crate) fn may_wait(report: &KernelReport) -> bool {
    report.gfp.as_ref().is_none_or(GfpMask::may_wait)
}
