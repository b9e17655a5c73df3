//! Recorded metrics: a type for every number of a [`Tick`], with its name, unit and aggregation. This
//! is the one place that spells names of columns; recordings and exports have them as follows.
//!
//! | name | metric |
//! |---|---|
//! | `meminfo.MemFree` | a line of /proc/meminfo, in bytes (`HugePages_*`: pages) |
//! | `vmstat.pgscan_direct` | a counter of /proc/vmstat |
//! | `zone.0.Normal.free_pages` | node, zone, and a number of /proc/zoneinfo in pages |
//! | `buddy.0.Normal.9` | free blocks of an order, of /proc/buddyinfo |
//! | `pressure.memory.some.total_us` | of /proc/pressure; also `.avg10_centipercent` |
//! | `node.0.MemFree` | a line of a node's meminfo |
//! | `disk.nvme0n1.written_bytes` | since boot; also `read_bytes`, `busy_ms`, `in_flight` |
//! | `probe.NAME.worst_us` | since the row before; also `answers`, `failures` |
//! | `canary.touch_us` | since the row before; also `idle_us`, `late_us` |
//! | `recorder.cpu_us` | the recorder's own cost: the fields of [`RecorderTick`](crate::RecorderTick) |

mod fields;
mod layout;
mod of_tick;
mod unit;

pub use fields::{CanaryMetric, DiskMetric, ProbeMetric, RecorderMetric, ZoneMetric};
pub use layout::Layout;
pub use unit::{Aggregation, Unit};

use crate::{Reading, Sample, Tick};
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::Pressure;
use mw_proc::vmstat::Counter;
use mw_proc::zoneinfo::ZoneName;
use std::fmt;

/// One recorded series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metric {
    Meminfo(MeminfoLine),
    Vmstat(Counter),
    Zone(ZoneId, ZoneMetric),
    /// Pages that a zone reserves against allocations that the zone at this place could serve.
    ZoneProtection(ZoneId, usize),
    /// Free blocks of an order.
    FreeBlocks(ZoneId, usize),
    Pressure(Resource, PressureKind, PressureMetric),
    NodeMeminfo(u32, MeminfoLine),
    Disk(Box<str>, DiskMetric),
    Probe(Box<str>, ProbeMetric),
    Canary(CanaryMetric),
    Recorder(RecorderMetric),
    /// A metric of another version, by its name.
    Unknown(Box<str>),
}

/// A line of meminfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeminfoLine(usize);

impl MeminfoLine {
    /// The line with this name of the kernel.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Meminfo::NAMES.iter().position(|known| *known == name).map(Self)
    }

    fn name(self) -> &'static str {
        Meminfo::NAMES.get(self.0).copied().unwrap_or_default()
    }

    fn unit(self) -> Unit {
        if self.name().starts_with("HugePages_") { Unit::Pages } else { Unit::Bytes }
    }
}

/// A zone of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneId {
    pub node: u32,
    pub zone: ZoneName,
}

/// A resource of pressure stall information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Cpu,
    Memory,
    Io,
}

impl Resource {
    const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Io];

    /// The name of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }

    /// Its pressure in a sample.
    #[must_use]
    pub fn of(self, sample: &Sample) -> &Reading<Pressure> {
        match self {
            Self::Cpu => &sample.pressure.cpu,
            Self::Memory => &sample.pressure.memory,
            Self::Io => &sample.pressure.io,
        }
    }
}

/// The tasks that waited, as the lines of a pressure file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PressureKind {
    /// At least one task.
    Some,
    /// All tasks that were not idle.
    Full,
}

impl PressureKind {
    const ALL: [Self; 2] = [Self::Some, Self::Full];

    fn name(self) -> &'static str {
        match self {
            Self::Some => "some",
            Self::Full => "full",
        }
    }
}

/// A number of a pressure file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PressureMetric {
    /// Time waited since boot.
    TotalUs,
    /// Share of the last 10 seconds.
    Avg10,
}

impl PressureMetric {
    const ALL: [Self; 2] = [Self::TotalUs, Self::Avg10];

    fn name(self) -> &'static str {
        match self {
            Self::TotalUs => "total_us",
            Self::Avg10 => "avg10_centipercent",
        }
    }
}

impl Metric {
    /// The time that some task waited for a resource.
    #[must_use]
    pub fn waited_us(resource: Resource) -> Self {
        Self::Pressure(resource, PressureKind::Some, PressureMetric::TotalUs)
    }

    /// The metric with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self::parse(name).unwrap_or_else(|| Self::Unknown(name.into()))
    }

    fn parse(name: &str) -> Option<Self> {
        let (group, rest) = name.split_once('.')?;
        Some(match group {
            "meminfo" => Self::Meminfo(MeminfoLine::from_name(rest)?),
            "vmstat" => Self::Vmstat(Counter::from_name(rest)?),
            "zone" => zone(rest)?,
            "buddy" => {
                let (id, order) = zone_id(rest)?;
                Self::FreeBlocks(id, order.parse().ok()?)
            }
            "pressure" => pressure(rest)?,
            "node" => {
                let (node, line) = rest.split_once('.')?;
                Self::NodeMeminfo(node.parse().ok()?, MeminfoLine::from_name(line)?)
            }
            "disk" => {
                let (disk, field) = rest.rsplit_once('.')?;
                Self::Disk(disk.into(), DiskMetric::from_name(field)?)
            }
            "probe" => {
                let (probe, field) = rest.rsplit_once('.')?;
                Self::Probe(probe.into(), ProbeMetric::from_name(field)?)
            }
            "canary" => Self::Canary(CanaryMetric::from_name(rest)?),
            "recorder" => Self::Recorder(RecorderMetric::from_name(rest)?),
            _ => return None,
        })
    }

    #[must_use]
    pub fn unit(&self) -> Unit {
        match self {
            Self::Meminfo(line) | Self::NodeMeminfo(_, line) => line.unit(),
            Self::Vmstat(counter) if counter.name().starts_with("nr_") => Unit::Pages,
            Self::Vmstat(_) => Unit::Events,
            Self::Zone(_, metric) => metric.unit(),
            Self::ZoneProtection(..) => Unit::Pages,
            Self::FreeBlocks(..) => Unit::Blocks,
            Self::Pressure(_, _, PressureMetric::TotalUs) => Unit::Microseconds,
            Self::Pressure(_, _, PressureMetric::Avg10) => Unit::Centipercent,
            Self::Disk(_, metric) => metric.unit(),
            Self::Probe(_, metric) => metric.unit(),
            Self::Canary(metric) => metric.unit(),
            Self::Recorder(metric) => metric.unit(),
            Self::Unknown(_) => Unit::Count,
        }
    }

    #[must_use]
    pub fn aggregation(&self) -> Aggregation {
        match self {
            Self::Probe(_, metric) => metric.aggregation(),
            Self::Canary(metric) => metric.aggregation(),
            Self::Recorder(metric) => metric.aggregation(),
            _ => Aggregation::Last,
        }
    }

    /// True if it is sampled ten times a second.
    fn is_fast(&self) -> bool {
        matches!(
            self,
            Self::Vmstat(_)
                | Self::FreeBlocks(..)
                | Self::Pressure(..)
                | Self::Disk(..)
                | Self::Probe(..)
                | Self::Canary(_)
        )
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meminfo(line) => write!(f, "meminfo.{}", line.name()),
            Self::Vmstat(counter) => write!(f, "vmstat.{}", counter.name()),
            Self::Zone(id, metric) => write!(f, "zone.{}.{}.{}", id.node, id.zone, metric.name()),
            Self::ZoneProtection(id, at) => {
                write!(f, "zone.{}.{}.protection.{at}", id.node, id.zone)
            }
            Self::FreeBlocks(id, order) => write!(f, "buddy.{}.{}.{order}", id.node, id.zone),
            Self::Pressure(resource, stalled, metric) => {
                write!(f, "pressure.{}.{}.{}", resource.name(), stalled.name(), metric.name())
            }
            Self::NodeMeminfo(node, line) => write!(f, "node.{node}.{}", line.name()),
            Self::Disk(disk, metric) => write!(f, "disk.{disk}.{}", metric.name()),
            Self::Probe(probe, metric) => write!(f, "probe.{probe}.{}", metric.name()),
            Self::Canary(metric) => write!(f, "canary.{}", metric.name()),
            Self::Recorder(metric) => write!(f, "recorder.{}", metric.name()),
            Self::Unknown(name) => f.write_str(name),
        }
    }
}

/// `0.Normal.free_pages`: the zone, and what follows.
fn zone_id(text: &str) -> Option<(ZoneId, &str)> {
    let (node, rest) = text.split_once('.')?;
    let (zone, rest) = rest.split_once('.')?;
    let zone = ZoneName::new(zone.as_bytes())?;
    Some((ZoneId { node: node.parse().ok()?, zone }, rest))
}

fn zone(text: &str) -> Option<Metric> {
    let (id, field) = zone_id(text)?;
    Some(match field.strip_prefix("protection.") {
        Some(at) => Metric::ZoneProtection(id, at.parse().ok()?),
        None => Metric::Zone(id, ZoneMetric::from_name(field)?),
    })
}

fn pressure(text: &str) -> Option<Metric> {
    let mut parts = text.split('.');
    let name = parts.next()?;
    let resource = Resource::ALL.into_iter().find(|known| known.name() == name)?;
    let name = parts.next()?;
    let stalled = PressureKind::ALL.into_iter().find(|known| known.name() == name)?;
    let name = parts.next()?;
    let metric = PressureMetric::ALL.into_iter().find(|known| known.name() == name)?;
    Some(Metric::Pressure(resource, stalled, metric))
}

/// The metrics that a tick has, in the order of a recording's columns.
fn of(tick: &Tick) -> Vec<Metric> {
    let mut metrics = Vec::new();
    of_sample(&tick.sample, &mut metrics);
    for disk in &tick.disks {
        let name = || disk.name.as_str().into();
        metrics.extend(DiskMetric::ALL.iter().map(|metric| Metric::Disk(name(), *metric)));
    }
    for probe in &tick.probes {
        let name = || probe.name.as_str().into();
        metrics.extend(ProbeMetric::ALL.iter().map(|metric| Metric::Probe(name(), *metric)));
    }
    if tick.canary.is_some() {
        metrics.extend(CanaryMetric::ALL.iter().copied().map(Metric::Canary));
    }
    metrics.extend(RecorderMetric::ALL.iter().copied().map(Metric::Recorder));
    metrics
}

fn of_sample(sample: &Sample, metrics: &mut Vec<Metric>) {
    metrics.extend(lines(&sample.meminfo).map(Metric::Meminfo));
    let counters = sample.vmstat.value().into_iter().flat_map(|vmstat| vmstat.iter());
    metrics.extend(counters.map(|(counter, _)| Metric::Vmstat(counter)));
    for zone in sample.zoneinfo.value().into_iter().flat_map(|info| &info.zones) {
        if !zone.is_populated() {
            continue;
        }
        let id = ZoneId { node: zone.node, zone: zone.name };
        let present = ZoneMetric::ALL.iter().filter(|metric| metric.get(zone).is_some());
        metrics.extend(present.map(|metric| Metric::Zone(id, *metric)));
        metrics.extend((0..zone.protection().len()).map(|at| Metric::ZoneProtection(id, at)));
    }
    for zone in sample.buddyinfo.value().into_iter().flat_map(|info| &info.zones) {
        let id = ZoneId { node: zone.node, zone: zone.name };
        metrics.extend((0..zone.values().len()).map(|order| Metric::FreeBlocks(id, order)));
    }
    for resource in Resource::ALL {
        let Some(pressure) = resource.of(sample).value() else { continue };
        let has =
            |stalled: &PressureKind| *stalled == PressureKind::Some || pressure.full.is_some();
        for stalled in PressureKind::ALL.into_iter().filter(has) {
            let all = PressureMetric::ALL.into_iter();
            metrics.extend(all.map(|metric| Metric::Pressure(resource, stalled, metric)));
        }
    }
    for node in &sample.nodes {
        metrics.extend(lines(&node.meminfo).map(|line| Metric::NodeMeminfo(node.node, line)));
    }
}

fn lines(look: &Reading<Meminfo>) -> impl Iterator<Item = MeminfoLine> {
    let present = |meminfo: &Meminfo| {
        let meminfo = *meminfo;
        (0..Meminfo::NAMES.len()).filter(move |at| meminfo.get(*at).is_some()).map(MeminfoLine)
    };
    look.value().into_iter().flat_map(present)
}
