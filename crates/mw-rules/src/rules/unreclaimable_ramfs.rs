//! # unreclaimable-ramfs
//!
//! Files on a RAM disk take so much of a node that reclaim finds little else.
//!
//! ## What it finds
//! A node (or the machine) in which tmpfs and ramfs files take at least a quarter of the memory, by
//! mount. Memory of a tmpfs for which swap is free does not count; a ramfs is never swapped out. Shared
//! segments and locked memory of programs are shown with it: they are unreclaimable too, but intended.
//!
//! As the cause of a stall: RAM disks take as much as above and tasks reclaimed. The condition existed
//! before the stall and explains only why memory was short, so it scores lower than what happened during
//! it; it scores higher where most scanned pages could not be reclaimed.
//!
//! ## Why it hurts
//! No reclaim frees a file on a RAM disk. The less of the memory remains, the harder reclaim scans it: the rest of
//! the page cache is dropped and read again. (The files themselves are not scanned: those of a ramfs are on no list
//! that is, and anonymous lists, with tmpfs on them, only while some swap is free; mm/vmscan.c, get_scan_count().) With `vm.zone_reclaim_mode` set a database took two hours to start;
//! without swap the OOM killer ends it. A ramfs has no size limit at all.
//!
//! ## What it looks like
//! Much `Shmem` (tmpfs) or `Unevictable` (ramfs) in the node's meminfo; `df` shows the tmpfs, but
//! nothing for a ramfs.
//!
//! ## How to fix it
//! Remove the files, or limit the mount: `mount -o remount,size=2G /mnt/ramdisk` (not below what it
//! holds). With several nodes, spread new files over them:
//! `mount -o remount,mpol=interleave /mnt/ramdisk`. Use a tmpfs instead of a ramfs: it has a limit and
//! can be swapped out.
//!
//! ## Threshold
//! 25% of a node is a warning, 50% is critical. In the field report 10 GB of RAM disk on nodes of 24 GB
//! (42% of one node) was enough; up to a quarter, three of four pages that reclaim scans are still of
//! another kind.
//!
//! ## References
//! Linux, Documentation/filesystems/tmpfs.rst and ramfs-rootfs-initramfs.rst;
//! Documentation/mm/unevictable-lru.rst.

use crate::cause_score::{CauseScore, LATENT_MOST};
use crate::share::percent;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::NODE_RECLAIM;
use mw_model::{
    Finding, MemoryFilesystem, Missing, Quantity, Remedy, Severity, Snapshot, Step, Subject,
    VmActivity, WaitKind, Window, derived, format_bytes, zones,
};
use mw_proc::meminfo::Meminfo;

const WARNING_PERCENT: f64 = 25.0;
const CRITICAL_PERCENT: f64 = 50.0;

/// From how many scanned pages per reclaimed page on scanning frees next to nothing.
const VAIN: f64 = 4.0;

/// The highest score where scanning freed nothing.
const VAIN_MOST: f64 = 75.0;

/// Share of memory, as a divisor, from which on much is available: as large as the files that are a warning.
const PLENTY_SHARE: u64 = 4;

/// Mounts that are shown as evidence.
const MAX_SHOWN: usize = 3;

/// Memory of the whole machine that files on RAM disks take, in bytes.
struct RamDisks {
    /// tmpfs files that do not fit into free swap.
    tmpfs_pinned: u64,
    /// ramfs files: unevictable pages that are neither mlocked nor in a locked segment.
    ramfs: u64,
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let filesystems = snapshot.filesystems.required()?;
    let machine = snapshot.sample.meminfo.required()?;
    let disks = ram_disks(snapshot, filesystems, machine);
    if disks.tmpfs_pinned == 0 && disks.ramfs == 0 {
        return Ok(Vec::new());
    }
    let of_node = |(node, meminfo): (u32, Meminfo)| {
        let total = meminfo.mem_total_bytes?;
        let tmpfs = portion(disks.tmpfs_pinned, meminfo.shmem_bytes, machine.shmem_bytes);
        let ramfs = portion(disks.ramfs, not_locked(&meminfo), not_locked(machine));
        let bytes = tmpfs.saturating_add(ramfs);
        let share = percent(bytes, total);
        (share >= WARNING_PERCENT).then(|| finding(snapshot, filesystems, node, bytes, share))
    };
    Ok(zones::node_meminfos(snapshot).into_iter().filter_map(of_node).collect())
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let score =
        CauseScore::for_reclaim(stall).waits(&[WaitKind::NodeReclaim]).blocked_in(&[NODE_RECLAIM]);
    let mut nodes = hazard(stall.window)?;
    nodes.sort_by_key(|node| std::cmp::Reverse(node.severity));
    let Some(mut finding) = nodes.into_iter().next() else { return score.no_cause() };
    let (scanned, stolen) =
        (stall.activity(VmActivity::MachineScans), stall.activity(VmActivity::MachineSteals));
    let in_vain = scanned.ok().zip(stolen.ok()).is_some_and(|(s, got)| s > 0.0 && got * VAIN < s);
    let score = score.at_most(if in_vain { VAIN_MOST } else { LATENT_MOST });
    finding.headline = format!("files in tmpfs or ramfs filled {}", finding.subject);
    score.cause(finding)
}

fn ram_disks(snapshot: &Snapshot, filesystems: &[MemoryFilesystem], machine: &Meminfo) -> RamDisks {
    let of_tmpfs = filesystems.iter().filter(|f| f.fstype == "tmpfs");
    let tmpfs = derived::total(of_tmpfs.filter_map(|f| f.used_bytes));
    let segments = snapshot.shm.value().map_or(&[][..], Vec::as_slice);
    let locked_segments =
        derived::total(segments.iter().filter(|s| s.is_locked()).filter_map(|s| s.rss_bytes));
    let has_ramfs = filesystems.iter().any(|f| f.fstype == "ramfs");
    let ramfs = not_locked(machine).unwrap_or(0).saturating_sub(locked_segments);
    RamDisks {
        tmpfs_pinned: tmpfs.saturating_sub(machine.swap_free_bytes.unwrap_or(0)),
        ramfs: if has_ramfs { ramfs } else { 0 },
    }
}

/// Unevictable memory that no mlock explains.
fn not_locked(meminfo: &Meminfo) -> Option<u64> {
    Some(meminfo.unevictable_bytes?.saturating_sub(meminfo.mlocked_bytes?))
}

/// A node's part of `bytes`, in proportion to its part of a counter.
fn portion(bytes: u64, node: Option<u64>, machine: Option<u64>) -> u64 {
    match (node, machine) {
        (Some(node), Some(machine)) if machine > 0 => {
            (bytes as f64 * (node as f64 / machine as f64).min(1.0)) as u64
        }
        _ => 0,
    }
}

fn finding(
    snapshot: &Snapshot,
    filesystems: &[MemoryFilesystem],
    node: u32,
    bytes: u64,
    share: f64,
) -> Finding {
    let severity = if share >= CRITICAL_PERCENT { Severity::Critical } else { Severity::Warning };
    let subject = Subject::Node(node);
    let headline = format!(
        "files on RAM disks take {} of node {node}'s memory ({share:.0}%), which cannot be reclaimed",
        format_bytes(bytes)
    );
    let source = format!("/sys/devices/system/node/node{node}/meminfo");
    let mut finding = Finding::new(severity, subject, headline)
        .with_evidence("files on RAM disks", Quantity::Bytes(bytes), source)
        .with_impact(impact(snapshot));
    let mut mounts: Vec<&MemoryFilesystem> =
        filesystems.iter().filter(|f| ["tmpfs", "ramfs"].contains(&f.fstype.as_str())).collect();
    mounts.sort_by_key(|f| std::cmp::Reverse(f.used_bytes.unwrap_or(u64::MAX)));
    for mount in mounts.iter().filter(|f| f.used_bytes != Some(0)).take(MAX_SHOWN) {
        let quantity = mount.used_bytes.map_or_else(
            || Quantity::Text("not counted by the kernel".to_owned()),
            Quantity::Bytes,
        );
        finding = finding.with_evidence(
            format!("{} ({})", mount.target, mount.fstype),
            quantity,
            "statfs",
        );
    }
    finding.with_remedy(remedy(snapshot, mounts.first().copied()))
}

/// Effect of the files: next to none while as much again is available.
fn impact(snapshot: &Snapshot) -> &'static str {
    let total = derived::memory_bytes(&snapshot.sample).unwrap_or(u64::MAX);
    if derived::available_bytes(snapshot).is_ok_and(|available| available >= total / PLENTY_SHARE) {
        return "No reclaim frees these files; memory is available beside them now.";
    }
    "Reclaim has only the rest of the node: page cache in use is dropped and read again; without swap the \
     OOM killer follows."
}

/// Steps for an administrator against the fullest RAM disk.
fn remedy(snapshot: &Snapshot, fullest: Option<&MemoryFilesystem>) -> Remedy {
    let mut steps = vec![Step::manual("remove files that are no longer needed from the RAM disk")];
    match fullest {
        Some(tmpfs) if tmpfs.fstype == "tmpfs" => {
            let mib = tmpfs.used_bytes.unwrap_or(0).div_ceil(1 << 20);
            let target = &tmpfs.target;
            steps.push(Step::manual_on(&format!("mount -o remount,size={mib}M"), target));
            if snapshot.nodes.value().is_some_and(|nodes| nodes.len() > 1) {
                steps.push(Step::manual_on("mount -o remount,mpol=interleave", target));
            }
        }
        _ => steps.push(Step::manual("use a tmpfs instead of a ramfs: it has a size limit")),
    }
    Remedy::named("remove files from the RAM disk, or limit its size", steps)
}
