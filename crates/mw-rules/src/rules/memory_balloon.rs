//! # memory-balloon
//!
//! The hypervisor has taken a part of this guest's memory.
//!
//! ## What it finds
//! A balloon that holds at least a tenth of the memory that the machine was started with: `Balloon` of
//! /proc/meminfo (Linux 6.16), and before that `balloon_inflate` less `balloon_deflate` of /proc/vmstat, which
//! the drivers of virtio count, and of VMware since Linux 5.3. The larger of both: the huge pages of VMware's balloon are in
//! the second alone (drivers/misc/vmw_balloon.c, `vmballoon_enqueue_page_list()`), those of Xen and Hyper-V in the first.
//!
//! Without such a count, a note or a warning that at least 30% of the memory that the zones span (`present`, /proc/zoneinfo) is not in
//! MemTotal: the balloons of Xen and of virtio take their pages out of it (`adjust_managed_page_count()`), on every kernel.
//!
//! The balloons of Xen and Hyper-V count only since Linux 6.16. Memory that was unplugged (virtio-mem, a DIMM) leaves
//! no counter behind and is not found: the machine then looks like a smaller one.
//!
//! ## Why it hurts
//! The pages of a balloon belong to the host. The guest cannot reclaim them, whatever it needs, unless the host
//! permits the balloon to deflate when memory runs out. The host decides by its own shortage, and may take more at
//! any time; the guest then reclaims as fast as the balloon inflates.
//!
//! ## What it looks like
//! MemTotal is smaller than the size of the guest, or memory is missing that no process and no cache accounts for.
//! The guest swaps or kills processes at a load that it used to carry. Whatever was sized by the memory of the
//! guest, such as a buffer pool, is too large.
//!
//! ## How to fix it
//! Nothing in the guest helps. Reserve the memory on the host: `virsh setmem GUEST SIZE --live` or a
//! `<currentMemory>` as large as `<memory>` (libvirt), a minimum equal to the maximum (Proxmox VE), a reservation
//! (VMware), or switch ballooning off for the guest of a database.
//!
//! ## Threshold
//! A tenth of memory is a note: hosts that run more guests than they have memory for take what a guest does not use.
//! It is a warning while less than a tenth of what is left is available: then the host holds what the guest needs.
//!
//! ## References
//! Linux, mm/balloon_compaction.c, `balloon_page_enqueue_one()`; drivers/virtio/virtio_balloon.c;
//! Documentation/filesystems/proc.rst, Balloon.

use crate::share::percent;
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Window, contradiction,
    derived, format_bytes,
};
use mw_proc::vmstat::Counter;

const NOTE_PERCENT: f64 = 10.0;

/// Of the memory that the machine was started with: more than that is missing for no reason of its own.
const MISSING_PERCENT: f64 = 30.0;

/// Of the memory that is left: less than that available is too little.
const SCARCE_PERCENT: f64 = 10.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let (balloon, source) = balloon_bytes(snapshot)?;
    let present = present_bytes(snapshot)?;
    let share = percent(balloon, present);
    if share < NOTE_PERCENT {
        let is_counted = snapshot.sample.meminfo.required()?.balloon_bytes.is_some();
        let missing = if is_counted { None } else { missing_memory(snapshot, present)? };
        return Ok(missing.into_iter().collect());
    }
    let left = present.saturating_sub(balloon);
    let available = derived::available_bytes(snapshot)?;
    let scarce = percent(available, left) < SCARCE_PERCENT;
    let severity = if scarce { Severity::Warning } else { Severity::Note };
    let headline = format!(
        "the hypervisor has taken {} of this machine's {} ({share:.0}%)",
        format_bytes(balloon),
        format_bytes(present)
    );
    let remedy = Remedy::named(
        "reserve the memory of this guest on its host, or switch its balloon off",
        vec![Step::manual("virsh setmem GUEST SIZE --live, on the host")],
    );
    Ok(vec![
        Finding::new(severity, Area::Balloon, headline)
            .with_evidence("balloon", Quantity::Bytes(balloon), source)
            .with_evidence("present memory", Quantity::Bytes(present), "/proc/zoneinfo present")
            .with_evidence("available memory", Quantity::Bytes(available), "/proc/meminfo")
            .with_impact(
                "The guest cannot reclaim this memory, and the host may take more at any time.",
            )
            .with_remedy(remedy),
    ])
}

/// Much memory that the machine was started with and that MemTotal lacks. What the kernel reserves for itself at boot is
/// much less: its page structures are 1.6% of memory, a crash kernel rarely takes a quarter of a small machine.
fn missing_memory(snapshot: &Snapshot, present: u64) -> Result<Option<Finding>, Missing> {
    let total = derived::memory_bytes(&snapshot.sample)?;
    let missing = present.saturating_sub(total);
    let share = percent(missing, present);
    // In a container the size may be that of its limit (lxcfs), while the zones are the machine's.
    let is_replaced =
        !snapshot.origin.replaced.is_empty() || !contradiction::all(snapshot).is_empty();
    if share < MISSING_PERCENT || is_replaced {
        return Ok(None);
    }
    let available = derived::available_bytes(snapshot)?;
    let scarce = percent(available, total) < SCARCE_PERCENT;
    let severity = if scarce { Severity::Warning } else { Severity::Note };
    let headline = format!(
        "{} of this machine's {} are not in MemTotal ({share:.0}%): the balloon of a hypervisor holds them, or they were \
         reserved at boot",
        format_bytes(missing),
        format_bytes(present)
    );
    let finding = Finding::new(severity, Area::Balloon, headline)
        .with_evidence("present memory", Quantity::Bytes(present), "/proc/zoneinfo present")
        .with_evidence("MemTotal", Quantity::Bytes(total), "/proc/meminfo")
        .with_evidence("available memory", Quantity::Bytes(available), "/proc/meminfo")
        .with_impact(
            "The machine cannot use this memory, and the kernel's page structures for it, 1.6% of it, are in what is left.",
        )
        .with_remedy(Remedy::named(
            "set the maximum of this guest near what its host gives it; without a hypervisor, look for reservations on the \
             boot line (crashkernel=)",
            vec![Step::manual("virsh setmaxmem GUEST SIZE --config, on the host")],
        ));
    Ok(Some(finding))
}

/// Memory with what a balloon holds, which MemTotal leaves out unless the balloon may deflate on its own.
fn present_bytes(snapshot: &Snapshot) -> Result<u64, Missing> {
    let zones = &snapshot.sample.zoneinfo.required()?.zones;
    let pages = derived::total(zones.iter().map(|zone| zone.present_pages));
    Ok(pages.saturating_mul(snapshot.origin.page_bytes))
}

/// Memory of the balloon, and the file that has it. A kernel without these counters is built without the
/// drivers that count.
fn balloon_bytes(snapshot: &Snapshot) -> Result<(u64, &'static str), Missing> {
    let counted = snapshot.sample.meminfo.required()?.balloon_bytes;
    if let (Some(bytes), None) = (counted, snapshot.sample.vmstat.value()) {
        return Ok((bytes, "/proc/meminfo Balloon"));
    }
    let vmstat = snapshot.sample.vmstat.required()?;
    let count = |counter| vmstat.get(counter).unwrap_or(0);
    let pages = count(Counter::BalloonInflate).saturating_sub(count(Counter::BalloonDeflate));
    let inflated = pages.saturating_mul(snapshot.origin.page_bytes);
    Ok(match counted {
        Some(bytes) if bytes >= inflated => (bytes, "/proc/meminfo Balloon"),
        _ => (inflated, "/proc/vmstat balloon_inflate - balloon_deflate"),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::Reading;
    use mw_proc::meminfo::Meminfo;
    use mw_proc::vmstat::Vmstat;
    use mw_proc::zoneinfo::{Zone, Zoneinfo};

    const MIB: u64 = 1 << 20;

    /// A guest of 1000 MiB, what its balloon holds, and what is available.
    fn guest(balloon_mib: u64, available_mib: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.origin.page_bytes = 4096;
        snapshot.sample.meminfo = Reading::Value(Meminfo {
            mem_total_bytes: Some((1000 - balloon_mib) * MIB),
            mem_free_bytes: Some(available_mib * MIB),
            mem_available_bytes: Some(available_mib * MIB),
            balloon_bytes: Some(balloon_mib * MIB),
            ..Meminfo::default()
        });
        let zone = Zone { present_pages: 1000 * MIB / 4096, ..Zone::default() };
        snapshot.sample.zoneinfo =
            Reading::Value(Zoneinfo { zones: vec![zone], ..Zoneinfo::default() });
        snapshot
    }

    fn severity(snapshot: Snapshot) -> Option<Severity> {
        hazard(&Window::new(snapshot)).unwrap().first().map(|finding| finding.severity)
    }

    /// Promise (Findings): A balloon is a warning only while memory is short, and a returned one is not reported.
    #[test]
    fn a_balloon_is_a_warning_only_while_memory_is_short() {
        assert_eq!(severity(guest(90, 10)), None, "a small one");
        assert_eq!(severity(guest(600, 200)), Some(Severity::Note));
        assert_eq!(severity(guest(600, 41)), Some(Severity::Note));
        assert_eq!(severity(guest(600, 39)), Some(Severity::Warning));
    }

    #[test]
    fn without_a_counter_much_that_is_not_in_memtotal_is_found() {
        let uncounted = |balloon_mib, available_mib| {
            let mut snapshot = guest(balloon_mib, available_mib);
            let Reading::Value(meminfo) = &mut snapshot.sample.meminfo else { unreachable!() };
            meminfo.balloon_bytes = None;
            snapshot.sample.vmstat = Reading::Value(Vmstat::default());
            severity(snapshot)
        };
        assert_eq!(uncounted(250, 300), None, "a crash kernel");
        assert_eq!(uncounted(600, 200), Some(Severity::Note));
        assert_eq!(uncounted(600, 39), Some(Severity::Warning));
    }

    #[test]
    fn huge_pages_of_vmware_are_counted_as_inflated_alone() {
        let mut snapshot = guest(600, 200);
        let Reading::Value(meminfo) = &mut snapshot.sample.meminfo else { unreachable!() };
        meminfo.balloon_bytes = Some(10 * MIB);
        let mut vmstat = Vmstat::default();
        vmstat.set(Counter::BalloonInflate, Some(600 * MIB / 4096));
        vmstat.set(Counter::BalloonDeflate, Some(0));
        snapshot.sample.vmstat = Reading::Value(vmstat);
        assert_eq!(severity(snapshot), Some(Severity::Note));
    }

    #[test]
    fn before_linux_6_16_it_is_what_was_not_deflated() {
        let mut snapshot = guest(600, 200);
        let Reading::Value(meminfo) = &mut snapshot.sample.meminfo else { unreachable!() };
        meminfo.balloon_bytes = None;
        meminfo.mem_total_bytes = Some(960 * MIB);
        let mut vmstat = Vmstat::default();
        vmstat.set(Counter::BalloonInflate, Some(200_000));
        vmstat.set(Counter::BalloonDeflate, Some(190_000));
        snapshot.sample.vmstat = Reading::Value(vmstat.clone());
        assert_eq!(severity(snapshot.clone()), None);
        vmstat.set(Counter::BalloonDeflate, Some(100_000));
        snapshot.sample.vmstat = Reading::Value(vmstat);
        assert_eq!(severity(snapshot), Some(Severity::Note));
    }
}
