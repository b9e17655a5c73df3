//! Cgroups whose kernel memory is what their limit is about.

use crate::share::percent;
use mw_model::{
    Cgroup, CgroupVersion, Cgroups, Finding, Quantity, Remedy, Severity, Step, Subject, derived,
    format_bytes, is_cgroup_below,
};

/// Share of the limit of kernel memory from which on requests are refused, and of the limit of memory from which on a
/// group is full: the kernel charges ahead for each CPU (MEMCG_CHARGE_BATCH).
pub(crate) const FULL_PERCENT: f64 = 95.0;

/// Share of the limit in kernel objects from which on they are what fills the group.
const OBJECTS_PERCENT: f64 = 50.0;

/// A group of version 1 that is at its limit of kernel memory.
pub(crate) fn at_its_limit(group: &Cgroup, cgroups: &Cgroups) -> Option<Finding> {
    const LIMIT: &str = "memory.kmem.limit_in_bytes";
    let (limit, used) = (group.kernel_limit_bytes?, group.kernel_bytes?);
    if percent(used, limit) < FULL_PERCENT {
        return None;
    }
    let failures = group.kernel_failures.unwrap_or(0);
    let headline = format!(
        "kernel memory is at its limit: {} of {} ({LIMIT}), refused {failures} times",
        format_bytes(used),
        format_bytes(limit)
    );
    let raised = limit.saturating_mul(2);
    let mut finding = finding(group, headline)
        .with_evidence(LIMIT, Quantity::Bytes(limit), LIMIT)
        .with_evidence("kernel memory", Quantity::Bytes(used), "memory.kmem.usage_in_bytes")
        .with_evidence("refused", Quantity::Count(failures), "memory.kmem.failcnt");
    if let Some(limit) = group.max_bytes {
        finding =
            finding.with_evidence("memory limit", Quantity::Bytes(limit), "memory.limit_in_bytes");
    }
    let summary = format!(
        "raise the limit of kernel memory ({:.0}% of {} are in use then), or remove it",
        percent(used, raised),
        format_bytes(raised)
    );
    let step = step(&format!("echo {raised} >"), group, cgroups, LIMIT);
    Some(
        finding
            .with_impact("fork, open and mmap of its processes fail with ENOMEM, however much memory is free.")
            .with_remedy(Remedy::named(summary, vec![step])),
    )
}

/// A full group of version 2 that consists of reclaimable kernel objects.
pub(crate) fn objects(group: &Cgroup, cgroups: &Cgroups) -> Option<Finding> {
    if cgroups.version == CgroupVersion::V1 {
        return None;
    }
    let limit = group.lowest_limit_bytes()?;
    let used = group.current_bytes?;
    let objects = group.stat.slab_reclaimable_bytes?;
    if percent(used, limit) < FULL_PERCENT || percent(objects, limit) < OBJECTS_PERCENT {
        return None;
    }
    let lists = [group.stat.anon_bytes, group.stat.shmem_bytes];
    let own = derived::total(lists.into_iter().flatten());
    let headline = format!(
        "full of kernel objects: {} of {} are reclaimable slab (dentries, inodes), {} memory of its processes",
        format_bytes(objects),
        format_bytes(limit),
        format_bytes(own)
    );
    let mut finding = finding(group, headline)
        .with_evidence("memory.current", Quantity::Bytes(used), "memory.current")
        .with_evidence("slab_reclaimable", Quantity::Bytes(objects), "memory.stat")
        .with_evidence("anon and shmem", Quantity::Bytes(own), "memory.stat");
    if let Some(count) = group.events.max {
        finding = finding.with_evidence("limit reached", Quantity::Count(count), "memory.events");
    }
    let summary = format!(
        "have its program create and delete fewer files; freeing the objects once gives it up to {}",
        format_bytes(objects)
    );
    let steps = vec![
        step(&format!("echo {} >", objects / 2), group, cgroups, "memory.reclaim"),
        Step::manual("echo 2 > /proc/sys/vm/drop_caches"),
    ];
    Some(
        finding
            .with_impact("Each allocation of its processes first frees such objects one by one.")
            .with_remedy(Remedy::named(summary, steps)),
    )
}

/// Drops what is said of a group and, with the same words, of one below it: the kernel counts memory in both.
pub(crate) fn keep_innermost(findings: &mut Vec<Finding>) {
    let known: Vec<(Subject, String)> = (findings.iter())
        .map(|finding| (finding.subject.clone(), finding.headline.clone()))
        .collect();
    findings.retain(|finding| {
        let Subject::Cgroup(Some(path)) = &finding.subject else { return true };
        let is_below = |subject: &Subject| match subject {
            Subject::Cgroup(Some(other)) => is_cgroup_below(other, path),
            _ => false,
        };
        !known.iter().any(|(subject, headline)| *headline == finding.headline && is_below(subject))
    });
}

fn finding(group: &Cgroup, headline: String) -> Finding {
    Finding::new(Severity::Warning, Subject::Cgroup(Some(group.path.clone())), headline)
}

fn step(command: &str, group: &Cgroup, cgroups: &Cgroups, file: &str) -> Step {
    Step::manual_on(command, &cgroups.file(group, file))
}
