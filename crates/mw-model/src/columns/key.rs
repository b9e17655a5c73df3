//! One number of a tick: its value, and its place when a row is read back.

use super::fields::{CANARY, DISK, Field, PROBE, RECORDER, ZONE, by_name};
use crate::{CanaryTick, DiskTick, Look, NodeSample, ProbeTick, RecorderTick, Sample, Tick};
use mw_proc::buddyinfo::{BuddyZone, Buddyinfo};
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::{Pressure, PressureLine};
use mw_proc::vmstat::Counter;
use mw_proc::zoneinfo::{MAX_PROTECTION, Zone, ZoneName, Zoneinfo};

/// The number that a column's name stands for.
#[derive(Debug, Clone)]
pub(super) enum Key {
    Meminfo(usize),
    Vmstat(Counter),
    Zone(Place, &'static Field<Zone>),
    Protection(Place, usize),
    Buddy(Place, usize),
    Pressure(Resource, Line, Part),
    Node(u32, usize),
    Disk(Box<str>, &'static Field<DiskTick>),
    Probe(Box<str>, &'static Field<ProbeTick>),
    Canary(&'static Field<CanaryTick>),
    Recorder(&'static Field<RecorderTick>),
    /// A column of another version.
    Unknown,
}

/// A zone of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    node: u32,
    zone: ZoneName,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Resource {
    Cpu,
    Memory,
    Io,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Line {
    Some,
    Full,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Total,
    Average,
}

impl Key {
    /// What a name stands for.
    pub(super) fn named(name: &str) -> Self {
        Self::parse(name).unwrap_or(Self::Unknown)
    }

    fn parse(name: &str) -> Option<Self> {
        let (group, rest) = name.split_once('.')?;
        Some(match group {
            "meminfo" => Self::Meminfo(meminfo(rest)?),
            "vmstat" => Self::Vmstat(Counter::from_name(rest)?),
            "zone" => zone(rest)?,
            "buddy" => {
                let (place, order) = place(rest)?;
                Self::Buddy(place, order.parse().ok()?)
            }
            "pressure" => pressure(rest)?,
            "node" => {
                let (node, name) = rest.split_once('.')?;
                Self::Node(node.parse().ok()?, meminfo(name)?)
            }
            "disk" => {
                let (disk, field) = rest.rsplit_once('.')?;
                Self::Disk(disk.into(), by_name(DISK, field)?)
            }
            "probe" => {
                let (probe, field) = rest.rsplit_once('.')?;
                Self::Probe(probe.into(), by_name(PROBE, field)?)
            }
            "canary" => Self::Canary(by_name(CANARY, rest)?),
            "recorder" => Self::Recorder(by_name(RECORDER, rest)?),
            _ => return None,
        })
    }

    /// Whether it is read ten times a second.
    pub(super) fn is_fast(&self) -> bool {
        matches!(
            self,
            Self::Vmstat(_)
                | Self::Buddy(..)
                | Self::Pressure(..)
                | Self::Disk(..)
                | Self::Probe(..)
                | Self::Canary(_)
        )
    }

    /// The number, where the tick has it.
    pub(super) fn get(&self, tick: &Tick) -> Option<u64> {
        let sample = &tick.sample;
        match self {
            Self::Meminfo(field) => sample.meminfo.seen()?.get(*field),
            Self::Vmstat(counter) => sample.vmstat.seen()?.get(*counter),
            Self::Zone(place, field) => (field.get)(place.zone_of(sample)?),
            Self::Protection(place, at) => place.zone_of(sample)?.protection().get(*at).copied(),
            Self::Buddy(place, order) => {
                let zones = &sample.buddyinfo.seen()?.zones;
                let zone = zones.iter().find(|zone| place.is(zone.node, zone.name))?;
                zone.values().get(*order).copied()
            }
            Self::Pressure(resource, line, part) => {
                let pressure = resource.of(sample).seen()?;
                part.get(match line {
                    Line::Some => &pressure.some,
                    Line::Full => pressure.full.as_ref()?,
                })
            }
            Self::Node(node, field) => {
                let node = sample.nodes.iter().find(|sample| sample.node == *node)?;
                node.meminfo.seen()?.get(*field)
            }
            Self::Disk(name, field) => {
                (field.get)(tick.disks.iter().find(|disk| *disk.name == **name)?)
            }
            Self::Probe(name, field) => {
                (field.get)(tick.probes.iter().find(|probe| *probe.name == **name)?)
            }
            Self::Canary(field) => (field.get)(tick.canary.as_ref()?),
            Self::Recorder(field) => (field.get)(&tick.recorder),
            Self::Unknown => None,
        }
    }

    /// Puts a number back in its place.
    pub(super) fn set(&self, tick: &mut Tick, value: u64) {
        let sample = &mut tick.sample;
        match self {
            Self::Meminfo(field) => set_meminfo(seen(&mut sample.meminfo), *field, value),
            Self::Vmstat(counter) => seen(&mut sample.vmstat).set(*counter, Some(value)),
            Self::Zone(place, field) => (field.set)(place.zone_in(sample), value),
            Self::Protection(place, at) => {
                let zone = place.zone_in(sample);
                if let Some(slot) = zone.protection_pages.get_mut(*at) {
                    *slot = value;
                    zone.protection_len = zone.protection_len.max(at + 1).min(MAX_PROTECTION);
                }
            }
            Self::Buddy(place, order) => place.buddy_in(sample).set(*order, value),
            Self::Pressure(resource, line, part) => {
                let pressure = seen(resource.in_(sample));
                part.set(
                    match line {
                        Line::Some => &mut pressure.some,
                        Line::Full => pressure.full.get_or_insert_default(),
                    },
                    value,
                );
            }
            Self::Node(node, field) => {
                let new = || NodeSample { node: *node, ..NodeSample::default() };
                let node = entry(&mut sample.nodes, |sample| sample.node == *node, new);
                set_meminfo(seen(&mut node.meminfo), *field, value);
            }
            Self::Disk(name, field) => {
                let new = || DiskTick { name: name.to_string(), ..DiskTick::default() };
                let disk = entry(&mut tick.disks, |disk| *disk.name == **name, new);
                (field.set)(disk, value);
            }
            Self::Probe(name, field) => {
                let new = || ProbeTick { name: name.to_string(), ..ProbeTick::default() };
                let probe = entry(&mut tick.probes, |probe| *probe.name == **name, new);
                (field.set)(probe, value);
            }
            Self::Canary(field) => (field.set)(tick.canary.get_or_insert_default(), value),
            Self::Recorder(field) => (field.set)(&mut tick.recorder, value),
            Self::Unknown => {}
        }
    }
}

impl Place {
    fn is(self, node: u32, zone: ZoneName) -> bool {
        self.node == node && self.zone == zone
    }

    fn zone_of(self, sample: &Sample) -> Option<&Zone> {
        sample.zoneinfo.seen()?.zones.iter().find(|zone| self.is(zone.node, zone.name))
    }

    fn zone_in(self, sample: &mut Sample) -> &mut Zone {
        let Zoneinfo { zones } = seen(&mut sample.zoneinfo);
        let new = || Zone { node: self.node, name: self.zone, ..Zone::default() };
        entry(zones, |zone| self.is(zone.node, zone.name), new)
    }

    fn buddy_in(self, sample: &mut Sample) -> &mut BuddyZone {
        let Buddyinfo { zones } = seen(&mut sample.buddyinfo);
        let new = || BuddyZone::of(self.node, self.zone);
        entry(zones, |zone| self.is(zone.node, zone.name), new)
    }
}

impl Resource {
    fn of(self, sample: &Sample) -> &Look<Pressure> {
        match self {
            Self::Cpu => &sample.pressure.cpu,
            Self::Memory => &sample.pressure.memory,
            Self::Io => &sample.pressure.io,
        }
    }

    fn in_(self, sample: &mut Sample) -> &mut Look<Pressure> {
        match self {
            Self::Cpu => &mut sample.pressure.cpu,
            Self::Memory => &mut sample.pressure.memory,
            Self::Io => &mut sample.pressure.io,
        }
    }
}

impl Part {
    fn get(self, line: &PressureLine) -> Option<u64> {
        Some(match self {
            Self::Total => line.total_us,
            Self::Average => (line.avg10_percent * 100.0).round() as u64,
        })
    }

    fn set(self, line: &mut PressureLine, value: u64) {
        match self {
            Self::Total => line.total_us = value,
            Self::Average => line.avg10_percent = value as f64 / 100.0,
        }
    }
}

fn meminfo(name: &str) -> Option<usize> {
    Meminfo::NAMES.iter().position(|known| *known == name)
}

fn set_meminfo(meminfo: &mut Meminfo, field: usize, value: u64) {
    if let Some(name) = Meminfo::NAMES.get(field) {
        meminfo.set(name, Some(value));
    }
}

/// `0.Normal.free_pages`: the zone, and what follows.
fn place(text: &str) -> Option<(Place, &str)> {
    let (node, rest) = text.split_once('.')?;
    let (zone, rest) = rest.split_once('.')?;
    let zone = ZoneName::new(zone.as_bytes())?;
    Some((Place { node: node.parse().ok()?, zone }, rest))
}

fn zone(text: &str) -> Option<Key> {
    let (place, field) = place(text)?;
    Some(match field.strip_prefix("protection.") {
        Some(at) => Key::Protection(place, at.parse().ok()?),
        None => Key::Zone(place, by_name(ZONE, field)?),
    })
}

fn pressure(text: &str) -> Option<Key> {
    let mut parts = text.split('.');
    let resource = match parts.next()? {
        "cpu" => Resource::Cpu,
        "memory" => Resource::Memory,
        "io" => Resource::Io,
        _ => return None,
    };
    let line = match parts.next()? {
        "some" => Line::Some,
        "full" => Line::Full,
        _ => return None,
    };
    let part = match parts.next()? {
        "total_us" => Part::Total,
        "avg10_centipercent" => Part::Average,
        _ => return None,
    };
    Some(Key::Pressure(resource, line, part))
}

/// The value of a look, which becomes seen.
fn seen<T: Default>(look: &mut Look<T>) -> &mut T {
    if look.seen().is_none() {
        *look = Look::Seen(T::default());
    }
    match look {
        Look::Seen(value) => value,
        Look::Missing(_) => unreachable!("it was made seen above"),
    }
}

/// The entry that is meant, at its place or at the end.
fn entry<T>(list: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let at = list.iter().position(is).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    });
    &mut list[at]
}
