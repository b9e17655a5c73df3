//! The incident of a stall with the windows of it, and the questions that rules ask about it.

use crate::request::RequestTime;
use crate::share::{percent, pressure_percent};
use mw_critical_path::PathTask;
use mw_critical_path::kernel::{self, FunctionSet, SWAP_OUT, is_in};
use mw_model::derived::total;
use mw_model::{
    BlockedTask, CanaryMetric, FailureKind, GroupUse, Incident, KernelWait, Metric, Missing,
    Resource, TaskUse, TriggerKind, VmActivity, WaitKind, Window, zones,
};
use mw_proc::vmstat::Counter;
use std::cmp::Reverse;

/// Input of the rules that explain stalls: an incident, the machine during it and the machine before it.
#[derive(Clone, Copy)]
pub(crate) struct StallWindow<'a> {
    pub(crate) incident: &'a Incident,
    /// The machine at the stall's end, and the sample from just before it began.
    pub(crate) window: &'a Window,
    /// The like over the minute before, where there is one.
    pub(crate) calm: Option<&'a Window>,
    /// Use of the slowest request's time, where it was traced.
    pub(crate) request: Option<&'a RequestTime<'a>>,
}

/// Waits of the task that waited longest, and of others of its name.
pub(crate) struct LongestWait {
    /// The thread, or the process.
    pub(crate) pid: u32,
    /// Its name.
    pub(crate) task: String,
    /// Total time, in microseconds; no longer than the stall.
    pub(crate) total_us: u64,
    /// The longest one, in microseconds.
    pub(crate) max_us: u64,
    /// Number of tasks of that name that waited.
    pub(crate) tasks: u32,
    /// Time of all of them, in microseconds.
    pub(crate) all_us: u64,
    /// Number of waits; unknown where the kernel's accounting has it.
    pub(crate) count: Option<u64>,
    /// Source.
    pub(crate) source: &'static str,
}

/// Measurements of the canary's two threads during the stall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CanaryVerdict {
    /// It did not run, or nothing of it was recorded.
    Unknown,
    /// Neither thread was delayed: memory and CPUs were available.
    Calm,
    /// Page faults took longer than the same work without, by so many microseconds in total.
    Memory(u64),
    /// Both threads were delayed alike, by so many microseconds: CPU contention.
    Cpus(u64),
}

/// From which latency on the canary counts as delayed: scheduling on a busy machine may double its
/// period of 10 ms.
const DELAYED_US: u64 = 20_000;

/// A row counts what ended since the row before, so that the stall's last row comes late.
const LATE_ROWS_MS: u64 = 1000;

/// Prefixes of the names of the recorder's threads.
const RECORDER_PREFIX: &str = "mw-";
const CANARY_PREFIX: &str = "mw-canary";

/// Kernel threads that reclaim and compact in the background: no task waits for them.
const BACKGROUND: [&str; 3] = ["kswapd", "kcompactd", "khugepaged"];

impl<'a> StallWindow<'a> {
    /// Duration, in milliseconds, at least 1.
    pub(crate) fn length_ms(&self) -> f64 {
        let lasted = self.incident.duration_ms() as f64;
        let worst = self.incident.trigger.worst_ms;
        let length = if lasted > 0.0 { lasted } else { worst };
        if length.is_finite() { length.max(1.0) } else { 1.0 }
    }

    /// The task that waited longest in one of these ways, background threads left out; by the
    /// kernel's own accounting where no single wait was seen.
    pub(crate) fn longest_wait(&self, kinds: &[WaitKind]) -> Option<LongestWait> {
        let mut tasks: Vec<LongestWait> = Vec::new();
        for wait in self.waits(kinds).filter(|wait| !is_background(&wait.task)) {
            match tasks.iter_mut().find(|known| known.pid == wait.pid) {
                Some(known) => {
                    known.total_us = known.total_us.saturating_add(wait.total_us);
                    known.max_us = known.max_us.max(wait.max_us);
                    known.count = known.count.map(|count| count.saturating_add(wait.count));
                }
                None => tasks.push(LongestWait {
                    pid: wait.pid,
                    task: wait.task.clone(),
                    total_us: wait.total_us,
                    max_us: wait.max_us,
                    tasks: 1,
                    all_us: 0,
                    count: Some(wait.count),
                    source: "kernel tracepoints",
                }),
            }
        }
        if tasks.is_empty() {
            tasks.extend(self.incident.tasks.iter().filter_map(|task| accounted(task, kinds)));
        }
        with_namesakes(&mut tasks);
        let weight = |w: &LongestWait| (self.share_percent(w) * self.weight_of(&w.task)) as u64;
        let longest = tasks.into_iter().max_by_key(|w| (weight(w), w.total_us))?;
        let most_us = (self.length_ms() * 1000.0) as u64;
        Some(LongestWait { total_us: longest.total_us.min(most_us), ..longest })
    }

    /// True if a task of the path is one of the recorder's threads.
    pub(crate) fn is_recorder(&self, task: &PathTask) -> bool {
        let recorder = self.incident.recorder;
        let is_unknown = task.process == 0 && task.name.starts_with(RECORDER_PREFIX);
        recorder != 0 && (task.process == recorder || task.tid == recorder || is_unknown)
    }

    /// Waits of these kinds.
    pub(crate) fn waits(&self, kinds: &[WaitKind]) -> impl Iterator<Item = &'a KernelWait> {
        self.incident.waits.iter().filter(move |wait| kinds.contains(&wait.kind))
    }

    /// The order that most of the time was waited for, where the kernel says.
    pub(crate) fn order_wanted(&self) -> Option<u32> {
        self.waits(&[WaitKind::Compaction]).max_by_key(|wait| wait.total_us)?.order
    }

    /// Share of the stall of a time, in percent.
    pub(crate) fn cover_percent(&self, us: u64) -> f64 {
        (us as f64 / 10.0 / self.length_ms()).min(100.0)
    }

    /// Share of the stall that a task waited, in percent: all of its waits of the whole; or the longest
    /// one of the slowest answer, where a stall is made of several; or, for less, what all tasks of
    /// its name waited, since the threads of a server wait for one another.
    pub(crate) fn share_percent(&self, waited: &LongestWait) -> f64 {
        const OF_ALL: f64 = 0.7;
        let trigger = &self.incident.trigger;
        let slowest_us = trigger.worst_ms.max(trigger.limit_ms) * 1000.0;
        let of_slowest = waited.max_us as f64 * 100.0 / slowest_us;
        let of_slowest = if of_slowest.is_finite() { of_slowest } else { 0.0 };
        let of_all = self.cover_percent(waited.all_us) * OF_ALL;
        self.cover_percent(waited.total_us).max(of_slowest).max(of_all).min(100.0)
    }

    /// True if waits inside the kernel were looked for: that there are none says something then.
    pub(crate) fn waits_were_looked_for(&self) -> bool {
        const LOOKS: [&str; 3] = ["tracing", "perf_event_open", "profiler"];
        let hidden = |missing: &Missing| LOOKS.iter().any(|look| missing.what.contains(look));
        !self.incident.waits.is_empty() || !self.incident.unseen.iter().any(hidden)
    }

    /// Weight of a task's wait as evidence of the stall: less where a service was probed and the task
    /// has another name.
    pub(crate) fn weight_of(&self, task: &str) -> f64 {
        const OF_ANOTHER: f64 = 0.8;
        let probed = self.incident.trigger.kind == TriggerKind::Probe;
        if probed && !self.is_probed(task) { OF_ANOTHER } else { 1.0 }
    }

    /// True if a task has the name of a process of the probed service, or, behind a proxy, that of the probe, as
    /// `postgres` of `postgres-5432`.
    pub(crate) fn is_probed(&self, task: &str) -> bool {
        const SHORTEST: usize = 3;
        if self.incident.trigger.kind != TriggerKind::Probe {
            return false;
        }
        let known = self.incident.service.iter().flat_map(|service| &service.processes);
        if known.into_iter().any(|process| process.name == task) {
            return true;
        }
        let name = self.incident.trigger.name.to_ascii_lowercase();
        task.len() >= SHORTEST && name.contains(&task.to_ascii_lowercase())
    }

    /// Tasks in state D with one of these functions in their stack, the most often seen first.
    pub(crate) fn blocked_in(&self, functions: &[FunctionSet]) -> Option<&'a BlockedTask> {
        self.blocked_where(|stack| is_in(stack, functions))
    }

    /// The like whose stack fulfils a condition.
    pub(crate) fn blocked_where(
        &self,
        is_one: impl Fn(&[String]) -> bool,
    ) -> Option<&'a BlockedTask> {
        let stuck =
            self.incident.blocked.iter().filter(|task| {
                task.state == 'D' && !is_background(&task.task) && is_one(&task.stack)
            });
        stuck.max_by_key(|task| task.seen)
    }

    /// Rate a second, during the stall.
    ///
    /// # Errors
    /// Not counted, or there is one look only.
    pub(crate) fn rate(&self, counters: &[Counter]) -> Result<f64, Missing> {
        self.window.rate_of(counters)
    }

    /// Rate of an activity a second, during the stall.
    ///
    /// # Errors
    /// This kernel does not count it, or there is one sample only.
    pub(crate) fn activity(&self, activity: VmActivity) -> Result<f64, Missing> {
        self.window.activity(activity)
    }

    /// The same in the minute before; 0 where nobody looked.
    pub(crate) fn calm_activity(&self, activity: VmActivity) -> f64 {
        self.calm.and_then(|calm| calm.activity(activity).ok()).unwrap_or(0.0)
    }

    /// The same in the minute before; 0 where nobody looked.
    pub(crate) fn calm_rate(&self, counters: &[Counter]) -> f64 {
        self.calm.and_then(|calm| calm.rate_of(counters).ok()).unwrap_or(0.0)
    }

    /// CPU time that functions took more than before, in percent of one CPU, and the name of the
    /// one that took most.
    pub(crate) fn grown_percent(&self, functions: &[FunctionSet]) -> Option<(&'a str, f64)> {
        let incident = self.incident;
        let known =
            incident.difference.iter().filter(|shift| kernel::is_of(functions, &shift.function));
        let most = known.max_by(|a, b| a.during_percent.total_cmp(&b.during_percent))?;
        let grown = most.during_percent - most.before_percent;
        Some((most.function.as_str(), grown * f64::from(self.cpus())))
    }

    /// CPUs, at least 1.
    pub(crate) fn cpus(&self) -> u32 {
        let profile = self.incident.profile.as_ref().map_or(0, |profile| profile.cpus);
        self.incident.host.cpus.max(profile).max(1)
    }

    /// Share of the stall in which some task waited for a resource (`memory`, `io`, `cpu`), in percent,
    /// by the kernel's pressure stall information.
    pub(crate) fn pressure_percent(&self, resource: Resource) -> Option<f64> {
        pressure_percent(self.window, resource).or_else(|| self.pressure_of_table(resource))
    }

    fn pressure_of_table(&self, resource: Resource) -> Option<f64> {
        let rates = self.incident.table.rates_per_s(&Metric::waited_us(resource))?;
        let rates: Vec<f64> = self.during(rates).flatten().collect();
        let share = rates.iter().sum::<f64>() / rates.len() as f64 / 10_000.0;
        share.is_finite().then(|| share.clamp(0.0, 100.0))
    }

    /// Rows of the stall.
    pub(crate) fn during<T>(&self, values: Vec<Option<T>>) -> impl Iterator<Item = Option<T>> {
        let last_ms = self.incident.ended_unix_ms.saturating_add(LATE_ROWS_MS);
        let stall = self.incident.started_unix_ms..=last_ms;
        let rows = self.incident.table.at_unix_ms.iter().zip(values);
        rows.filter(move |(at, _)| stall.contains(at)).map(|(_, value)| value)
    }

    /// Measurement of the paired probe. A row has what is under way, too, so that no row counts for more
    /// than the time since the one before.
    pub(crate) fn canary(&self) -> CanaryVerdict {
        let (mut touched, mut held, mut excess) = (0_u64, 0_u64, 0_u64);
        let (mut worst_held, mut worst_excess) = (0, 0);
        let mut rows = 0_u32;
        for (gap_us, touch, idle) in self.pairs() {
            rows = rows.saturating_add(1);
            let more = touch.saturating_sub(idle);
            touched = touched.saturating_add(touch.min(gap_us));
            held = held.saturating_add(idle.min(gap_us));
            excess = excess.saturating_add(more.min(gap_us));
            worst_held = worst_held.max(idle);
            worst_excess = worst_excess.max(more);
        }
        if rows == 0 {
            CanaryVerdict::Unknown
        } else if worst_excess >= DELAYED_US && touched >= held.saturating_mul(2) {
            CanaryVerdict::Memory(excess.max(worst_excess))
        } else if worst_held >= DELAYED_US {
            CanaryVerdict::Cpus(worst_held)
        } else {
            CanaryVerdict::Calm
        }
    }

    /// The canary's rows during the stall: the time since the row before, the slowest touch, and the
    /// slowest or latest turn without, in microseconds.
    fn pairs(&self) -> Vec<(u64, u64, u64)> {
        let column = |metric| -> Vec<Option<u64>> {
            let values = self.incident.table.values(&Metric::Canary(metric));
            values.map(Iterator::collect).unwrap_or_default()
        };
        let (touch, idle) = (column(CanaryMetric::Touch), column(CanaryMetric::Idle));
        let late = column(CanaryMetric::Late);
        let at = &self.incident.table.at_unix_ms;
        let row = |row: usize| -> Option<(u64, u64, u64)> {
            let before = row.checked_sub(1).and_then(|before| at.get(before));
            let gap_ms = at.get(row)?.checked_sub(*before?)?;
            let late = late.get(row).copied().flatten().unwrap_or(0);
            let (touch, idle) = ((*touch.get(row)?)?, (*idle.get(row)?)?);
            Some((gap_ms.saturating_mul(1000), touch, idle.max(late)))
        };
        let rows = self.during((0..at.len()).map(Some).collect());
        rows.flatten().filter_map(row).collect()
    }

    /// True if the request waited for pages to be written to swap.
    fn waits_for_swap_out(&self) -> bool {
        const MUCH_PERCENT: f64 = 33.0;
        let below = self.request.and_then(|request| request.below(&[SWAP_OUT]));
        below.is_some_and(|(percent, _)| percent >= MUCH_PERCENT)
    }

    /// The most of files that was dirty or under writeback during the stall: in bytes, and in percent of what
    /// could hold page cache at that moment. Pages that are swapped out count as writeback too, so that it does not
    /// count where there are many.
    pub(crate) fn most_unwritten(&self) -> Option<(u64, f64)> {
        const DIRTY: &[Counter] = &[Counter::NrDirty];
        const UNWRITTEN: &[Counter] = &[Counter::NrDirty, Counter::NrWriteback];
        let are_of_swap = swaps_out(self.window) || self.waits_for_swap_out();
        let unwritten = if are_of_swap { DIRTY } else { UNWRITTEN };
        let page_bytes = self.window.now.origin.page_bytes;
        let samples = || self.window.earlier.first().into_iter().chain([&self.window.now.sample]);
        // The table has no column for it, and it only becomes less: what there was at first.
        let deferred = samples().map(|sample| zones::deferred_bytes(sample, page_bytes)).max();
        let deferred_pages = deferred.unwrap_or(0).checked_div(page_bytes).unwrap_or(0);
        let share = |get: &dyn Fn(Counter) -> Option<u64>| {
            let sum = |of: &[Counter]| {
                Some(total(of.iter().map(|c| get(*c)).collect::<Option<Vec<_>>>()?))
            };
            let (unwritten, room) = (sum(unwritten)?, sum(&zones::DIRTYABLE)?);
            let room = room.saturating_add(deferred_pages);
            Some((unwritten.saturating_mul(page_bytes), percent(unwritten, room)))
        };
        let of_samples =
            samples().filter_map(|s| s.vmstat.value()).filter_map(|v| share(&|c| v.get(c)));
        let column = |counter: &Counter| {
            let metric = Metric::Vmstat(*counter);
            let values = self.incident.table.values(&metric).map(Iterator::collect);
            (*counter, self.during(values.unwrap_or_default()).collect::<Vec<Option<u64>>>())
        };
        let columns: Vec<_> = unwritten.iter().chain(&zones::DIRTYABLE).map(column).collect();
        let value = |row: usize, counter: Counter| {
            let (_, values) = columns.iter().find(|(known, _)| *known == counter)?;
            *values.get(row)?
        };
        let rows = columns.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        let of_rows = (0..rows).filter_map(|row| share(&|counter| value(row, counter)));
        of_samples.chain(of_rows).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The cgroup that the service is in, as far as is known. Those above it are also others', and the root says
    /// nothing.
    pub(crate) fn own_group(&self) -> Option<&'a str> {
        let incident = self.incident;
        let service = incident.service.as_ref().and_then(|service| service.cgroup.as_deref());
        let groups = incident.groups.iter().filter(|group| group.of_service);
        let deepest = groups.map(|group| group.path.as_str()).max_by_key(|path| path.len());
        service.or(deepest).filter(|path| *path != "/")
    }

    /// The cgroup that was frozen, the service's first. Those below it are frozen with it.
    pub(crate) fn frozen_group(&self) -> Option<&'a GroupUse> {
        let frozen = self.incident.groups.iter().filter(|group| group.frozen);
        frozen.max_by_key(|group| (group.of_service, Reverse(group.path.len())))
    }

    /// True if the service failed in this way. Programs, HTTP and what has no code of its own tell by one of these
    /// words alone.
    pub(crate) fn failed_by(&self, kind: FailureKind, words: &[&str]) -> bool {
        self.incident.trigger.failure_kind == Some(kind) || self.says(words)
    }

    /// True if the service failed with one of these words, in a way that has no code of its own.
    pub(crate) fn says(&self, words: &[&str]) -> bool {
        use FailureKind::{ExitCode, HttpStatus, Other, ServiceError};
        let trigger = &self.incident.trigger;
        match trigger.failure_kind {
            Some(ExitCode | HttpStatus | Other | ServiceError) | None => {
                let said = trigger.failure.as_deref().unwrap_or("").to_ascii_lowercase();
                words.iter().any(|word| said.contains(word))
            }
            Some(_) => false,
        }
    }
}

/// True if pages are swapped out: these are under writeback as well, and no file's.
pub(crate) fn swaps_out(window: &Window) -> bool {
    const PAGES_PER_S: f64 = 256.0;
    window.rate(Counter::Pswpout).unwrap_or(0.0) >= PAGES_PER_S
}

/// True if a task is the recorder's canary, which is evidence of what it measured.
pub(crate) fn is_canary(task: &str) -> bool {
    task.starts_with(CANARY_PREFIX)
}

/// True if a task is a thread of the kernel that works on memory in the background.
pub(crate) fn is_background(task: &str) -> bool {
    BACKGROUND.iter().any(|name| task.starts_with(name))
}

/// Fills in how many of each name there are, and how long they waited in all.
fn with_namesakes(tasks: &mut [LongestWait]) {
    let mut names: Vec<(String, u32, u64)> = Vec::new();
    for waited in tasks.iter() {
        match names.iter_mut().find(|(name, ..)| *name == waited.task) {
            Some((_, count, us)) => {
                *count = count.saturating_add(1);
                *us = us.saturating_add(waited.total_us);
            }
            None => names.push((waited.task.clone(), 1, waited.total_us)),
        }
    }
    for waited in tasks {
        if let Some((_, count, us)) = names.iter().find(|(name, ..)| *name == waited.task) {
            (waited.tasks, waited.all_us) = (*count, *us);
        }
    }
}

/// The kernel's delay accounting of a process in these ways.
fn accounted(task: &TaskUse, kinds: &[WaitKind]) -> Option<LongestWait> {
    let delays = task.delays?;
    let us = |kind: &WaitKind| match kind {
        WaitKind::DirectReclaim => delays.free_pages_us,
        WaitKind::Compaction => delays.compact_us,
        WaitKind::Swap => delays.swap_in_us.saturating_add(delays.thrashing_us),
        _ => 0,
    };
    let total_us = total(kinds.iter().map(us));
    let (pid, name) = (task.pid, task.task.clone());
    (total_us > 0).then_some(LongestWait {
        pid,
        task: name,
        total_us,
        max_us: 0,
        tasks: 1,
        all_us: 0,
        count: None,
        source: "taskstats",
    })
}
