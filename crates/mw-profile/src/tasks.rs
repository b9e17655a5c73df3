//! Resource use of processes between two samples.

use crate::process::{MAX_TASKS, Stat, next_batch};
use crate::task_files::{ProcessSample, TaskFiles};
use crate::taskstats::{self, Taskstats};
use mw_model::{Delays, Missing, TaskUse};
use mw_sys::kernel_file::{self, NumberedEntries};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time that a scan may take while a stall is recorded.
pub const LOOK: Duration = Duration::from_millis(50);

/// Processes whose delays are read: those with the most resident memory.
const MAX_DELAYS: usize = 256;

#[derive(Debug, Default)]
pub struct Tasks {
    seen: HashMap<u32, ProcessSample>,
    /// Those that there was no time for yet.
    left: Option<NumberedEntries>,
    complete: bool,
    no_delays: Option<Missing>,
}

impl Tasks {
    /// Reads all processes, at most [`MAX_TASKS`] and for as long as `limit`: about 15 µs
    /// each. Later ones, which are mostly the younger, are left to [`Self::go_on`] then.
    pub fn look(files: &mut TaskFiles, limit: Duration) -> Self {
        let mut tasks = Self { left: kernel_file::read_numbers("/proc").ok(), ..Self::default() };
        tasks.go_on(files, limit);
        tasks
    }

    /// Reads those that there was no time for yet, for as long as `limit`; returns at once if there
    /// are none.
    pub fn go_on(&mut self, files: &mut TaskFiles, limit: Duration) {
        let deadline = Instant::now() + limit;
        let Some(mut left) = self.left.take() else { return };
        let (mut batch, mut more) = (Vec::new(), true);
        while more && self.seen.len() < MAX_TASKS {
            if Instant::now() >= deadline {
                self.left = Some(left);
                return;
            }
            more = next_batch(&mut left, &mut batch);
            let questions: Vec<_> = batch.iter().map(|pid| (*pid, ())).collect();
            let seen = batch.iter().zip(files.uses.run(&questions));
            self.seen.extend(seen.filter_map(|(pid, seen)| Some((*pid, seen.flatten()?))));
        }
        self.complete |= !more;
        match Taskstats::open() {
            Ok(Some(taskstats)) => self.read_delays(&taskstats, deadline),
            Ok(None) => {}
            Err(missing) => self.no_delays = Some(missing),
        }
    }

    fn read_delays(&mut self, taskstats: &Taskstats, deadline: Instant) {
        let mut largest: Vec<_> =
            self.seen.iter_mut().filter(|(_, seen)| seen.stat.resident_pages > 0).collect();
        largest.sort_by_key(|(pid, seen)| (std::cmp::Reverse(seen.stat.resident_pages), **pid));
        for (pid, seen) in largest.into_iter().take(MAX_DELAYS) {
            if Instant::now() >= deadline {
                return;
            }
            seen.delays = taskstats.delays(*pid);
        }
    }

    /// The processes that have spent most of their life on a CPU, a tenth at least: who takes the CPUs now, or comes and goes.
    pub fn busiest(&self, most: usize) -> Vec<u32> {
        const LEAST_PERCENT: u64 = 10;
        let now_ticks = now_ticks();
        let percent = |(pid, seen): (&u32, &ProcessSample)| {
            let stat = &seen.stat;
            let used = stat.user_ticks.saturating_add(stat.system_ticks).saturating_mul(100);
            let percent = used.checked_div(now_ticks.checked_sub(stat.started_ticks)?)?;
            (percent >= LEAST_PERCENT).then_some((std::cmp::Reverse(percent), *pid))
        };
        let mut busy: Vec<_> = self.seen.iter().filter_map(percent).collect();
        busy.sort_unstable();
        busy.into_iter().map(|(_, pid)| pid).take(most).collect()
    }

    /// Evidence that could not be seen: processes that were left out, delays.
    pub fn missing(&self) -> Vec<Missing> {
        let left_out = (!self.complete).then(|| {
            let seen = self.seen.len();
            let why = format!(
                "the limit of time or processes was reached after {seen} processes; others were not read"
            );
            Missing::skipped("/proc/PID/stat", why)
        });
        left_out.into_iter().chain(self.no_delays.clone()).collect()
    }

    /// Use of each process since `before`, the most CPU time first. What began since counts in whole; what ended since, or
    /// used nothing and is not new, is left out.
    pub fn since(&self, before: &Self) -> Vec<TaskUse> {
        let now_ticks = now_ticks();
        let used = |(pid, now): (&u32, &ProcessSample)| {
            let same = |was: &&ProcessSample| was.stat.started_ticks == now.stat.started_ticks;
            let was = before.seen.get(pid).filter(same);
            // One that an incomplete scan left out is not one that has just begun.
            (was.is_some() || before.complete).then(|| now.since(*pid, was, now_ticks))
        };
        let mut uses: Vec<TaskUse> =
            self.seen.iter().filter_map(used).filter(|used| !is_idle(used)).collect();
        uses.sort_by_key(|used| {
            let faults = used.major_faults + used.minor_faults;
            (std::cmp::Reverse((used.user_ms + used.system_ms, faults)), used.pid)
        });
        uses
    }
}

impl ProcessSample {
    fn since(&self, pid: u32, was: Option<&Self>, now_ticks: u64) -> TaskUse {
        let (now, zero) = (&self.stat, Stat::default());
        let old = was.map_or(&zero, |was| &was.stat);
        let page = mw_sys::page_bytes() as u64;
        let bytes = |pages: u64| i64::try_from(pages.saturating_mul(page)).unwrap_or(i64::MAX);
        let written = |now: u64| now.saturating_sub(was.and_then(|w| w.written_bytes).unwrap_or(0));
        TaskUse {
            pid,
            task: now.comm.clone(),
            user_ms: ticks_ms(now.user_ticks.saturating_sub(old.user_ticks)),
            system_ms: ticks_ms(now.system_ticks.saturating_sub(old.system_ticks)),
            minor_faults: now.minor_faults.saturating_sub(old.minor_faults),
            major_faults: now.major_faults.saturating_sub(old.major_faults),
            resident_bytes: now.resident_pages.saturating_mul(page),
            resident_growth_bytes: bytes(now.resident_pages) - bytes(old.resident_pages),
            written_bytes: self.written_bytes.map(written),
            delays: self.delays_since(was),
            age_ms: Some(ticks_ms(now_ticks.saturating_sub(now.started_ticks))),
        }
    }

    /// `None` where only one of the samples has them.
    fn delays_since(&self, was: Option<&Self>) -> Option<Delays> {
        let before = was.map_or(Some(Delays::default()), |was| was.delays)?;
        Some(taskstats::since(self.delays?, before))
    }
}

/// Ticks since the machine started, rounded up to a second.
fn now_ticks() -> u64 {
    let seconds = mw_sys::boot_time_ms() / 1000 + 1;
    seconds.saturating_mul(rustix::param::clock_ticks_per_second())
}

fn ticks_ms(ticks: u64) -> u64 {
    ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1)
}

/// True if a process used nothing, and had begun long before: of one that is new it matters how much memory it has.
fn is_idle(used: &TaskUse) -> bool {
    const NEW_MS: u64 = 10 * 60 * 1000;
    let TaskUse { user_ms, system_ms, minor_faults, major_faults, .. } = used;
    user_ms + system_ms + minor_faults + major_faults == 0
        && used.resident_growth_bytes == 0
        && used.written_bytes.unwrap_or(0) == 0
        && used.age_ms.is_none_or(|age_ms| age_ms > NEW_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(started_ticks: u64, system_ticks: u64, resident_pages: u64) -> ProcessSample {
        let stat = Stat { started_ticks, system_ticks, resident_pages, ..Stat::default() };
        ProcessSample { stat, written_bytes: Some(10 * system_ticks), delays: None }
    }

    fn tasks(complete: bool, seen: &[(u32, ProcessSample)]) -> Tasks {
        Tasks { seen: seen.iter().cloned().collect(), complete, ..Tasks::default() }
    }

    #[test]
    fn the_busiest_are_those_that_compute_for_most_of_their_life() {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let hz = rustix::param::clock_ticks_per_second();
        let begun = (u64::try_from(now.tv_sec).unwrap() * hz).saturating_sub(hz);
        let all = [(1, seen(0, 0, 9)), (2, seen(begun, hz, 9)), (3, seen(begun, 2 * hz, 9))];
        let tasks = tasks(true, &all);
        assert_eq!(tasks.busiest(9), [3, 2]);
        assert_eq!(tasks.busiest(1), [3]);
    }

    fn check(complete: bool, expected: &[(u32, u64, i64)]) {
        let page = i64::try_from(mw_sys::page_bytes()).unwrap();
        let before = [(1, seen(5, 100, 10)), (2, seen(5, 100, 10)), (3, seen(5, 100, 10))];
        let now = [
            (1, seen(5, 150, 30)),
            (2, seen(5, 100, 10)),
            (3, seen(700, 7, 1)),
            (4, seen(800, 1, 2)),
        ];
        let uses = tasks(true, &now).since(&tasks(complete, &before));
        let found: Vec<_> = uses
            .iter()
            .map(|used| {
                (used.pid, used.written_bytes.unwrap() / 10, used.resident_growth_bytes / page)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_began_counts_in_whole_and_what_used_nothing_is_left_out() {
        check(true, &[(1, 50, 20), (3, 7, 1), (4, 1, 2)]);
    }

    #[test]
    fn what_an_incomplete_scan_left_out_is_not_new() {
        check(false, &[(1, 50, 20)]);
    }

    #[test]
    fn a_scan_that_runs_out_of_time_says_so() {
        let mut files = TaskFiles::start().unwrap();
        let mut hurried = Tasks::look(&mut files, Duration::ZERO);
        assert!(hurried.missing()[0].why.contains("after 0 processes"));
        hurried.go_on(&mut files, Duration::from_secs(10));
        let missing = hurried.missing();
        assert!(missing.iter().all(|missing| missing.what == "taskstats"), "{missing:?}");
        assert!(hurried.seen.contains_key(&std::process::id()));
    }
}
