//! # slab-bloat
//!
//! Kernel objects take a large part of memory.
//!
//! ## What it finds
//! Unreclaimable slab memory of at least 15% of memory and 32 MiB; of at least 10% where all slab takes 30%; or reclaimable slab
//! (mostly cached dentries and inodes) of at least half of memory.
//!
//! Also reclaimable slab of a tenth of memory, of which the kernel has looked at nothing since boot (`slabs_scanned` of
//! /proc/vmstat) while it scanned 100,000 pages and more of programs and files. 4.19 before 4.19.65, and 5.0 to 5.2.6, do so
//! where cgroups of memory are off (`cgroup_disable=memory`).
//!
//! Unreclaimable slab is `SUnreclaim` plus the objects of `SReclaimable` that are in use: every file of
//! a tmpfs or ramfs keeps its dentry in memory, a ramfs its inodes as well, and so do sockets and open
//! files. The kernel counts these as reclaimable, in MemAvailable too. `nr_dentry` less `nr_unused` of
//! /proc/sys/fs/dentry-state (and inode-state, slabinfo) show how much it is. What the ZFS ARC has of it does not count: it
//! is a cache (zfs-arc).
//!
//! As the cause of a stall: tasks freed such objects during it (`shrink_slab` in their stacks or in the
//! profile); or they reclaimed while kernel objects took as much memory as above. The latter condition
//! existed before the stall, so it scores lower than what happened during it.
//!
//! ## Why it hurts
//! Unreclaimable objects are freed only by the code that allocated them: often a leak, or a program with
//! millions of open files, sockets or cgroups. Reclaimable objects are freed slowly, one by one, under
//! locks that other programs wait for.
//!
//! ## What it looks like
//! `Slab` in /proc/meminfo is large and no process accounts for it; `slabtop` names the cache.
//!
//! ## How to fix it
//! Find the owner by the cache's name; that of `kmalloc-*` says only the size, and `alloc_traces` below
//! /sys/kernel/debug/slab (5.14 and later) who allocated, where the kernel was booted with `slub_debug=U`.
//! `memwright fix slab-bloat` drops cached dentries and inodes once (`vm.drop_caches` 2). That takes time, and what is dropped
//! has to be read again, so it is done only if you name the rule. With `vm.vfs_cache_pressure` below 100 the kernel keeps them longer than page cache; set it back.
//!
//! ## Threshold
//! A healthy machine has 1 to 5% of unreclaimable slab, a file server up to 10%. From 15% on it is a
//! warning, from 30% on critical. Long names of files are unreclaimable and belong to dentries, which are reclaimable
//! (fs/dcache.c, `__d_alloc()`): where both are many, the whole counts. Half of memory in dentries and inodes is usual after a backup or a
//! `find`; it is a note.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, drop_caches; slabinfo(5), slabtop(1).

use crate::arc;
use crate::cause_score::{CauseScore, LATENT_MOST};
use crate::share::{field, part, percent};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::SLAB_RECLAIM;
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Sysctl, Window, derived,
    format_bytes,
};
use mw_proc::slabinfo::Slab;
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::Counter;

const WARNING_PERCENT: f64 = 15.0;
const CRITICAL_PERCENT: f64 = 30.0;
/// Share of unreclaimable slab that is a warning where all slab takes as much as the second.
const BESIDE_PERCENT: f64 = 10.0;
const ALL_PERCENT: f64 = 30.0;
const RECLAIMABLE_PERCENT: f64 = 50.0;
/// The kernel of a small machine has so much at least.
const LEAST_BYTES: u64 = 32 << 20;
/// Reclaimable slab that reclaim never looks at, and the pages that it looked at meanwhile.
const NEVER_SCANNED_PERCENT: f64 = 10.0;
const SCANNED_PAGES: u64 = 100_000;

/// Below this value reclaim prefers page cache to dentries and inodes, and at 0 it frees none of them (fs/super.c,
/// `super_cache_count()`).
const CACHE_PRESSURE: &str = "vm.vfs_cache_pressure";
const DEFAULT_CACHE_PRESSURE: u64 = 100;

/// Caches that are shown as evidence.
const MAX_SHOWN: usize = 3;

/// Slab memory that no reclaim frees, in bytes.
struct SlabBytes {
    /// `SUnreclaim` without the ZFS ARC.
    unreclaimable: u64,
    /// The objects of `SReclaimable` that are in use.
    pinned: u64,
}

impl SlabBytes {
    fn bytes(&self) -> u64 {
        self.unreclaimable.saturating_add(self.pinned)
    }
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let meminfo = snapshot.sample.meminfo.required()?;
    let total = field(meminfo.mem_total_bytes, "MemTotal")?;
    let pinned = derived::unreclaimable_slab(snapshot);
    let slab = SlabBytes {
        unreclaimable: part(meminfo, meminfo.sunreclaim_bytes, "SUnreclaim")?
            .saturating_sub(arc::parts(snapshot).slab),
        pinned: pinned.min_bytes,
    };
    let counted = part(meminfo, meminfo.sreclaimable_bytes, "SReclaimable")?;
    let reclaimable = counted.saturating_sub(pinned.max_bytes);
    let share = percent(slab.bytes(), total);
    let all = percent(slab.bytes().saturating_add(reclaimable), total);
    let is_large = share >= WARNING_PERCENT || (share >= BESIDE_PERCENT && all >= ALL_PERCENT);
    if is_large && slab.bytes() >= LEAST_BYTES {
        let severity =
            if share >= CRITICAL_PERCENT { Severity::Critical } else { Severity::Warning };
        return Ok(vec![unreclaimable_finding(snapshot, severity, &slab, share)]);
    }
    let share = percent(reclaimable, total);
    if share >= NEVER_SCANNED_PERCENT
        && let Some(pages) = scanned_without_slab(snapshot)
    {
        return Ok(vec![never_scanned_finding(snapshot, reclaimable, pages)]);
    }
    if share >= RECLAIMABLE_PERCENT {
        return Ok(vec![reclaimable_finding(snapshot, reclaimable, share)]);
    }
    Ok(Vec::new())
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let own = CauseScore::new(stall).blocked_in(&[SLAB_RECLAIM]).profile(&[SLAB_RECLAIM]);
    let found = hazard(stall.window)?.pop();
    let shrinking = own.strength_percent() > 0.0;
    let score = if shrinking { own } else { CauseScore::for_reclaim(stall).at_most(LATENT_MOST) };
    let Some(mut finding) = found else { return score.no_cause() };
    finding.headline = match finding.evidence.first().map(|evidence| &evidence.quantity) {
        Some(Quantity::Bytes(bytes)) => format!("kernel objects held {}", format_bytes(*bytes)),
        _ => "kernel objects held memory".to_owned(),
    };
    score.cause(finding)
}

/// Pages of programs and files that were scanned since boot, where that are many and no slab was.
fn scanned_without_slab(snapshot: &Snapshot) -> Option<u64> {
    // With 0 the kernel counts none of them as reclaimable.
    if snapshot.sysctl.number(CACHE_PRESSURE).ok() == Some(0) {
        return None;
    }
    let vmstat = snapshot.sample.vmstat.value()?;
    let slab = vmstat.get(Counter::SlabsScanned)?;
    let pages =
        vmstat.get(Counter::PgscanKswapd)?.saturating_add(vmstat.get(Counter::PgscanDirect)?);
    (slab == 0 && pages >= SCANNED_PAGES).then_some(pages)
}

fn never_scanned_finding(snapshot: &Snapshot, bytes: u64, pages: u64) -> Finding {
    let headline = format!(
        "reclaim has looked at none of {} of reclaimable kernel objects (dentries, inodes) since boot",
        format_bytes(bytes)
    );
    let mended = snapshot.origin.kernel.and_then(mended_in);
    let remedy = match mended {
        Some(version) => Remedy::named(
            format!("update the kernel to {version}; until then let cgroups of memory be on"),
            vec![Step::manual(
                "remove cgroup_disable=memory from the kernel's command line, or add cgroup_enable=memory",
            )],
        ),
        None => Remedy::named(
            "look for a newer kernel: reclaim should free them",
            vec![Step::manual("slabtop -o -s c")],
        ),
    };
    let finding = Finding::new(Severity::Warning, Area::Slab, headline)
        .with_evidence("SReclaimable", Quantity::Bytes(bytes), "/proc/meminfo")
        .with_evidence("slabs_scanned", Quantity::Count(0), "/proc/vmstat")
        .with_evidence("pgscan_kswapd and pgscan_direct", Quantity::Count(pages), "/proc/vmstat")
        .with_impact("These caches only grow; programs are swapped out or killed instead.")
        .with_remedy(remedy);
    with_largest(finding, snapshot)
}

/// The version that calls the shrinkers although cgroups of memory are off (mm/vmscan.c, `shrink_slab()`: fa1e512fac71), for
/// a kernel that does not.
fn mended_in(kernel: KernelVersion) -> Option<&'static str> {
    let ranges = [
        (KernelVersion::new(4, 19, 0), KernelVersion::new(4, 19, 65), "4.19.65"),
        (KernelVersion::new(5, 0, 0), KernelVersion::new(5, 2, 7), "5.2.7"),
    ];
    let range = ranges.iter().find(|(since, until, _)| (*since..*until).contains(&kernel));
    range.map(|(_, _, version)| *version)
}

/// The largest cache, where its name says only the size of its objects. Those of `kmalloc-cg-` are what processes cause, and
/// `kmalloc-rcl-` is reclaimable.
fn largest_of_kmalloc(snapshot: &Snapshot) -> Option<String> {
    let page_bytes = snapshot.origin.page_bytes;
    let slabs = snapshot.slabs.value()?.iter();
    let largest = slabs.max_by_key(|slab| slab.bytes(page_bytes))?;
    let size = largest.name.strip_prefix("kmalloc-")?;
    let is_size = size.starts_with(|c: char| c.is_ascii_digit())
        && size.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_size.then(|| largest.name.clone())
}

fn unreclaimable_finding(
    snapshot: &Snapshot,
    severity: Severity,
    slab: &SlabBytes,
    share: f64,
) -> Finding {
    let headline = format!(
        "kernel objects take {} that cannot be reclaimed ({share:.0}% of memory)",
        format_bytes(slab.bytes())
    );
    let remedy = if slab.pinned > slab.unreclaimable {
        Remedy::named(
            "remove files from ramfs and tmpfs, or restart the program with the most open files and sockets",
            vec![Step::manual("df -i -t tmpfs"), Step::manual("slabtop -o -s c")],
        )
    } else if let Some(cache) = largest_of_kmalloc(snapshot) {
        Remedy::named(
            format!(
                "find the driver or module that allocates from {cache}, and look for a newer kernel: it may leak"
            ),
            vec![
                Step::manual("slabtop -o -s c"),
                Step::manual(format!(
                    "boot with slub_debug=U,{cache}; then cat /sys/kernel/debug/slab/{cache}/alloc_traces, before 5.14 \
                     /sys/kernel/slab/{cache}/alloc_calls"
                )),
            ],
        )
    } else {
        Remedy::named(
            "find the owner of the largest cache, and restart it",
            vec![Step::manual("slabtop -o -s c")],
        )
    };
    let mut finding = Finding::new(severity, Area::Slab, headline)
        .with_evidence("SUnreclaim", Quantity::Bytes(slab.unreclaimable), "/proc/meminfo")
        .with_impact("Programs cannot use this memory until its owner in the kernel frees it.")
        .with_remedy(remedy);
    if slab.pinned > 0 {
        let quantity = Quantity::Bytes(slab.pinned);
        finding = finding.with_evidence(
            "objects of SReclaimable in use",
            quantity,
            "/proc/sys/fs/dentry-state",
        );
    }
    with_largest(finding, snapshot)
}

fn reclaimable_finding(snapshot: &Snapshot, bytes: u64, share: f64) -> Finding {
    let mut headline =
        format!("cached dentries and inodes take {} ({share:.0}% of memory)", format_bytes(bytes));
    let drop = Step::Once { path: "/proc/sys/vm/drop_caches".to_owned(), value: "2".to_owned() };
    let (mut remedy, mut steps) = ("drop cached dentries and inodes once".to_owned(), vec![drop]);
    let pressure = snapshot.sysctl.number(CACHE_PRESSURE).ok();
    let low = pressure.filter(|pressure| *pressure < DEFAULT_CACHE_PRESSURE);
    if let Some(pressure) = low {
        headline.push_str(&format!(", which {CACHE_PRESSURE} of {pressure} keeps longer"));
        remedy.push_str(&format!(", and set {CACHE_PRESSURE} to {DEFAULT_CACHE_PRESSURE}"));
        steps.push(Step::manual(format!("sysctl {CACHE_PRESSURE}={DEFAULT_CACHE_PRESSURE}")));
    }
    let mut finding = Finding::new(Severity::Note, Area::Slab, headline)
        .with_evidence("SReclaimable", Quantity::Bytes(bytes), "/proc/meminfo")
        .with_impact("A large request first frees them one by one, under locks that other programs wait for.")
        .with_remedy(Remedy::named(remedy, steps));
    if let Some(pressure) = low {
        let path = Sysctl::path(CACHE_PRESSURE);
        finding = finding.with_evidence(CACHE_PRESSURE, Quantity::Count(pressure), path);
    }
    with_largest(finding, snapshot)
}

fn with_largest(mut finding: Finding, snapshot: &Snapshot) -> Finding {
    let page_bytes = snapshot.origin.page_bytes;
    let mut slabs: Vec<&Slab> =
        snapshot.slabs.value().map_or_else(Vec::new, |s| s.iter().collect());
    if snapshot.arc.value().is_some() {
        slabs.retain(|slab| !arc::is_of_zfs(slab));
    }
    slabs.sort_by_key(|slab| std::cmp::Reverse(slab.bytes(page_bytes)));
    for slab in slabs.iter().take(MAX_SHOWN) {
        let what = format!("cache {}", slab.name);
        finding =
            finding.with_evidence(what, Quantity::Bytes(slab.bytes(page_bytes)), "/proc/slabinfo");
    }
    finding
}
