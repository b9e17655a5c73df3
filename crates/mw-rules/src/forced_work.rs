//! Memory work that somebody forced by writing to a file of the kernel: dropped caches, compaction, reclaim, reserved
//! huge pages.
//!
//! The profile shows it by the functions that such a write enters; they were compared with the symbols of 6.18, where
//! `set_max_huge_pages`, `alloc_pool_huge_page` and `nr_hugepages_store_common` of earlier kernels are no symbols. A
//! kernel thread that compacts without being asked (vm.compaction_proactiveness) is told from one that an allocation
//! woke by its own function.

use mw_critical_path::kernel::{COMPACTION, FunctionSet, is_in};
use mw_model::{Incident, Profile, ServiceProcess, Stack, Window, WriterProcess};
use mw_proc::vmstat::Counter;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForcedWork {
    DropCaches,
    Compaction,
    Reclaim,
    /// A larger pool of huge pages: the kernel compacts and reclaims until it has them.
    HugePages,
}

/// Writers that are looked at more closely.
const MAX_WRITERS: usize = 8;

/// What a write enters.
const ENTRIES: &[(ForcedWork, FunctionSet)] = &[
    (
        ForcedWork::DropCaches,
        FunctionSet::new(&["drop_caches_sysctl_handler", "drop_pagecache_sb", "drop_slab"]),
    ),
    (
        ForcedWork::Compaction,
        FunctionSet::new(&[
            "sysctl_compaction_handler",
            "compact_store",
            "compact_nodes",
            "compact_node",
        ]),
    ),
    (
        ForcedWork::Reclaim,
        FunctionSet::new(&[
            "memory_reclaim",
            "user_proactive_reclaim",
            "mem_cgroup_force_empty_write",
            "mem_cgroup_force_empty",
            "reclaim_store",
        ]),
    ),
    (
        ForcedWork::HugePages,
        FunctionSet::new(&[
            "hugetlb_sysctl_handler_common",
            "__nr_hugepages_store_common",
            "nr_hugepages_store_common",
            "set_max_huge_pages",
            "alloc_pool_huge_page",
            "alloc_pool_huge_folio",
        ]),
    ),
];

/// What the kernel's own thread enters that compacts without being asked.
const PROACTIVE: FunctionSet = FunctionSet::new(&["proactive_compact_node", "compact_node"]);
const ON_REQUEST: FunctionSet = FunctionSet::new(&["kcompactd_do_work"]);

/// Every set of this file, and what it recognizes.
pub(crate) fn sets() -> impl Iterator<Item = (&'static str, FunctionSet)> {
    let entries = ENTRIES.iter().map(|(_, functions)| ("forced work", *functions));
    entries.chain([("proactive compaction", PROACTIVE), ("compaction on request", ON_REQUEST)])
}

const COMPACTION_THREAD: &str = "kcompactd";

/// A task that did such work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ForcingTask {
    pub(crate) work: ForcedWork,
    pub(crate) process: ServiceProcess,
    /// Of one CPU, in percent.
    pub(crate) cpu_percent: f64,
    /// Of what the task did in the kernel, in percent.
    pub(crate) task_percent: f64,
}

impl ForcingTask {
    /// True if the kernel did it by itself.
    pub(crate) fn is_of_kernel(&self) -> bool {
        self.process.name.starts_with(COMPACTION_THREAD)
    }
}

/// The processes in a profile that wrote to such a file, for who looks at them while they run.
pub fn forcing_processes(profile: &Profile) -> Vec<ServiceProcess> {
    let found = in_profile(profile).into_iter().filter(|forced| !forced.is_of_kernel());
    found.map(|forced| forced.process).take(MAX_WRITERS).collect()
}

/// Tasks that did such work during a stall, the most first.
pub(crate) fn forced(incident: &Incident) -> Vec<ForcingTask> {
    incident.profile.as_ref().map(in_profile).unwrap_or_default()
}

/// The one that did most of this work.
pub(crate) fn most(incident: &Incident, work: ForcedWork) -> Option<ForcingTask> {
    forced(incident).into_iter().find(|forced| forced.work == work)
}

/// True if kcompactd worked without being asked. Where the compiler has inlined the function that says so, the kernel's
/// counter does: nobody woke it.
pub(crate) fn is_kernel_proactive(incident: &Incident, window: &Window) -> bool {
    if forced(incident).iter().any(ForcingTask::is_of_kernel) {
        return true;
    }
    let Some(profile) = &incident.profile else { return false };
    let compacts = profile.stacks.iter().any(|stack| {
        let names: Vec<&str> = profile.names(stack).collect();
        stack.task.starts_with(COMPACTION_THREAD)
            && is_in(&names, COMPACTION)
            && !ON_REQUEST.are_in(&names)
    });
    compacts && window.rate(Counter::CompactDaemonWake).is_ok_and(|rate| rate <= 0.0)
}

/// Facts about a process that wrote, of the reading that knows its cgroup: one after its end does not.
pub(crate) fn writer<'a>(
    incident: &'a Incident,
    process: &ServiceProcess,
) -> Option<&'a WriterProcess> {
    let drops = incident.cache_drops.iter().map(|drop| &drop.writer);
    let readings = incident.writers.iter().chain(drops);
    let readings = readings.filter(|writer| writer.process == *process);
    readings.min_by_key(|writer| writer.cgroup.is_none())
}

/// `sh (812), started by cron (7), in /system.slice/cron.service`.
pub(crate) fn named(incident: &Incident, process: &ServiceProcess) -> String {
    let writer = writer(incident, process);
    let parent = writer.and_then(|writer| writer.parent.as_ref());
    let parent = parent.map_or(String::new(), |parent| {
        format!(", started by {}", crate::oom_words::process(parent))
    });
    let unit = writer.and_then(|writer| writer.unit.clone().or_else(|| writer.cgroup.clone()));
    let group = unit.or_else(|| incident.cgroups.get(&process.pid).cloned());
    let group = group.filter(|group| group != "/");
    let group = group.map_or(String::new(), |group| format!(", in {group}"));
    format!("{}{parent}{group}", crate::oom_words::process(process))
}

fn in_profile(profile: &Profile) -> Vec<ForcingTask> {
    let all: f64 = profile.stacks.iter().map(|stack| stack.samples as f64).sum();
    let works = WorkOfFunctions::of(profile);
    let mut tasks: Vec<(Option<ForcedWork>, ServiceProcess, f64)> = Vec::new();
    for stack in &profile.stacks {
        let work = works.of_stack(stack);
        let process = ServiceProcess { pid: stack.pid, name: stack.task.clone() };
        let samples = stack.samples as f64;
        let is_same = |(known, of, _): &&mut (Option<ForcedWork>, ServiceProcess, f64)| {
            *known == work && *of == process
        };
        match tasks.iter_mut().find(is_same) {
            Some((.., sum)) => *sum += samples,
            None => tasks.push((work, process, samples)),
        }
    }
    let total = |process: &ServiceProcess| -> f64 {
        tasks.iter().filter(|(_, of, _)| of == process).map(|(.., samples)| samples).sum()
    };
    let of_cpu = 100.0 * f64::from(profile.cpus.max(1)) / all;
    let mut found: Vec<ForcingTask> = tasks
        .iter()
        .filter_map(|(work, process, samples)| {
            Some(ForcingTask {
                work: (*work)?,
                process: process.clone(),
                cpu_percent: samples * of_cpu,
                task_percent: samples * 100.0 / total(process),
            })
        })
        .collect();
    found.sort_by(|a, b| b.cpu_percent.total_cmp(&a.cpu_percent));
    found
}

/// The work that each function of a profile tells of, by its index.
struct WorkOfFunctions {
    /// Indices in [`ENTRIES`].
    entries: Vec<Option<usize>>,
    is_proactive: Vec<bool>,
}

impl WorkOfFunctions {
    fn of(profile: &Profile) -> Self {
        let entry = |name: &String| ENTRIES.iter().position(|(_, functions)| functions.has(name));
        Self {
            entries: profile.functions.iter().map(entry).collect(),
            is_proactive: profile.functions.iter().map(|name| PROACTIVE.has(name)).collect(),
        }
    }

    fn of_stack(&self, stack: &Stack) -> Option<ForcedWork> {
        let mut frames = stack.frames.iter().map(|frame| *frame as usize);
        if stack.task.starts_with(COMPACTION_THREAD) {
            let is_proactive = |frame| self.is_proactive.get(frame) == Some(&true);
            return frames.any(is_proactive).then_some(ForcedWork::Compaction);
        }
        let first = frames.filter_map(|frame| *self.entries.get(frame)?).min()?;
        ENTRIES.get(first).map(|(work, _)| *work)
    }
}
