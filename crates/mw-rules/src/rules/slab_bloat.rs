//! # slab-bloat
//!
//! The kernel's own objects hold a large part of memory.
//!
//! ## What it finds
//! Unreclaimable slab memory of 15% of memory or more, or reclaimable slab (mostly cached file names and
//! inodes) of half of memory or more.
//!
//! Unreclaimable is `SUnreclaim`, and of `SReclaimable` what is in use: every file of a tmpfs or ramfs
//! keeps its name in memory, a ramfs its inodes as well, and so do sockets and open files. The kernel
//! counts them as reclaimable, in MemAvailable too. `nr_dentry` less `nr_unused` of
//! /proc/sys/fs/dentry-state (and inode-state, slabinfo) tell how much it is.
//!
//! As the cause of a stall: tasks spent it giving back such objects (`shrink_slab` in their stacks or in the
//! profile); or they reclaimed while the kernel's objects held as much as above. The latter was there before
//! the stall, and is less sure than what happened during it.
//!
//! ## Why it hurts
//! Unreclaimable objects are given back by nobody but the code that made them: often a leak, or a
//! program with millions of open files, sockets or cgroups. Reclaimable objects are given back
//! slowly, one by one, under locks that other programs wait for.
//!
//! ## What it looks like
//! `Slab` in /proc/meminfo is large and no process accounts for it; `slabtop` names the cache.
//!
//! ## Threshold
//! A machine in good order has 1 to 5% of unreclaimable slab, file servers up to 10%. From 15% it is
//! a warning, from 30% critical. Half of memory in file names happens after a backup or a `find`;
//! it is a note.
//!
//! ## How to fix it
//! Find the owner by the cache's name. File names and inodes are dropped by
//! `memwright fix slab-bloat`, once (`vm.drop_caches` 2): it takes a while and what is dropped has
//! to be read again, so it is done only when asked for by name.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, drop_caches; slabinfo(5), slabtop(1).

use crate::kernel::SLAB_RECLAIM;
use crate::share::{field, percent};
use crate::stall::Stall;
use crate::suspicion::{LATENT_MOST, Suspicion};
use mw_model::{
    Cause, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Window, derived,
    format_bytes,
};
use mw_proc::slabinfo::Slab;

const WARNING_PERCENT: f64 = 15.0;
const CRITICAL_PERCENT: f64 = 30.0;
const RECLAIMABLE_PERCENT: f64 = 50.0;

/// Caches that are shown as evidence.
const MAX_SHOWN: usize = 3;

/// What no reclaim gives back, in bytes.
struct Held {
    /// What the kernel counts as unreclaimable.
    unreclaimable: u64,
    /// What it counts as reclaimable and is in use.
    pinned: u64,
}

impl Held {
    fn bytes(&self) -> u64 {
        self.unreclaimable.saturating_add(self.pinned)
    }
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let meminfo = snapshot.sample.meminfo.need()?;
    let total = field(meminfo.mem_total_bytes, "MemTotal")?;
    let pinned = derived::pinned_slab(snapshot);
    let held = Held {
        unreclaimable: field(meminfo.sunreclaim_bytes, "SUnreclaim")?,
        pinned: pinned.least_bytes,
    };
    let counted = field(meminfo.sreclaimable_bytes, "SReclaimable")?;
    let reclaimable = counted.saturating_sub(pinned.most_bytes);
    let share = percent(held.bytes(), total);
    if share >= WARNING_PERCENT {
        let severity =
            if share >= CRITICAL_PERCENT { Severity::Critical } else { Severity::Warning };
        return Ok(vec![held_for_good(snapshot, severity, &held, share)]);
    }
    let share = percent(reclaimable, total);
    if share >= RECLAIMABLE_PERCENT {
        return Ok(vec![held_as_cache(snapshot, reclaimable, share)]);
    }
    Ok(Vec::new())
}

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    let own = Suspicion::of(stall).stuck(SLAB_RECLAIM).profile(SLAB_RECLAIM);
    let found = hazard(stall.window)?.pop();
    let shrinking = own.confidence_percent() > 0.0;
    let suspicion = if shrinking { own } else { Suspicion::of_reclaim(stall).at_most(LATENT_MOST) };
    let Some(mut finding) = found else { return suspicion.nothing() };
    finding.headline = suspicion.said(&finding.headline);
    suspicion.cause(finding)
}

fn held_for_good(snapshot: &Snapshot, severity: Severity, held: &Held, share: f64) -> Finding {
    let headline = format!(
        "the kernel's own objects hold {} for good ({share:.0}% of memory)",
        format_bytes(held.bytes())
    );
    let remedy = if held.pinned > held.unreclaimable {
        Remedy::named(
            "remove files from ramfs and tmpfs, or restart what has the most files and sockets open",
            vec![Step::manual("df -i -t tmpfs"), Step::manual("slabtop -o -s c")],
        )
    } else {
        Remedy::named(
            "find what holds the largest cache, and restart it",
            vec![Step::manual("slabtop -o -s c")],
        )
    };
    let mut finding = Finding::new(severity, "slab", headline)
        .seen("SUnreclaim", Quantity::Bytes(held.unreclaimable), "/proc/meminfo")
        .hurts("That much memory is lost to programs until its owner in the kernel lets go.")
        .mended_by(remedy);
    if held.pinned > 0 {
        let quantity = Quantity::Bytes(held.pinned);
        finding = finding.seen("in use of SReclaimable", quantity, "/proc/sys/fs/dentry-state");
    }
    with_largest(finding, snapshot)
}

fn held_as_cache(snapshot: &Snapshot, bytes: u64, share: f64) -> Finding {
    let headline = format!(
        "cached file names and inodes hold {} ({share:.0}% of memory)",
        format_bytes(bytes)
    );
    let drop = Step::Once { path: "/proc/sys/vm/drop_caches".to_owned(), value: "2".to_owned() };
    let finding = Finding::new(Severity::Note, "slab", headline)
        .seen("SReclaimable", Quantity::Bytes(bytes), "/proc/meminfo")
        .hurts("A large request frees them one by one first, under locks that others wait for.")
        .mended_by(Remedy::named("drop cached file names and inodes once", vec![drop]));
    with_largest(finding, snapshot)
}

fn with_largest(mut finding: Finding, snapshot: &Snapshot) -> Finding {
    let page_bytes = snapshot.origin.page_bytes;
    let bytes =
        |slab: &Slab| slab.slabs.saturating_mul(slab.pages_per_slab).saturating_mul(page_bytes);
    let mut slabs: Vec<&Slab> = snapshot.slabs.seen().map_or_else(Vec::new, |s| s.iter().collect());
    slabs.sort_by_key(|slab| std::cmp::Reverse(bytes(slab)));
    for slab in slabs.iter().take(MAX_SHOWN) {
        let what = format!("cache {}", slab.name);
        finding = finding.seen(what, Quantity::Bytes(bytes(slab)), "/proc/slabinfo");
    }
    finding
}
