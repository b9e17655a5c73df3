//! The names of the columns that a tick has.

use super::fields::{CANARY, DISK, PROBE, RECORDER, ZONE};
use crate::{Look, Sample, Tick};
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::Pressure;
use mw_proc::zoneinfo::Zone;

/// All names, in the order of the columns.
pub(super) fn of(tick: &Tick) -> Vec<String> {
    let mut names = Vec::new();
    sample(&tick.sample, &mut names);
    for disk in &tick.disks {
        names.extend(DISK.iter().map(|field| format!("disk.{}.{}", disk.name, field.name)));
    }
    for probe in &tick.probes {
        names.extend(PROBE.iter().map(|field| format!("probe.{}.{}", probe.name, field.name)));
    }
    if tick.canary.is_some() {
        names.extend(CANARY.iter().map(|field| format!("canary.{}", field.name)));
    }
    names.extend(RECORDER.iter().map(|field| format!("recorder.{}", field.name)));
    names
}

fn sample(sample: &Sample, names: &mut Vec<String>) {
    meminfo("meminfo", &sample.meminfo, names);
    for (counter, _) in sample.vmstat.seen().into_iter().flat_map(|vmstat| vmstat.iter()) {
        names.push(format!("vmstat.{}", counter.name()));
    }
    for of in sample.zoneinfo.seen().into_iter().flat_map(|info| &info.zones) {
        if of.is_populated() {
            zone(of, names);
        }
    }
    for zone in sample.buddyinfo.seen().into_iter().flat_map(|info| &info.zones) {
        let name = |order| format!("buddy.{}.{}.{order}", zone.node, zone.name);
        names.extend((0..zone.values().len()).map(name));
    }
    pressure("cpu", &sample.pressure.cpu, names);
    pressure("memory", &sample.pressure.memory, names);
    pressure("io", &sample.pressure.io, names);
    for node in &sample.nodes {
        meminfo(&format!("node.{}", node.node), &node.meminfo, names);
    }
}

fn meminfo(prefix: &str, look: &Look<Meminfo>, names: &mut Vec<String>) {
    let Some(meminfo) = look.seen() else { return };
    let there = Meminfo::NAMES.iter().enumerate().filter(|(at, _)| meminfo.get(*at).is_some());
    names.extend(there.map(|(_, name)| format!("{prefix}.{name}")));
}

fn zone(zone: &Zone, names: &mut Vec<String>) {
    let prefix = format!("zone.{}.{}", zone.node, zone.name);
    let there = ZONE.iter().filter(|field| (field.get)(zone).is_some());
    names.extend(there.map(|field| format!("{prefix}.{}", field.name)));
    names.extend((0..zone.protection().len()).map(|at| format!("{prefix}.protection.{at}")));
}

fn pressure(resource: &str, look: &Look<Pressure>, names: &mut Vec<String>) {
    let Some(pressure) = look.seen() else { return };
    let lines = [("some", true), ("full", pressure.full.is_some())];
    for (line, _) in lines.into_iter().filter(|(_, there)| *there) {
        for part in ["total_us", "avg10_centipercent"] {
            names.push(format!("pressure.{resource}.{line}.{part}"));
        }
    }
}
