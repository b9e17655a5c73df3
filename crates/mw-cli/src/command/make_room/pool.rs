//! Pages of a hugetlb pool: each node's part is one change of the journal, which is written in many steps.

use super::stop::Stop;
use super::work::RoomWork;
use crate::command::reserved::{PoolReservation, Reserver};
use crate::{Exit, Failure};
use mw_memory::huge_pool_dir;
use mw_remedy::{Kernel, KernelError, PlannedChange};
use mw_rules::room::RequestPart;
use std::path::Path;

const RESERVER: Reserver = Reserver { owner: "make-room", name: "make-room" };

/// Has the pools hold the parts; what was added is released when it is dropped.
pub(super) fn grow(
    work: &mut RoomWork,
    page_bytes: u64,
    parts: &[RequestPart],
    state_dir: &Path,
) -> Result<Vec<PoolReservation>, Stop> {
    parts.iter().map(|part| grow_node(work, page_bytes, part, state_dir)).collect()
}

fn grow_node(
    work: &mut RoomWork,
    page_bytes: u64,
    part: &RequestPart,
    state_dir: &Path,
) -> Result<PoolReservation, Stop> {
    let path = [Some(part.node), None]
        .map(|node| format!("{}/nr_hugepages", huge_pool_dir(page_bytes, node)))
        .into_iter()
        .find(|path| Path::new(path).exists());
    let Some(path) = path else {
        let line =
            format!("this kernel has no pool of pages of {}", mw_model::format_bytes(page_bytes));
        return Err(Stop::Failed(Failure::new(Exit::Findings, line)));
    };
    let available = work.state(part.node).map_err(Stop::Failed)?.available;
    let missing = part.bytes.saturating_sub(available).div_ceil(page_bytes.max(1));
    let present = pages(&work.facilities.kernel, &path)
        .map_err(|error| Stop::Failed(Failure::new(Exit::CouldNotCheck, error)))?;
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
    let reserved = PoolReservation::pages(&path, target, &RESERVER, state_dir, &mut write);
    reserved.map_err(|failure| stop.unwrap_or(Stop::Failed(failure)))
}

/// The pages of a pool.
fn pages(kernel: &Kernel, path: &str) -> Result<u64, KernelError> {
    let text = mw_remedy::setting_of(&kernel.read_setting(path)?);
    text.parse().map_err(|_| KernelError::NotOneLine { path: path.to_owned() })
}
