//! Metrics that are the fields of a struct: name, unit, aggregation and access in one table each.

use super::unit::{Aggregation, Unit};
use crate::{CanaryTick, DiskTick, ProbeTick, RecorderTick};
use mw_proc::zoneinfo::Zone;

/// Fields that are always there, and after `maybe` those that a kernel may not print.
macro_rules! metrics {
    (
        $(#[$doc:meta])* $name:ident of $struct:ty:
        $($metric:ident = $field:ident, $unit:ident, $aggregation:ident;)*
        $(; maybe $($optional:ident = $optional_field:ident, $optional_unit:ident;)*)?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($metric,)*
            $($($optional,)*)?
        }

        impl $name {
            pub(super) const ALL: &'static [Self] =
                &[$(Self::$metric,)* $($(Self::$optional,)*)?];

            pub(super) fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|metric| metric.name() == name)
            }

            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$metric => stringify!($field),)*
                    $($(Self::$optional => stringify!($optional_field),)*)?
                }
            }

            pub(super) fn unit(self) -> Unit {
                match self {
                    $(Self::$metric => Unit::$unit,)*
                    $($(Self::$optional => Unit::$optional_unit,)*)?
                }
            }

            #[allow(dead_code, reason = "of zones and disks, the last value counts")]
            pub(super) fn aggregation(self) -> Aggregation {
                match self {
                    $(Self::$metric => Aggregation::$aggregation,)*
                    $($(Self::$optional => Aggregation::Last,)*)?
                }
            }

            pub(super) fn get(self, of: &$struct) -> Option<u64> {
                match self {
                    $(Self::$metric => Some(of.$field),)*
                    $($(Self::$optional => of.$optional_field,)*)?
                }
            }

            pub(super) fn set(self, of: &mut $struct, value: u64) {
                match self {
                    $(Self::$metric => of.$field = value,)*
                    $($(Self::$optional => of.$optional_field = Some(value),)*)?
                }
            }
        }
    };
}

metrics! {
    /// A number of a zone in /proc/zoneinfo.
    ZoneMetric of Zone:
    Free = free_pages, Pages, Last;
    Min = min_pages, Pages, Last;
    Low = low_pages, Pages, Last;
    High = high_pages, Pages, Last;
    Spanned = spanned_pages, Pages, Last;
    Present = present_pages, Pages, Last;
    ; maybe
    Boost = boost_pages, Pages;
    Managed = managed_pages, Pages;
    Cma = cma_pages, Pages;
    Pcp = pcp_pages, Pages;
    FreeCma = free_cma_pages, Pages;
    Unaccepted = unaccepted_pages, Pages;
    InactiveAnon = inactive_anon_pages, Pages;
    ActiveAnon = active_anon_pages, Pages;
    InactiveFile = inactive_file_pages, Pages;
    ActiveFile = active_file_pages, Pages;
    Unevictable = unevictable_pages, Pages;
    WritePending = write_pending_pages, Pages;
    Mlock = mlock_pages, Pages;
    StartPfn = start_pfn, Count;
    Unreclaimable = unreclaimable, Count;
}

metrics! {
    /// A number of a block device since boot.
    DiskMetric of DiskTick:
    Read = read_bytes, Bytes, Last;
    Written = written_bytes, Bytes, Last;
    Busy = busy_ms, Milliseconds, Last;
    InFlight = in_flight, Count, Last;
}

metrics! {
    /// A number of a probe since the row before.
    ProbeMetric of ProbeTick:
    Answers = answers, Events, Sum;
    Failures = failures, Events, Sum;
    Worst = worst_us, Microseconds, Max;
}

metrics! {
    /// A latency of the canary since the row before.
    CanaryMetric of CanaryTick:
    Touch = touch_us, Microseconds, Max;
    Idle = idle_us, Microseconds, Max;
    Late = late_us, Microseconds, Max;
}

metrics! {
    /// The recorder's own cost.
    RecorderMetric of RecorderTick:
    Cpu = cpu_us, Microseconds, Last;
    Resident = resident_bytes, Bytes, Last;
    Late = late_us, Microseconds, Max;
    DroppedTicks = dropped_ticks, Events, Last;
    LostRecords = lost_records, Events, Last;
}
