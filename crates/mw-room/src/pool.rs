//! Pages of a hugetlb pool: each node's part is one change of the journal, which is written in many steps.

use crate::error::{RoomError, Stop};
use crate::settings::RoomSettings;
use crate::work::RoomWork;
use mw_memory::huge_pool_dir;
use mw_remedy::{Kernel, KernelError, PlannedChange, PoolReservation, Reserver};
use mw_rules::room::RequestPart;
use std::path::Path;

/// Has the pools hold the parts; what was added is released when it is dropped.
pub(crate) fn grow(
    work: &mut RoomWork<'_>,
    page_bytes: u64,
    parts: &[RequestPart],
    settings: &RoomSettings<'_>,
) -> Result<Vec<PoolReservation>, Stop> {
    parts.iter().map(|part| grow_node(work, page_bytes, part, settings)).collect()
}

fn grow_node(
    work: &mut RoomWork<'_>,
    page_bytes: u64,
    part: &RequestPart,
    settings: &RoomSettings<'_>,
) -> Result<PoolReservation, Stop> {
    let path = [Some(part.node), None]
        .map(|node| format!("{}/nr_hugepages", huge_pool_dir(page_bytes, node)))
        .into_iter()
        .find(|path| Path::new(path).exists());
    let path = path.ok_or(RoomError::NoPool(page_bytes))?;
    let available = work.state(part.node)?.available;
    let missing = part.bytes.saturating_sub(available).div_ceil(page_bytes.max(1));
    let present = pages(&work.facilities.kernel, &path).map_err(RoomError::Pool)?;
    if missing == 0 {
        work.provided_bytes += part.bytes;
        return Ok(PoolReservation::nothing());
    }
    let target = present.saturating_add(missing);
    let mut stop = None;
    let mut write = |kernel: &Kernel, change: &PlannedChange| {
        let reached = work.reach(part, &mut |bytes| {
            let more = bytes.div_ceil(page_bytes.max(1));
            let next = pages(kernel, &change.path)?.saturating_add(more).min(target);
            kernel.write(&change.path, &next.to_string())
        });
        match reached {
            // A no-op, unless somebody else has changed the pool meanwhile.
            Ok(()) => kernel.write_checked(&change.path, &change.value),
            Err(why) => {
                let now = pages(kernel, &change.path)?.to_string();
                stop = Some(why);
                Err(KernelError::NotTaken {
                    path: change.path.clone(),
                    value: change.value.clone(),
                    now,
                })
            }
        }
    };
    let reserver = Reserver {
        owner: "make-room",
        name: "make-room",
        report_remaining: settings.report_remaining,
    };
    let reserved = PoolReservation::pages(&path, target, reserver, settings.state_dir, &mut write);
    reserved.map_err(|error| stop.unwrap_or(Stop::Failed(error.into())))
}

/// The pages of a pool.
fn pages(kernel: &Kernel, path: &str) -> Result<u64, KernelError> {
    let text = mw_remedy::setting_of(&kernel.read_setting(path)?);
    text.parse().map_err(|_| KernelError::NotOneLine { path: path.to_owned() })
}
