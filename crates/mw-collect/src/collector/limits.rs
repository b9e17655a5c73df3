//! /proc/self/limits: the limits of the process that looks.

use crate::source::Source;
use mw_model::Missing;
use mw_proc::limits::Limits;

pub(crate) fn collect(source: &Source) -> Result<Limits, Missing> {
    source.parse("/proc/self/limits", Limits::parse)
}
