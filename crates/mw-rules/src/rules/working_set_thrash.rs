//! # working-set-thrash
//!
//! File pages in use were reclaimed and had to be read again.
//!
//! ## What it finds
//! As a hazard: at least 256 file pages a second (1 MiB/s) that had been reclaimed are read again, while some task,
//! kswapd included, waited for memory for a tenth of the last 10 s. The kernel counts a read as such a wait only if the page was in use
//! before it was reclaimed. While free memory is twice the high watermarks, kswapd sleeps and only limits of cgroups
//! reclaim: a cgroup at 95% of its limit or more that has counted a tenth of the machine's refaults is named then.
//!
//! As the cause of a stall: the request waited for reads of file pages, and the kernel counted these
//! pages as refaults: they had been reclaimed shortly before, by the limit of the cgroup or because the machine
//! was short of memory.
//!
//! ## Why it hurts
//! Programs and data that no longer fit are read again and again, each time at the speed of the disk. A
//! service that takes 0.1 s with enough memory takes seconds, without an error anywhere.
//!
//! ## What it looks like
//! `workingset_refault_file` increases in the group's memory.stat or in /proc/vmstat; the disk is busy
//! with reads.
//!
//! ## How to fix it
//! Give the cgroup (`systemctl set-property UNIT MemoryMax=SIZE`) or the machine more memory, or protect
//! the service's working set with `MemoryLow=`. Keep large copies out of the page cache (`memwright
//! run --direct-io 64k`). Where each fault reads MBs, lower the read-ahead of the device (see reclaim-storm).
//!
//! ## Threshold
//! A hazard: refaults alone are harmless, and a backup that reads each file once has none. It is a
//! note while a large request is served all the same: then a cgroup's limit is too small for what it reads, or a program
//! reads files that are larger than memory. Otherwise it is a warning, and critical from a memory pressure of 30% on.
//! Anonymous pages are counted apart: see swap-thrash.
//!
//! A cause: these reads take at least half of the request; refaults are at least 30% of the pages read.
//!
//! ## References
//! Linux, mm/workingset.c; Documentation/admin-guide/cgroup-v2.rst, memory.stat.

use crate::group_settings::{GroupSetting, raised, set};
use crate::outlook;
use crate::read_ahead;
use crate::request::{is_limited, limit_events};
use crate::share::percent;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{
    Area, Cgroup, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Subject, Window,
    format_bytes, is_cgroup_within,
};
use mw_proc::vmstat::Counter;
use std::collections::BTreeMap;

/// What a request spends its time on because of it.
pub(crate) const AGAIN: &[TimeClass] = &[TimeClass::GroupRefault, TimeClass::Refault];

const CONFIRMED: u8 = 95;
const PAGES_PER_S: f64 = 256.0;
const PRESSURE_PERCENT: f64 = 10.0;
const CRITICAL_PRESSURE_PERCENT: f64 = 30.0;
/// Of a group's limit, in use.
const FULL_PERCENT: f64 = 95.0;
/// Of the machine's refaults, those of one group.
const SHARE_PERCENT: f64 = 10.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let refaults = window.rate(Counter::WorkingsetRefaultFile);
    let pressure = match window.now.sample.pressure.memory.required() {
        Ok(pressure) => pressure.some.avg10_percent,
        // A kernel before 4.20 measures no pressure; without refaults nothing thrashes, whatever it is.
        Err(_) if window.is_sustained() && refaults.is_ok_and(|pages| pages < PAGES_PER_S) => {
            return Ok(Vec::new());
        }
        Err(missing) => return Err(missing),
    };
    if pressure < PRESSURE_PERCENT {
        return Ok(Vec::new());
    }
    let pages = refaults?;
    if pages < PAGES_PER_S {
        return Ok(Vec::new());
    }
    let full = full_group(&window.now);
    let is_harmless = !window.is_sustained() || (full.is_none() && outlook::is_served(&window.now));
    let severity = match pressure >= CRITICAL_PRESSURE_PERCENT {
        _ if is_harmless => Severity::Note,
        true => Severity::Critical,
        false => Severity::Warning,
    };
    let again = format!("{pages:.0} file pages a second are read again after reclaim");
    let (subject, headline, step) = match &full {
        Some(full) => {
            let headline = format!("{again}; {}", full.words());
            let path = &full.group.path;
            let step = set(
                GroupSetting::MemoryMax,
                Some(raised(full.limit_bytes)),
                Some(path),
                window.now.cgroups.value(),
            );
            (Subject::Cgroup(Some(path.clone())), headline, step)
        }
        None => {
            let headline = format!(
                "{again}; some task, kswapd included, waited for memory for {pressure:.0}% of the last 10 s"
            );
            (Area::PageCache.into(), headline, set(GroupSetting::MemoryLow, None, None, None))
        }
    };
    let finding = Finding::new(severity, subject, headline)
        .with_evidence("workingset_refault_file", Quantity::PerSecond(pages), "/proc/vmstat")
        .with_evidence(
            "memory pressure, some, 10 s",
            Quantity::Percent(pressure),
            "/proc/pressure/memory",
        );
    let finding = complete(finding, step);
    Ok(vec![match read_ahead::remedy(window) {
        Some(remedy) if full.is_none() => finding.with_remedy(remedy),
        _ => finding,
    }])
}

/// A group that is full and has read most of the pages again.
struct FullGroup<'a> {
    group: &'a Cgroup,
    limit_bytes: u64,
    /// Other groups of which that holds, those above and below it left out.
    others: usize,
}

impl FullGroup<'_> {
    fn words(&self) -> String {
        let limit = format_bytes(self.limit_bytes);
        let others = match self.others {
            0 => String::new(),
            1 => ", and 1 other cgroup at its own".to_owned(),
            count => format!(", and {count} other cgroups at theirs"),
        };
        format!("this cgroup is at its limit of {limit}{others}")
    }
}

/// True if no node is near its watermarks: kswapd sleeps, and what is reclaimed is reclaimed by limits of groups.
fn has_free_memory(snapshot: &Snapshot) -> bool {
    let Some(zoneinfo) = snapshot.sample.zoneinfo.value() else { return false };
    let mut nodes: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for zone in &zoneinfo.zones {
        let (free, high) = nodes.entry(zone.node).or_default();
        *free = free.saturating_add(zone.free_pages);
        *high = high.saturating_add(zone.high_pages);
    }
    !nodes.is_empty() && nodes.values().all(|(free, high)| *free >= high.saturating_mul(2))
}

/// The group whose limit makes the kernel reclaim what is read again, by what each has counted since it exists; none where
/// the machine may reclaim for itself.
fn full_group(snapshot: &Snapshot) -> Option<FullGroup<'_>> {
    let of_machine = snapshot.sample.vmstat.value()?.get(Counter::WorkingsetRefaultFile)?;
    let cgroups = snapshot.cgroups.value().filter(|_| has_free_memory(snapshot))?;
    let refaults = |group: &Cgroup| group.stat.refault_file_pages.unwrap_or(0);
    let mut full: Vec<(&Cgroup, u64)> = cgroups
        .each()
        .filter_map(|group| Some((group, group.lowest_limit_bytes()?)))
        .filter(|(group, limit)| {
            percent(group.current_bytes.unwrap_or(0), *limit) >= FULL_PERCENT
                && percent(refaults(group), of_machine) >= SHARE_PERCENT
        })
        .collect();
    full.sort_by_key(|(group, _)| std::cmp::Reverse((refaults(group), group.path.len())));
    let mut apart: Vec<(&Cgroup, u64)> = Vec::new();
    for (group, limit) in full {
        let is_of = |(other, _): &(&Cgroup, u64)| {
            is_cgroup_within(&other.path, &group.path) || is_cgroup_within(&group.path, &other.path)
        };
        if !apart.iter().any(is_of) {
            apart.push((group, limit));
        }
    }
    let (&(group, limit_bytes), others) = apart.split_first()?;
    Some(FullGroup { group, limit_bytes, others: others.len() })
}

fn complete(finding: Finding, step: Step) -> Finding {
    finding
        .with_impact("Programs and data in use are read again and again at the speed of the disk.")
        .with_remedy(Remedy::named(
            "give the group more memory, or protect its working set",
            vec![step],
        ))
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let of_group = request.percent(&[TimeClass::GroupRefault]);
    let of_machine = request.percent(&[TimeClass::Refault]);
    if of_group <= 0.0 && of_machine <= 0.0 {
        return Ok(None);
    }
    let groups = stall.incident.groups.iter().filter(|group| group.path != "/");
    // A refault counts in the groups above, too: the limit that was met tells whose working set did not fit.
    let group = groups
        .filter(|group| of_group >= of_machine && group.refaults_file.unwrap_or(0) > 0)
        .max_by_key(|group| {
            let depth = group.path.matches('/').count();
            (group.of_service, limit_events(group), is_limited(group), depth, group.refaults_file)
        });
    let (subject, headline) = match group {
        Some(group) => {
            let subject = Subject::Cgroup(Some(group.path.clone()));
            let headline = format!("the working set of {} did not fit", subject.actor());
            (subject, headline)
        }
        None => {
            (Subject::Area(Area::PageCache), "the working set did not fit in memory".to_owned())
        }
    };
    let refaults = match group {
        Some(group) => (group.refaults_file.unwrap_or(0), "memory.stat"),
        None => {
            let rate = stall.rate(&[Counter::WorkingsetRefaultFile])?;
            let span_s = stall.window.span_ms().unwrap_or(0.0) / 1000.0;
            ((rate * span_s) as u64, "/proc/vmstat")
        }
    };
    let finding = Finding::new(Severity::Critical, subject, headline).with_evidence(
        "workingset_refault_file",
        Quantity::Count(refaults.0),
        refaults.1,
    );
    let limit = group.and_then(|group| group.memory_max_bytes);
    let setting = if limit.is_some() { GroupSetting::MemoryMax } else { GroupSetting::MemoryLow };
    let path = group.map(|group| group.path.as_str());
    let cgroups = stall.window.now.cgroups.value();
    let mut finding = complete(finding, set(setting, limit.map(raised), path, cgroups));
    if let Some(part) = request.largest(AGAIN) {
        let reader = Quantity::Text(part.task.label());
        finding = finding.with_evidence("read reclaimed pages again", reader, "critical path");
    }
    if let Some(bytes) = limit {
        finding = finding.with_evidence("memory.max", Quantity::Bytes(bytes), "memory.max");
    }
    let explains = request.explained_by(AGAIN);
    Ok(Some(Suspect::new(finding, CONFIRMED).explaining(explains)))
}
