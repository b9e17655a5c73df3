//! Numbers over time: what each is, how it is computed from two samples, and when it is highlighted.

use mw_model::{Reading, Sample, derived};
use mw_proc::pressure::{Pressure, PressureLine};
use mw_proc::vmstat::Counter;

/// The numbers that have a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// Time that tasks waited for a CPU.
    Cpu,
    /// Time that tasks waited for memory.
    Memory,
    /// Time that tasks waited for a device.
    Io,
    /// Pages that kswapd scanned.
    ScanKswapd,
    /// Pages that programs scanned themselves.
    ScanDirect,
    /// Pages reclaimed of those scanned.
    Steal,
    /// Allocations that had to reclaim first.
    Allocstall,
    /// Allocations that had to compact first.
    CompactStall,
    /// Of those, how many failed.
    CompactFail,
    /// Faults that wanted a huge page and got none.
    ThpFallback,
    /// Attempts to reclaim within a node (zone_reclaim_mode).
    NodeReclaim,
    /// Pages read from swap.
    SwapIn,
    /// Pages written to swap.
    SwapOut,
    /// Pages read again shortly after they were reclaimed.
    Refault,
    /// Faults that needed a device.
    MajorFault,
    /// Memory waiting for writeback.
    Dirty,
    Writeback,
    /// Memory available without swapping.
    Available,
}

/// Subject of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureUnit {
    Percent,
    /// Pages a second.
    Pages,
    /// Events a second.
    Events,
    Bytes,
}

type PressureOf = fn(&Sample) -> &Reading<Pressure>;

enum MeasureValue {
    Rate(&'static [Counter]),
    /// Percent of the second counters in the first.
    Share(&'static [Counter], &'static [Counter]),
    Pressure(PressureOf),
    Level(fn(&Sample) -> Option<u64>),
}

pub struct Measure {
    pub series: Curve,
    /// Its name on the screen.
    pub label: &'static str,
    /// Its meaning, for those who see it for the first time.
    pub says: &'static str,
    pub unit: MeasureUnit,
    /// From here on it is yellow, and from there on red. Colour alone: the rules judge.
    pub eye: (f64, f64),
    value: MeasureValue,
}

const SCAN: &[Counter] = &[Counter::PgscanKswapd, Counter::PgscanDirect];
const STEAL: &[Counter] = &[Counter::PgstealKswapd, Counter::PgstealDirect];
const REFAULT: &[Counter] = &[Counter::WorkingsetRefaultAnon, Counter::WorkingsetRefaultFile];
const NODE: &[Counter] = &[Counter::ZoneReclaimSuccess, Counter::ZoneReclaimFailed];
const NEVER: (f64, f64) = (f64::INFINITY, f64::INFINITY);
const WAITS: (f64, f64) = (1.0, 10.0);

macro_rules! measure {
    ($series:ident, $label:literal, $unit:ident, $eye:expr, $value:expr, $says:literal) => {
        Measure {
            series: Curve::$series,
            label: $label,
            says: $says,
            unit: MeasureUnit::$unit,
            eye: $eye,
            value: $value,
        }
    };
}

/// All of them, in the order of [`Curve`].
pub static MEASURES: [Measure; 18] = [
    measure!(
        Cpu,
        "cpu",
        Percent,
        (25.0, 75.0),
        MeasureValue::Pressure(|s| &s.pressure.cpu),
        "time in which some task waited for a CPU"
    ),
    measure!(
        Memory,
        "memory",
        Percent,
        WAITS,
        MeasureValue::Pressure(|s| &s.pressure.memory),
        "a task waited for memory or kswapd ran"
    ),
    measure!(
        Io,
        "io",
        Percent,
        (25.0, 75.0),
        MeasureValue::Pressure(|s| &s.pressure.io),
        "time in which some task waited for a device"
    ),
    measure!(
        ScanKswapd,
        "kswapd scan",
        Pages,
        (1000.0, 10_000.0),
        MeasureValue::Rate(&[Counter::PgscanKswapd]),
        "pages scanned by background reclaim"
    ),
    measure!(
        ScanDirect,
        "direct scan",
        Pages,
        (1.0, 1000.0),
        MeasureValue::Rate(&[Counter::PgscanDirect]),
        "by allocating tasks; 7.1 on: cgroups too"
    ),
    measure!(
        Steal,
        "reclaimed",
        Percent,
        NEVER,
        MeasureValue::Share(STEAL, SCAN),
        "reclaimed share of scanned pages; low is wasted work"
    ),
    measure!(
        Allocstall,
        "alloc stalls",
        Events,
        WAITS,
        MeasureValue::Rate(&[Counter::Allocstall]),
        "allocations that had to reclaim first"
    ),
    measure!(
        CompactStall,
        "compact stalls",
        Events,
        WAITS,
        MeasureValue::Rate(&[Counter::CompactStall]),
        "allocations that had to compact first"
    ),
    measure!(
        CompactFail,
        "compact fails",
        Events,
        WAITS,
        MeasureValue::Rate(&[Counter::CompactFail]),
        "of those, the ones that failed"
    ),
    measure!(
        ThpFallback,
        "thp fallback",
        Events,
        (10.0, 1000.0),
        MeasureValue::Rate(&[Counter::ThpFaultFallback]),
        "huge page requests that got base pages"
    ),
    measure!(
        NodeReclaim,
        "node reclaim",
        Events,
        WAITS,
        MeasureValue::Rate(NODE),
        "reclaim within the node (zone_reclaim_mode)"
    ),
    measure!(
        SwapIn,
        "swap in",
        Pages,
        (1.0, 1000.0),
        MeasureValue::Rate(&[Counter::Pswpin]),
        "read back from swap; a task waits for each"
    ),
    measure!(
        SwapOut,
        "swap out",
        Pages,
        (1.0, 1000.0),
        MeasureValue::Rate(&[Counter::Pswpout]),
        "written to swap"
    ),
    measure!(
        Refault,
        "refaults",
        Pages,
        (100.0, 10_000.0),
        MeasureValue::Rate(REFAULT),
        "needed again soon after reclaim"
    ),
    measure!(
        MajorFault,
        "major faults",
        Events,
        (100.0, 10_000.0),
        MeasureValue::Rate(&[Counter::Pgmajfault]),
        "faults that waited for a device"
    ),
    measure!(Dirty, "dirty", Bytes, NEVER, MeasureValue::Level(dirty), "waiting for writeback"),
    measure!(
        Writeback,
        "writeback",
        Bytes,
        NEVER,
        MeasureValue::Level(writeback),
        "being written back"
    ),
    measure!(
        Available,
        "available",
        Bytes,
        NEVER,
        MeasureValue::Level(available),
        "available memory, the kernel's estimate"
    ),
];

impl std::fmt::Debug for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.label)
    }
}

impl Curve {
    /// Its meaning and computation.
    pub fn measure(self) -> &'static Measure {
        let at = (self as usize).min(MEASURES.len() - 1);
        &MEASURES[at]
    }
}

impl Measure {
    /// The number between two samples; nothing where this kernel does not count it.
    pub fn between(&self, before: &Sample, after: &Sample) -> Option<f64> {
        match &self.value {
            MeasureValue::Rate(counters) => {
                let seconds = seconds(before, after)?;
                Some(grown(before, after, counters)? as f64 / seconds)
            }
            MeasureValue::Share(part, whole) => {
                let whole = grown(before, after, whole)?;
                let part = grown(before, after, part)?;
                (whole > 0).then(|| (part as f64 * 100.0 / whole as f64).min(100.0))
            }
            MeasureValue::Pressure(of) => {
                let waited_us = of(after).value()?.some.since(&of(before).value()?.some)?;
                Some((waited_us as f64 / 10_000.0 / seconds(before, after)?).min(100.0))
            }
            MeasureValue::Level(level) => level(after).map(|bytes| bytes as f64),
        }
    }
}

trait CounterDelta {
    fn since(&self, before: &Self) -> Option<u64>;
}

impl CounterDelta for PressureLine {
    fn since(&self, before: &Self) -> Option<u64> {
        self.total_us.checked_sub(before.total_us)
    }
}

fn seconds(before: &Sample, after: &Sample) -> Option<f64> {
    Some((after.at_ms - before.at_ms) / 1000.0).filter(|seconds| *seconds > 0.0)
}

/// Increases of the counters that this kernel has.
fn grown(before: &Sample, after: &Sample, counters: &[Counter]) -> Option<u64> {
    let (before, after) = (before.vmstat.value()?, after.vmstat.value()?);
    let grown =
        |counter: &Counter| Some(after.get(*counter)?.saturating_sub(before.get(*counter)?));
    let grown: Vec<u64> = counters.iter().filter_map(grown).collect();
    (!grown.is_empty()).then(|| derived::total(grown))
}

fn dirty(sample: &Sample) -> Option<u64> {
    sample.meminfo.value()?.dirty_bytes
}

fn writeback(sample: &Sample) -> Option<u64> {
    sample.meminfo.value()?.writeback_bytes
}

fn available(sample: &Sample) -> Option<u64> {
    let meminfo = sample.meminfo.value()?;
    derived::meminfo_available_bytes(meminfo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_proc::vmstat::Vmstat;

    fn sample(at_ms: f64, vmstat: &str) -> Sample {
        let mut counters = Vmstat::default();
        counters.parse_into(vmstat.as_bytes()).unwrap();
        Sample { at_ms, vmstat: Reading::Value(counters), ..Sample::default() }
    }

    #[test]
    fn the_table_is_in_the_order_of_its_names() {
        for (at, measure) in MEASURES.iter().enumerate() {
            assert_eq!(measure.series as usize, at, "{}", measure.label);
            assert!(measure.label.len() <= 14, "{}", measure.label);
        }
    }

    #[test]
    fn rates_and_shares_are_told_from_two_samples() {
        let before = sample(0.0, "pgscan_kswapd 100\npgscan_direct 0\npgsteal_kswapd 10\n");
        let after = sample(2000.0, "pgscan_kswapd 500\npgscan_direct 0\npgsteal_kswapd 110\n");
        let between = |series: Curve| series.measure().between(&before, &after);
        assert_eq!(between(Curve::ScanKswapd), Some(200.0));
        assert_eq!(between(Curve::Steal), Some(25.0));
        assert_eq!(between(Curve::Allocstall), None, "this kernel does not count it");
        assert_eq!(between(Curve::Memory), None, "no pressure information");
        assert_eq!(Curve::ScanKswapd.measure().between(&after, &after), None, "no time passed");
        assert_eq!(Curve::ScanKswapd.measure().between(&after, &before), None);
    }
}
