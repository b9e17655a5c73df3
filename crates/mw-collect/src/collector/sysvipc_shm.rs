//! /proc/sysvipc/shm: System V shared memory segments.

use crate::source::Source;
use mw_model::Missing;
use mw_proc::sysvipc_shm::{self, ShmSegment};

pub(crate) fn collect(source: &Source) -> Result<Vec<ShmSegment>, Missing> {
    source.parse("/proc/sysvipc/shm", sysvipc_shm::parse)
}
