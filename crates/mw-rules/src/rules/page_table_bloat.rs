//! # page-table-bloat
//!
//! Page tables take a large part of memory.
//!
//! ## What it finds
//! Page tables of at least 5% of memory and at least 64 MiB: `PageTables` of /proc/meminfo, and `SecPageTables`
//! (those of KVM guests and of IOMMUs) where the kernel has it. It names the programs with the largest page
//! tables, the processes of one name together.
//!
//! ## Why it hurts
//! No reclaim frees page tables while their process exists, and they do not count as the memory of any program
//! in `ps` or `top`. They take page cache away from everybody, and every fork, exit and change of a mapping
//! walks them.
//!
//! ## What it looks like
//! MemAvailable is small although the processes' memory and the caches do not add up to what is used. The usual
//! case is many processes that map one large piece of shared memory, such as PostgreSQL's backends and
//! `shared_buffers`: with 4 KiB pages each process has 2 MiB of page tables for each GiB that it has touched,
//! with 2 MiB pages 4 KiB.
//!
//! ## How to fix it
//! Put the shared memory on huge pages: `huge_pages = on` and `vm.nr_hugepages` for PostgreSQL, `large-pages` for
//! MySQL, `USE_LARGE_PAGES` for Oracle; or `/sys/kernel/mm/transparent_hugepage/shmem_enabled` where the program
//! advises it. For guests of KVM: back them with huge pages. Fewer processes help as well: a connection pooler, or
//! threads. `memwright fix` does none of it, because the program has to be restarted.
//!
//! ## Threshold
//! Mapping all memory once takes 0.2% of it (8 bytes for each page of 4 KiB). Most machines have 0.1 to 1%: some
//! files are mapped by many programs. 5%, the note, means that each page is mapped 25 times on average, or that
//! mappings are sparse. 10% is a warning, and 25% is critical: that is as much as a usual buffer pool. Below 64
//! MiB it is the number of small processes on a small machine, of which each has some 100 KiB.
//!
//! ## References
//! Linux, Documentation/filesystems/proc.rst, PageTables and SecPageTables; PostgreSQL documentation, "Linux Huge
//! Pages".

use crate::share::{field, part, percent};
use mw_model::{
    Area, Finding, Missing, Process, Quantity, Remedy, Severity, Snapshot, Step, Window, derived,
    format_bytes,
};
use mw_proc::meminfo::Meminfo;
use std::cmp::Reverse;
use std::collections::BTreeMap;

const NOTE_PERCENT: f64 = 5.0;
const WARNING_PERCENT: f64 = 10.0;
const CRITICAL_PERCENT: f64 = 25.0;

/// Hundreds of small processes have as much together.
const MIN_BYTES: u64 = 64 << 20;

/// A page table entry maps a page of 512 times its size (4 KiB and 8 bytes).
const PAGE_PER_ENTRY: u64 = 512;

/// Programs that are shown as evidence.
const MAX_SHOWN: usize = 3;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let meminfo = snapshot.sample.meminfo.required()?;
    let total = field(meminfo.mem_total_bytes, "MemTotal")?;
    let tables = part(meminfo, meminfo.page_tables_bytes, "PageTables")?;
    let secondary = meminfo.sec_page_tables_bytes.unwrap_or(0);
    let all = tables.saturating_add(secondary);
    let share = percent(all, total);
    if share < NOTE_PERCENT || all < MIN_BYTES {
        return Ok(Vec::new());
    }
    let severity = if share >= CRITICAL_PERCENT {
        Severity::Critical
    } else if share >= WARNING_PERCENT {
        Severity::Warning
    } else {
        Severity::Note
    };
    let programs = programs(snapshot);
    let whose = programs.first().filter(|program| program.bytes >= all / 2);
    let whose = whose.map_or_else(String::new, |program| format!(", mostly of {}", program.text()));
    let headline = format!("page tables take {} ({share:.0}% of memory){whose}", format_bytes(all));
    let mut finding = Finding::new(severity, Area::PageTables, headline)
        .with_evidence("PageTables", Quantity::Bytes(tables), "/proc/meminfo")
        .with_impact(
            "Programs cannot use this memory, and no reclaim frees it while the processes exist.",
        )
        .with_remedy(remedy(secondary > tables));
    if secondary > 0 {
        let quantity = Quantity::Bytes(secondary);
        finding = finding.with_evidence("SecPageTables", quantity, "/proc/meminfo");
    }
    if let Some(once) = mapped_once_bytes(meminfo) {
        let what = "page tables that map each mapped page once";
        let source = "/proc/meminfo AnonPages, Mapped";
        finding = finding.with_evidence(what, Quantity::Bytes(once), source);
    }
    for program in programs.iter().take(MAX_SHOWN) {
        let what = format!("VmPTE of {}", program.text());
        finding = finding.with_evidence(what, Quantity::Bytes(program.bytes), "/proc/PID/status");
    }
    Ok(vec![finding])
}

/// The page tables that would be enough if each page were mapped by one process.
fn mapped_once_bytes(meminfo: &Meminfo) -> Option<u64> {
    let mapped = meminfo.anon_pages_bytes?.saturating_add(meminfo.mapped_bytes?);
    Some(mapped / PAGE_PER_ENTRY)
}

/// The processes of one name.
struct ProgramPageTables<'a> {
    name: &'a str,
    processes: usize,
    bytes: u64,
}

impl ProgramPageTables<'_> {
    fn text(&self) -> String {
        match self.processes {
            1 => self.name.to_owned(),
            count => format!("{count} processes {}", self.name),
        }
    }
}

/// The programs, those with the largest page tables first.
fn programs(snapshot: &Snapshot) -> Vec<ProgramPageTables<'_>> {
    let list = snapshot.processes.value().map_or(&[][..], |processes| &processes.list);
    let mut by_name: BTreeMap<&str, Vec<&Process>> = BTreeMap::new();
    for process in list {
        by_name.entry(&process.status.name).or_default().push(process);
    }
    let sum = |processes: &[&Process]| {
        derived::total(processes.iter().filter_map(|process| process.status.vm_pte_bytes))
    };
    let mut programs: Vec<ProgramPageTables<'_>> = by_name
        .into_iter()
        .map(|(name, processes)| ProgramPageTables {
            name,
            processes: processes.len(),
            bytes: sum(&processes),
        })
        .filter(|program| program.bytes > 0)
        .collect();
    programs.sort_by_key(|program| Reverse(program.bytes));
    programs
}

fn remedy(of_guests: bool) -> Remedy {
    let (summary, steps) = if of_guests {
        (
            "back the guests with huge pages",
            ["virsh edit GUEST: <memoryBacking><hugepages/></memoryBacking>"],
        )
    } else {
        (
            "put the memory that these processes share on huge pages, or use fewer processes",
            [
                "huge_pages = on in postgresql.conf, large-pages in my.cnf, with vm.nr_hugepages for it",
            ],
        )
    };
    Remedy::named(summary, steps.map(Step::manual).into())
}
