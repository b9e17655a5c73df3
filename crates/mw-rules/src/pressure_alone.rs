//! Memory pressure for which nobody waited.
//!
//! The kernel's trigger counts kswapd and kcompactd as stalled while they run (mm/vmscan.c, `balance_pgdat()`;
//! mm/compaction.c, `kcompactd()`), and a program that fills the page cache as waiting for what it does itself. Neither
//! is a stall of anybody else.

use crate::outlook::{direct_per_s, is_felt_again};
use mw_critical_path::kernel::MEMORY_HIGH;
use mw_model::{
    BlockedTask, FloodShare, Incident, KernelWait, TriggerKind, VmActivity, WaitKind, Window,
};
use mw_proc::vmstat::Counter;
use std::collections::BTreeMap;

/// Of the pages that fill the page cache, for a process that fills it.
const STREAMER_PERCENT: u64 = 10;

/// True if the kernel's pressure trigger alone began an incident, and no task but those that fill the page cache waited
/// for memory as long as the trigger asks for.
#[must_use]
pub fn is_pressure_alone(incident: &Incident, window: &Window) -> bool {
    let streams = CacheStreams::of(&incident.flood);
    incident.trigger.kind == TriggerKind::Pressure
        && !streams.do_others_read_again(window)
        && match incident.waits.is_empty() {
            // Who fills the page cache is known by the same trace as who waits.
            true => {
                (incident.causes.is_empty() || !incident.flood.is_empty())
                    && counts_no_reclaim(window)
            }
            false => {
                !streams.is_another_throttled(&incident.blocked)
                    && streams.others_waited_ms(&incident.waits) < incident.trigger.limit_ms
            }
        }
}

/// True if tasks reclaimed and compacted nothing, for the machine or at the limit of a cgroup; false where that is
/// unknown.
fn counts_no_reclaim(window: &Window) -> bool {
    direct_per_s(window) <= 0.0
        && window.activity(VmActivity::CgroupSteals).is_ok_and(|per_s| per_s <= 0.0)
}

/// Those who fill the page cache.
struct CacheStreams {
    pids: Vec<u32>,
    /// Part of the pages that the first of them brought in, from 0 to 1.
    first: f64,
}

impl CacheStreams {
    /// Processes that read the same file are one stream: a loop starts a process for each pass, whose name changes when
    /// it executes its program.
    fn of(flood: &[FloodShare]) -> Self {
        let mut pages: BTreeMap<&str, u64> = BTreeMap::new();
        for share in flood {
            let of_stream = pages.entry(&share.path).or_default();
            *of_stream = of_stream.saturating_add(share.pages);
        }
        let all: u64 = pages.values().fold(0, |sum, pages| sum.saturating_add(*pages));
        let is_stream = |share: &&FloodShare| {
            let of_stream = pages.get(share.path.as_str());
            of_stream.is_some_and(|pages| {
                pages.saturating_mul(100) >= all.saturating_mul(STREAMER_PERCENT)
            })
        };
        let first = pages.values().max().copied().unwrap_or(0);
        Self {
            pids: flood.iter().filter(is_stream).map(|share| share.pid).collect(),
            first: first as f64 / all.max(1) as f64,
        }
    }

    /// The time in milliseconds for which other tasks waited for memory.
    fn others_waited_ms(&self, waits: &[KernelWait]) -> f64 {
        let is_of_memory = |wait: &&KernelWait| {
            !matches!(wait.kind, WaitKind::DirtyThrottle | WaitKind::Swap)
                && !self.pids.contains(&wait.pid)
        };
        let waited_us: u64 = waits.iter().filter(is_of_memory).map(|wait| wait.total_us).sum();
        waited_us as f64 / 1000.0
    }

    /// True if another task was throttled over memory.high or memory.swap.high: no event tells for how long.
    fn is_another_throttled(&self, blocked: &[BlockedTask]) -> bool {
        let others = blocked.iter().filter(|task| !self.pids.contains(&task.pid));
        others.map(|task| &task.stack).any(|stack| MEMORY_HIGH.are_in(stack))
    }

    /// True if others than the first read pages again that were reclaimed. A page of a file that is read again is also
    /// brought into the page cache again (mm/filemap.c, `filemap_add_folio()`), so that others read again at most the
    /// part that they brought in: a stream that goes through a large file over and over reads all of it again.
    fn do_others_read_again(&self, window: &Window) -> bool {
        let per_s = |counter| window.rate(counter).unwrap_or(0.0);
        let files = per_s(Counter::WorkingsetRefaultFile) * (1.0 - self.first);
        is_felt_again(files + per_s(Counter::Pswpin) + per_s(Counter::Zswpin))
    }
}
