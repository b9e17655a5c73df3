//! A cgroup at its limit, in words.

use crate::answer::CgroupFacts;
use crate::cause::{self, CgroupLimitKind, JudgedReport};
use crate::page::{self, Page, named, processes, victim_name};
use crate::report::{CgroupCounter, CgroupReport, CgroupStats, KernelReport};
use mw_memory::format_bytes;

/// Cgroups that share a limit and are named.
const MAX_SHARING: usize = 3;
/// The longest name that is printed whole.
const MAX_NAME_CHARS: usize = 44;

/// From here on a headline is not made longer.
const MAX_HEADLINE_CHARS: usize = 100;

/// What fills a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CgroupFill {
    DirtyCache,
    SharedMemory,
    KernelObjects,
    Programs,
    PageCache,
    Unknown,
}

/// Use of a cgroup and those below it.
#[derive(Debug, Clone, Copy, Default)]
struct CgroupUseSum {
    anon: u64,
    cache: u64,
    shmem: u64,
    dirty: u64,
    kernel: u64,
    swap: u64,
}

pub(crate) fn facts(report: &KernelReport) -> CgroupFacts {
    let cgroup = &report.cgroup;
    let limit = cause::limit_kind(cgroup);
    let counter = match limit {
        CgroupLimitKind::MemoryAndSwap => cgroup.memory_and_swap,
        CgroupLimitKind::KernelMemory => cgroup.kernel,
        CgroupLimitKind::Memory | CgroupLimitKind::Unknown => cgroup.memory,
    };
    CgroupFacts {
        limit_of: limit_of(cgroup),
        task_in: cgroup.task_in.clone(),
        limit,
        limit_bytes: counter.and_then(|counter| counter.limit_bytes),
        usage_bytes: counter.map(|counter| counter.usage_bytes),
        file: file(cgroup, limit).to_owned(),
    }
}

/// The cgroup at its limit. Where nobody was killed, it is the one whose statistics are printed
/// (`mem_cgroup_print_oom_meminfo()`).
fn limit_of(cgroup: &CgroupReport) -> Option<String> {
    let of_stats = || Some(cgroup.stats.first()?.path.clone()).filter(|path| !path.is_empty());
    cgroup.limit_of.clone().or_else(of_stats)
}

/// The file of a limit, by the version of the hierarchy that the report is of.
fn file(cgroup: &CgroupReport, limit: CgroupLimitKind) -> &'static str {
    let has = |name: &str| cgroup.stats.iter().any(|stats| stats.bytes.contains_key(name));
    let is_v1 = cgroup.memory_and_swap.is_some() || has("cache") || has("rss");
    let is_v2 = cgroup.swap.is_some() || has("anon") || has("file");
    match limit {
        CgroupLimitKind::MemoryAndSwap => "memory.memsw.limit_in_bytes",
        CgroupLimitKind::KernelMemory => "memory.kmem.limit_in_bytes",
        _ if is_v1 => "memory.limit_in_bytes",
        _ if is_v2 => "memory.max",
        _ => "memory.max, or memory.limit_in_bytes on cgroup v1",
    }
}

/// `container`, `pod`, `service`: what operators call it.
fn noun(path: &str) -> &'static str {
    let last = path.rsplit('/').next().unwrap_or_default();
    if path.contains("kubepods") {
        let is_container = last.ends_with(".scope") || is_hexadecimal(last);
        if is_container { "container" } else { "pod" }
    } else if path.contains("docker") || path.contains("lxc") || path.contains("libpod") {
        "container"
    } else if path.contains("slurm") {
        "Slurm job"
    } else if last.ends_with(".service") {
        "service"
    } else {
        "cgroup"
    }
}

fn is_hexadecimal(name: &str) -> bool {
    name.len() >= 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The path, or its end where it is long.
pub(crate) fn short(path: &str) -> String {
    if path.chars().count() <= MAX_NAME_CHARS {
        return path.to_owned();
    }
    let last = path.rsplit('/').next().unwrap_or(path);
    let kept: String = last.chars().take(MAX_NAME_CHARS.saturating_sub(5)).collect();
    if kept.len() == last.len() { format!("…/{kept}") } else { format!("…/{kept}…") }
}

/// True if the limit is of a cgroup above that of the task.
fn is_ancestor(cgroup: &CgroupReport) -> bool {
    match (&cgroup.limit_of, &cgroup.task_in) {
        (Some(limit), Some(task)) => {
            let below = task.strip_prefix(limit.trim_end_matches('/'));
            below.is_some_and(|below| below.starts_with('/'))
        }
        _ => false,
    }
}

/// True if the limit is of the cgroup directly above.
fn is_parent(cgroup: &CgroupReport) -> bool {
    let task = cgroup.task_in.as_deref().unwrap_or_default();
    let parent = task.rsplit_once('/').map(|(parent, _)| parent);
    parent.is_some() && parent == cgroup.limit_of.as_deref()
}

pub(crate) fn headline(judged: &JudgedReport<'_>) -> String {
    let report = judged.report;
    let facts = facts(report);
    let limit_of = facts.limit_of.as_deref().unwrap_or_default();
    let noun = noun(limit_of);
    let size =
        facts.limit_bytes.map_or(String::new(), |bytes| format!(" of {}", format_bytes(bytes)));
    let what = match facts.limit {
        CgroupLimitKind::MemoryAndSwap => "limit of memory and swap",
        CgroupLimitKind::KernelMemory => "limit of kernel memory",
        _ => "memory limit",
    };
    let victim = victim_name(report);
    let subject = match is_ancestor(&report.cgroup) {
        true if noun == "pod" => "its pod".to_owned(),
        true if is_parent(&report.cgroup) => format!("the parent cgroup {}", short(limit_of)),
        true => format!("the cgroup {} above", short(limit_of)),
        false => format!("its {noun}"),
    };
    let ending = match fill(report) {
        CgroupFill::DirtyCache => ", with dirty page cache",
        CgroupFill::SharedMemory => ", with shared memory (tmpfs)",
        CgroupFill::KernelObjects => ", with kernel objects",
        _ => "",
    };
    let limit = format!("{subject} reached its {what}{size}");
    let text = match report.victims.is_empty() {
        true if report.remarks.has_no_victim => format!("{limit}: no process in it may be killed"),
        true => limit,
        false if does_not_end(report) => {
            let times = report.remarks.chosen;
            format!("the kernel chose {victim} {times} times, and it did not end: {limit}")
        }
        false => format!("{victim} was killed: {limit}"),
    };
    let has_room = text.chars().count().saturating_add(ending.len()) <= MAX_HEADLINE_CHARS;
    if has_room { text + ending } else { text }
}

pub(crate) fn rows(judged: &JudgedReport<'_>, page: &mut Page) {
    let report = judged.report;
    page.row("reason", reason(report));
    page.request(judged);
    held(report, page);
    page.tasks(judged);
    killed(report, page);
    if report.remarks.has_no_victim && report.victims.is_empty() {
        page.row(
            "killed",
            "none: an oom_score_adj of -1000 exempts a process. Nothing is freed, and the kernel tries again at each request"
                .to_owned(),
        );
    }
    page.row("remedy", remedy(report));
}

fn reason(report: &KernelReport) -> String {
    let facts = facts(report);
    let cgroup = &report.cgroup;
    let path = facts.limit_of.as_deref().map_or("the cgroup".to_owned(), short);
    let mut text = match (facts.usage_bytes, facts.limit_bytes) {
        (Some(usage), Some(limit)) if facts.limit != CgroupLimitKind::Unknown => {
            let (usage, limit) = (format_bytes(usage), format_bytes(limit));
            format!("{path} used {usage} of {limit} ({})", facts.file)
        }
        (Some(usage), limit) => {
            let limit = limit.map_or("no limit".to_owned(), |limit| {
                format!("a limit of {}", format_bytes(limit))
            });
            format!("{path} used {} with {limit}, when the report was printed", format_bytes(usage))
        }
        (None, _) => {
            format!("{path} reached its limit ({}), whose size is not in the log", facts.file)
        }
    };
    if let (CgroupLimitKind::MemoryAndSwap, Some(memory)) = (facts.limit, cgroup.memory)
        && let Some(limit) = memory.limit_bytes
    {
        text.push_str(&format!(
            "; at the limit of memory only ({}) it would have swapped",
            format_bytes(limit)
        ));
    }
    match cgroup.swap {
        Some(CgroupCounter { limit_bytes: Some(0), .. }) => {
            text.push_str("; swap is not allowed (memory.swap.max 0)");
        }
        Some(swap) if swap.is_full() => {
            text.push_str("; its swap is full as well (memory.swap.max)")
        }
        _ => {}
    }
    if is_ancestor(cgroup) {
        text.push_str(&above(cgroup));
    }
    text.push_str(". Only this cgroup was short of memory.");
    text
}

/// The cgroups below the limit that share it.
fn above(cgroup: &CgroupReport) -> String {
    let task = cgroup.task_in.as_deref().unwrap_or_default();
    let limit = cgroup.limit_of.as_deref().unwrap_or_default();
    let of_stats = |stats: &&CgroupStats| stats.path != limit && use_of(stats).total() > 0;
    let mut sharing: Vec<String> = cgroup
        .stats
        .iter()
        .filter(of_stats)
        .map(|stats| format!("{} ({})", short(&stats.path), format_bytes(use_of(stats).total())))
        .collect();
    let others = sharing.len().saturating_sub(MAX_SHARING);
    sharing.truncate(MAX_SHARING);
    if others > 0 {
        sharing.push(format!("{others} more"));
    }
    let shared = match sharing.as_slice() {
        [] | [_] => String::new(),
        all => format!("; below it: {}", all.join(", ")),
    };
    format!("; it is above {}, and its limit is shared by all below it{shared}", short(task))
}

impl CgroupUseSum {
    fn total(self) -> u64 {
        self.anon.saturating_add(self.cache).saturating_add(self.kernel)
    }
}

fn use_of(stats: &CgroupStats) -> CgroupUseSum {
    let kernel_parts = ["slab", "kernel_stack", "pagetables", "sock", "percpu", "vmalloc"];
    let kernel = kernel_parts.iter().map(|name| stats.any(&[name])).fold(0, u64::saturating_add);
    let slab = stats.any(&["slab_unreclaimable"]).saturating_add(stats.any(&["slab_reclaimable"]));
    let kernel = if stats.any(&["slab"]) == 0 { kernel.saturating_add(slab) } else { kernel };
    CgroupUseSum {
        anon: stats.any(&["anon", "total_rss", "rss"]),
        cache: stats.any(&["file", "total_cache", "cache"]),
        shmem: stats.any(&["total_shmem", "shmem"]),
        dirty: stats.any(&["file_dirty", "total_dirty", "dirty"]).saturating_add(stats.any(&[
            "file_writeback",
            "total_writeback",
            "writeback",
        ])),
        kernel: stats.any(&["kernel"]).max(kernel),
        swap: stats.any(&["total_swap", "swap"]),
    }
}

/// The sum of the cgroup and of those below it: v1 prints each without those below it, v2 prints one.
fn use_sum(cgroup: &CgroupReport) -> CgroupUseSum {
    let mut sum = CgroupUseSum::default();
    for part in cgroup.stats.iter().map(use_of) {
        sum.anon = sum.anon.saturating_add(part.anon);
        sum.cache = sum.cache.saturating_add(part.cache);
        sum.shmem = sum.shmem.saturating_add(part.shmem);
        sum.dirty = sum.dirty.saturating_add(part.dirty);
        sum.kernel = sum.kernel.saturating_add(part.kernel);
        sum.swap = sum.swap.saturating_add(part.swap);
    }
    sum.kernel = sum.kernel.max(cgroup.kernel.map_or(0, |counter| counter.usage_bytes));
    sum
}

/// True if the statistics have both kinds of pages: a paste may begin or end within them.
fn is_counted(cgroup: &CgroupReport) -> bool {
    let has = |names: &[&str]| {
        cgroup.stats.iter().any(|stats| names.iter().any(|name| stats.bytes.contains_key(*name)))
    };
    has(&["anon", "rss"]) && has(&["file", "cache"])
}

fn fill(report: &KernelReport) -> CgroupFill {
    if !is_counted(&report.cgroup) {
        return CgroupFill::Unknown;
    }
    let sum = use_sum(&report.cgroup);
    let total = report.cgroup.memory.map_or(sum.total(), |counter| counter.usage_bytes);
    let is_share = |bytes: u64, percent: u64| {
        total > 0 && bytes.saturating_mul(100) >= total.saturating_mul(percent)
    };
    let clean = sum.cache.saturating_sub(sum.shmem).saturating_sub(sum.dirty);
    if is_share(sum.dirty, 30) && sum.dirty > sum.anon {
        CgroupFill::DirtyCache
    } else if is_share(sum.shmem, 40) && sum.shmem > sum.anon {
        CgroupFill::SharedMemory
    } else if is_share(sum.kernel, 40) && sum.kernel > sum.anon {
        CgroupFill::KernelObjects
    } else if is_share(sum.anon, 30) {
        CgroupFill::Programs
    } else if is_share(clean, 50) {
        CgroupFill::PageCache
    } else {
        CgroupFill::Unknown
    }
}

fn held(report: &KernelReport, page: &mut Page) {
    if !is_counted(&report.cgroup) {
        return;
    }
    let sum = use_sum(&report.cgroup);
    let cache = sum.cache.saturating_sub(sum.shmem);
    let mut parts = vec![
        (sum.anon, "anonymous", String::new()),
        (
            cache,
            "page cache",
            match sum.dirty {
                0 => String::new(),
                dirty => format!(" ({} dirty or under writeback)", format_bytes(dirty)),
            },
        ),
        (sum.shmem, "shared memory and tmpfs", String::new()),
        (sum.kernel, "kernel objects", String::new()),
        (sum.swap, "in swap", String::new()),
    ];
    parts.retain(|(bytes, _, _)| *bytes > 0);
    parts.sort_by_key(|(bytes, _, _)| std::cmp::Reverse(*bytes));
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(bytes, name, more)| format!("{} {name}{more}", format_bytes(bytes)))
        .collect();
    if !parts.is_empty() {
        page.row("held", parts.join(", "));
    }
}

/// True if one process was chosen again and again.
fn does_not_end(report: &KernelReport) -> bool {
    report.remarks.chosen > 2
}

fn killed(report: &KernelReport, page: &mut Page) {
    if report.victims.is_empty() {
        return;
    }
    if does_not_end(report) {
        page.row(
            "killed",
            "none: the kernel chooses the same process again and again. Either it and its children are exempt (before 2.6.36: an oom_adj of \
             -17, which they inherit), or it waits in the kernel and cannot end",
        );
        return;
    }
    let freed = report.victims.iter().filter_map(|victim| victim.anon_bytes);
    let freed = freed.reduce(u64::saturating_add);
    let effect = match fill(report) {
        CgroupFill::DirtyCache => "the page cache stays until it is written",
        CgroupFill::SharedMemory => "files in tmpfs and System V segments stay after a kill",
        CgroupFill::KernelObjects => "a kill does not release the kernel's objects",
        _ => "that makes room below the limit until as much is used again",
    };
    let freed = freed.map_or(String::new(), |bytes| format!(", {} anonymous", format_bytes(bytes)));
    page.row("killed", format!("{}{freed}: {effect}", named(report)));
}

fn remedy(report: &KernelReport) -> String {
    let facts = facts(report);
    let noun = noun(facts.limit_of.as_deref().unwrap_or_default());
    let limit = match (noun, facts.limit) {
        ("pod" | "container", CgroupLimitKind::Memory | CgroupLimitKind::Unknown) => {
            format!("raise the memory limit of the {noun} ({})", facts.file)
        }
        ("service", CgroupLimitKind::Memory | CgroupLimitKind::Unknown) => {
            "raise MemoryMax= of the unit".to_owned()
        }
        ("Slurm job", _) => "request more memory for the job (--mem)".to_owned(),
        _ => format!("raise {}", facts.file),
    };
    let version = report.version();
    if does_not_end(report) {
        return format!("let the processes of the {noun} be killed (oom_adj 0), or {limit}");
    }
    match fill(report) {
        CgroupFill::DirtyCache => {
            let is_v1 = facts.file.ends_with("limit_in_bytes");
            let of_kernel = version.is_none_or(|version| ((4, 11)..(4, 16)).contains(&version));
            let kernel = match is_v1 && of_kernel {
                true => {
                    "; kernels 4.11 to 4.15 kill here instead of waiting for writeback \
                         (cgroup v1): 4.16 waits"
                }
                false => "; or write less at once (fsync, direct I/O)",
            };
            format!("{limit}{kernel}")
        }
        CgroupFill::SharedMemory => {
            format!("delete files in tmpfs (/dev/shm, an emptyDir in memory), or {limit}")
        }
        CgroupFill::KernelObjects => {
            format!("{limit}: kernel objects (dentries, sockets) count against it")
        }
        _ => match processes(report).first() {
            Some(task) => format!("{limit}, or {}", page::bound(&task.name)),
            None => limit,
        },
    }
}
