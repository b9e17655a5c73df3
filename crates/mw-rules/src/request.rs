//! What the time of the slowest request was spent on, in the terms of causes.
//!
//! The critical path says in what a task waited. Which shared condition is behind that, counters over the same
//! seconds decide: a file read of a page that was reclaimed shortly before is a working set that does not fit, and
//! one of a page that was not is a slow disk.

use crate::forced_work::{ForcedWork, ForcingTask, forced, is_kernel_proactive};
use crate::share::{percent, pressure_percent};
use crate::untraced;
use mw_critical_path::kernel::FunctionSet;
use mw_critical_path::{
    Basis, CpuHolder, KernelWork, PathPart, PathSummary, PathTask, RunMode, TimeClass, TimeKind,
    UnseenReason, Wait, kernel,
};
use mw_model::{
    CpuUse, GroupUse, Incident, Resource, TriggerKind, VmActivity, Window, is_cgroup_within,
};
use mw_proc::vmstat::Counter;

/// Of the wait for a CPU, the share that a cgroup's throttled time must cover to be its cause.
const THROTTLED_PERCENT: f64 = 40.0;

/// Of the bytes read, the share that refaults must be to be the cause of the reads.
const REFAULT_PERCENT: f64 = 30.0;

/// Fewer refaults, or scanned pages, say nothing.
const LEAST_REFAULTS: u64 = 64;
const LEAST_SCANNED: u64 = 512;

/// The forms that one shortage of memory takes: tasks reclaim, and what was reclaimed is read and swapped in again.
const SHORTAGES: &[&[TimeClass]] = &[
    &[TimeClass::Reclaim, TimeClass::SwapIn, TimeClass::Refault],
    &[
        TimeClass::CgroupReclaim,
        TimeClass::GroupSwapIn,
        TimeClass::GroupRefault,
        TimeClass::MemoryHigh,
    ],
];

/// The time of the slowest request.
pub(crate) struct RequestTime<'a> {
    pub(crate) path: &'a PathSummary,
    /// Each part with what it was spent on.
    parts: Vec<(TimeClass, &'a PathPart)>,
    /// Its time without that in which memwright had the CPU, unless that was most of it.
    judged_ns: u64,
}

fn is_shortage(spent: TimeClass) -> bool {
    SHORTAGES.iter().any(|forms| forms.contains(&spent))
}

/// Whether a part is of the probe that asked, and not of whom it asked.
pub(crate) fn is_of_probe(incident: &Incident, path: &PathSummary, part: &PathPart) -> bool {
    incident.trigger.kind == TriggerKind::Probe && part.task.tid == path.task.tid
}

/// What decides between conditions.
struct ConditionEvidence<'a> {
    incident: &'a Incident,
    window: &'a Window,
    forced: Vec<ForcingTask>,
}

impl<'a> RequestTime<'a> {
    /// `None` where no path was found, or next to nothing of it was traced.
    pub(crate) fn new(incident: &'a Incident, window: &'a Window) -> Option<Self> {
        const LEAST_TRACED_PERCENT: f64 = 20.0;
        let path = incident.path.as_ref().filter(|path| path.total_ns > 0)?;
        if percent(path.untraced_ns, path.total_ns) > 100.0 - LEAST_TRACED_PERCENT {
            return None;
        }
        let conditions = ConditionEvidence { incident, window, forced: forced(incident) };
        let spent = |part: &'a PathPart| (conditions.spent(path, part), part);
        let mut parts: Vec<(TimeClass, &PathPart)> = path.parts.iter().map(spent).collect();
        if let Some(form) = conditions.shortage_throughout(&parts) {
            let untraced = parts.iter_mut().filter(|(spent, _)| *spent == TimeClass::Untraced);
            untraced.for_each(|(spent, _)| *spent = form);
        }
        let own = parts.iter().filter(|(spent, _)| *spent == TimeClass::Memwright);
        let own_ns: u64 = own.map(|(_, part)| part.total_ns).sum();
        let is_most = own_ns > path.total_ns / 2;
        let judged_ns = path.total_ns.saturating_sub(if is_most { 0 } else { own_ns });
        Some(Self { path, parts, judged_ns })
    }

    /// How much of the request was spent on these, in percent.
    pub(crate) fn percent(&self, on: &[TimeClass]) -> f64 {
        self.percent_where(|spent, _| on.contains(&spent))
    }

    /// How much of the request was spent on parts that fulfil a condition, in percent.
    pub(crate) fn percent_where(&self, is_one: impl Fn(TimeClass, &PathPart) -> bool) -> f64 {
        let parts = self.parts.iter().filter(|(spent, part)| is_one(*spent, part));
        percent(parts.map(|(_, part)| part.total_ns).sum(), self.judged_ns)
    }

    /// How much of the request a cause explains that explains these, in percent: with the largest form of a shortage
    /// of memory also its other forms.
    pub(crate) fn explained_by(&self, on: &[TimeClass]) -> f64 {
        self.percent_where(|spent, _| self.is_explained_by(on, spent))
    }

    /// True if a cause that explains `on` explains time of this class as well.
    pub(crate) fn is_explained_by(&self, on: &[TimeClass], spent: TimeClass) -> bool {
        let is_largest = |forms: &&&[TimeClass]| {
            let share = |form: &&TimeClass| self.percent(&[**form]);
            let largest = forms.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
            largest.is_some_and(|form| on.contains(form))
        };
        let mut forms = SHORTAGES.iter().filter(|forms| forms.contains(&spent));
        on.contains(&spent) || forms.any(|forms| is_largest(&forms))
    }

    /// How much of the request the hypervisor took, in percent: of the time in which its tasks ran or waited for a CPU
    /// the share that was stolen of all CPU time in these seconds.
    pub(crate) fn stolen_percent(&self, cpus: CpuUse) -> f64 {
        self.percent_where(wants_cpu) * stolen_of_cpu_percent(cpus) / 100.0
    }

    /// Whether records of most of its time were lost, so that little can be said of it.
    pub(crate) fn is_mostly_untraced(&self) -> bool {
        const MOST_PERCENT: f64 = 50.0;
        self.percent(&[TimeClass::Untraced]) >= MOST_PERCENT
    }

    /// The part that was spent on one of these longest.
    pub(crate) fn largest(&self, on: &[TimeClass]) -> Option<&'a PathPart> {
        self.on(on).max_by_key(|part| part.total_ns)
    }

    /// What most of the time was spent on.
    pub(crate) fn main(&self) -> Option<(TimeClass, &'a PathPart)> {
        self.parts.iter().copied().max_by_key(|(_, part)| part.total_ns)
    }

    pub(crate) fn parts(&self) -> &[(TimeClass, &'a PathPart)] {
        &self.parts
    }

    /// Whether a thread is on the path.
    pub(crate) fn has_task(&self, tid: u64) -> bool {
        let of_parts = self.parts.iter().map(|(_, part)| &part.task);
        let of_chain = self.path.chain.iter().flat_map(|link| [&link.waiter, &link.other]);
        of_parts.chain(of_chain).any(|task| u64::from(task.tid) == tid)
    }

    pub(crate) fn on(&self, on: &[TimeClass]) -> impl Iterator<Item = &'a PathPart> {
        self.parts.iter().filter(move |(spent, _)| on.contains(spent)).map(|(_, part)| *part)
    }

    /// How much of the request was spent below one of these kernel functions, in percent, and the part that has
    /// most of it.
    pub(crate) fn below(&self, functions: &[FunctionSet]) -> Option<(f64, &'a PathPart)> {
        let below: Vec<&PathPart> = self
            .parts
            .iter()
            .map(|(_, part)| *part)
            .filter(|part| kernel::is_in(&part.stack, functions))
            .collect();
        let total: u64 = below.iter().map(|part| part.total_ns).sum();
        let largest = below.into_iter().max_by_key(|part| part.total_ns)?;
        Some((percent(total, self.judged_ns), largest))
    }

    /// How far the path itself can be trusted, 0 to 1.
    pub(crate) fn reliability(&self) -> f64 {
        const OF_POLLING: f64 = 0.8;
        const OF_INFERENCE: f64 = 0.85;
        const OF_LOSSES: f64 = 0.85;
        const OF_OUTSIDE: f64 = 0.8;
        const OF_UNSEEN: f64 = 0.75;
        const OF_UNKNOWN_WAITS: f64 = 0.7;
        let mut reliability = 1.0;
        let is_unseen = |spent| matches!(spent, TimeClass::Untraced | TimeClass::Unknown);
        let is_untraced = |part: &PathPart| part.kind == TimeKind::Unseen(UnseenReason::Untraced);
        if self.main().is_some_and(|(spent, part)| is_unseen(spent) || is_untraced(part)) {
            reliability *= OF_UNSEEN;
        }
        // Who ended a wait of an unknown kind may not be who was waited for.
        if self.path.chain.iter().any(|link| link.wait == Wait::Unknown) {
            reliability *= OF_UNKNOWN_WAITS;
        }
        if self.path.basis == Basis::Polling {
            reliability *= OF_POLLING;
        }
        if self.main().is_some_and(|(_, part)| part.inferred) {
            reliability *= OF_INFERENCE;
        }
        // Neither its cgroup nor what it did before the trace is known.
        if self.main().is_some_and(|(_, part)| part.task.is_outside()) {
            reliability *= OF_OUTSIDE;
        }
        if self.path.lost > 0 {
            reliability *= OF_LOSSES;
        }
        reliability
    }
}

impl ConditionEvidence<'_> {
    fn spent(&self, path: &PathSummary, part: &PathPart) -> TimeClass {
        let spent = self.spent_by(path, part);
        // The walk goes on in the task that thawed the group.
        let is_on_path = |group: &GroupUse| {
            let mut unseen = path.chain.iter().filter(|link| link.wait == Wait::Unknown);
            unseen.any(|link| is_task_within(&link.waiter, &group.path))
        };
        let mut frozen = self.incident.groups.iter().filter(|group| group.frozen);
        let is_frozen = frozen.any(|group| group.of_service || is_on_path(group));
        match spent {
            TimeClass::Sleep
            | TimeClass::TimeLimit
            | TimeClass::Idle
            | TimeClass::Lock
            | TimeClass::Unknown
                if is_frozen =>
            {
                TimeClass::Frozen
            }
            _ if !is_shortage(spent) && self.is_held_up(path, part) => TimeClass::Untraced,
            _ => spent,
        }
    }

    /// True for a part of a thread of the recorder that the probe waited for: nothing was seen of the service meanwhile.
    fn is_held_up(&self, path: &PathSummary, part: &PathPart) -> bool {
        let Incident { recorder, ref trigger, .. } = *self.incident;
        let is_probe = trigger.kind == TriggerKind::Probe;
        is_probe && recorder != 0 && part.task.process == recorder && part.task.tid != path.task.tid
    }

    /// The form of a shortage of memory that most of what was traced was spent on, where the pressure of the task's
    /// cgroup, or of the machine, says the same of the whole time: records are lost when memory is short.
    fn shortage_throughout(&self, parts: &[(TimeClass, &PathPart)]) -> Option<TimeClass> {
        const LEAST_PERCENT: f64 = 50.0;
        let spent_on = |on: &[TimeClass]| -> u64 {
            parts
                .iter()
                .filter(|(spent, _)| on.contains(spent))
                .map(|(_, part)| part.total_ns)
                .sum()
        };
        let is_untraced = |(spent, _): &&(TimeClass, &PathPart)| *spent == TimeClass::Untraced;
        let (_, lost) = parts.iter().find(is_untraced)?;
        let traced: u64 = parts.iter().map(|(_, part)| part.total_ns).sum();
        let traced = traced.saturating_sub(spent_on(&[TimeClass::Untraced]));
        let is_most = |forms: &&&[TimeClass]| percent(spent_on(forms), traced) >= LEAST_PERCENT;
        let forms = SHORTAGES.iter().find(is_most)?;
        let of_group = |group: &GroupUse| {
            Some(percent(group.memory_pressure_us?, group.over_ms.saturating_mul(1000)))
        };
        let of_groups = self.groups_of(&lost.task).filter_map(of_group).reduce(f64::max);
        let pressed = of_groups.or_else(|| pressure_percent(self.window, Resource::Memory))?;
        (pressed >= LEAST_PERCENT)
            .then(|| forms.iter().copied().max_by_key(|form| spent_on(&[*form])))
            .flatten()
    }

    fn spent_by(&self, path: &PathSummary, part: &PathPart) -> TimeClass {
        match part.kind {
            TimeKind::Running(mode) => self.ran(path, part, mode),
            TimeKind::Runnable(holder) => self.runnable(path, part, holder),
            TimeKind::Waiting(wait) => self.waited(path, part, wait),
            // The probe gave up: what it waited for was not seen.
            TimeKind::TimedOut(_) if is_of_probe(self.incident, path, part) => TimeClass::Unknown,
            TimeKind::TimedOut(_) => TimeClass::TimeLimit,
            TimeKind::Idle(_) => TimeClass::Idle,
            TimeKind::Stopped => TimeClass::Stopped,
            TimeKind::Unseen(UnseenReason::Untraced) => TimeClass::Untraced,
            TimeKind::Unseen(_) => TimeClass::Unknown,
        }
    }

    /// The class of time on a CPU, as the path and the profile refine it.
    fn ran(&self, path: &PathSummary, part: &PathPart, mode: RunMode) -> TimeClass {
        let work = match mode {
            RunMode::In(wait) => return self.waited(path, part, wait),
            RunMode::Kernel(work) => work,
            RunMode::User | RunMode::Unsampled => return TimeClass::Computing,
        };
        let is_polled = path.basis == Basis::Polling;
        match work {
            KernelWork::Fork => TimeClass::Fork,
            KernelWork::CopyOnWrite if shares_pages(path, part) => TimeClass::Fork,
            KernelWork::Exit if part.holder.is_some() => TimeClass::Fork,
            KernelWork::Exit => TimeClass::Teardown,
            _ if holds_mmap_lock(path, part) => TimeClass::AddressSpace,
            KernelWork::Other if is_polled && untraced::populates(self.incident, part) => {
                TimeClass::Population
            }
            KernelWork::Other if is_polled => TimeClass::Unknown,
            // To read a page again takes CPU time as well.
            KernelWork::FileIo => match self.read(part) {
                again @ (TimeClass::GroupRefault | TimeClass::Refault) => again,
                _ => work.time_class(),
            },
            _ => work.time_class(),
        }
    }

    /// A throttled task stays runnable, while any task has its CPU.
    fn runnable(&self, path: &PathSummary, part: &PathPart, holder: CpuHolder) -> TimeClass {
        let name = part.holder.as_ref().map_or("", |holder| holder.name.as_str());
        let of_runnable =
            path.parts.iter().filter(|part| matches!(part.kind, TimeKind::Runnable(_)));
        let runnable_us = of_runnable.map(|part| part.total_ns).sum::<u64>() / 1000;
        let covers = |group: &GroupUse| {
            let over_us = group.over_ms.saturating_mul(1000);
            percent(group.throttled_wall_us(), runnable_us.min(over_us).max(1))
        };
        let is_throttled = |group: &GroupUse| covers(group) >= THROTTLED_PERCENT;
        // Only a throttled task does not run beside an idle CPU.
        let is_unknown =
            part.task.cgroup.is_none() && !part.task.is_outside() && holder == CpuHolder::Idle;
        let others = self.incident.groups.iter().filter(|group| is_unknown && group.path != "/");
        if self.groups_of(&part.task).chain(others).any(is_throttled) {
            return TimeClass::CpuQuota;
        }
        if name.starts_with("kcompactd") && is_kernel_proactive(self.incident, self.window) {
            return TimeClass::ForcedCompaction;
        }
        if name.starts_with("kcompactd") || name.starts_with("khugepaged") {
            return TimeClass::Compaction;
        }
        if let Some(spent) = part.holder.as_ref().and_then(|holder| self.forced_by(holder)) {
            return spent;
        }
        match holder {
            CpuHolder::Reclaimer(_) => TimeClass::Reclaim,
            CpuHolder::CgroupReclaimer(_) => self.reclaimed_for_limit(part),
            CpuHolder::Copy(_) => TimeClass::Fork,
            CpuHolder::Exiting(_) => TimeClass::Teardown,
            CpuHolder::Task(_) => TimeClass::CpuContention,
            CpuHolder::Tracer => TimeClass::Memwright,
            CpuHolder::Unknown
                if path.basis == Basis::Polling
                    && untraced::others_ran(self.incident, part, runnable_us) =>
            {
                TimeClass::CpuContention
            }
            CpuHolder::Idle | CpuHolder::Unknown => TimeClass::Unknown,
        }
    }

    /// Whose limit a task reclaims for that has the CPU: that of its own cgroup or, where it is in none that met one, of
    /// the cgroup of the task that waits, as whoever lowers a limit does.
    fn reclaimed_for_limit(&self, part: &PathPart) -> TimeClass {
        let mut met: Vec<&GroupUse> = self.incident.groups.iter().collect();
        met.retain(|group| limit_events(group) > 0);
        let own = |group: &&&GroupUse| self.groups_of(&part.task).any(|own| own == **group);
        let of_holder = |group: &&&GroupUse| {
            part.holder.as_ref().is_some_and(|holder| is_task_within(holder, &group.path))
        };
        let is_known = part.holder.as_ref().is_some_and(|holder| holder.cgroup.is_some());
        let limit = match met.iter().find(of_holder) {
            Some(_) => met.iter().filter(of_holder).find(own),
            None if is_known || met.iter().all(|group| own(&group)) => met.iter().find(own),
            None => None,
        };
        match limit {
            Some(group) if group.high_events > group.max_events => TimeClass::MemoryHigh,
            Some(_) => TimeClass::CgroupReclaim,
            None => TimeClass::CpuContention,
        }
    }

    /// What a task does most of the time that has the CPU, where it is memory work that it forced by hand.
    fn forced_by(&self, holder: &PathTask) -> Option<TimeClass> {
        const MOST_PERCENT: f64 = 50.0;
        let pid = holder.pid()?;
        let is_it = |forced: &&ForcingTask| {
            forced.process.pid == pid && forced.task_percent >= MOST_PERCENT
        };
        Some(match self.forced.iter().find(is_it)?.work {
            ForcedWork::DropCaches => TimeClass::DroppingCaches,
            ForcedWork::Compaction => TimeClass::ForcedCompaction,
            ForcedWork::Reclaim => TimeClass::ForcedReclaim,
            ForcedWork::HugePages => TimeClass::ReservingHugePages,
        })
    }

    /// The class of a wait, as counters and the task's cgroups refine it.
    fn waited(&self, path: &PathSummary, part: &PathPart, wait: Wait) -> TimeClass {
        match wait.time_class() {
            TimeClass::SwapIn => self.swap_in(part),
            TimeClass::Migration => self.migration(part),
            TimeClass::FileRead => self.read(part),
            class @ (TimeClass::Writeback | TimeClass::FileWrite | TimeClass::Disk) => {
                self.limited(part).unwrap_or(class)
            }
            TimeClass::Lock if wait == Wait::Semaphore && wants_mmap_lock(path, part) => {
                TimeClass::AddressSpace
            }
            class => class,
        }
    }

    /// Whether a page had to be read because it had been reclaimed, by the counters of the task's cgroups, then of
    /// the machine.
    fn read(&self, part: &PathPart) -> TimeClass {
        let page_bytes = self.window.now.origin.page_bytes.max(1);
        let refaults = |group: &GroupUse| group.refaults_file.unwrap_or(0);
        let of_group = self.groups_of(&part.task).find(|group| {
            let read: u64 = group.io.iter().map(|io| io.read_bytes).sum();
            let swapped_in = group.refaults_anon.unwrap_or(0).saturating_mul(page_bytes);
            let of_files = read.saturating_sub(swapped_in).max(page_bytes);
            let again = refaults(group).saturating_mul(page_bytes);
            let matches = read == 0 || percent(again, of_files) >= REFAULT_PERCENT;
            is_limited(group) && refaults(group) >= LEAST_REFAULTS && matches
        });
        if of_group.is_some() {
            return TimeClass::GroupRefault;
        }
        // Where the task's own cgroup counted next to none, the machine's are those of others.
        let own = self.groups_of(&part.task).filter_map(|group| group.refaults_file).max();
        if own.is_some_and(|own| own < LEAST_REFAULTS) {
            return self.limited(part).unwrap_or(TimeClass::FileRead);
        }
        let rate = |counter| self.window.rate(counter).unwrap_or(0.0);
        let span_s = self.window.span_ms().unwrap_or(0.0) / 1000.0;
        let again = rate(Counter::WorkingsetRefaultFile);
        let read_pages = rate(Counter::Pgpgin) * 1024.0 / page_bytes as f64 - rate(Counter::Pswpin);
        let matches = again * 100.0 >= read_pages * REFAULT_PERCENT;
        if again * span_s >= LEAST_REFAULTS as f64 && matches {
            return TimeClass::Refault;
        }
        self.limited(part).unwrap_or(TimeClass::FileRead)
    }

    /// Who moved the pages, by the stack; else by the counters, where one of those that move pages moved most.
    fn migration(&self, part: &PathPart) -> TimeClass {
        if kernel::NUMA_BALANCING.are_in(&part.stack) {
            return TimeClass::NumaBalancing;
        }
        if kernel::DEVICE_PAGES.are_in(&part.stack) {
            return TimeClass::Migration;
        }
        let rate = |counter| self.window.rate(counter).unwrap_or(0.0);
        let (moved, balanced) = (rate(Counter::PgmigrateSuccess), rate(Counter::NumaPagesMigrated));
        if moved > 0.0 && balanced * 2.0 >= moved {
            TimeClass::NumaBalancing
        } else if moved > 0.0 && rate(Counter::CompactMigrateScanned) >= moved {
            TimeClass::Compaction
        } else {
            TimeClass::Unknown
        }
    }

    /// Whose reclaim had swapped the pages out: that of a limit that the task's cgroup met, or that it has while the
    /// machine as a whole reclaimed nothing.
    fn swap_in(&self, part: &PathPart) -> TimeClass {
        let is_calm = self.machine_scanned().is_some_and(|pages| pages < LEAST_SCANNED);
        let is_cause = |group: &GroupUse| limit_events(group) > 0 || (is_calm && is_limited(group));
        if self.groups_of(&part.task).any(is_cause) {
            TimeClass::GroupSwapIn
        } else {
            TimeClass::SwapIn
        }
    }

    /// Pages that reclaim of the whole machine scanned in all recorded rows; what a cgroup's limit scans does not
    /// count.
    fn machine_scanned(&self) -> Option<u64> {
        let kernel = self.window.counting_kernel();
        VmActivity::MachineScans.increase_in(&self.incident.table, kernel).ok()
    }

    /// The task's cgroup has an I/O limit, and some of its tasks waited for I/O.
    fn limited(&self, part: &PathPart) -> Option<TimeClass> {
        const PRESSED_PERCENT: f64 = 30.0;
        let is_cause = |group: &GroupUse| {
            let waited_ms = group.io_pressure_us.map(|us| us / 1000);
            let is_pressed =
                waited_ms.is_none_or(|ms| percent(ms, group.over_ms) >= PRESSED_PERCENT);
            !group.io_limits.is_empty() && is_pressed
        };
        self.groups_of(&part.task).any(is_cause).then_some(TimeClass::IoLimit)
    }

    /// The cgroup of a task and those above it; the service's where the task's is not known.
    fn groups_of<'b>(&'b self, task: &'b PathTask) -> impl Iterator<Item = &'b GroupUse> {
        let of_task = move |group: &GroupUse| is_task_within(task, &group.path);
        let is_known = task.cgroup.is_some() || task.is_outside();
        let of_service = move |group: &GroupUse| !is_known && group.of_service;
        self.incident.groups.iter().filter(move |group| of_task(group) || of_service(group))
    }
}

/// True if a task ran or waited for a CPU in a part, so that the hypervisor may have taken a share of it.
pub(crate) fn wants_cpu(spent: TimeClass, part: &PathPart) -> bool {
    let is_of_cpu = matches!(
        spent,
        TimeClass::Computing
            | TimeClass::Population
            | TimeClass::CpuContention
            | TimeClass::Fork
            | TimeClass::Teardown
            | TimeClass::Lock
    );
    let waits = matches!(part.kind, TimeKind::Runnable(CpuHolder::Idle | CpuHolder::Unknown));
    let is_other = matches!(part.kind, TimeKind::Running(_) | TimeKind::Runnable(_));
    (is_of_cpu && is_other) || (waits && spent == TimeClass::Unknown)
}

/// Share of the CPU time that the hypervisor took, in percent.
pub(crate) fn stolen_of_cpu_percent(cpus: CpuUse) -> f64 {
    percent(cpus.stolen_ms, cpus.stolen_ms.saturating_add(cpus.busy_ms))
}

/// The cgroup has a memory limit, or met one that was lifted since.
pub(crate) fn is_limited(group: &GroupUse) -> bool {
    limit_events(group) > 0 || group.memory_max_bytes.or(group.memory_high_bytes).is_some()
}

/// How often the cgroup reached a limit of its own.
pub(crate) fn limit_events(group: &GroupUse) -> u64 {
    group.max_events.unwrap_or(0).saturating_add(group.high_events.unwrap_or(0))
}

/// Whether a task is in a cgroup, of any hierarchy, or in one below it.
pub(crate) fn is_task_within(task: &PathTask, group: &str) -> bool {
    task.cgroup.iter().chain(&task.other_cgroups).any(|path| is_cgroup_within(path, group))
}

/// Whether the process of a part shares pages with one that it forked.
fn shares_pages(path: &PathSummary, part: &PathPart) -> bool {
    let forks = |other: &PathPart| {
        other.kind == TimeKind::Running(RunMode::Kernel(KernelWork::Fork))
            && other.task.process == part.task.process
    };
    part.holder.is_some() || path.parts.iter().any(forks)
}

/// Whether the part's task was waited for in a semaphore by another thread of its process, or by one of a process of
/// which it read the mappings: mmap_lock. A wait that began
/// before the trace is of an unknown kind; what the task did under the lock tells then.
fn holds_mmap_lock(path: &PathSummary, part: &PathPart) -> bool {
    let changes_mappings = matches!(
        part.kind,
        TimeKind::Running(RunMode::Kernel(KernelWork::Populate | KernelWork::Unmap))
    );
    path.chain.iter().any(|link| {
        (link.wait == Wait::Semaphore || (link.wait == Wait::Unknown && changes_mappings))
            && link.other.tid == part.task.tid
            && link.waiter.process != 0
            && (link.waiter.process == link.other.process
                || kernel::MMAP_LOCK_READERS.are_in(&part.stack))
    })
}

/// Whether a semaphore's waiter wanted mmap_lock, by the functions that take it or by what its holder did.
fn wants_mmap_lock(path: &PathSummary, part: &PathPart) -> bool {
    holds_mmap_lock(path, part) || kernel::is_wait_for_mmap_lock(&part.stack)
}
