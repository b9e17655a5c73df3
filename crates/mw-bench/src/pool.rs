//! Huge pages that are reserved for the bench.

use crate::settings::BenchSettings;
use crate::variant::BenchPlacement;
use mw_memory::huge_pool_dir;
use mw_remedy::{PoolReservation, ReservationError, Reserver};
use mw_sys::kernel_file;

/// Has the pools of this page size hold `bytes` more than they have promised: an equal part on each of the
/// nodes that the memory is to come from.
pub(crate) fn reserve_for(
    settings: &BenchSettings<'_>,
    page_bytes: u64,
    bytes: u64,
) -> Result<Vec<PoolReservation>, ReservationError> {
    let reserve =
        |node, bytes| reserve(&huge_pool_dir(page_bytes, node), page_bytes, bytes, settings);
    let nodes = match &settings.place {
        BenchPlacement::Uniform(policy) => policy.nodes(),
        BenchPlacement::Split(nodes) => nodes,
    };
    if nodes.is_empty() {
        return Ok(vec![reserve(None, bytes)?]);
    }
    let part = bytes.div_ceil(page_bytes).div_ceil(nodes.len() as u64) * page_bytes;
    nodes.iter().map(|node| reserve(Some(*node), part)).collect()
}

fn reserve(
    dir: &str,
    page_bytes: u64,
    bytes: u64,
    settings: &BenchSettings<'_>,
) -> Result<PoolReservation, ReservationError> {
    let read = |name: &str| number(&format!("{dir}/{name}"));
    let promised = read("resv_hugepages").unwrap_or(0);
    let free = read("free_hugepages").unwrap_or(0).saturating_sub(promised);
    let missing = bytes.div_ceil(page_bytes).saturating_sub(free);
    if missing == 0 {
        return Ok(PoolReservation::nothing());
    }
    let pages = read("nr_hugepages").unwrap_or(0) + missing;
    let reserver =
        Reserver { owner: "bench", name: "--reserve", report_remaining: settings.report_remaining };
    PoolReservation::pages(
        &format!("{dir}/nr_hugepages"),
        pages,
        reserver,
        settings.state_dir,
        &mut |kernel, change| kernel.write_checked(&change.path, &change.value),
    )
}

fn number(file: &str) -> Option<u64> {
    kernel_file::read_to_string(file).ok()?.trim().parse().ok()
}
