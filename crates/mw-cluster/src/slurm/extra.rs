//! Memory that a node offers, as JSON in its field `Extra`: jobs ask for it by `--extra 'mem2m>=64'` (Slurm 23.11, with
//! `SchedulerParameters=extra_constraints`). Every change has slurmctld plan anew, so that sizes are rounded down to
//! steps, and a size that swings around a step is not written each time.

use mw_model::zones::free_in_blocks_bytes;
use mw_model::{Missing, Snapshot, bounded_json, derived};
use serde_json::{Map, Value};

/// Available without writeback or swap.
const MEM: &str = "mem";
/// Free in blocks of 2 MiB at least, and in the pool of such pages.
const MEM_2M: &str = "mem2m";

const GIB: u64 = 1 << 30;
const BLOCK_BYTES: u64 = 2 << 20;

/// Memory limit of the field: Slurm keeps some hundred bytes of it.
const MAX_EXTRA_BYTES: usize = 1 << 20;

/// A step is this part of the memory, or 1 GiB.
const STEPS: u64 = 16;

/// Memory that is offered, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOffer {
    mem: u64,
    mem_2m: u64,
    /// The step that sizes are rounded down to.
    step: u64,
}

impl MemoryOffer {
    /// Memory of a machine.
    ///
    /// # Errors
    /// A file that it is computed from could not be read.
    pub fn new(snapshot: &Snapshot) -> Result<Self, Missing> {
        let memory = derived::memory_bytes(&snapshot.sample)?;
        let page_bytes = snapshot.origin.page_bytes;
        let order = derived::order_of(BLOCK_BYTES, page_bytes);
        let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
        let pool = mw_model::HugePool::find(pools, BLOCK_BYTES);
        let pooled = pool.map_or(0, mw_model::HugePool::available_bytes);
        let free = free_in_blocks_bytes(snapshot, order, |_| true)?;
        let step = memory.checked_div(STEPS).unwrap_or(0).max(GIB) / GIB * GIB;
        Ok(Self { mem: derived::ready_bytes(snapshot)?, mem_2m: free.saturating_add(pooled), step })
    }

    /// New value of `Extra`; `None` where it may stay as it is. Other keys stay.
    ///
    /// # Errors
    /// It holds something else than a JSON object.
    pub fn update(&self, extra: Option<&str>) -> Result<Option<String>, String> {
        let text = extra.unwrap_or("{}");
        let mut object: Map<String, Value> =
            bounded_json::from_slice(text.as_bytes(), MAX_EXTRA_BYTES)
                .map_err(|_| format!("Extra is no JSON object, left alone: {text}"))?;
        let mut is_changed = false;
        for (key, bytes) in [(MEM, self.mem), (MEM_2M, self.mem_2m)] {
            let old = object.get(key).and_then(Value::as_u64).map(|gib| gib.saturating_mul(GIB));
            if let Some(new) = rounded(bytes, self.step, old) {
                object.insert(key.to_owned(), (new / GIB).into());
                is_changed = true;
            }
        }
        Ok(is_changed.then(|| Value::Object(object).to_string()))
    }
}

/// The size to be written: a smaller one at once, a larger one when it is half a step beyond.
fn rounded(bytes: u64, step: u64, old: Option<u64>) -> Option<u64> {
    let new = bytes / step * step;
    let Some(old) = old else { return Some(new) };
    let is_less = bytes < old;
    let is_more = bytes >= old.saturating_add(step).saturating_add(step / 2);
    (is_less || is_more).then_some(new).filter(|new| *new != old)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn offer(mem_gib: u64, mem_2m_mib: u64) -> MemoryOffer {
        MemoryOffer { mem: mem_gib * GIB, mem_2m: mem_2m_mib << 20, step: 4 * GIB }
    }

    #[test]
    fn sizes_are_whole_steps_beside_what_others_have_there() {
        let update = |extra| offer(63, 9 << 10).update(extra);
        assert_eq!(update(None).unwrap().unwrap(), r#"{"mem":60,"mem2m":8}"#);
        let beside = update(Some(r#"{"rack":"b2","mem":1}"#)).unwrap().unwrap();
        assert_eq!(beside, r#"{"mem":60,"mem2m":8,"rack":"b2"}"#);
        assert_eq!(update(Some(r#"{"mem":60,"mem2m":8}"#)), Ok(None));
        for other in ["rack b2", "[1]", ""] {
            assert!(update(Some(other)).unwrap_err().ends_with(other), "{other}");
        }
    }

    #[test]
    fn a_size_that_swings_around_a_step_is_written_once() {
        let mut extra = offer(64, 8 << 10).update(None).unwrap().unwrap();
        let mut written = 0;
        for mib in [8191, 8192, 8191, 9000, 8191, 8192] {
            if let Some(new) = offer(64, mib).update(Some(&extra)).unwrap() {
                extra = new;
                written += 1;
            }
        }
        assert_eq!((written, extra.as_str()), (1, r#"{"mem":64,"mem2m":4}"#));
        assert!(offer(64, 10 << 10).update(Some(&extra)).unwrap().unwrap().contains(":8}"));
    }

    #[test]
    fn a_fragmented_node_offers_no_large_blocks() {
        let offer = |name: &str| {
            let source = mw_collect::input::open(&mw_test::fixture(name)).unwrap();
            MemoryOffer::new(&mw_collect::snapshot(&source)).unwrap()
        };
        let (sick, healthy) = (offer("fragmented-node/firing"), offer("fragmented-node/quiet"));
        assert_eq!((sick.step, healthy.step), (GIB, GIB));
        assert!(sick.mem > GIB && healthy.mem > GIB);
        assert!(sick.mem_2m < GIB / 2 && healthy.mem_2m > GIB, "{sick:?} {healthy:?}");
    }
}
