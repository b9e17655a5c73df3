//! What the memory of a cgroup at its limit consists of.

use crate::group_settings::{GroupSetting, raised, set};
use crate::kernel_memory::FULL_PERCENT;
use crate::share::percent;
use mw_model::{
    Cgroup, CgroupVersion, Cgroups, Finding, Quantity, Remedy, Severity, Snapshot, Subject,
    derived, format_bytes,
};

/// Share of the unreclaimable memory from which on a part is what fills the cgroup.
const MOST_PERCENT: f64 = 50.0;

/// Share of the limit that waits to be written, above what the kernel lets writers have on file systems that it throttles by
/// cgroup (vm.dirty_ratio of the cgroup's memory).
const DIRTY_PERCENT: f64 = 50.0;

/// Share of the last 10 s and of the last minute in which every task of a cgroup at its limit waited for memory. A task that
/// reclaims page cache for what it reads waits far shorter.
const PRESSED_PERCENT: f64 = 50.0;

/// A part of a cgroup's memory that its reclaim cannot free.
pub(crate) struct HardPart {
    pub(crate) name: &'static str,
    /// The line of memory.stat.
    pub(crate) line: &'static str,
    pub(crate) bytes: u64,
    pub(crate) remedy: &'static str,
}

/// The part that is most of the unreclaimable memory, where it is not the anonymous memory of processes.
pub(crate) fn largest_part(group: &Cgroup, hard_bytes: u64) -> Option<HardPart> {
    let stat = &group.stat;
    let part = |name, line, bytes: Option<u64>, remedy| {
        Some(HardPart { name, line, bytes: bytes?, remedy })
    };
    let parts = [
        part(
            "shared memory and tmpfs",
            "shmem",
            shmem_bytes(group),
            "remove files from its tmpfs mounts (/dev/shm) and end what shares memory",
        ),
        part("buffers of sockets", "sock", stat.sock_bytes, "reduce what its connections buffer"),
        part(
            "page tables",
            "pagetables",
            stat.pagetables_bytes,
            "have its processes map less, or use huge pages",
        ),
        part(
            "per-CPU memory",
            "percpu",
            stat.percpu_bytes,
            "reduce its BPF maps and the cgroups below it",
        ),
        part(
            "kernel memory for BPF maps and the like (vmalloc)",
            "vmalloc",
            stat.vmalloc_bytes,
            "make the BPF maps of its programs smaller",
        ),
        part(
            "kernel objects",
            "slab_unreclaimable",
            stat.slab_unreclaimable_bytes,
            "have its processes hold fewer files, sockets and threads",
        ),
    ];
    let largest = parts.into_iter().flatten().max_by_key(|part| part.bytes);
    // All of the kernel's memory, where no part of it is most.
    let kernel = part(
        "kernel memory",
        "kernel",
        stat.kernel_bytes,
        "have its processes hold fewer objects of the kernel (BPF maps, files, sockets, threads)",
    );
    let is_most = |part: &HardPart| percent(part.bytes, hard_bytes) >= MOST_PERCENT;
    largest.filter(is_most).or_else(|| kernel.filter(is_most))
}

/// Shared memory and tmpfs. Version 1 counts them since 4.12; before, they are what is on the anonymous lists and not
/// anonymous.
fn shmem_bytes(group: &Cgroup) -> Option<u64> {
    let stat = &group.stat;
    let on_lists = || {
        let lists = stat.inactive_anon_bytes?.saturating_add(stat.active_anon_bytes?);
        Some(lists.saturating_sub(stat.anon_bytes?))
    };
    stat.shmem_bytes.or_else(on_lists)
}

/// A full cgroup most of whose memory has to be written before it can be freed. `hard_bytes` is what cannot be freed at all.
///
/// Reclaim of version 2 skips pages under writeback, because writers are to be throttled before (mm/vmscan.c,
/// `shrink_folio_list()`); file systems without cgroup writeback, such as NFS, CIFS and FUSE, do not throttle them by the
/// cgroup's limit (fs/fs-writeback.c). Reclaim of version 1 waits for each of these pages.
pub(crate) fn unwritten(group: &Cgroup, cgroups: &Cgroups, hard_bytes: u64) -> Option<Finding> {
    let limit = group.lowest_limit_bytes()?;
    let stat = &group.stat;
    let (dirty, writeback) = (stat.file_dirty_bytes?, stat.file_writeback_bytes?);
    let lists = [stat.inactive_file_bytes, stat.active_file_bytes].into_iter().flatten();
    // A page that is written again while it is under writeback counts in both.
    let unwritten = dirty.saturating_add(writeback).min(derived::total(lists));
    let used = group.current_bytes?;
    let is_stuck = percent(used, limit) >= FULL_PERCENT
        && percent(unwritten, limit) >= DIRTY_PERCENT
        && percent(unwritten.saturating_add(hard_bytes), limit) >= 90.0;
    if !is_stuck {
        return None;
    }
    let (is_v1, is_high) = (cgroups.version == CgroupVersion::V1, group.high_bytes == Some(limit));
    let limit_file = cgroups.limit_file(group, limit);
    let headline = format!(
        "{} of {} are page cache that has to be written before it can be freed ({:.0}% of {limit_file})",
        format_bytes(unwritten),
        format_bytes(limit),
        percent(unwritten, limit)
    );
    let [of_dirty, of_writeback] =
        if is_v1 { ["dirty", "writeback"] } else { ["file_dirty", "file_writeback"] };
    let impact = if is_v1 || is_high {
        "Each allocation of this cgroup waits until pages have been written."
    } else {
        "Reclaim of this cgroup frees nothing until pages have been written, and the OOM killer may kill one of its processes \
         meanwhile."
    };
    let finding = Finding::new(
        Severity::Warning,
        Subject::Cgroup(Some(group.path.clone())),
        headline,
    )
    .with_evidence(limit_file, Quantity::Bytes(limit), limit_file)
    .with_evidence(of_dirty, Quantity::Bytes(dirty), "memory.stat")
    .with_evidence(of_writeback, Quantity::Bytes(writeback), "memory.stat")
    .with_impact(impact)
    .with_remedy(Remedy::named(
        "have its programs write with O_DIRECT or call fsync(2) as they go, or raise the limit: a file system without cgroup \
         writeback (NFS, CIFS, FUSE) does not throttle writers by it",
        vec![set(
            GroupSetting::of_limit(group, limit, cgroups.version),
            Some(limit.saturating_mul(2)),
            Some(&group.path),
            Some(cgroups),
        )],
    ));
    Some(with_events(finding, group))
}

/// A full cgroup whose tasks do little but wait for its reclaim, whatever it could free in the end: it scans its lists
/// again and again, waits for writeback, or reads back what it has dropped.
pub(crate) fn pressed(group: &Cgroup, snapshot: &Snapshot, cgroups: &Cgroups) -> Option<Finding> {
    const FILE: &str = "memory.pressure";
    let full = group.pressure?.full?;
    let limit = group.max_bytes?;
    // What all tasks of the machine wait for is no limit of this group.
    let of_machine = snapshot.sample.pressure.memory.value()?.full?;
    let is_pressed =
        |of_group: f64, of_machine: f64| of_group >= PRESSED_PERCENT && of_machine < of_group / 2.0;
    let has_met_limit = group.events.max.is_some_and(|times| times > 0);
    if !has_met_limit
        || !is_pressed(full.avg10_percent, of_machine.avg10_percent)
        || !is_pressed(full.avg60_percent, of_machine.avg60_percent)
    {
        return None;
    }
    let headline = format!(
        "its tasks waited for memory for {:.0}% of the last minute, at its limit of {} (memory.max)",
        full.avg60_percent,
        format_bytes(limit)
    );
    let lists = [group.stat.inactive_file_bytes, group.stat.active_file_bytes];
    let cache = derived::total(lists.into_iter().flatten());
    let subject = Subject::Cgroup(Some(group.path.clone()));
    let finding = Finding::new(Severity::Warning, subject, headline)
        .with_evidence("memory.max", Quantity::Bytes(limit), "memory.max")
        .with_evidence("full, 10 s", Quantity::Percent(full.avg10_percent), FILE)
        .with_evidence("full, 60 s", Quantity::Percent(full.avg60_percent), FILE)
        .with_evidence("page cache", Quantity::Bytes(cache), "memory.stat")
        .with_impact("Each allocation and each read or write of files in this cgroup waits for reclaim within the limit.")
        .with_remedy(Remedy::named(
            "raise the limit, or start what fills it in a cgroup of its own",
            vec![set(
                GroupSetting::of_limit(group, limit, cgroups.version),
                Some(raised(limit)),
                Some(&group.path),
                Some(cgroups),
            )],
        ));
    Some(with_events(finding, group))
}

/// A finding with how often the cgroup was at its limits.
pub(crate) fn with_events(finding: Finding, group: &Cgroup) -> Finding {
    let events = [("limit reached", group.events.max), ("OOM kills", group.events.oom_kill)];
    events.into_iter().fold(finding, |finding, (what, count)| match count {
        Some(count) => finding.with_evidence(what, Quantity::Count(count), "memory.events"),
        None => finding,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn group() -> Cgroup {
        let mut group = Cgroup {
            path: "/app".to_owned(),
            current_bytes: Some(1000 * MIB),
            max_bytes: Some(1000 * MIB),
            ..Cgroup::default()
        };
        group.stat.inactive_file_bytes = Some(900 * MIB);
        group.stat.file_dirty_bytes = Some(500 * MIB);
        group.stat.file_writeback_bytes = Some(380 * MIB);
        group
    }

    fn found(group: &Cgroup) -> Option<String> {
        unwritten(group, &Cgroups::default(), 50 * MIB).map(|finding| finding.headline)
    }

    /// Promise (Findings): A cgroup whose page cache waits to be written is not taken for one with page cache to spare.
    #[test]
    fn only_a_full_cgroup_of_unwritten_pages_is_reported() {
        assert!(found(&group()).unwrap().starts_with("880 MiB of 1000 MiB are page cache"));
        let mut clean = group();
        clean.stat.file_dirty_bytes = Some(50 * MIB);
        clean.stat.file_writeback_bytes = Some(0);
        assert_eq!(found(&clean), None, "clean page cache");
        let below = Cgroup { current_bytes: Some(900 * MIB), ..group() };
        assert_eq!(found(&below), None, "below its limit");
        let unlimited = Cgroup { max_bytes: None, ..group() };
        assert_eq!(found(&unlimited), None);
    }

    #[test]
    fn pages_counted_twice_are_no_more_than_the_page_cache() {
        let mut twice = group();
        twice.stat.file_writeback_bytes = Some(900 * MIB);
        assert!(found(&twice).unwrap().starts_with("900 MiB"));
    }

    #[test]
    fn the_part_that_fills_a_cgroup_is_named_but_not_the_memory_of_its_processes() {
        let name = |group: &Cgroup| largest_part(group, 900 * MIB).map(|part| part.name);
        let mut group = group();
        group.stat.anon_bytes = Some(800 * MIB);
        group.stat.shmem_bytes = Some(100 * MIB);
        assert_eq!(name(&group), None);
        group.stat.shmem_bytes = Some(500 * MIB);
        assert_eq!(name(&group), Some("shared memory and tmpfs"));
        group.stat.pagetables_bytes = Some(600 * MIB);
        assert_eq!(name(&group), Some("page tables"));
        group.stat.vmalloc_bytes = Some(700 * MIB);
        assert!(name(&group).unwrap().contains("vmalloc"));
        group.stat = mw_proc::cgroup::MemoryStat {
            kernel_bytes: Some(800 * MIB),
            slab_unreclaimable_bytes: Some(400 * MIB),
            ..Default::default()
        };
        assert_eq!(name(&group), Some("kernel memory"));
    }

    #[test]
    fn before_4_12_version_1_has_shared_memory_on_the_anonymous_lists() {
        let mut group = group();
        group.stat.anon_bytes = Some(30 * MIB);
        group.stat.inactive_anon_bytes = Some(500 * MIB);
        group.stat.active_anon_bytes = Some(30 * MIB);
        assert_eq!(largest_part(&group, 900 * MIB).unwrap().bytes, 500 * MIB);
    }
}
