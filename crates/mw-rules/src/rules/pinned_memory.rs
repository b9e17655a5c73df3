//! # pinned-memory
//!
//! Devices hold a large part of memory, which the kernel can neither move nor reclaim.
//!
//! ## What it finds
//! Pinned pages of at least a tenth of memory and 64 MiB: `nr_foll_pin_acquired` less `nr_foll_pin_released` of
//! /proc/vmstat (Linux 5.8), in which a page counts once for each pin. It names the processes by `VmPin`, which
//! RDMA, io_uring and iommufd count, and beside them those by `VmLck`, in which VFIO counts its pins. Nothing is
//! counted there for the host memory of CUDA (driver 580), nor by Linux 7.3 for buffers that root registers with
//! io_uring. Where no account has half of the pins, the largest process is shown, which need not be the one that pins.
//!
//! Locked memory (`Mlocked`) of at least half of memory while less than a fifth is available, with the processes that
//! locked it (`VmLck`).
//!
//! Another finding is memory that only movable pages can use although nothing is reserved for contiguous
//! allocation: `CmaFree` of at least a tenth of memory while `CmaTotal` is 0. Some kernels that are started with
//! `kho=on` leave their reserve for the next kernel like that.
//!
//! ## Why it hurts
//! A pinned page stays where it is until the device is done with it: it is not swapped, not migrated to another
//! node, and compaction stops at it, so that huge pages become scarce. It counts as ordinary anonymous or shared
//! memory everywhere else, so that reclaim scans it without effect while some swap is free; without swap the kernel
//! scans no anonymous memory (mm/vmscan.c, get_scan_count()), and what is left for reclaim is less.
//!
//! ## What it looks like
//! Swap is free, anonymous memory is large, and reclaim is expensive all the same; `compact_fail` grows; memory
//! cannot be taken offline. `Unevictable` and `Mlocked` are small: pinning is not locking.
//!
//! ## How to fix it
//! Pin less, or on huge pages, which are no obstacle to compaction: hugetlb memory for guests and DPDK, smaller
//! registered buffers for RDMA and io_uring. `fuser -v /dev/nvidia*` lists the processes that use a GPU. The memory
//! comes back when the process ends. For memory that nothing but
//! movable pages can use: start the kernel without `kho=on`.
//!
//! ## Threshold
//! A tenth of memory. It is a note, however much it is: hosts of virtual machines with passed-through devices pin
//! all of their guests, and RDMA, SPDK and GPU programs their buffers, all on purpose. Direct I/O pins its buffers
//! for the time of the request alone, some MiB.
//!
//! ## References
//! Linux, Documentation/core-api/pin_user_pages.rst; Documentation/core-api/kho/concepts.rst.

use crate::share::{field, percent};
use mw_model::{
    Area, Finding, Missing, Process, Quantity, Remedy, Severity, Snapshot, Step, Window, derived,
    format_bytes,
};
use mw_proc::meminfo::Meminfo;
use mw_proc::status::Status;
use mw_proc::vmstat::Counter;
use std::cmp::Reverse;

const NOTE_PERCENT: f64 = 10.0;

/// Share of memory that is locked, and of memory that is available, with which locked memory is shown.
const LOCKED_PERCENT: f64 = 50.0;
const TIGHT_PERCENT: f64 = 20.0;

/// Less is in flight for direct I/O at times.
const MIN_BYTES: u64 = 64 << 20;

/// Processes that are named, by `VmPin` and by `VmLck`.
const MAX_SHOWN: usize = 3;

/// A process is named from this part of all pins on.
const LEAST_PART: u64 = 100;

/// By which account the kernel says whose the pins are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PinAccounting {
    Pins,
    /// VFIO counts its pins as locked memory.
    Locks,
    /// No account has half of them.
    None,
    /// Processes could not be read.
    Unread,
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let meminfo = snapshot.sample.meminfo.required()?;
    let total = field(meminfo.mem_total_bytes, "MemTotal")?;
    let (pinned, source) = pinned_bytes(snapshot)?;
    let is_large = |bytes: u64| bytes >= MIN_BYTES && percent(bytes, total) >= NOTE_PERCENT;
    let mut findings = Vec::new();
    if is_large(pinned) {
        findings.push(pinned_finding(snapshot, meminfo, pinned, total, source));
    }
    let movable_only = match (meminfo.cma_total_bytes, meminfo.cma_free_bytes) {
        (Some(0), Some(free)) => free,
        _ => 0,
    };
    findings.extend(locked_finding(snapshot, meminfo, total));
    if is_large(movable_only) {
        findings.push(movable_only_finding(movable_only, total));
    }
    Ok(findings)
}

/// Locked memory, where it is most of memory and little is left: databases lock their buffers on purpose, but mlockall(2)
/// locks files that are mapped as well, which would be page cache otherwise.
fn locked_finding(snapshot: &Snapshot, meminfo: &Meminfo, total: u64) -> Option<Finding> {
    let locked = meminfo.mlocked_bytes?;
    let available = derived::available_bytes(snapshot).ok()?;
    let is_tight = percent(available, total) < TIGHT_PERCENT;
    if !is_tight || percent(locked, total) < LOCKED_PERCENT {
        return None;
    }
    let shown = largest(snapshot, locked / LEAST_PART, |status| status.vm_lck_bytes);
    let who = shown.first().filter(|(_, bytes)| *bytes >= locked / 2);
    let whose = who.map_or_else(String::new, |(status, _)| {
        format!(", mostly by {} (pid {})", status.name, status.pid.unwrap_or(0))
    });
    let share = percent(locked, total);
    let headline = format!("{} are locked ({share:.0}% of memory){whose}", format_bytes(locked));
    let mut finding = Finding::new(Severity::Note, Area::PinnedPages, headline)
        .with_evidence("Mlocked", Quantity::Bytes(locked), "/proc/meminfo")
        .with_impact("The kernel can neither swap this memory nor drop it, mapped files included.")
        .with_remedy(Remedy::named(
            "lock less (mlockall(2) locks mapped files as well), or add memory",
            vec![whose_pins(PinAccounting::Locks)],
        ));
    for (status, bytes) in shown {
        let what = format!("VmLck of {}", status.name);
        let source = format!("/proc/{}/status", status.pid.unwrap_or(0));
        finding = finding.with_evidence(what, Quantity::Bytes(bytes), source);
    }
    Some(finding)
}

/// Pinned memory and which file says so. Before 5.8 only what processes account for is known.
fn pinned_bytes(snapshot: &Snapshot) -> Result<(u64, &'static str), Missing> {
    let vmstat = snapshot.sample.vmstat.required()?;
    let counts = (vmstat.get(Counter::NrFollPinAcquired), vmstat.get(Counter::NrFollPinReleased));
    if let (Some(acquired), Some(released)) = counts {
        let bytes = acquired.saturating_sub(released).saturating_mul(snapshot.origin.page_bytes);
        return Ok((bytes, "/proc/vmstat nr_foll_pin_acquired - nr_foll_pin_released"));
    }
    let processes = snapshot.processes.required()?;
    let pins = processes.list.iter().filter_map(|process| process.status.vm_pin_bytes);
    Ok((pins.fold(0, u64::saturating_add), "/proc/PID/status VmPin"))
}

fn pinned_finding(
    snapshot: &Snapshot,
    meminfo: &Meminfo,
    pinned: u64,
    total: u64,
    source: &str,
) -> Finding {
    let account = account(snapshot, meminfo, pinned);
    let (line, of): (_, fn(&Status) -> Option<u64>) = match account {
        PinAccounting::Pins | PinAccounting::Unread => ("VmPin", |status| status.vm_pin_bytes),
        PinAccounting::Locks => ("VmLck", |status| status.vm_lck_bytes),
        PinAccounting::None => ("VmRSS", |status| status.vm_rss_bytes),
    };
    let mut shown = largest(snapshot, pinned / LEAST_PART, of);
    if account == PinAccounting::None {
        shown.truncate(1);
    }
    let is_named = matches!(account, PinAccounting::Pins | PinAccounting::Locks);
    let who = shown.first().filter(|(_, bytes)| is_named && *bytes >= pinned / 2);
    let whose = who.map_or_else(String::new, |(status, _)| {
        format!(", mostly by {} (pid {})", status.name, status.pid.unwrap_or(0))
    });
    let share = percent(pinned, total);
    let headline =
        format!("{} are pinned for devices ({share:.0}% of memory){whose}", format_bytes(pinned));
    let mut finding = Finding::new(Severity::Note, Area::PinnedPages, headline)
        .with_evidence("pinned", Quantity::Bytes(pinned), source)
        .with_impact(
            "The kernel cannot swap, migrate or compact this memory, and reclaim scans it without effect.",
        )
        .with_remedy(Remedy::named("pin less, or on huge pages", vec![whose_pins(account)]));
    let lines = [("Unevictable", meminfo.unevictable_bytes), ("Mlocked", meminfo.mlocked_bytes)];
    for (name, bytes) in lines.into_iter().filter_map(|(name, bytes)| Some((name, bytes?))) {
        finding = finding.with_evidence(name, Quantity::Bytes(bytes), "/proc/meminfo");
    }
    let note =
        if account == PinAccounting::None { ", the largest, perhaps not the owner" } else { "" };
    for (status, bytes) in shown {
        let what = format!("{line} of {}{note}", status.name);
        let source = format!("/proc/{}/status", status.pid.unwrap_or(0));
        finding = finding.with_evidence(what, Quantity::Bytes(bytes), source);
    }
    finding
}

fn account(snapshot: &Snapshot, meminfo: &Meminfo, pinned: u64) -> PinAccounting {
    let Some(processes) = snapshot.processes.value() else { return PinAccounting::Unread };
    let all = |of: fn(&Status) -> Option<u64>| {
        let each = processes.list.iter().filter_map(|process| of(&process.status));
        each.fold(0, u64::saturating_add)
    };
    // What mlock(2) locked is no pin.
    let mlocked = meminfo.mlocked_bytes.unwrap_or(0);
    if all(|status| status.vm_pin_bytes) >= pinned / 2 {
        PinAccounting::Pins
    } else if all(|status| status.vm_lck_bytes).saturating_sub(mlocked) >= pinned / 2 {
        PinAccounting::Locks
    } else {
        PinAccounting::None
    }
}

/// Way to find the processes that pin: by the account of it, or by the users of the devices whose drivers keep none.
fn whose_pins(account: PinAccounting) -> Step {
    Step::manual(match account {
        PinAccounting::Pins => "grep -H VmPin /proc/[0-9]*/status | sort -rnk2 | head",
        PinAccounting::Locks => "grep -H VmLck /proc/[0-9]*/status | sort -rnk2 | head",
        PinAccounting::Unread => "grep -HE 'Vm(Pin|Lck)' /proc/[0-9]*/status | sort -rnk2 | head",
        PinAccounting::None => "fuser -v /dev/nvidia* /dev/dri/* /dev/infiniband/*",
    })
}

/// The processes with most of something and at least so much, the largest first.
fn largest(
    snapshot: &Snapshot,
    least: u64,
    of: impl Fn(&Status) -> Option<u64>,
) -> Vec<(&Status, u64)> {
    let list = snapshot.processes.value().map_or(&[][..], |processes| &processes.list);
    let has = |process: &'_ Process| of(&process.status).filter(|bytes| *bytes >= least.max(1));
    let mut found: Vec<(&Status, u64)> =
        list.iter().filter_map(|process| Some((&process.status, has(process)?))).collect();
    found.sort_by_key(|(_, bytes)| Reverse(*bytes));
    found.truncate(MAX_SHOWN);
    found
}

fn movable_only_finding(free: u64, total: u64) -> Finding {
    let headline = format!(
        "{} of free memory can hold movable pages alone, though nothing is reserved ({:.0}% of memory)",
        format_bytes(free),
        percent(free, total)
    );
    let kho = Step::BootParameter { parameter: "kho=off".to_owned() };
    Finding::new(Severity::Note, Area::PinnedPages, headline)
        .with_evidence("CmaFree", Quantity::Bytes(free), "/proc/meminfo")
        .with_evidence("CmaTotal", Quantity::Bytes(0), "/proc/meminfo")
        .with_impact("The kernel's own allocations reclaim while this memory is free.")
        .with_remedy(Remedy::named("start the kernel without kexec handover", vec![kho]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::Reading;
    use mw_proc::vmstat::Vmstat;

    fn window(change: impl Fn(&mut Meminfo, &mut Vmstat)) -> Window {
        let mut meminfo = Meminfo {
            mem_total_bytes: Some(1 << 30),
            cma_total_bytes: Some(0),
            ..Meminfo::default()
        };
        let mut vmstat = Vmstat::default();
        vmstat.set(Counter::NrFollPinAcquired, Some(1000));
        vmstat.set(Counter::NrFollPinReleased, Some(1000));
        change(&mut meminfo, &mut vmstat);
        let mut snapshot = Snapshot::default();
        snapshot.origin.page_bytes = 4096;
        snapshot.sample.meminfo = Reading::Value(meminfo);
        snapshot.sample.vmstat = Reading::Value(vmstat);
        Window::new(snapshot)
    }

    fn headlines(window: &Window) -> Vec<String> {
        hazard(window).unwrap().into_iter().map(|finding| finding.headline).collect()
    }

    #[test]
    fn free_memory_of_no_area_is_for_movable_pages_alone() {
        let free = |mib: u64, total: u64| {
            headlines(&window(|meminfo, _| {
                meminfo.cma_free_bytes = Some(mib << 20);
                meminfo.cma_total_bytes = Some(total << 20);
            }))
        };
        assert_eq!(free(256, 256), Vec::<String>::new(), "an area");
        assert_eq!(free(100, 0), Vec::<String>::new(), "less than a tenth");
        let found = free(256, 0);
        assert!(found.len() == 1 && found[0].starts_with("256 MiB of free memory"), "{found:?}");
    }

    /// Promise (Findings): Pins are named by process where the kernel accounts for them; where it does not, as for
    /// CUDA, the largest process is shown as perhaps not the owner.
    #[test]
    fn who_pins_is_named_where_it_is_accounted_for() {
        const MIB: u64 = 1 << 20;
        /// A process with so much pinned, locked and resident, in MiB.
        fn process(name: &str, [pin, lock, resident]: [u64; 3]) -> Process {
            let status = Status {
                name: name.to_owned(),
                pid: Some(3),
                vm_pin_bytes: Some(pin * MIB),
                vm_lck_bytes: Some(lock * MIB),
                vm_rss_bytes: Some(resident * MIB),
                ..Status::default()
            };
            Process { status, ..Process::default() }
        }
        /// Of 256 MiB of pins: the end of the headline, who is shown, and the step.
        fn found(mlocked_mib: u64, list: Option<Vec<Process>>) -> (String, Vec<String>, String) {
            let mut window = window(|meminfo, vmstat| {
                meminfo.mlocked_bytes = Some(mlocked_mib * MIB);
                vmstat.set(Counter::NrFollPinAcquired, Some(1000 + 65_536));
            });
            if let Some(list) = list {
                let processes = mw_model::Processes { present: list.len(), unseen: 0, list };
                window.now.processes = Reading::Value(processes);
            }
            let finding = hazard(&window).unwrap().remove(0);
            let (_, end) = finding.headline.split_once("memory)").unwrap();
            let names = finding.evidence.iter().map(|evidence| evidence.what.clone());
            let shown = names.filter(|what| what.contains(" of ")).collect();
            (end.to_owned(), shown, format!("{:?}", finding.remedy))
        }
        let locker = || process("locker", [0, 1024, 1100]);

        let (end, shown, step) = found(1024, Some(vec![locker(), process("rdma", [200, 0, 300])]));
        assert_eq!(
            (end.as_str(), shown.join(" ").as_str()),
            (", mostly by rdma (pid 3)", "VmPin of rdma")
        );
        assert!(step.contains("VmPin"), "{step}");
        // A host of virtual machines: none has half of the pins.
        let guests = (0..16).map(|_| process("qemu", [0, 16, 20])).collect();
        let (end, shown, step) = found(0, Some(guests));
        assert_eq!((end.as_str(), shown.len()), ("", 3));
        assert!(step.contains("VmLck") && shown[0] == "VmLck of qemu", "{step}");
        // As a program has them that pins memory for CUDA, beside one that locks its own.
        let (end, shown, step) = found(1024, Some(vec![locker(), process("torch", [0, 0, 3000])]));
        let perhaps = ["VmRSS of torch, the largest, perhaps not the owner"];
        assert_eq!((end.as_str(), shown.as_slice()), ("", &perhaps.map(str::to_owned)[..]));
        assert!(step.contains("/dev/nvidia*"), "{step}");
        let (end, shown, step) = found(0, None);
        assert!(end.is_empty() && shown.is_empty() && step.contains("Vm(Pin|Lck)"), "{step}");
    }

    /// Promise (Findings): Locked memory, pages in pipes and pins that were released are not reported as pinned
    /// memory.
    #[test]
    fn pins_are_those_that_were_not_released() {
        let pins = |acquired: u64| {
            headlines(&window(|_, vmstat| vmstat.set(Counter::NrFollPinAcquired, Some(acquired))))
        };
        assert_eq!(pins(1000 + 25_000), Vec::<String>::new());
        let found = pins(1000 + 32_768);
        assert_eq!(found, ["128 MiB are pinned for devices (12% of memory)"]);
        // The kernel sums the two up one after the other.
        assert_eq!(pins(900), Vec::<String>::new());
    }
}
