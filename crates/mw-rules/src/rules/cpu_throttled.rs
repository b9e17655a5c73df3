//! # cpu-throttled
//!
//! A cgroup used up its CPU quota, and its tasks waited for the next period.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request was runnable without a CPU for as long as the
//! scheduler throttled its cgroup (`cpu.max`). Memory was not the cause.
//!
//! ## Why it hurts
//! A throttled cgroup does not run until its period ends, however idle the machine is. A service with
//! several threads uses a quota up in a fraction of the period.
//!
//! ## What it looks like
//! `nr_throttled` and `throttled_usec` in the group's cpu.stat increase. The machine's CPUs are idle.
//!
//! ## How to fix it
//! Raise the quota or remove it: `systemctl set-property UNIT CPUQuota=`, or write `max` to cpu.max. In
//! Kubernetes, raise the container's CPU limit.
//!
//! ## Threshold
//! The group's throttled time during the stall covers 40% of the time that the request waited for a
//! CPU, and that wait is at least half of the request. `throttled_usec` is added up over the CPUs, so that it counts
//! for no more than the throttled periods lasted.
//!
//! ## References
//! Linux, kernel/sched/fair.c, unthrottle_cfs_rq(); Documentation/scheduler/sched-bwc.rst; Documentation/admin-guide/cgroup-v2.rst, "CPU
//! Interface Files".

use crate::group_settings::{GroupSetting, set};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Finding, GroupUse, Missing, Quantity, Remedy, Severity, Subject, is_cgroup_within};

/// Confidence of the kernel's own counter.
const CONFIRMED: u8 = 95;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(part) = request.largest(&[TimeClass::CpuQuota]) else { return Ok(None) };
    let throttled = |group: &&GroupUse| group.throttled_us.unwrap_or(0) > 0;
    let groups = stall.incident.groups.iter().filter(throttled);
    let of_task = |group: &GroupUse| {
        let mut paths = part.task.cgroup.iter().chain(&part.task.other_cgroups);
        paths.any(|path| is_cgroup_within(path, &group.path)) || group.of_service
    };
    let group = groups.max_by_key(|group| (of_task(group), group.throttled_us));
    let path = group.map(|group| group.path.clone());
    let cgroups = stall.window.now.cgroups.value();
    let subject = Subject::Cgroup(path.clone());
    let headline = format!("{} used up its CPU quota", subject.actor());
    let mut finding = Finding::new(Severity::Critical, subject, headline)
        .with_impact(
            "The tasks of this group did not run until the next period, even on idle CPUs.",
        )
        .with_remedy(Remedy::named(
            "raise the CPU quota of the group or remove it",
            vec![set(GroupSetting::CpuQuota, None, path.as_deref(), cgroups)],
        ));
    if let Some(group) = group {
        let ms = group.throttled_us.unwrap_or(0) as f64 / 1000.0;
        let source = "cpu.stat";
        finding = finding.with_evidence(
            "throttled, all CPUs together",
            Quantity::Milliseconds(ms),
            source,
        );
        if let Some(count) = group.throttled_periods {
            finding = finding.with_evidence("periods throttled", Quantity::Count(count), source);
        }
        if let Some((quota, period)) = group.cpu_quota_us.zip(group.cpu_period_us) {
            let text = format!("{quota} {period}");
            finding =
                finding.with_evidence("quota and period (µs)", Quantity::Text(text), "cpu.max");
        }
    }
    Ok(Some(Suspect::new(finding, CONFIRMED)))
}
