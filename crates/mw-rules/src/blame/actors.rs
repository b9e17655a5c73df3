//! The parties that took a part of the request, by the evidence that its cause calls for. Nobody is singled out who did not
//! do most of it.

use super::parties::Parties;
use crate::busy_disk::busy_disk_of;
use crate::disk_writers::{flood_bytes, main_cgroup, main_program};
use crate::forced_work::{ForcedWork, most};
use crate::request::{is_limited, is_task_within, limit_events, stolen_of_cpu_percent};
use crate::rules::{drop_caches, hugepage_hoard};
use crate::share::is_most;
use crate::stall_window::{StallWindow, is_background};
use mw_critical_path::{PathPart, TimeClass, TimeKind};
use mw_model::{BlameParty, GroupUse, PartyKind, ServiceProcess, is_cgroup_below};

/// Less memory than this that a process took is no reason for a shortage.
const LEAST_BYTES: u64 = 16 << 20;

/// What a process has taken that began within this time before the stall has all been taken lately: once memory is short,
/// it takes no more.
const LATELY_MS: u64 = 60_000;

/// Time of a part that a culprit took.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BlamedTime {
    pub(super) culprit: BlameParty,
    pub(super) ns: u64,
}

impl BlamedTime {
    pub(super) fn all(culprit: BlameParty, part: &PathPart) -> Vec<Self> {
        vec![Self { culprit, ns: part.total_ns }]
    }

    fn all_by(culprit: Option<BlameParty>, part: &PathPart) -> Vec<Self> {
        culprit.map_or_else(Vec::new, |culprit| Self::all(culprit, part))
    }
}

pub(super) struct Actors<'a> {
    pub(super) stall: &'a StallWindow<'a>,
    pub(super) parties: &'a Parties<'a>,
}

impl Actors<'_> {
    /// By the path itself, and the counters of the cgroups of the task that waited.
    pub(super) fn by_path(&self, spent: TimeClass, part: &PathPart) -> Vec<BlamedTime> {
        let at_limit = |met: &dyn Fn(&GroupUse) -> u64| {
            BlamedTime::all_by(self.limit(part, met).map(|path| self.parties.at_limit(path)), part)
        };
        match spent {
            TimeClass::CgroupReclaim
            | TimeClass::MemoryHigh
            | TimeClass::GroupSwapIn
            | TimeClass::GroupRefault => {
                let swap = |group: &GroupUse| group.swap_high_events.unwrap_or(0);
                let met = at_limit(&|group| limit_events(group).saturating_add(swap(group)));
                if met.is_empty() { at_limit(&|group| u64::from(is_limited(group))) } else { met }
            }
            TimeClass::CpuQuota => at_limit(&GroupUse::throttled_wall_us),
            TimeClass::IoLimit => at_limit(&|group| u64::from(!group.io_limits.is_empty())),
            TimeClass::NumaBalancing => {
                BlamedTime::all(BlameParty::of_kind(PartyKind::Kernel), part)
            }
            // The path goes on in the process that ended.
            TimeClass::Teardown if matches!(part.kind, TimeKind::Running(_)) => {
                BlamedTime::all_by(self.parties.of_task(&part.task), part)
            }
            _ => self.holders(part),
        }
    }

    /// The party that took most of the memory that the machine lacked: by growth of processes, and by pages of files.
    pub(super) fn takers(&self, spent: TimeClass, part: &PathPart) -> Vec<BlamedTime> {
        match spent {
            TimeClass::Reclaim | TimeClass::SwapIn | TimeClass::Refault => {
                BlamedTime::all_by(self.main_taker(), part)
            }
            _ => self.by_path(spent, part),
        }
    }

    /// The party that wrote most of what the disk had to write.
    pub(super) fn writers(&self, spent: TimeClass, part: &PathPart) -> Vec<BlamedTime> {
        match spent {
            TimeClass::DirtyThrottling
            | TimeClass::Writeback
            | TimeClass::FileWrite
            | TimeClass::FileRead
            | TimeClass::Journal
            | TimeClass::Disk => BlamedTime::all_by(self.main_writer(), part),
            _ => self.takers(spent, part),
        }
    }

    /// The task that forced work on memory.
    pub(super) fn forced(&self, work: ForcedWork, part: &PathPart) -> Vec<BlamedTime> {
        let incident = self.stall.incident;
        let process = match work {
            ForcedWork::DropCaches => drop_caches::writer(incident),
            ForcedWork::HugePages => {
                hugepage_hoard::enlarging(self.stall).map(|forced| forced.process)
            }
            ForcedWork::Compaction | ForcedWork::Reclaim => {
                most(incident, work).map(|forced| forced.process)
            }
        };
        let Some(ServiceProcess { pid, name }) = process else { return Vec::new() };
        let is_in_cgroup = incident.cgroups.get(&pid).is_some_and(|path| path != "/");
        let culprit = match is_background(&name) && !is_in_cgroup {
            true => Some(BlameParty::of_kind(PartyKind::Kernel)),
            false => self.parties.of_process(pid, &name),
        };
        BlamedTime::all_by(culprit, part)
    }

    /// The cgroup that wrote most of what the disk wrote, else the disk itself.
    pub(super) fn disk(&self, part: &PathPart) -> Vec<BlamedTime> {
        match main_cgroup(self.stall).map(|path| self.parties.of_cgroup(path)) {
            Some(writer) => BlamedTime::all_by(writer, part),
            None => self.device(part),
        }
    }

    /// The disk that the request waited for, by its name where one was busy.
    pub(super) fn device(&self, part: &PathPart) -> Vec<BlamedTime> {
        let name = busy_disk_of(self.stall, &part.task).unwrap_or_default();
        BlamedTime::all(BlameParty::named(PartyKind::Device, &name), part)
    }

    pub(super) fn hypervisor(&self, part: &PathPart) -> Vec<BlamedTime> {
        let stolen = self.stall.incident.cpus.map_or(0.0, stolen_of_cpu_percent);
        let ns = (part.total_ns as f64 * stolen / 100.0) as u64;
        vec![BlamedTime { culprit: BlameParty::of_kind(PartyKind::Hypervisor), ns }]
    }

    /// The other program in which the path goes on, where a wake-up says so.
    pub(super) fn dependency(&self, part: &PathPart) -> Vec<BlamedTime> {
        let task = Some(&part.task).filter(|_| !part.inferred);
        BlamedTime::all_by(task.and_then(|task| self.parties.of_task(task)), part)
    }

    /// The tasks that had the CPU, each for its own time.
    fn holders(&self, part: &PathPart) -> Vec<BlamedTime> {
        let held = part.holders.iter().filter_map(|holder| {
            Some(BlamedTime { culprit: self.parties.of_task(&holder.task)?, ns: holder.total_ns })
        });
        held.collect()
    }

    /// The cgroup of a task, or one above it, that met a limit most often; of several the innermost.
    fn limit(&self, part: &PathPart, met: &dyn Fn(&GroupUse) -> u64) -> Option<&str> {
        let task = &part.task;
        if self.stall.is_recorder(task) {
            return None;
        }
        let is_known = task.cgroup.is_some() || task.is_outside();
        let is_of_task = |group: &&GroupUse| {
            let is_of_service = !is_known && group.of_service;
            group.path != "/" && (is_task_within(task, &group.path) || is_of_service)
        };
        let groups = self.stall.incident.groups.iter().filter(is_of_task);
        let times = groups.map(|group| (met(group), group)).filter(|(times, _)| *times > 0);
        let most = times.max_by_key(|(times, group)| (*times, group.path.len()));
        most.map(|(_, group)| group.path.as_str())
    }

    fn main_writer(&self) -> Option<BlameParty> {
        if let Some(path) = main_cgroup(self.stall) {
            return self.parties.of_cgroup(path);
        }
        let share = main_program(self.stall)?;
        self.parties.of_process(share.pid, &share.task)
    }

    /// The party that took at least half of all memory that was taken: as processes and files tell, unless the cgroups
    /// grew by more than twice of that, since not every process could be read.
    fn main_taker(&self) -> Option<BlameParty> {
        let groups = &self.stall.incident.groups;
        let has_below = |path: &str| groups.iter().any(|other| is_cgroup_below(&other.path, path));
        let leaves = groups.iter().filter(|group| group.path != "/" && !has_below(&group.path));
        let grown = leaves.map(|group| (group, group.memory_growth_bytes.unwrap_or(0)));
        let all = grown.clone().map(|(_, bytes)| bytes).fold(0, u64::saturating_add);
        let is_it = |bytes: u64| bytes >= LEAST_BYTES && is_most(bytes, all);
        if let Some((party, _)) = self.main_process().filter(|(_, bytes)| is_it(*bytes)) {
            return Some(party);
        }
        let (group, _) =
            grown.max_by_key(|(_, bytes)| *bytes).filter(|(_, bytes)| is_it(*bytes))?;
        self.parties.of_cgroup(&group.path)
    }

    /// The party that took at least half of the memory that processes and files are known to have taken, and how much.
    fn main_process(&self) -> Option<(BlameParty, u64)> {
        let incident = self.stall.incident;
        let grown = incident.tasks.iter().map(|task| {
            let began_lately = task
                .age_ms
                .is_some_and(|age_ms| age_ms < incident.duration_ms().saturating_add(LATELY_MS));
            let bytes = match began_lately {
                true => task.resident_bytes,
                false => u64::try_from(task.resident_growth_bytes).unwrap_or(0),
            };
            (task.pid, task.task.as_str(), bytes)
        });
        let brought = incident
            .flood
            .iter()
            .map(|share| (share.pid, share.task.as_str(), flood_bytes(self.stall, share)));
        let mut all: u64 = 0;
        let mut takers: Vec<(BlameParty, u64)> = Vec::new();
        for (pid, name, bytes) in grown.chain(brought).filter(|(.., bytes)| *bytes > 0) {
            all = all.saturating_add(bytes);
            let Some(party) = self.parties.of_process(pid, name) else { continue };
            match takers.iter_mut().find(|(known, _)| known.is_same(&party)) {
                Some((_, sum)) => *sum = sum.saturating_add(bytes),
                None => takers.push((party, bytes)),
            }
        }
        let (party, bytes) = takers.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        (bytes >= LEAST_BYTES && is_most(bytes, all)).then_some((party, bytes))
    }
}
