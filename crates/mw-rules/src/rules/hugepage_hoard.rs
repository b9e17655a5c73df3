//! # hugepage-hoard
//!
//! Memory is reserved as huge pages that no program uses.
//!
//! ## What it finds
//! Free, unreserved pages in the hugetlb pools that make up at least a tenth of memory. Or a pool without free pages of which
//! processes map less than half: files of hugetlbfs keep their pages when their program has ended.
//!
//! As the cause of a stall: at least a quarter of memory was reserved and idle while tasks reclaimed.
//! The condition existed before the stall, so it scores lower than what happened during it. Or a program
//! enlarged a pool during the stall (a write to nr_hugepages), and the request waited for memory, for pages that were
//! read or swapped in again, for pages that were moved, or for the CPU that the write had. The profile names the
//! program.
//!
//! ## Why it hurts
//! A page of the pool serves hugetlb mappings and nothing else: neither the page cache nor malloc.
//! Everything else has that much less memory and reclaims that much sooner, while `free` counts the
//! pages as used. To enlarge a pool the kernel compacts and reclaims until it has the pages, within the write.
//!
//! ## What it looks like
//! `HugePages_Free` minus `HugePages_Rsvd` in /proc/meminfo is large; MemAvailable is small, and no
//! process accounts for the difference. Pages that files keep are in no process's `HugetlbPages` (/proc/PID/status).
//!
//! ## How to fix it
//! `memwright fix hugepage-hoard` frees the idle pages. A program may be about to use them, so it is
//! done only if you name the rule. Where a System V segment that is larger than the pool is on small pages, enlarge the pool
//! for it, or release it: a segment is in the pool as a whole or not at all. Reserve huge pages when the machine boots (`hugepages=` on the kernel's command
//! line), before programs use the memory.
//!
//! ## Threshold
//! A tenth of memory is a note: a database that is about to start needs its pool. A quarter is a
//! warning: that is commonly the whole buffer pool of a service that is down, or that failed to get its
//! huge pages and runs without them. It is critical while the rest of memory is used up (memory-exhausted): then the pool is
//! why. A write counts that used a tenth of a CPU.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/hugetlbpage.rst.

use crate::cause_score::{CauseScore, LATENT_MOST};
use crate::forced_work::{ForcedWork, ForcingTask, most, named};
use crate::roles;
use crate::rules::memory_exhausted;
use crate::share::{is_most, percent};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_memory::huge_pool_dir;
use mw_model::visible::shell_word;
use mw_model::{
    Area, Cause, Finding, HugePool, Missing, Process, Quantity, Remedy, Role, Severity, Snapshot,
    Step, Subject, Sysctl, Window, derived, format_bytes, format_count,
};
use mw_proc::sysvipc_shm::ShmSegment;
use mw_proc::vmstat::Counter;

const NOTE_PERCENT: f64 = 10.0;
const WARNING_PERCENT: f64 = 25.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let mut found = idle(window)?;
    found.extend(kept_by_files(&window.now, window.now.hugepages.required()?));
    Ok(found)
}

/// Pools with pages that nothing uses.
fn idle(window: &Window) -> Result<Vec<Finding>, Missing> {
    let pools = window.now.hugepages.required()?;
    let total = derived::memory_bytes(&window.now.sample)?;
    let is_used_up = memory_exhausted::is_used_up(&window.now);
    let found = pools.iter().filter_map(|pool| {
        let found = finding(pool, total, is_used_up)?;
        Some(match too_large_segment(&window.now, pool) {
            Some(segment) => beside_segment(found, &segment, pool, total),
            None => with_plan(found, &window.now, pool),
        })
    });
    Ok(found.collect())
}

/// A pool that is used up although processes map less than half of it: a file of hugetlbfs keeps its pages until it is
/// deleted (`remove_inode_hugepages()`, fs/hugetlbfs/inode.c), and a segment until it is destroyed.
fn kept_by_files(snapshot: &Snapshot, pools: &[HugePool]) -> Option<Finding> {
    let is_used = |pool: &&HugePool| pool.total_pages > pool.free_pages;
    let mut used = pools.iter().filter(is_used);
    // What a process maps is told for all sizes together.
    let pool = used.next().filter(|pool| used.next().is_none() && pool.available_pages() == 0)?;
    let processes = snapshot.processes.value().filter(|all| all.whole().is_ok())?;
    if !has_all_processes(snapshot, &processes.list) {
        return None;
    }
    let mapped = processes.list.iter().filter_map(|process| process.status.hugetlb_pages_bytes);
    let segments = snapshot.shm.value()?.iter().filter(|segment| segment.is_hugetlb());
    let segments = segments.map(|segment| segment.size_bytes);
    let held = derived::total(mapped.chain(segments)).div_euclid(pool.page_bytes.max(1));
    let used = pool.total_pages.saturating_sub(pool.free_pages);
    let kept = used.saturating_sub(held);
    if !is_most(kept, used) {
        return None;
    }
    let mounts = snapshot.filesystems.value().map_or(&[][..], Vec::as_slice);
    let mount = mounts.iter().find(|mount| mount.fstype == "hugetlbfs");
    let target = mount.map_or("/dev/hugepages", |mount| mount.target.as_str());
    let headline = format!(
        "{} of {} are used up, and no process maps {kept} of them: files in {target} keep them",
        format_count(pool.total_pages, "huge page"),
        format_bytes(pool.page_bytes)
    );
    let dir = huge_pool_dir(pool.page_bytes, None);
    Some(
        Finding::new(Severity::Warning, Subject::HugePool(pool.page_bytes), headline)
            .with_evidence("nr_hugepages", Quantity::Count(pool.total_pages), dir.clone())
            .with_evidence("free_hugepages", Quantity::Count(pool.free_pages), dir)
            .with_evidence("mapped by processes", Quantity::Count(held), "/proc/PID/status")
            .with_impact("The next program that asks for huge pages gets none.")
            .with_remedy(Remedy::named(
                format!("delete the files of programs that have ended, in {target}"),
                shell_word(target)
                    .map(|word| Step::manual(format!("ls -l {word}")))
                    .into_iter()
                    .collect(),
            )),
    )
}

/// True if these are the processes of the machine, and not those of a container, which sees the machine's pools.
fn has_all_processes(snapshot: &Snapshot, processes: &[Process]) -> bool {
    const FIRST: [&str; 2] = ["systemd", "init"];
    let is_first = |process: &Process| {
        process.status.pid == Some(1) && FIRST.contains(&process.status.name.as_str())
    };
    snapshot.origin.replaced.is_empty() && processes.iter().any(is_first)
}

/// A segment on small pages that has more than the idle pages of the pool: its program may have asked for huge pages and got
/// none, since a segment is in the pool as a whole or not at all (`hugetlb_reserve_pages()`).
fn too_large_segment(snapshot: &Snapshot, pool: &HugePool) -> Option<ShmSegment> {
    let idle = pool.available_pages().saturating_mul(pool.page_bytes);
    let segments = snapshot.shm.value()?.iter();
    let small = segments.filter(|segment| !segment.is_hugetlb() && segment.size_bytes > idle);
    small.max_by_key(|segment| segment.size_bytes).copied()
}

fn beside_segment(
    mut finding: Finding,
    segment: &ShmSegment,
    pool: &HugePool,
    memory_bytes: u64,
) -> Finding {
    let pages = segment.size_bytes.div_ceil(pool.page_bytes.max(1));
    finding.headline.push_str(&format!(
        "; System V segment {} of {} is on small pages: it needs {pages} pages, more than the pool has",
        segment.shmid,
        format_bytes(segment.size_bytes)
    ));
    let used = pool.total_pages.saturating_sub(pool.available_pages());
    let wanted = used.saturating_add(pages);
    let has_room = wanted.saturating_mul(pool.page_bytes) < memory_bytes;
    let release = format!("release it ({used} pages) if the program is to stay on small pages");
    let dir = huge_pool_dir(pool.page_bytes, None);
    let (summary, pages) = if has_room {
        let summary = format!(
            "enlarge the pool to {wanted} pages and restart the segment's program, or {release}"
        );
        (summary, wanted)
    } else {
        (release, used)
    };
    let what = format!("segment {}", segment.shmid);
    let size = Quantity::Bytes(segment.size_bytes);
    finding.with_evidence(what, size, "/proc/sysvipc/shm").with_remedy(Remedy::named(
        summary,
        vec![Step::manual(format!("echo {pages} > {dir}/nr_hugepages"))],
    ))
}

/// Adds who has asked for the pool in the configuration: its server may not have started yet.
fn with_plan(mut finding: Finding, snapshot: &Snapshot, pool: &HugePool) -> Finding {
    let wanted = snapshot.hugepages_wanted.value().map_or(&[][..], Vec::as_slice);
    let planned =
        wanted.iter().find(|wanted| wanted.page_bytes == pool.page_bytes && wanted.pages > 0);
    let Some(planned) = planned else { return finding };
    if let Some(remedy) = &mut finding.remedy {
        let question = format!(
            "; not if the server for which {} reserves {} is still to start",
            planned.source,
            format_count(planned.pages, "page")
        );
        remedy.summary.push_str(&question);
    }
    let finding = finding.with_evidence(
        "configured",
        Quantity::Count(planned.pages),
        planned.source.as_str(),
    );
    with_group(finding, snapshot)
}

/// Adds the group that may make System V segments of huge pages: without it and CAP_IPC_LOCK, a server that asks for one
/// gets EPERM, however large the pool is (`can_do_hugetlb_shm()`, fs/hugetlbfs/inode.c); before 5.16 a limit of locked memory
/// that suffices was enough as well.
fn with_group(mut finding: Finding, snapshot: &Snapshot) -> Finding {
    const GROUP: &str = "vm.hugetlb_shm_group";
    if snapshot.sysctl.number(GROUP) != Ok(0) {
        return finding;
    }
    if let Some(remedy) = &mut finding.remedy {
        remedy.summary.push_str(&format!(
            "; if it asks for System V shared memory and is not permitted, {GROUP} has to be its group, 0 now"
        ));
    }
    finding.with_evidence(GROUP, Quantity::Count(0), Sysctl::path(GROUP))
}

/// What a request spends its time on because memory became huge pages.
pub(crate) const WITHOUT: &[TimeClass] = &[
    TimeClass::Reclaim,
    TimeClass::SwapIn,
    TimeClass::Refault,
    TimeClass::Compaction,
    TimeClass::ReservingHugePages,
];

const CONFIRMED: u8 = 95;
const LEAST_CPU_PERCENT: f64 = 10.0;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    if let Some(forced) = enlarging(stall) {
        return Ok(Some(enlarged(stall, &forced)));
    }
    let score = CauseScore::for_reclaim(stall).at_most(LATENT_MOST);
    let mut found = idle(stall.window)?.into_iter().filter(|f| f.severity >= Severity::Warning);
    let Some(mut finding) = found.next() else { return score.no_cause() };
    finding.headline = "idle huge pages held memory".to_owned();
    let cause = score.cause(finding)?;
    let explaining = |cause: Suspect| match stall.request {
        Some(request) => cause.explaining(request.explained_by(&[TimeClass::Reclaim])),
        None => cause,
    };
    Ok(cause.map(explaining))
}

/// Task that enlarged a pool during the stall.
pub(crate) fn enlarging(stall: &StallWindow<'_>) -> Option<ForcingTask> {
    stall.request?;
    let forced = most(stall.incident, ForcedWork::HugePages)?;
    (forced.cpu_percent >= LEAST_CPU_PERCENT).then_some(forced)
}

fn enlarged(stall: &StallWindow<'_>, forced: &ForcingTask) -> Suspect {
    let headline = format!("{} reserved huge pages", crate::oom_words::process(&forced.process));
    let mut finding = Finding::new(Severity::Critical, Area::HugePools, headline)
        .with_evidence(
            "wrote nr_hugepages",
            Quantity::Text(named(stall.incident, &forced.process)),
            "profile",
        )
        .with_evidence(
            "CPU used by the write, of one CPU",
            Quantity::Percent(forced.cpu_percent),
            "profile",
        )
        .with_impact("The kernel compacts and reclaims until it has the pages.")
        .with_remedy(Remedy::named(
            "reserve huge pages when the machine boots",
            vec![Step::manual("hugepages=COUNT on the kernel's command line")],
        ));
    if let Ok(rate) = stall.rate(&[Counter::HtlbBuddyAllocSuccess]) {
        let rate = Quantity::PerSecond(rate);
        finding = finding.with_evidence("htlb_buddy_alloc_success", rate, "/proc/vmstat");
    }
    Suspect::new(finding, CONFIRMED)
}

/// Task that enlarged a pool, else the task that allocated.
pub(crate) fn culprits(stall: &StallWindow<'_>, cause: &Cause) -> Vec<Role> {
    let Some(ForcingTask { process, cpu_percent, .. }) = enlarging(stall) else {
        return roles::allocating(stall, cause);
    };
    let why = format!("used {cpu_percent:.0}% of a CPU: {}", named(stall.incident, &process));
    vec![Role { pid: process.pid, task: process.name, why }]
}

fn finding(pool: &HugePool, memory_bytes: u64, is_used_up: bool) -> Option<Finding> {
    let idle_pages = pool.available_pages();
    let idle = idle_pages.saturating_mul(pool.page_bytes);
    let share = percent(idle, memory_bytes);
    if share < NOTE_PERCENT {
        return None;
    }
    let severity = match share >= WARNING_PERCENT {
        true if is_used_up => Severity::Critical,
        true => Severity::Warning,
        false => Severity::Note,
    };
    let size = format_bytes(pool.page_bytes);
    let dir = huge_pool_dir(pool.page_bytes, None);
    let headline = format!(
        "{} are reserved as {size} huge pages that no program uses ({share:.0}% of memory)",
        format_bytes(idle)
    );
    let keep = pool.total_pages.saturating_sub(idle_pages).saturating_sub(pool.surplus_pages);
    Some(
        Finding::new(severity, Subject::HugePool(pool.page_bytes), headline)
            .with_evidence("nr_hugepages", Quantity::Count(pool.total_pages), dir.clone())
            .with_evidence("free_hugepages", Quantity::Count(pool.free_pages), dir.clone())
            .with_evidence("resv_hugepages", Quantity::Count(pool.reserved_pages), dir.clone())
            .with_impact("Programs without huge pages cannot use this memory.")
            .with_remedy(Remedy::named(
                format!(
                    "shrink the pool to what is in use or reserved, {}",
                    format_count(keep, "page")
                ),
                vec![Step::write(format!("{dir}/nr_hugepages"), keep)],
            )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{MemoryFilesystem, Processes, Reading};
    use mw_proc::status::Status;

    fn kept(first: &str, mapped_bytes: u64, free_pages: u64) -> Option<String> {
        let process = |pid, name: &str, hugetlb_pages_bytes| Process {
            status: Status {
                pid: Some(pid),
                name: name.to_owned(),
                hugetlb_pages_bytes: Some(hugetlb_pages_bytes),
                ..Status::default()
            },
            ..Process::default()
        };
        let list = vec![process(1, first, 0), process(90, "qemu", mapped_bytes)];
        let snapshot = Snapshot {
            processes: Reading::Value(Processes { present: 2, unseen: 0, list }),
            shm: Reading::Value(Vec::new()),
            filesystems: Reading::Value(vec![MemoryFilesystem {
                target: "/mnt/huge".to_owned(),
                fstype: "hugetlbfs".to_owned(),
                ..MemoryFilesystem::default()
            }]),
            ..Snapshot::default()
        };
        let pool =
            HugePool { page_bytes: 2 << 20, total_pages: 100, free_pages, ..HugePool::default() };
        kept_by_files(&snapshot, &[pool]).map(|finding| finding.headline)
    }

    #[test]
    fn pages_that_no_process_maps_are_of_files() {
        let headline = kept("systemd", 20 << 20, 0).unwrap_or_default();
        assert!(headline.contains("no process maps 90 of them"), "{headline}");
        assert!(headline.contains("/mnt/huge"), "{headline}");
    }

    #[test]
    fn pages_that_are_mapped_or_free_are_no_finding() {
        assert_eq!(kept("systemd", 200 << 20, 0), None);
        assert_eq!(kept("systemd", 0, 1), None);
        assert_eq!(kept("sh", 0, 0), None, "a container does not see the machine's processes");
    }
}
