//! The columns of a recording.

use super::Metric;
use crate::{NO_VALUE, Tick};

/// The columns of a recording: which metric each of them has.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    names: Vec<String>,
    metrics: Vec<Metric>,
}

impl Layout {
    /// Columns for all metrics of a tick.
    pub fn from_tick(tick: &Tick) -> Self {
        Self::new(super::of(tick))
    }

    /// Columns for the metrics that are sampled ten times a second.
    pub fn fast(tick: &Tick) -> Self {
        Self::new(super::of(tick).into_iter().filter(Metric::is_fast).collect())
    }

    fn new(metrics: Vec<Metric>) -> Self {
        Self { names: metrics.iter().map(Metric::to_string).collect(), metrics }
    }

    /// The columns of a recording; unknown names are kept, and their values ignored.
    pub fn from_names<S: AsRef<str>>(names: &[S]) -> Self {
        let names = names.iter().map(|name| name.as_ref().to_owned());
        let (names, metrics) = names.map(|name| (name.clone(), Metric::from_name(&name))).unzip();
        Self { names, metrics }
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Writes a tick as a row, [`NO_VALUE`] where it lacks a number. Allocates nothing once `row`
    /// has held a row.
    pub fn write(&self, tick: &Tick, row: &mut Vec<u64>) {
        row.clear();
        row.extend(self.metrics.iter().map(|metric| metric.get(tick).unwrap_or(NO_VALUE)));
    }

    /// Reads a row back; what it lacks is missing in the tick.
    pub fn read(&self, unix_ms: u64, row: &[u64]) -> Tick {
        let mut tick = Tick { unix_ms, ..Tick::default() };
        tick.sample.at_ms = unix_ms as f64;
        for (metric, value) in self.metrics.iter().zip(row).filter(|(_, value)| **value != NO_VALUE)
        {
            metric.set(&mut tick, *value);
        }
        tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Aggregation, Unit};
    use crate::{CanaryTick, DiskTick, NodeSample, ProbeTick, Reading};
    use mw_proc::buddyinfo::Buddyinfo;
    use mw_proc::meminfo::Meminfo;
    use mw_proc::pressure::Pressure;
    use mw_proc::vmstat::Vmstat;
    use mw_proc::zoneinfo::Zoneinfo;

    fn tick() -> Tick {
        let mut tick = Tick { unix_ms: 1_700_000_000_000, ..Tick::default() };
        let sample = &mut tick.sample;
        sample.at_ms = tick.unix_ms as f64;
        let meminfo =
            Meminfo::parse(include_bytes!("../../../mw-proc/tests/data/meminfo")).unwrap();
        let mut vmstat = Vmstat::default();
        vmstat.parse_into(include_bytes!("../../../mw-proc/tests/data/vmstat")).unwrap();
        let mut buddyinfo = Buddyinfo::default();
        buddyinfo.parse_into(include_bytes!("../../../mw-proc/tests/data/buddyinfo")).unwrap();
        let mut zoneinfo = Zoneinfo::default();
        zoneinfo.parse_into(include_bytes!("../../../mw-proc/tests/data/zoneinfo")).unwrap();
        zoneinfo.zones.retain(mw_proc::zoneinfo::Zone::is_populated);
        let pressure = b"some avg10=73.05 avg60=0.00 avg300=0.00 total=18234567\n";
        sample.pressure.memory = Reading::Value(Pressure::parse(pressure).unwrap());
        sample.nodes = vec![NodeSample { node: 3, meminfo: Reading::Value(meminfo) }];
        sample.meminfo = Reading::Value(meminfo);
        sample.vmstat = Reading::Value(vmstat);
        sample.buddyinfo = Reading::Value(buddyinfo);
        sample.zoneinfo = Reading::Value(zoneinfo);
        tick.disks = vec![DiskTick { name: "sda".to_owned(), busy_ms: 7, ..DiskTick::default() }];
        tick.probes = vec![ProbeTick { name: "db".to_owned(), answers: 3, ..ProbeTick::default() }];
        tick.canary = Some(CanaryTick { touch_us: 5, idle_us: 2, late_us: 90 });
        tick.recorder.cpu_us = 1234;
        tick
    }

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let tick = tick();
        let layout = Layout::from_tick(&tick);
        let mut row = Vec::new();
        layout.write(&tick, &mut row);
        let again = Layout::from_names(layout.names()).read(tick.unix_ms, &row);
        assert_eq!(format!("{again:?}"), format!("{tick:?}"));
        assert!(row.len() > 300 && !row.contains(&NO_VALUE), "{} columns", row.len());
    }

    #[test]
    fn every_metric_is_found_by_its_name() {
        for metric in super::super::of(&tick()) {
            assert_eq!(Metric::from_name(&metric.to_string()), metric);
            assert_ne!(metric, Metric::Unknown(metric.to_string().into()));
        }
    }

    #[test]
    fn metrics_know_their_unit_and_aggregation() {
        for (name, unit, aggregation) in [
            ("meminfo.MemFree", Unit::Bytes, Aggregation::Last),
            ("node.0.HugePages_Free", Unit::Pages, Aggregation::Last),
            ("vmstat.nr_dirty", Unit::Pages, Aggregation::Last),
            ("vmstat.pgscan_direct", Unit::Events, Aggregation::Last),
            ("buddy.0.Normal.9", Unit::Blocks, Aggregation::Last),
            ("pressure.io.some.total_us", Unit::Microseconds, Aggregation::Last),
            ("disk.sda.busy_ms", Unit::Milliseconds, Aggregation::Last),
            ("probe.db.answers", Unit::Events, Aggregation::Sum),
            ("probe.a.b.worst_us", Unit::Microseconds, Aggregation::Max),
            ("canary.late_us", Unit::Microseconds, Aggregation::Max),
            ("recorder.late_us", Unit::Microseconds, Aggregation::Max),
            ("recorder.cpu_us", Unit::Microseconds, Aggregation::Last),
            ("of.the.future", Unit::Count, Aggregation::Last),
        ] {
            let metric = Metric::from_name(name);
            assert_eq!((metric.unit(), metric.aggregation()), (unit, aggregation), "{name}");
        }
    }

    #[test]
    fn what_another_version_wrote_is_kept_and_reads_as_nothing() {
        let names = ["meminfo.MemFree", "vmstat.of_the_future", "odd", "zone.x.y.z", ""];
        let layout = Layout::from_names(&names);
        let tick = layout.read(1, &[4096, 1, 2, 3, 4]);
        assert_eq!(tick.sample.meminfo.required().unwrap().mem_free_bytes, Some(4096));
        let mut row = Vec::new();
        layout.write(&tick, &mut row);
        assert_eq!(row, [4096, NO_VALUE, NO_VALUE, NO_VALUE, NO_VALUE]);
    }

    #[test]
    fn fast_columns_are_those_read_ten_times_a_second() {
        let fast = Layout::fast(&tick());
        let has = |name: &str| fast.names().iter().any(|known| known == name);
        assert!(has("vmstat.pgscan_direct") && has("probe.db.worst_us") && has("disk.sda.busy_ms"));
        assert!(!has("meminfo.MemFree") && !has("recorder.cpu_us"));
    }
}
