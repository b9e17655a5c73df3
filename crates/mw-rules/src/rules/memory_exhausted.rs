//! # memory-exhausted
//!
//! Nearly no memory is available.
//!
//! ## What it finds
//! Available memory below 1% of memory; or below 10% and 1 GiB, with as little free swap; or all that is available has to be
//! written to disk first; or available memory and free swap below 2% and 2 GiB, where the OOM killer has killed since boot for
//! the machine as a whole, and one program has 80% of memory; or available memory below 10%, while programs and tmpfs have 5%
//! more than the machine's memory, a tenth of it in swap on a disk.
//!
//! ## Why it hurts
//! A process that allocates waits until other pages are swapped out. Without free swap the kernel reclaims the pages of
//! running programs, which are read again at once, until the OOM killer ends a process.
//!
//! ## What it looks like
//! MemAvailable is close to 0, kswapd is busy, and the machine responds late or not at all.
//!
//! ## How to fix it
//! End or limit the largest holder: a program (`systemctl set-property UNIT MemoryMax=SIZE`), files in a tmpfs, a segment
//! of shared memory, a pool of huge pages. The finding names the largest, and what is available without it.
//!
//! ## Threshold
//! 1% of memory: the largest allocation that the verdict "ready" promises. It is critical if free swap does not provide it
//! either, otherwise a warning. MemAvailable is what is free above the watermarks, and page cache and kernel objects that
//! reclaim frees (mm/page_alloc.c, `si_mem_available()`); a counter that cannot be right is replaced
//! (see contradictory-counters). Swap in use is harmless while memory is left for what comes back: a machine whose programs
//! fit into memory is not reported for it, nor one with 10% available. 10% is where earlyoom ends programs by default; a machine with 1 GiB left is not reported for it,
//! however large it is, unless its programs have more than its memory.
//!
//! ## References
//! Linux, Documentation/filesystems/proc.rst, meminfo; mm/oom_kill.c.

use crate::group_kills;
use crate::largest_holders::{LargeHolder, largest, largest_program};
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Window, derived,
    format_bytes, format_count,
};
use mw_proc::meminfo::Meminfo;
use mw_proc::vmstat::Counter;

/// A request of this share of memory is to be served: a hundredth.
pub(crate) const LEAST_SHARE: u64 = 100;

/// Below this share of memory little is left, if it is less than [`LOW_BYTES`] as well: a tenth.
const LOW_SHARE: u64 = 10;
const LOW_BYTES: u64 = 1 << 30;

/// The same after the OOM killer has killed, and the share of memory of the program that has most of it, in percent.
const LOW_AFTER_KILLS_PERCENT: u64 = 2;
const LOW_AFTER_KILLS_BYTES: u64 = 2 << 30;
const ONE_PROGRAM_PERCENT: u64 = 80;

/// From which share of memory on programs and tmpfs have more than memory: a twentieth.
const OVER_SHARE: u64 = 20;

/// Holders that are shown.
const MAX_SHOWN: usize = 4;

/// All sizes in bytes.
struct RemainingMemory {
    total: u64,
    available: u64,
    ready: u64,
    swap_free: u64,
    swap_total: u64,
    /// Memory of programs and tmpfs, and what of theirs is only in swap on a disk.
    resident: u64,
    swapped: u64,
    /// Kills of the OOM killer since boot, unless cgroups were at their limits then, while one program has most of memory.
    kills: u64,
}

impl RemainingMemory {
    fn read(snapshot: &Snapshot) -> Result<Self, Missing> {
        let meminfo = snapshot.sample.meminfo.required()?;
        let total = derived::memory_bytes(&snapshot.sample)?;
        Ok(Self {
            total,
            available: derived::available_bytes(snapshot)?,
            ready: derived::ready_bytes(snapshot)?,
            swap_free: meminfo.swap_free_bytes.unwrap_or(0),
            swap_total: meminfo.swap_total_bytes.unwrap_or(0),
            resident: derived::total(
                [meminfo.anon_pages_bytes, meminfo.shmem_bytes].into_iter().flatten(),
            ),
            swapped: swapped_bytes(snapshot, meminfo),
            kills: kills_beside_one_program(snapshot, total),
        })
    }

    const fn least(&self) -> u64 {
        self.total / LEAST_SHARE
    }

    const fn is_used_up(&self) -> bool {
        self.ready < self.least()
    }

    /// Enough for small requests alone, and no swap that could provide more.
    fn is_low(&self) -> bool {
        let low = (self.total / LOW_SHARE).min(LOW_BYTES);
        let after_kills =
            (self.total.saturating_mul(LOW_AFTER_KILLS_PERCENT) / 100).min(LOW_AFTER_KILLS_BYTES);
        let low = if self.kills > 0 { low.max(after_kills) } else { low };
        self.available.saturating_add(self.swap_free) < low
    }

    const fn swappable(&self) -> u64 {
        self.resident.saturating_add(self.swapped)
    }

    /// Programs have more than memory has room for, and little is left: what is in swap comes back only in place of other
    /// pages.
    const fn is_overcommitted(&self) -> bool {
        self.available < self.total / LOW_SHARE
            && self.swapped >= self.total / LOW_SHARE
            && self.swappable() > self.total.saturating_add(self.total / OVER_SHARE)
    }
}

fn kills_beside_one_program(snapshot: &Snapshot, total: u64) -> u64 {
    let vmstat = snapshot.sample.vmstat.value();
    let kills = vmstat.and_then(|vmstat| vmstat.get(Counter::OomKill)).unwrap_or(0);
    let is_one = largest_program(snapshot).is_some_and(|program| {
        program.bytes.saturating_mul(100) >= total.saturating_mul(ONE_PROGRAM_PERCENT)
    });
    if is_one && !group_kills::all_at_limits(snapshot, kills) { kills } else { 0 }
}

/// Pages that are in swap and not in memory. Those that zram or zswap hold are in memory, compressed; kernels before 5.19 do not
/// tell those of zswap.
fn swapped_bytes(snapshot: &Snapshot, meminfo: &Meminfo) -> u64 {
    let areas = snapshot.swaps.value().map_or(&[][..], Vec::as_slice);
    let on_disk = areas.iter().filter(|area| !area.is_zram());
    let used = derived::total(on_disk.map(|area| area.used_bytes));
    let cached = meminfo.swap_cached_bytes.unwrap_or(0);
    used.saturating_sub(cached).saturating_sub(meminfo.zswapped_bytes.unwrap_or(0))
}

/// True if next to no memory is available.
pub(crate) fn is_exhausted(snapshot: &Snapshot) -> bool {
    RemainingMemory::read(snapshot).is_ok_and(|left| left.available < left.least())
}

/// True if a large request waits for writeback or swap at least.
pub(crate) fn is_used_up(snapshot: &Snapshot) -> bool {
    RemainingMemory::read(snapshot).is_ok_and(|left| left.is_used_up())
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let left = RemainingMemory::read(snapshot)?;
    if !left.is_used_up() && !left.is_low() && !left.is_overcommitted() {
        return Ok(Vec::new());
    }
    let holders = largest(snapshot, MAX_SHOWN);
    let mut finding = judged(&left)
        .with_evidence("available", Quantity::Bytes(left.available), "/proc/meminfo")
        .with_evidence("SwapFree", Quantity::Bytes(left.swap_free), "/proc/meminfo");
    if left.kills > 0 {
        finding = finding.with_evidence("oom_kill", Quantity::Count(left.kills), "/proc/vmstat");
    }
    for holder in &holders {
        finding = finding.with_evidence(
            holder.name.as_str(),
            Quantity::Bytes(holder.bytes),
            holder.source,
        );
    }
    if let Some(holder) = holders.first() {
        let has = format!("; {} has {}", holder.name, format_bytes(holder.bytes));
        finding.headline.push_str(&has);
    }
    Ok(vec![finding.with_remedy(remedy(&left, holders.first()))])
}

fn judged(left: &RemainingMemory) -> Finding {
    let of = format!("{} of {}", format_bytes(left.available), format_bytes(left.total));
    let swap = match (left.swap_total, left.swap_free) {
        (0, _) => "no swap".to_owned(),
        (_, free) => format!("{} of swap free", format_bytes(free)),
    };
    let (severity, headline, impact) = if !left.is_used_up() && !left.is_low() {
        let headline = format!(
            "programs and tmpfs have {}, more than memory, {} of it in swap: {of} available",
            format_bytes(left.swappable()),
            format_bytes(left.swapped)
        );
        let impact = "A program that needs its pages in swap again waits for the disk, and takes those of another.";
        (Severity::Warning, headline, impact)
    } else if !left.is_used_up() {
        let again = match left.kills {
            0 => String::new(),
            kills => format!(", after {} since boot", format_count(kills, "OOM kill")),
        };
        let headline = format!("memory is nearly used up: {of} available, {swap}{again}");
        let impact = "A larger allocation, or a few programs more, meet the OOM killer.";
        (Severity::Warning, headline, impact)
    } else if left.available >= left.least() {
        let headline = format!(
            "{of} available, but {} of it has to be written first",
            format_bytes(left.available.saturating_sub(left.ready))
        );
        (Severity::Warning, headline, "An allocation waits until pages have been written to disk.")
    } else if left.available.saturating_add(left.swap_free) >= left.least() {
        let headline = format!("memory is used up: {of} available, {swap}");
        (
            Severity::Warning,
            headline,
            "An allocation waits until other pages have been swapped out.",
        )
    } else {
        let headline = format!("memory is used up: {of} available, {swap}");
        let impact = "The next allocations stall, and then meet the OOM killer.";
        (Severity::Critical, headline, impact)
    };
    Finding::new(severity, Area::Memory, headline).with_impact(impact)
}

fn remedy(left: &RemainingMemory, largest: Option<&LargeHolder>) -> Remedy {
    let Some(holder) = largest.filter(|holder| holder.bytes >= left.least()) else {
        return Remedy::named(
            "find what holds the memory",
            vec![Step::manual("memwright explain --all-memory")],
        );
    };
    let after = left.available.saturating_add(holder.bytes).min(left.total);
    let setting = holder.setting.map_or(String::new(), |setting| format!(": {setting}"));
    let summary = format!(
        "reduce what {} holds ({} are available without it){setting}",
        holder.name,
        format_bytes(after)
    );
    let own = "memwright explain --all-memory";
    Remedy::named(summary, vec![Step::manual(own)])
}
