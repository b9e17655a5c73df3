//! The largest holders of memory, whatever they are, as far as a snapshot has them.

use crate::share::percent;
use crate::{arc, huge_page_excess, shared_memory};
use mw_kernel_log::memory_setting;
use mw_model::{
    HugePool, LargestOther, LargestProgram, Process, Snapshot, derived, format_bytes,
    is_cgroup_within,
};
use std::collections::BTreeMap;

/// Share of memory from which on a holder is named.
const LARGE_PERCENT: f64 = 10.0;

/// A holder: what it is, its memory, and the file that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LargeHolder {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) source: &'static str,
    /// What bounds it, of a program with a setting that is known.
    pub(crate) setting: Option<&'static str>,
}

/// The largest first. A cgroup and its processes hold the same memory: they add up to nothing.
pub(crate) fn largest(snapshot: &Snapshot, most: usize) -> Vec<LargeHolder> {
    let mut holders: Vec<LargeHolder> = processes(snapshot).collect();
    let of = |source| move |(name, bytes)| LargeHolder { name, bytes, source, setting: None };
    holders.extend(shared_memory::mounts(snapshot).into_iter().map(of("statfs")));
    holders.extend(shared_memory::segments(snapshot).into_iter().map(of("/proc/sysvipc/shm")));
    holders.extend(groups(snapshot));
    holders.extend(pools(snapshot));
    holders.extend(kernel(snapshot));
    holders.retain(|holder| holder.bytes > 0);
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    holders.truncate(most);
    holders
}

fn processes(snapshot: &Snapshot) -> impl Iterator<Item = LargeHolder> {
    let list = snapshot.processes.value().map_or(&[][..], |processes| processes.list.as_slice());
    let of = |process: &Process| {
        let status = &process.status;
        Some(LargeHolder {
            name: format!("process {} ({})", status.name, status.pid?),
            // Before 4.5 the kernel does not tell anonymous memory from mapped files.
            bytes: status.resident_bytes()?,
            source: "/proc/PID/status",
            setting: memory_setting(&status.name),
        })
    };
    list.iter().filter_map(of)
}

/// The program with the most anonymous memory, its processes together, where that is a tenth of memory at least: a virtual
/// machine or a worker is one process of many. None where some processes could not be read.
pub(crate) fn largest_program(snapshot: &Snapshot) -> Option<LargestProgram> {
    let processes = snapshot.processes.value().filter(|all| all.whole().is_ok())?;
    let list = &processes.list;
    let (name, processes, bytes) = most_memory(list.iter())?;
    // A forked process has the memory of its parent once more, although both share it.
    let all = snapshot.sample.meminfo.value().and_then(|meminfo| meminfo.anon_pages_bytes);
    let bytes = if processes > 1 { bytes.min(all.unwrap_or(bytes)) } else { bytes };
    let of_program: Vec<&Process> =
        list.iter().filter(|process| process.status.name == name).collect();
    let huge_pages = huge_page_excess::reason(snapshot, &of_program);
    let name = name.to_owned();
    is_large(snapshot, bytes).then_some(LargestProgram { name, processes, bytes, huge_pages })
}

/// The name of the processes with most memory together, their number and their anonymous memory.
fn most_memory<'a>(processes: impl Iterator<Item = &'a Process>) -> Option<(&'a str, u64, u64)> {
    let mut programs: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for process in processes {
        let status = &process.status;
        let (count, bytes) = programs.entry(status.name.as_str()).or_default();
        *count = count.saturating_add(1);
        // Before 4.5 the kernel does not tell anonymous memory from mapped files.
        let own = status.resident_bytes().unwrap_or(0);
        *bytes = bytes.saturating_add(own);
    }
    let most = programs.into_iter().max_by_key(|(_, (_, bytes))| *bytes);
    most.map(|(name, (count, bytes))| (name, count, bytes))
}

/// The program that has most memory in a cgroup, a quarter of `used_bytes` at least, by the processes with most memory.
pub(crate) fn largest_in_group(
    snapshot: &Snapshot,
    path: &str,
    used_bytes: u64,
) -> Option<LargestProgram> {
    let list = snapshot.processes.value()?.list.iter();
    let within = list.filter(|process| {
        process.memory_cgroup.as_deref().is_some_and(|group| is_cgroup_within(group, path))
    });
    let (name, processes, bytes) = most_memory(within)?;
    let bytes = bytes.min(used_bytes);
    let is_large = bytes.saturating_mul(4) >= used_bytes;
    let name = name.to_owned();
    is_large.then_some(LargestProgram { name, processes, bytes, huge_pages: None })
}

/// False also where the memory of the machine is not known.
fn is_large(snapshot: &Snapshot, bytes: u64) -> bool {
    derived::memory_bytes(&snapshot.sample)
        .is_ok_and(|memory| percent(bytes, memory) >= LARGE_PERCENT)
}

/// What has most memory beside programs and the page cache, where that is a tenth of memory at least.
pub(crate) fn largest_other(snapshot: &Snapshot) -> Option<LargestOther> {
    let meminfo = snapshot.sample.meminfo.value()?;
    let slab = meminfo.slab_bytes.unwrap_or(0).saturating_sub(arc::parts(snapshot).slab);
    let files = shared_files(snapshot, meminfo.shmem_bytes.unwrap_or(0));
    let slab = ("kernel objects".to_owned(), slab);
    let pools = pools(snapshot).map(|pool| (pool.name, pool.bytes));
    let (name, bytes) = [files, slab].into_iter().chain(pools).max_by_key(|(_, bytes)| *bytes)?;
    is_large(snapshot, bytes).then_some(LargestOther { name, bytes })
}

/// Files of tmpfs and shared memory in memory: by the name of the fullest tmpfs, where that has most of them.
fn shared_files(snapshot: &Snapshot, shmem: u64) -> (String, u64) {
    const MOST_PERCENT: f64 = 80.0;
    let fullest = shared_memory::mounts(snapshot).into_iter().max_by_key(|(_, bytes)| *bytes);
    let fullest = fullest.filter(|(_, bytes)| percent(*bytes, shmem) >= MOST_PERCENT);
    let name = fullest.map(|(name, _)| format!("files of {name}"));
    (name.unwrap_or_else(|| "files of tmpfs and shared memory".to_owned()), shmem)
}

/// The page cache, where that is half of memory at least, and as much is available.
pub(crate) fn page_cache(snapshot: &Snapshot) -> Option<u64> {
    const HALF_PERCENT: f64 = 50.0;
    let meminfo = snapshot.sample.meminfo.value()?;
    let cached = meminfo.cached_bytes?.checked_sub(meminfo.shmem_bytes?)?;
    let memory = derived::memory_bytes(&snapshot.sample).ok()?;
    let ready = derived::ready_bytes(snapshot).ok()?;
    let available = cached.min(ready);
    (percent(available, memory) >= HALF_PERCENT).then_some(available)
}

/// The largest program, where most of it is in a cgroup with so much anonymous memory: what is outside of the cgroup has no
/// room for half of it.
pub(crate) fn largest_program_within(
    snapshot: &Snapshot,
    group_anon_bytes: u64,
) -> Option<LargestProgram> {
    let program = largest_program(snapshot)?;
    let all = snapshot.sample.meminfo.value()?.anon_pages_bytes?;
    let outside = all.saturating_sub(group_anon_bytes);
    (outside.saturating_mul(2) <= program.bytes).then_some(program)
}

/// Words for a remedy that bounds a program: the one with the most memory, which need not be the one that grew.
pub(crate) fn program_words(snapshot: &Snapshot) -> String {
    let words = |program: LargestProgram| {
        let setting = memory_setting(&program.name);
        let setting = setting.map_or(String::new(), |setting| format!(" ({setting})"));
        format!("; {} has the most, {}{setting}", program.label(), format_bytes(program.bytes))
    };
    largest_program(snapshot).map(words).unwrap_or_default()
}

fn groups(snapshot: &Snapshot) -> impl Iterator<Item = LargeHolder> {
    let groups = snapshot.cgroups.value().into_iter();
    let groups = groups.flat_map(|groups| &groups.limited);
    groups.filter_map(|group| {
        Some(LargeHolder {
            name: format!("cgroup {}", group.path),
            bytes: group.stat.anon_bytes?.saturating_add(group.stat.shmem_bytes.unwrap_or(0)),
            source: "memory.stat",
            setting: None,
        })
    })
}

fn pools(snapshot: &Snapshot) -> impl Iterator<Item = LargeHolder> {
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    pools.iter().map(|pool: &HugePool| LargeHolder {
        name: format!("the pool of {} huge pages", format_bytes(pool.page_bytes)),
        bytes: pool.total_pages.saturating_mul(pool.page_bytes),
        source: "/sys/kernel/mm/hugepages",
        setting: None,
    })
}

fn kernel(snapshot: &Snapshot) -> impl Iterator<Item = LargeHolder> {
    let meminfo = snapshot.sample.meminfo.value();
    let slab = meminfo.and_then(|meminfo| meminfo.sunreclaim_bytes).unwrap_or(0);
    let tables = meminfo.and_then(|meminfo| meminfo.page_tables_bytes).unwrap_or(0);
    let arc = snapshot.arc.value().map_or(0, |arc| arc.size_bytes);
    let slab = slab.saturating_sub(arc::parts(snapshot).slab);
    [
        ("unreclaimable kernel objects (slab)", slab, "/proc/meminfo SUnreclaim"),
        ("page tables", tables, "/proc/meminfo PageTables"),
        ("the ZFS ARC", arc, "/proc/spl/kstat/zfs/arcstats"),
    ]
    .into_iter()
    .map(|(name, bytes, source)| LargeHolder {
        name: name.to_owned(),
        bytes,
        source,
        setting: None,
    })
}
