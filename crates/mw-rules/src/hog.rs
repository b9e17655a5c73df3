//! The program that used most of the CPU time.

use crate::share::percent;
use crate::stall_window::StallWindow;
use mw_model::derived;

/// Share of the CPU time that it used.
const OF_ALL_PERCENT: f64 = 50.0;

/// A program that uses less of one CPU causes no contention.
const OF_ONE_CPU_PERCENT: f64 = 25.0;

/// The program whose processes used most of the CPU time, in percent of it.
pub(crate) fn hog(stall: &StallWindow<'_>) -> Option<(String, f64)> {
    let mut names: Vec<(&str, u64)> = Vec::new();
    for task in &stall.incident.tasks {
        let ms = task.user_ms.saturating_add(task.system_ms);
        match names.iter_mut().find(|(name, _)| *name == task.task) {
            Some((_, sum)) => *sum = sum.saturating_add(ms),
            None => names.push((&task.task, ms)),
        }
    }
    let used = derived::total(names.iter().map(|(_, ms)| *ms));
    let (name, ms) = names.into_iter().max_by_key(|(_, ms)| *ms)?;
    let share = percent(ms, used);
    let much = percent(ms, stall.incident.duration_ms()) >= OF_ONE_CPU_PERCENT;
    (much && share >= OF_ALL_PERCENT).then(|| (name.to_owned(), share))
}
