//! Comparison of the tables of functions, counters and files with the stored kernels.

use super::absent::{ABSENT_FUNCTIONS, ABSENT_KEYS, ABSENT_WAITS};
use super::sets::listed_sets;
use super::store::StoredKernel;
use mw_critical_path::{FunctionName, Wait, listed_waits};
use mw_proc::cgroup::MemoryStat;
use mw_proc::meminfo::Meminfo;
use mw_proc::vmstat::{Counter, Vmstat};
use mw_proc::zoneinfo::{Zone, Zoneinfo};
use std::collections::{BTreeMap, BTreeSet};
use xtask::workspace::{read, root, tracked};

/// Files of a cgroup of version 2 that are read.
const GROUP_FILES: &[&str] = &[
    "cgroup.controllers",
    "cgroup.events",
    "cpu.max",
    "cpu.pressure",
    "cpu.stat",
    "io.max",
    "io.pressure",
    "io.stat",
    "memory.current",
    "memory.events",
    "memory.events.local",
    "memory.high",
    "memory.max",
    "memory.min",
    "memory.pressure",
    "memory.stat",
    "memory.swap.current",
    "memory.swap.max",
];

const PRESSURE_FILES: &[&str] = &["cpu", "io", "memory"];

/// What is wrong with the tables, a line each.
pub(crate) fn problems(kernels: &[StoredKernel]) -> anyhow::Result<Vec<String>> {
    let mut problems = functions(kernels);
    problems.extend(waits(kernels));
    problems.extend(super::waits::problems(kernels)?);
    problems.extend(super::first_causes::problems(kernels)?);
    problems.extend(keys(kernels, &counters_in_use()?)?);
    Ok(problems)
}

/// Every name of the tables is that of a function of some kernel, or declared.
fn functions(kernels: &[StoredKernel]) -> Vec<String> {
    let mut lists: BTreeMap<FunctionName, BTreeSet<&str>> = BTreeMap::new();
    for set in listed_sets() {
        for name in set.functions.names() {
            lists.entry(name).or_default().insert(set.list);
        }
    }
    let mut problems = Vec::new();
    for (name, lists) in &lists {
        let is_there = kernels.iter().any(|kernel| kernel.has(*name));
        let is_declared = ABSENT_FUNCTIONS.iter().any(|(absent, _)| *absent == name.as_str());
        if is_there == is_declared {
            let lists: Vec<&str> = lists.iter().copied().collect();
            let says = if is_there {
                "a kernel has it, and it is declared absent"
            } else {
                "no kernel has it"
            };
            problems.push(format!("{} ({}): {says}", name.as_str(), lists.join(", ")));
        }
    }
    let known: BTreeSet<&str> = lists.keys().map(|name| name.as_str()).collect();
    let strangers = ABSENT_FUNCTIONS.iter().filter(|(name, _)| !known.contains(name));
    problems.extend(strangers.map(|(name, _)| format!("{name}: declared absent, and in no table")));
    problems
}

/// Every wait has a function in every kernel, or is declared absent there.
fn waits(kernels: &[StoredKernel]) -> Vec<String> {
    let sets = listed_sets();
    let has = |kernel: &StoredKernel, wait: Wait| {
        let of_wait = sets.iter().filter(|set| set.wait == Some(wait));
        of_wait.flat_map(|set| set.functions.names()).any(|name| kernel.has(name))
    };
    let mut problems = Vec::new();
    for kernel in kernels {
        for wait in listed_waits() {
            let declared = ABSENT_WAITS
                .iter()
                .any(|(absent, which, _)| *absent == wait && which.has(&kernel.name));
            if has(kernel, wait) == declared {
                problems.push(format!("{}: {wait:?} {}", kernel.name, says(declared)));
            }
        }
    }
    problems
}

fn says(is_declared: bool) -> &'static str {
    if is_declared { "is there, and declared absent" } else { "is absent" }
}

/// Every counter and file that the program reads is in every kernel, or declared absent there.
fn keys(kernels: &[StoredKernel], counters: &BTreeSet<Counter>) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for kernel in kernels {
        let mut check = |file: &str, key: &str, is_there: bool| {
            let declared = ABSENT_KEYS.iter().any(|(of, absent, which, _)| {
                *of == file && *absent == key && which.has(&kernel.name)
            });
            if is_there == declared {
                problems.push(format!("{}: {key} of {file} {}", kernel.name, says(declared)));
            }
        };
        let mut vmstat = Vmstat::default();
        vmstat.parse_into(kernel.file("vmstat").as_bytes())?;
        for counter in counters {
            check("vmstat", counter.name(), vmstat.get(*counter).is_some());
        }
        let meminfo = Meminfo::parse(kernel.file("meminfo").as_bytes())?;
        for (place, name) in Meminfo::NAMES.iter().enumerate() {
            check("meminfo", name, meminfo.get(place).is_some());
        }
        for (name, value) in of_zone(kernel)? {
            check("zoneinfo", name, value.is_some());
        }
        for (name, value) in of_group(kernel)? {
            check("memory.stat", name, value.is_some());
        }
        for (folder, files) in [("cgroup", GROUP_FILES), ("pressure", PRESSURE_FILES)] {
            let there: BTreeSet<&str> = kernel.file(folder).lines().collect();
            for file in files {
                check(folder, file, there.contains(file));
            }
        }
    }
    Ok(problems)
}

fn of_zone(kernel: &StoredKernel) -> anyhow::Result<Vec<(&'static str, Option<u64>)>> {
    let mut info = Zoneinfo::default();
    info.parse_into(kernel.file("zoneinfo").as_bytes())?;
    let zone: Zone = info.zones.first().copied().unwrap_or_default();
    Ok(vec![
        ("boost", zone.boost_pages),
        ("managed", zone.managed_pages),
        ("cma", zone.cma_pages),
        ("pagesets", zone.pcp_pages),
        ("nr_unaccepted", zone.unaccepted_pages),
        ("nr_zone_inactive_anon", zone.inactive_anon_pages),
        ("nr_zone_active_anon", zone.active_anon_pages),
        ("nr_zone_inactive_file", zone.inactive_file_pages),
        ("nr_zone_active_file", zone.active_file_pages),
        ("nr_zone_unevictable", zone.unevictable_pages),
        ("nr_zone_write_pending", zone.write_pending_pages),
        ("nr_mlock", zone.mlock_pages),
        ("start_pfn", zone.start_pfn),
        ("node_unreclaimable", zone.unreclaimable),
    ])
}

fn of_group(kernel: &StoredKernel) -> anyhow::Result<Vec<(&'static str, Option<u64>)>> {
    let stat = MemoryStat::parse(kernel.file("memory.stat").as_bytes())?;
    Ok(vec![
        ("anon", stat.anon_bytes),
        ("file", stat.file_bytes),
        ("shmem", stat.shmem_bytes),
        ("file_mapped", stat.file_mapped_bytes),
        ("file_dirty", stat.file_dirty_bytes),
        ("file_writeback", stat.file_writeback_bytes),
        ("inactive_anon", stat.inactive_anon_bytes),
        ("active_anon", stat.active_anon_bytes),
        ("inactive_file", stat.inactive_file_bytes),
        ("active_file", stat.active_file_bytes),
        ("unevictable", stat.unevictable_bytes),
        ("slab", stat.slab_bytes),
        ("slab_reclaimable", stat.slab_reclaimable_bytes),
        ("slab_unreclaimable", stat.slab_unreclaimable_bytes),
        ("kernel_stack", stat.kernel_stack_bytes),
        ("pagetables", stat.pagetables_bytes),
        ("sock", stat.sock_bytes),
        ("workingset_refault_file", stat.refault_file_pages),
        ("workingset_refault_anon", stat.refault_anon_pages),
        ("pgscan", stat.scanned_pages),
    ])
}

/// Counters that the program's sources name.
fn counters_in_use() -> anyhow::Result<BTreeSet<Counter>> {
    let known: BTreeMap<String, Counter> =
        Counter::ALL.iter().map(|counter| (format!("{counter:?}"), *counter)).collect();
    let mut used = BTreeSet::new();
    for file in tracked("crates/*/src/*.rs")? {
        if file.starts_with("crates/mw-proc/") || file.ends_with("tests.rs") {
            continue;
        }
        let text = read(&root().join(&file))?;
        for after in text.split("Counter::").skip(1) {
            let name = after.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            used.extend(known.get(name));
        }
    }
    Ok(used)
}
