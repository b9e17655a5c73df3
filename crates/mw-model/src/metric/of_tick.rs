//! Reading a metric from a tick, and writing it back.

use super::{MeminfoLine, Metric, PressureKind, PressureMetric, Resource, ZoneId};
use crate::{DiskTick, NodeSample, ProbeTick, Reading, Sample, Tick};
use mw_proc::buddyinfo::{BuddyZone, Buddyinfo};
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::{Pressure, PressureLine};
use mw_proc::zoneinfo::{MAX_PROTECTION, Zone, ZoneName, Zoneinfo};

impl Metric {
    /// Its value in a tick, if it has one.
    pub(super) fn get(&self, tick: &Tick) -> Option<u64> {
        let sample = &tick.sample;
        match self {
            Self::Meminfo(line) => sample.meminfo.value()?.get(line.0),
            Self::Vmstat(counter) => sample.vmstat.value()?.get(*counter),
            Self::Zone(id, metric) => metric.get(id.zone_of(sample)?),
            Self::ZoneProtection(id, at) => id.zone_of(sample)?.protection().get(*at).copied(),
            Self::FreeBlocks(id, order) => {
                let zones = &sample.buddyinfo.value()?.zones;
                let zone = zones.iter().find(|zone| id.is(zone.node, zone.name))?;
                zone.values().get(*order).copied()
            }
            Self::Pressure(resource, stalled, metric) => {
                let pressure = resource.of(sample).value()?;
                metric.get(match stalled {
                    PressureKind::Some => &pressure.some,
                    PressureKind::Full => pressure.full.as_ref()?,
                })
            }
            Self::NodeMeminfo(node, line) => {
                let node = sample.nodes.iter().find(|sample| sample.node == *node)?;
                node.meminfo.value()?.get(line.0)
            }
            Self::Disk(name, metric) => {
                metric.get(tick.disks.iter().find(|disk| *disk.name == **name)?)
            }
            Self::Probe(name, metric) => {
                metric.get(tick.probes.iter().find(|probe| *probe.name == **name)?)
            }
            Self::Canary(metric) => metric.get(tick.canary.as_ref()?),
            Self::Recorder(metric) => metric.get(&tick.recorder),
            Self::Unknown(_) => None,
        }
    }

    /// Sets its value in a tick.
    pub(super) fn set(&self, tick: &mut Tick, value: u64) {
        let sample = &mut tick.sample;
        match self {
            Self::Meminfo(line) => set_meminfo(seen(&mut sample.meminfo), *line, value),
            Self::Vmstat(counter) => seen(&mut sample.vmstat).set(*counter, Some(value)),
            Self::Zone(id, metric) => metric.set(id.zone_in(sample), value),
            Self::ZoneProtection(id, at) => {
                let zone = id.zone_in(sample);
                if let Some(slot) = zone.protection_pages.get_mut(*at) {
                    *slot = value;
                    zone.protection_len = zone.protection_len.max(at + 1).min(MAX_PROTECTION);
                }
            }
            Self::FreeBlocks(id, order) => id.buddy_in(sample).set(*order, value),
            Self::Pressure(resource, stalled, metric) => {
                let pressure = seen(resource.of_mut(sample));
                metric.set(
                    match stalled {
                        PressureKind::Some => &mut pressure.some,
                        PressureKind::Full => pressure.full.get_or_insert_default(),
                    },
                    value,
                );
            }
            Self::NodeMeminfo(node, line) => {
                let new = || NodeSample { node: *node, ..NodeSample::default() };
                let node = entry(&mut sample.nodes, |sample| sample.node == *node, new);
                set_meminfo(seen(&mut node.meminfo), *line, value);
            }
            Self::Disk(name, metric) => {
                let new = || DiskTick { name: name.to_string(), ..DiskTick::default() };
                let disk = entry(&mut tick.disks, |disk| *disk.name == **name, new);
                metric.set(disk, value);
            }
            Self::Probe(name, metric) => {
                let new = || ProbeTick { name: name.to_string(), ..ProbeTick::default() };
                let probe = entry(&mut tick.probes, |probe| *probe.name == **name, new);
                metric.set(probe, value);
            }
            Self::Canary(metric) => metric.set(tick.canary.get_or_insert_default(), value),
            Self::Recorder(metric) => metric.set(&mut tick.recorder, value),
            Self::Unknown(_) => {}
        }
    }
}

impl ZoneId {
    fn is(self, node: u32, zone: ZoneName) -> bool {
        self.node == node && self.zone == zone
    }

    fn zone_of(self, sample: &Sample) -> Option<&Zone> {
        sample.zoneinfo.value()?.zones.iter().find(|zone| self.is(zone.node, zone.name))
    }

    fn zone_in(self, sample: &mut Sample) -> &mut Zone {
        let Zoneinfo { zones, .. } = seen(&mut sample.zoneinfo);
        let new = || Zone { node: self.node, name: self.zone, ..Zone::default() };
        entry(zones, |zone| self.is(zone.node, zone.name), new)
    }

    fn buddy_in(self, sample: &mut Sample) -> &mut BuddyZone {
        let Buddyinfo { zones } = seen(&mut sample.buddyinfo);
        let new = || BuddyZone::new(self.node, self.zone);
        entry(zones, |zone| self.is(zone.node, zone.name), new)
    }
}

impl Resource {
    fn of_mut(self, sample: &mut Sample) -> &mut Reading<Pressure> {
        match self {
            Self::Cpu => &mut sample.pressure.cpu,
            Self::Memory => &mut sample.pressure.memory,
            Self::Io => &mut sample.pressure.io,
        }
    }
}

impl PressureMetric {
    fn get(self, line: &PressureLine) -> Option<u64> {
        Some(match self {
            Self::TotalUs => line.total_us,
            Self::Avg10 => (line.avg10_percent * 100.0).round() as u64,
        })
    }

    fn set(self, line: &mut PressureLine, value: u64) {
        match self {
            Self::TotalUs => line.total_us = value,
            Self::Avg10 => line.avg10_percent = value as f64 / 100.0,
        }
    }
}

fn set_meminfo(meminfo: &mut Meminfo, line: MeminfoLine, value: u64) {
    if let Some(name) = Meminfo::NAMES.get(line.0) {
        meminfo.set(name, Some(value));
    }
}

/// The value of a look, which becomes `Seen`.
fn seen<T: Default>(look: &mut Reading<T>) -> &mut T {
    if look.value().is_none() {
        *look = Reading::Value(T::default());
    }
    match look {
        Reading::Value(value) => value,
        Reading::Missing(_) => unreachable!("it was made seen above"),
    }
}

/// The entry of a list for which `is` holds, or a new one at its end.
fn entry<T>(list: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let at = list.iter().position(is).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    });
    &mut list[at]
}
