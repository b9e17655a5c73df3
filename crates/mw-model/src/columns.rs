//! The columns of a recording: a name for every number of a [`Tick`], and the way there and back.
//!
//! | column | what |
//! |---|---|
//! | `meminfo.MemFree` | bytes (`HugePages_*`: pages), as /proc/meminfo names it |
//! | `vmstat.pgscan_direct` | pages or events, as /proc/vmstat names it |
//! | `zone.0.Normal.free_pages` | node, zone, and a number of /proc/zoneinfo in pages |
//! | `buddy.0.Normal.9` | free blocks of an order, of /proc/buddyinfo |
//! | `pressure.memory.some.total_us` | of /proc/pressure; also `.avg10_centipercent` |
//! | `node.0.MemFree` | of a node's meminfo |
//! | `disk.nvme0n1.written_bytes` | since boot; also `read_bytes`, `busy_ms`, `in_flight` |
//! | `probe.NAME.worst_us` | since the row before; also `answers`, `failures` |
//! | `canary.touch_us` | since the row before; also `idle_us`, `late_us` |
//! | `recorder.cpu_us` | the recorder's own cost: the fields of [`RecorderTick`] |

mod fields;
mod key;
mod names;

use crate::{NO_VALUE, Tick};
use key::Key;

/// Which number stands in which column.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    names: Vec<String>,
    keys: Vec<Key>,
}

impl Layout {
    /// Columns for everything that a tick has.
    pub fn of(tick: &Tick) -> Self {
        Self::named(&names::of(tick))
    }

    /// Columns for what is read ten times a second: vmstat, free blocks, pressure, block devices,
    /// probes, canary.
    pub fn fast(tick: &Tick) -> Self {
        let mut names = names::of(tick);
        names.retain(|name| Key::named(name).is_fast());
        Self::named(&names)
    }

    /// The columns of a recording; names that this version does not know are kept, and read as
    /// nothing.
    pub fn named<S: AsRef<str>>(names: &[S]) -> Self {
        let names = names.iter().map(|name| name.as_ref().to_owned());
        let (names, keys) = names.map(|name| (name.clone(), Key::named(&name))).unzip();
        Self { names, keys }
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Writes a tick as a row, [`NO_VALUE`] where it lacks a number. Allocates nothing once `row`
    /// has held a row.
    pub fn write(&self, tick: &Tick, row: &mut Vec<u64>) {
        row.clear();
        row.extend(self.keys.iter().map(|key| key.get(tick).unwrap_or(NO_VALUE)));
    }

    /// Reads a row back; what it lacks is missing in the tick.
    pub fn read(&self, unix_ms: u64, row: &[u64]) -> Tick {
        let mut tick = Tick { unix_ms, ..Tick::default() };
        tick.sample.at_ms = unix_ms as f64;
        for (key, value) in self.keys.iter().zip(row).filter(|(_, value)| **value != NO_VALUE) {
            key.set(&mut tick, *value);
        }
        tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CanaryTick, DiskTick, Look, NodeSample, ProbeTick};
    use mw_proc::buddyinfo::Buddyinfo;
    use mw_proc::meminfo::Meminfo;
    use mw_proc::pressure::Pressure;
    use mw_proc::vmstat::Vmstat;
    use mw_proc::zoneinfo::Zoneinfo;

    fn tick() -> Tick {
        let mut tick = Tick { unix_ms: 1_700_000_000_000, ..Tick::default() };
        let sample = &mut tick.sample;
        sample.at_ms = tick.unix_ms as f64;
        let meminfo = Meminfo::parse(include_bytes!("../../mw-proc/tests/data/meminfo")).unwrap();
        let mut vmstat = Vmstat::default();
        vmstat.parse_into(include_bytes!("../../mw-proc/tests/data/vmstat")).unwrap();
        let mut buddyinfo = Buddyinfo::default();
        buddyinfo.parse_into(include_bytes!("../../mw-proc/tests/data/buddyinfo")).unwrap();
        let mut zoneinfo = Zoneinfo::default();
        zoneinfo.parse_into(include_bytes!("../../mw-proc/tests/data/zoneinfo")).unwrap();
        zoneinfo.zones.retain(mw_proc::zoneinfo::Zone::is_populated);
        let pressure = b"some avg10=73.05 avg60=0.00 avg300=0.00 total=18234567\n";
        sample.pressure.memory = Look::Seen(Pressure::parse(pressure).unwrap());
        sample.nodes = vec![NodeSample { node: 3, meminfo: Look::Seen(meminfo) }];
        sample.meminfo = Look::Seen(meminfo);
        sample.vmstat = Look::Seen(vmstat);
        sample.buddyinfo = Look::Seen(buddyinfo);
        sample.zoneinfo = Look::Seen(zoneinfo);
        tick.disks = vec![DiskTick { name: "sda".to_owned(), busy_ms: 7, ..DiskTick::default() }];
        tick.probes = vec![ProbeTick { name: "db".to_owned(), answers: 3, ..ProbeTick::default() }];
        tick.canary = Some(CanaryTick { touch_us: 5, idle_us: 2, late_us: 90 });
        tick.recorder.cpu_us = 1234;
        tick
    }

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let tick = tick();
        let layout = Layout::of(&tick);
        let mut row = Vec::new();
        layout.write(&tick, &mut row);
        let again = Layout::named(layout.names()).read(tick.unix_ms, &row);
        assert_eq!(format!("{again:?}"), format!("{tick:?}"));
        assert!(row.len() > 300 && !row.contains(&NO_VALUE), "{} columns", row.len());
    }

    #[test]
    fn what_another_version_wrote_is_kept_and_reads_as_nothing() {
        let names = ["meminfo.MemFree", "vmstat.of_the_future", "odd", "zone.x.y.z", ""];
        let layout = Layout::named(&names);
        let tick = layout.read(1, &[4096, 1, 2, 3, 4]);
        assert_eq!(tick.sample.meminfo.need().unwrap().mem_free_bytes, Some(4096));
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
