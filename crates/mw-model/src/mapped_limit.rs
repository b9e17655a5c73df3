//! The mapped memory of a process, which `RLIMIT_AS` and `RLIMIT_DATA` limit.

use mw_proc::limits::{Rlimit, Rlimits};
use mw_proc::status::Status;

/// Share of a limit from which on the next large mapping is refused, in percent; and what has to be mapped still where that
/// was the most, which allocators map and unmap for a moment.
const REACHED_PERCENT: u64 = 95;
const STILL_PERCENT: u64 = 90;

/// Memory that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappedKind {
    /// All mappings (`RLIMIT_AS`).
    AddressSpace,
    /// Private writable mappings (`RLIMIT_DATA`; from Linux 4.7 on; before, the heap of brk(2) alone).
    Data,
}

/// A limit that a process has come close to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedLimit {
    pub kind: MappedKind,
    /// The most that was mapped, in bytes; of data, what is mapped.
    pub used_bytes: u64,
    pub limit_bytes: u64,
    /// The limit as it was read.
    pub rlimit: Rlimit,
}

/// The limit of mapped memory that a process has come close to and not moved away from; of two the address space.
pub fn reached_limit(status: &Status, limits: &Rlimits) -> Option<MappedLimit> {
    let Status { vm_peak_bytes, vm_size_bytes, vm_data_bytes, .. } = *status;
    let reached = |kind, most: Option<u64>, now: Option<u64>, rlimit: Option<Rlimit>| {
        let (used_bytes, now_bytes, rlimit) = (most?, now?, rlimit?);
        let limit_bytes = rlimit.soft?;
        let is_share = |bytes: u64, percent: u64| {
            bytes.saturating_mul(100) >= limit_bytes.saturating_mul(percent)
        };
        // One with more has lowered its limit since, to map no more.
        let is_reached = used_bytes <= limit_bytes
            && is_share(used_bytes, REACHED_PERCENT)
            && is_share(now_bytes, STILL_PERCENT);
        is_reached.then_some(MappedLimit { kind, used_bytes, limit_bytes, rlimit })
    };
    reached(MappedKind::AddressSpace, vm_peak_bytes, vm_size_bytes, limits.address_space)
        .or_else(|| reached(MappedKind::Data, vm_data_bytes, vm_data_bytes, limits.data_size))
}
