//! Numbers of structs by name.

use crate::{CanaryTick, DiskTick, ProbeTick, RecorderTick};
use mw_proc::zoneinfo::Zone;
use std::fmt;

/// A number of a struct.
pub(super) struct Field<T: 'static> {
    pub(super) name: &'static str,
    pub(super) get: fn(&T) -> Option<u64>,
    pub(super) set: fn(&mut T, u64),
}

impl<T> fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The field of this name.
pub(super) fn by_name<T>(fields: &'static [Field<T>], name: &str) -> Option<&'static Field<T>> {
    fields.iter().find(|field| field.name == name)
}

/// Fields that are always there, and behind `maybe` those that a kernel may not print.
macro_rules! fields {
    ($of:ty: $($field:ident)*; maybe $($optional:ident)*) => {
        &[
            $(Field {
                name: stringify!($field),
                get: |of: &$of| Some(of.$field),
                set: |of: &mut $of, value| of.$field = value,
            },)*
            $(Field {
                name: stringify!($optional),
                get: |of: &$of| of.$optional,
                set: |of: &mut $of, value| of.$optional = Some(value),
            },)*
        ]
    };
}

pub(super) static ZONE: &[Field<Zone>] = fields!(Zone:
    free_pages min_pages low_pages high_pages spanned_pages present_pages;
    maybe boost_pages managed_pages cma_pages unaccepted_pages inactive_anon_pages active_anon_pages
    inactive_file_pages active_file_pages unevictable_pages write_pending_pages mlock_pages
    start_pfn
);

pub(super) static DISK: &[Field<DiskTick>] =
    fields!(DiskTick: read_bytes written_bytes busy_ms in_flight; maybe);

pub(super) static PROBE: &[Field<ProbeTick>] = fields!(ProbeTick: answers failures worst_us; maybe);

pub(super) static CANARY: &[Field<CanaryTick>] =
    fields!(CanaryTick: touch_us idle_us late_us; maybe);

pub(super) static RECORDER: &[Field<RecorderTick>] = fields!(RecorderTick:
    cpu_us resident_bytes gap_us dropped_ticks lost_records; maybe
);
