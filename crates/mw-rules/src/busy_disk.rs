//! The disk that was busiest during a stall.

use crate::disk_writers::disks_of;
use crate::stall_window::StallWindow;
use mw_critical_path::PathTask;
use mw_model::{DiskMetric, Metric};

/// The disk that was busiest during the stall, by name, of those that the task's cgroup used.
pub(crate) fn disk_of(stall: &StallWindow<'_>, task: &PathTask) -> String {
    let name = busy_disk_of(stall, task);
    name.map_or_else(|| "the disk".to_owned(), |name| format!("the disk {name}"))
}

/// Its name, where it was busy for half of the stall.
pub(crate) fn busy_disk_of(stall: &StallWindow<'_>, task: &PathTask) -> Option<String> {
    const BUSY_PERCENT: f64 = 50.0;
    let used = disks_of(stall, task);
    let is_used = |name: &str| used.is_empty() || used.contains(&name);
    let busiest = busiest(stall, is_used).filter(|(_, share)| *share >= BUSY_PERCENT);
    busiest.map(|(name, _)| name)
}

/// The busiest disk, in percent of the stall.
pub(crate) fn busiest_disk(stall: &StallWindow<'_>) -> Option<(String, f64)> {
    busiest(stall, |_| true)
}

fn busiest(stall: &StallWindow<'_>, is_wanted: impl Fn(&str) -> bool) -> Option<(String, f64)> {
    let table = &stall.incident.table;
    let share = |column: &mw_model::Column| {
        let metric = column.metric();
        let Metric::Disk(name, DiskMetric::Busy) = &metric else { return None };
        if !is_wanted(name) {
            return None;
        }
        let rates: Vec<f64> = stall.during(table.rates_per_s(&metric)?).flatten().collect();
        let ms_per_s = rates.iter().sum::<f64>() / rates.len() as f64;
        ms_per_s.is_finite().then(|| (name.to_string(), (ms_per_s / 10.0).min(100.0)))
    };
    table.columns.iter().filter_map(share).max_by(|a, b| a.1.total_cmp(&b.1))
}
