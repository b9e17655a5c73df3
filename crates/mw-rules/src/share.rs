//! What more than one rule computes.

use mw_model::{Missing, Resource, Sample, Snapshot, Window, derived};
use mw_proc::meminfo::Meminfo;
use mw_proc::vmstat::{Counter, Vmstat};

/// Share of a limit of a number from which on the next burst is refused.
pub(crate) const LIMIT_PERCENT: f64 = 95.0;

/// `part` of `whole` in percent; 0 of nothing is 0.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// True if `part` is at least half of `whole`.
pub(crate) fn is_most(part: u64, whole: u64) -> bool {
    part >= whole.div_ceil(2)
}

/// Share of a window in which some task waited for a resource, in percent, by the kernel's pressure stall information.
pub(crate) fn pressure_percent(window: &Window, resource: Resource) -> Option<f64> {
    let of = |sample: &Sample| resource.of(sample).value().map(|p| p.some.total_us);
    let waited_us = of(&window.now.sample)?.checked_sub(of(window.earlier.first()?)?)?;
    Some((waited_us as f64 / 10.0 / window.span_ms()?).min(100.0))
}

/// A field of meminfo that a rule cannot do without.
pub(crate) fn field(value: Option<u64>, name: &str) -> Result<u64, Missing> {
    value.ok_or_else(|| {
        Missing::absent(format!("/proc/meminfo {name}"), "this kernel has no such line")
    })
}

/// A field of meminfo that counts a part of memory: with more than there is, it is that of another machine.
pub(crate) fn part(meminfo: &Meminfo, value: Option<u64>, name: &str) -> Result<u64, Missing> {
    let part = field(value, name)?;
    match meminfo.mem_total_bytes {
        Some(total) if mw_memory::exceeds(part, total) => {
            Err(Missing::failed(format!("/proc/meminfo {name}"), "more than MemTotal"))
        }
        _ => Ok(part),
    }
}

/// A counter of vmstat that a rule cannot do without.
pub(crate) fn counter(vmstat: &Vmstat, counter: Counter) -> Result<u64, Missing> {
    vmstat.get(counter).ok_or_else(|| {
        Missing::absent(format!("/proc/vmstat {}", counter.name()), "this kernel does not count it")
    })
}

/// Dirty memory up to which the kernel throttles no writer: halfway between the background limit and the limit
/// (`domain_dirty_freerun`, mm/page-writeback.c), in their unit.
pub(crate) fn free_run(limit: u64, background: u64) -> u64 {
    (limit / 2).saturating_add(background / 2)
}

/// The sum of the high watermarks of all zones in bytes, without their temporary increase: below it kswapd works.
pub(crate) fn high_watermark_bytes(snapshot: &Snapshot) -> Result<u64, Missing> {
    let zoneinfo = snapshot.sample.zoneinfo.required()?;
    let pages = derived::total(zoneinfo.zones.iter().map(|zone| zone.unboosted_high_pages()));
    Ok(pages.saturating_mul(snapshot.origin.page_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_larger_than_memory_is_not_judged() {
        let meminfo = Meminfo { mem_total_bytes: Some(4 << 30), ..Meminfo::default() };
        assert_eq!(part(&meminfo, Some(1 << 30), "SUnreclaim"), Ok(1 << 30));
        let missing = part(&meminfo, Some(12 << 30), "SUnreclaim").unwrap_err();
        assert!(missing.to_string().contains("more than MemTotal"), "{missing}");
    }
}
