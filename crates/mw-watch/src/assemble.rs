//! Puts an incident together from rows and evidence. Pure, but for a look at which threads are the recorder's.

use crate::unstacked_waits::name_waits;
use mw_model::{
    BlockedTask, CanaryMetric, FloodShare, Incident, Layout, Metric, Missing, ProbeMetric, Profile,
    Resource, Snapshot, Table, TaskUse, Tick, Trigger, TriggerKind, Window, WriterProcess,
};
use mw_probe::ProbeFailure;
use mw_profile::{ProfileEvidence, difference};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Evidence of tasks during one or several stalls at the same time.
#[derive(Debug, Clone, Default)]
pub(crate) struct EpisodeEvidence {
    pub(crate) profile: ProfileEvidence,
    pub(crate) flood: Vec<FloodShare>,
    pub(crate) tasks: Vec<TaskUse>,
    pub(crate) blocked: Vec<BlockedTask>,
    /// By the number of the process or thread.
    pub(crate) cgroups: BTreeMap<u32, String>,
    pub(crate) unseen: Vec<Missing>,
    /// Tasks that forced memory work by hand.
    pub(crate) writers: Vec<WriterProcess>,
}

/// Tasks of one list that are shown, with some to spare for those that a rule picks.
const MAX_NAMED: usize = 64;

impl EpisodeEvidence {
    /// The processes and threads that an incident names, each list's first.
    pub(crate) fn named(&self) -> BTreeSet<u32> {
        let flood = self.flood.iter().map(|share| share.pid).take(MAX_NAMED);
        let tasks = self.tasks.iter().map(|task| task.pid).take(MAX_NAMED);
        let blocked = self.blocked.iter().map(|task| task.pid).take(MAX_NAMED);
        let waits = self.profile.waits.iter().map(|wait| wait.pid).take(MAX_NAMED);
        flood.chain(tasks).chain(blocked).chain(waits).collect()
    }
}

/// Adds rows and evidence to an incident, and what they have of its trigger.
pub(crate) fn incident(
    mut known: Incident,
    ended_unix_ms: u64,
    failure: Option<ProbeFailure>,
    table: Table,
    evidence: EpisodeEvidence,
) -> Incident {
    let during = known.started_unix_ms..=ended_unix_ms.saturating_add(ROW_MS);
    let trigger = &mut known.trigger;
    if let Some(worst_us) = worst_us(&table, trigger, &during) {
        trigger.worst_ms = trigger.worst_ms.max(worst_us as f64 / 1000.0);
    }
    let failures = Metric::Probe(trigger.name.as_str().into(), ProbeMetric::Failures);
    if let Some(failure) = failure.filter(|_| largest(&table, &failures, &during) > Some(0)) {
        (trigger.failure_kind, trigger.failure) = (Some(failure.kind), Some(failure.text));
    }
    let own = OwnThreads::list();
    let evidence = without_own(trigger.kind, evidence, &|pid, task| own.are_of(pid, task));
    let EpisodeEvidence { profile, flood, tasks, blocked, cgroups, unseen, writers } = evidence;
    let ProfileEvidence { baseline, profile, waits, lost_records } = profile;
    let difference = match (&baseline, &profile) {
        (Some(baseline), Some(profile)) => difference(baseline, profile),
        (None, Some(profile)) => difference(&Profile::default(), profile),
        _ => Vec::new(),
    };
    known.unseen.extend(unseen);
    known.path.iter_mut().for_each(|path| name_waits(path, &waits));
    Incident {
        ended_unix_ms: ended_unix_ms.max(known.seen_unix_ms),
        table,
        baseline,
        difference,
        waits,
        lost_records,
        profile,
        blocked,
        tasks,
        flood,
        cgroups,
        writers,
        ..known
    }
}

/// Drops what was blocked in nearly every look of a stall and is so in every one `after` it, at the
/// same place.
pub(crate) fn drop_chronic(blocked: &mut Vec<BlockedTask>, after: &[BlockedTask]) {
    let place = |task: &BlockedTask| (task.pid, task.task.clone(), task.state, task.stack.clone());
    let always = |task: &&BlockedTask| task.seen == task.looks;
    let chronic: Vec<_> = after.iter().filter(always).map(place).collect();
    blocked.retain(|task| {
        let nearly_always = u64::from(task.seen) * 10 >= u64::from(task.looks) * 9;
        !(nearly_always && chronic.contains(&place(task)))
    });
}

/// The recorder's own threads are never evidence; but the canary's are that of a stall which it measured. `is_own` tells
/// them by number and name.
fn without_own(
    trigger: TriggerKind,
    mut evidence: EpisodeEvidence,
    is_own: &dyn Fn(u32, &str) -> bool,
) -> EpisodeEvidence {
    let is_canary = !matches!(trigger, TriggerKind::Probe | TriggerKind::Pressure);
    let of_canary = |task: &str| task.starts_with(CANARY_PREFIX) && is_canary;
    let is_left_out = |pid: u32, task: &str| is_own(pid, task) && !of_canary(task);
    let EpisodeEvidence { profile, tasks, blocked, flood, .. } = &mut evidence;
    for stacks in profile.profile.iter_mut().chain(&mut profile.baseline) {
        stacks.stacks.retain(|stack| !is_left_out(stack.pid, &stack.task));
    }
    profile.waits.retain(|wait| !is_left_out(wait.pid, &wait.task));
    blocked.retain(|task| !is_left_out(task.pid, &task.task));
    tasks.retain(|task| task.pid != std::process::id());
    flood.retain(|share| !is_own(share.pid, &share.task));
    evidence
}

/// Prefixes of the names of the recorder's threads, and of its canary's.
const OWN_PREFIX: &str = "mw-";
const CANARY_PREFIX: &str = "mw-canary";

/// The recorder's threads that have not ended.
struct OwnThreads(HashSet<u32>);

impl OwnThreads {
    fn list() -> Self {
        Self(mw_sys::kernel_file::read_numbers("/proc/self/task").into_iter().flatten().collect())
    }

    /// True if a thread or a process is the recorder's. Anybody can take such a name, so that it decides only where the
    /// thread has ended since, or has no number.
    fn are_of(&self, pid: u32, task: &str) -> bool {
        let lives = || pid != 0 && std::fs::exists(format!("/proc/{pid}")).unwrap_or(false);
        pid == std::process::id()
            || self.0.contains(&pid)
            || (task.starts_with(OWN_PREFIX) && !lives())
    }
}

/// Rows are so far apart, in milliseconds: what happens between two is in the second.
const ROW_MS: u64 = 100;

/// The highest value of the measurement that triggered a stall; of pressure, the time for which some task waited.
fn worst_us(
    table: &Table,
    trigger: &Trigger,
    during: &std::ops::RangeInclusive<u64>,
) -> Option<u64> {
    let metric = match trigger.kind {
        TriggerKind::Canary => Metric::Canary(CanaryMetric::Touch),
        TriggerKind::Heartbeat => Metric::Canary(CanaryMetric::Late),
        TriggerKind::Probe => Metric::Probe(trigger.name.as_str().into(), ProbeMetric::Worst),
        TriggerKind::Pressure => return waited_us(table, during),
        TriggerKind::OomKill | TriggerKind::Requested => return None,
    };
    largest(table, &metric, during)
}

/// A window of the kernel's pressure trigger, in milliseconds: it fires after what was waited for within one.
const TRIGGER_WINDOW_MS: u64 = 1000;

/// The time for which some task waited for memory, from a window before a stall to its end.
fn waited_us(table: &Table, during: &std::ops::RangeInclusive<u64>) -> Option<u64> {
    let values = table.values(&Metric::waited_us(Resource::Memory))?;
    let rows: Vec<_> = table.at_unix_ms.iter().zip(values).collect();
    let until = |end: u64| {
        let mut known = rows.iter().rev().filter(|(at, _)| **at <= end);
        known.find_map(|(_, value)| *value)
    };
    let before = until(during.start().saturating_sub(TRIGGER_WINDOW_MS))?;
    until(*during.end())?.checked_sub(before)
}

fn largest(table: &Table, metric: &Metric, during: &std::ops::RangeInclusive<u64>) -> Option<u64> {
    let rows = table.at_unix_ms.iter().zip(table.values(metric)?);
    rows.filter(|(at, _)| during.contains(at)).filter_map(|(_, value)| value).max()
}

/// The names of a table's columns.
pub(crate) fn names(table: &Table) -> Vec<&str> {
    table.columns.iter().map(|column| column.name.as_str()).collect()
}

/// The machine at a stall's end, with the sample from just before the stall began.
pub(crate) fn window(
    table: &Table,
    mut now: Snapshot,
    started_unix_ms: u64,
    ended_unix_ms: u64,
) -> Window {
    let layout = Layout::from_names(&names(table));
    let before = last_until(table, &layout, started_unix_ms);
    if let Some(end) = last_until(table, &layout, ended_unix_ms.saturating_add(ROW_MS)) {
        // What the rows have is of the moment; the rest is as it was shortly after.
        let sample = &mut now.sample;
        sample.at_ms = end.sample.at_ms;
        sample.vmstat = end.sample.vmstat;
        sample.buddyinfo = end.sample.buddyinfo;
        sample.pressure = end.sample.pressure;
    }
    Window::since(before.map(|tick| tick.sample), now)
}

/// The like window of the time before the stall, where there are rows of it.
pub(crate) fn calm(table: &Table, window: &Window, started_unix_ms: u64) -> Option<Window> {
    let layout = Layout::from_names(&names(table));
    let first = tick_at(table, &layout, 0)?;
    let last = window.earlier.first()?.clone();
    if first.unix_ms >= started_unix_ms || first.sample.at_ms >= last.at_ms {
        return None;
    }
    let mut calm = Window::since([first.sample], window.now.clone());
    let sample = &mut calm.now.sample;
    (sample.at_ms, sample.vmstat) = (last.at_ms, last.vmstat);
    (sample.buddyinfo, sample.pressure) = (last.buddyinfo, last.pressure);
    Some(calm)
}

fn last_until(table: &Table, layout: &Layout, unix_ms: u64) -> Option<Tick> {
    let at = table.at_unix_ms.iter().rposition(|at| *at <= unix_ms)?;
    tick_at(table, layout, at)
}

fn tick_at(table: &Table, layout: &Layout, at: usize) -> Option<Tick> {
    let mut row = Vec::new();
    table.row(at, &mut row);
    Some(layout.read(*table.at_unix_ms.get(at)?, &row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{KernelWait, WaitKind};

    /// Promise (The recorder): An incident of memory pressure has the time for which some task waited, instead of the
    /// limit of the kernel's trigger.
    #[test]
    fn pressure_is_as_long_as_some_task_waited() {
        let mut table = Table::new(["pressure.memory.some.total_us"]);
        for (at, total_us) in [(900, 1_000), (1900, 500_000), (2900, 1_300_000), (4900, 9_000_000)]
        {
            table.push(at, &[total_us]);
        }
        let trigger = Trigger { kind: TriggerKind::Pressure, ..Trigger::default() };
        assert_eq!(worst_us(&table, &trigger, &(2000..=3000)), Some(1_299_000));
        assert_eq!(worst_us(&table, &trigger, &(1000..=3000)), None, "no row before it");
    }

    #[test]
    fn what_is_blocked_for_good_is_no_part_of_a_stall() {
        let task = |pid, function: &str, seen| BlockedTask {
            pid,
            task: "t".to_owned(),
            state: 'D',
            stack: vec![function.to_owned()],
            seen,
            looks: 20,
        };
        let during = [task(1, "gone", 20), task(2, "wait", 5), task(3, "wait", 20)];
        let after = [
            task(1, "gone", 20),
            task(2, "wait", 20),
            task(3, "elsewhere", 20),
            task(4, "gone", 20),
        ];
        let mut blocked = during.to_vec();
        drop_chronic(&mut blocked, &after);
        assert_eq!(blocked, during[1..], "seldom before, or elsewhere now");
    }

    fn wait(pid: u32, task: &str) -> KernelWait {
        let kind = WaitKind::DirectReclaim;
        let (order, node) = (None, None);
        KernelWait {
            pid,
            task: task.to_owned(),
            kind,
            order,
            node,
            count: 1,
            total_us: 9,
            max_us: 9,
        }
    }

    /// Threads that others name as the recorder does are not left out.
    #[test]
    fn own_threads_are_told_by_their_numbers() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let ended = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
        let ended = ended.join().unwrap().unsigned_abs();
        let flood = FloodShare { pid: std::process::id(), ..FloodShare::default() };
        let waits = vec![wait(own, "renamed"), wait(1, "mw-helper"), wait(ended, "mw-helper")];
        let profile = ProfileEvidence { waits, ..ProfileEvidence::default() };
        let flood = vec![flood];
        let evidence = EpisodeEvidence { profile, flood, ..EpisodeEvidence::default() };
        let threads = OwnThreads::list();
        let is_own = |pid, task: &str| threads.are_of(pid, task);
        let left = without_own(TriggerKind::Probe, evidence, &is_own);
        let pids: Vec<u32> = left.profile.waits.iter().map(|wait| wait.pid).collect();
        assert_eq!((pids, left.flood.len()), (vec![1], 0));
    }
}
