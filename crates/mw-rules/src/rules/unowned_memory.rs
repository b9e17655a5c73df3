//! # unowned-memory
//!
//! Much memory belongs to no process, cache or file that can be named.
//!
//! ## What it finds
//! At least a tenth of memory, each by itself, that is in no counter of the kernel; that is per-CPU memory; or that is
//! shared memory which neither a tmpfs, nor a System V segment, nor what a process maps explains and no swap could take. Or
//! three tenths of memory that are such shared memory, whatever swap could take.
//! The ZFS ARC does not count (zfs-arc), nor does memory that a balloon has taken out of MemTotal. The balloon of VMware before
//! Linux 5.3 and that of Hyper-V before 6.16 are in no counter, and are found here.
//!
//! ## Why it hurts
//! No reclaim frees it, and no list of processes shows who has it: people end programs that do not help.
//!
//! ## What it looks like
//! The parts of `memwright explain --all-memory` do not add up without "unaccounted for"; `free` shows much memory as used
//! that no process has; a number of cgroups in /proc/cgroups that nobody has created.
//!
//! ## How to fix it
//! Memory in no counter is that of drivers (network buffers, GPUs, storage, hypervisor tools): unload or update the
//! driver, or boot with `page_owner=on`. Per-CPU memory is mostly that of cgroups, also of those that were removed and live
//! on until their page cache is reclaimed: `memory.reclaim` or `drop_caches` frees them. Shared memory is released by the
//! program that maps it: a memfd, a removed file of a tmpfs, the buffer of a GPU. Buffers of integrated graphics are shared
//! memory that no process maps in its own name; `memwright explain --all-memory` and `drm-total-*` in /proc/PID/fdinfo name
//! the program.
//!
//! ## Threshold
//! A tenth of memory is a warning; of shared memory it is a note up to 30%, since mounts of containers are not seen, and a note
//! beyond that while swap could take it. What a kernel allocates for itself without a counter (page tables of the kernel, boot
//! memory, buffers of a few devices) was below 5% wherever it was measured, and 48 MiB on a machine of any
//! size are no finding. A process's shared memory is
//! counted once, as that of the process with most of it.
//!
//! ## References
//! Linux, fs/proc/meminfo.c; drivers/misc/vmw_balloon.c, `vmballoon_enqueue_page_list()`; drivers/hv/hv_balloon.c;
//! Documentation/mm/page_owner.rst; Documentation/admin-guide/cgroup-v2.rst,
//! nr_dying_descendants.

use crate::arc;
use crate::counted::{counted, in_no_counter_bytes};
use crate::share::percent;
use crate::shared_memory;
use mw_memory::{Account, MemoryPart};
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Window, contradiction,
    derived, format_bytes,
};
use mw_proc::version::KernelVersion;

const WARNING_PERCENT: f64 = 10.0;

/// Memory in no counter that any kernel has: on a machine of 256 MiB it is more than a tenth.
const ORDINARY_BYTES: u64 = 48 << 20;

/// The first kernels whose balloon drivers of VMware (`balloon_page_list_enqueue()`) and Hyper-V (`NR_BALLOON_PAGES`) count
/// their pages.
const VMWARE_COUNTS: KernelVersion = KernelVersion::new(5, 3, 0);
const HYPERV_COUNTS: KernelVersion = KernelVersion::new(6, 16, 0);

/// Less shared memory may be in the tmpfs of a container, whose mount namespace nobody looks into.
const SHARED_WARNING_PERCENT: f64 = 30.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let account = counted(snapshot)?;
    let is_sound = contradiction::all(snapshot).is_empty();
    let found = if is_sound { [unaccounted, percpu, shared].as_slice() } else { &[] };
    Ok(found.iter().filter_map(|of| of(snapshot, &account)).collect())
}

/// The share of memory in percent, where it is much.
fn much(bytes: u64, account: &Account) -> Option<f64> {
    Some(percent(bytes, account.total_bytes())).filter(|share| *share >= WARNING_PERCENT)
}

fn unaccounted(snapshot: &Snapshot, account: &Account) -> Option<Finding> {
    let all = in_no_counter_bytes(snapshot)?;
    let of_arc = arc::parts(snapshot).unaccounted;
    let bytes = Some(all.saturating_sub(of_arc)).filter(|bytes| *bytes >= ORDINARY_BYTES)?;
    let share = much(bytes, account)?;
    let headline = format!(
        "{} belong to no process, cache or counter ({share:.0}% of memory): a driver or the kernel holds them",
        format_bytes(bytes)
    );
    let mut finding = Finding::new(Severity::Warning, Area::KernelMemory, headline)
        .with_evidence("in no counter", Quantity::Bytes(bytes), "/proc/meminfo")
        .with_impact(
            "No reclaim frees this memory; ending programs frees it only if they use the driver.",
        );
    if let Some(sockets) = snapshot.sockets.value() {
        let bytes = sockets.pages().saturating_mul(snapshot.origin.page_bytes);
        finding = finding.with_evidence(
            "buffers of sockets",
            Quantity::Bytes(bytes),
            "/proc/net/sockstat",
        );
    }
    Some(finding.with_remedy(Remedy::named(
        format!(
            "find the driver: its buffers in /sys/kernel/debug, /proc/allocinfo (6.10), or page_owner{}",
            uncounted_balloon(snapshot)
        ),
        vec![
            Step::manual("sort -rn /proc/allocinfo | head"),
            Step::BootParameter { parameter: "page_owner=on".to_owned() },
        ],
    )))
}

/// The balloon of a hypervisor, where this kernel does not count that of some.
fn uncounted_balloon(snapshot: &Snapshot) -> &'static str {
    match snapshot.origin.kernel {
        Some(kernel) if kernel < VMWARE_COUNTS => {
            "; in a guest of VMware or Hyper-V it may be the balloon, which this kernel does not count: ask its host \
             (vmware-toolbox-cmd stat balloon)"
        }
        Some(kernel) if kernel < HYPERV_COUNTS => {
            "; in a guest of Hyper-V it may be the balloon, which this kernel does not count: ask its host"
        }
        _ => "",
    }
}

fn percpu(snapshot: &Snapshot, account: &Account) -> Option<Finding> {
    let bytes = account.bytes(MemoryPart::Percpu);
    let share = much(bytes, account)?;
    let dying = snapshot.cgroups.value().and_then(|groups| groups.dying).filter(|dying| *dying > 0);
    let mut headline =
        format!("per-CPU memory takes {} ({share:.0}% of memory)", format_bytes(bytes));
    if let Some(dying) = dying {
        headline.push_str(&format!(
            "; {dying} deleted cgroups are still there, which hold part of it and of the slab"
        ));
    }
    let mut finding = Finding::new(Severity::Warning, Area::PercpuMemory, headline)
        .with_evidence("Percpu", Quantity::Bytes(bytes), "/proc/meminfo")
        .with_impact("No reclaim frees per-CPU memory; each cgroup and each BPF map takes its part on every CPU.");
    let remedy = match dying {
        Some(dying) => {
            finding = finding.with_evidence(
                "nr_dying_descendants",
                Quantity::Count(dying),
                "cgroup.stat",
            );
            Remedy::named(
                "free the page cache and the objects that keep the deleted cgroups; create and delete fewer cgroups",
                vec![Step::Once {
                    path: "/proc/sys/vm/drop_caches".to_owned(),
                    value: "3".to_owned(),
                }],
            )
        }
        None => Remedy::named(
            "find what takes it: BPF maps, cgroups, network devices",
            vec![Step::manual("bpftool map show"), Step::manual("cat /proc/cgroups")],
        ),
    };
    Some(finding.with_remedy(remedy))
}

fn shared(snapshot: &Snapshot, account: &Account) -> Option<Finding> {
    let all = account.bytes(MemoryPart::Shared);
    let named =
        shared_memory::mounts(snapshot).into_iter().chain(shared_memory::segments(snapshot));
    let named = derived::total(named.map(|(_, bytes)| bytes));
    let processes = snapshot.processes.value().map_or(&[][..], |all| all.list.as_slice());
    let mapped = processes.iter().filter_map(|process| process.status.rss_shmem_bytes).max();
    let swap = snapshot.sample.meminfo.value().and_then(|m| m.swap_free_bytes).unwrap_or(0);
    let unexplained = all.saturating_sub(named.max(mapped.unwrap_or(0)));
    let is_of = |least| move |share: &f64| *share >= least;
    let hard = unexplained.saturating_sub(swap);
    let (bytes, share, severity) = match much(hard, account) {
        Some(share) if share >= SHARED_WARNING_PERCENT => (hard, share, Severity::Warning),
        Some(share) => (hard, share, Severity::Note),
        None => {
            let share = much(unexplained, account).filter(is_of(SHARED_WARNING_PERCENT))?;
            (unexplained, share, Severity::Note)
        }
    };
    let headline = format!(
        "{} are shared memory without a mount, segment or process that explains it ({share:.0}% of memory)",
        format_bytes(bytes)
    );
    Some(
        Finding::new(severity, Area::SharedMemory, headline)
            .with_evidence("Shmem", Quantity::Bytes(all), "/proc/meminfo")
            .with_evidence("tmpfs and System V segments", Quantity::Bytes(named), "statfs, /proc/sysvipc/shm")
            .with_impact(
                "It counts as page cache (Cached), but reclaim can only swap it out, until the program that holds it frees it.",
            )
            .with_remedy(Remedy::named(
                "find the program that maps it: a memfd, a removed file of a tmpfs, or buffers of a GPU",
                vec![
                    Step::manual("grep -H RssShmem /proc/[0-9]*/status | sort -k2 -rn | head"),
                    Step::manual("ls -l /proc/[0-9]*/fd 2>/dev/null | grep -E 'memfd|deleted|/dev/dri'"),
                ],
            )),
    )
}
