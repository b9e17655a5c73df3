//! How fast disks write.

use mw_model::Snapshot;

/// The speed of a disk that the kernel has not measured: that of a hard disk.
const UNKNOWN_BYTES_PER_S: f64 = 100e6;

/// The speed of the fastest disk that the kernel has an estimate for.
pub(crate) fn bytes_per_s(snapshot: &Snapshot) -> f64 {
    let disks = snapshot.disks.value().map_or(&[][..], Vec::as_slice);
    let known = disks.iter().filter_map(|disk| disk.bdi.as_ref()?.write_bandwidth_bytes_per_s);
    known.max().filter(|speed| *speed > 0).map_or(UNKNOWN_BYTES_PER_S, |speed| speed as f64)
}
