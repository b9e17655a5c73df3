//! Settings of a bench.

use crate::variant::BenchPlacement;
use mw_segment::{PageSize, SegmentKind};
use std::fmt::Display;
use std::path::Path;

/// Settings of a bench.
#[derive(Debug, Clone)]
pub struct BenchSettings<'a> {
    /// Size of the segment; if there is none, one that fits.
    pub size_bytes: Option<u64>,
    pub kind: SegmentKind,
    /// Numbers of threads; if there are none, powers of two up to the number of CPUs.
    pub threads: Vec<usize>,
    /// Page sizes; if there are none, all.
    pub pages: Vec<PageSize>,
    pub place: BenchPlacement,
    /// Number of measurements of each variant.
    pub rounds: usize,
    /// True if missing huge pages are reserved.
    pub reserve: bool,
    /// Directory of the journal.
    pub state_dir: &'a Path,
    /// Takes the reason where huge pages remain reserved although they were to be released.
    pub report_remaining: fn(&dyn Display),
}
