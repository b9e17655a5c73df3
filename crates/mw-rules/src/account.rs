//! Where all memory is, for `explain --all-memory`: a pure function from a snapshot and the holders of memory
//! to a tree whose parts exclude each other.
//!
//! What a part takes is the kernel's count ([`mw_memory::Account`]). Who holds it comes from other files, of
//! another moment and by other rules: what the holders of a part have together is limited to the part, and
//! what no holder has is a part of its own.

mod entry;
mod holders;
mod kernel;
mod summary;

use crate::arc;
use crate::counted::counted;
use entry::{group, leaf};
use mw_memory::{Account, MemoryPart};
use mw_model::{
    ACCOUNT_SCHEMA, AccountEntry, Holders, MemoryAccount, Missing, OriginKind, Process, ProcessUse,
    Snapshot, zones,
};

/// Number of processes that are named.
const MOST_PROCESSES: usize = 16;

/// Accounts for all memory of a machine.
///
/// # Errors
/// meminfo was not seen or lacks MemTotal or MemFree.
pub fn account(snapshot: &Snapshot, holders: &Holders) -> Result<MemoryAccount, Missing> {
    let account = counted(snapshot)?;
    let parts: Vec<AccountEntry> = [
        free(snapshot, &account),
        cache(snapshot, holders, &account),
        group(
            "anonymous memory",
            vec![
                holders::anonymous(snapshot, holders, &account),
                leaf(&account, MemoryPart::SwapCache, "swap cache that no process has mapped"),
                leaf(
                    &account,
                    MemoryPart::UnmappedAnonymous,
                    "unmapped pages: parts of huge pages to be split, in pipes, or pinned",
                ),
            ],
        ),
        group("shared memory", vec![holders::shared(snapshot, holders, &account)]),
        group("huge page pools", vec![huge_pages(snapshot, &account)]),
        kernel::entry(snapshot, &account),
        group(
            "GPU drivers",
            vec![
                leaf(&account, MemoryPart::GpuActive, "system memory that GPUs use"),
                leaf(&account, MemoryPart::GpuReclaimable, "pages kept for reuse, reclaimable"),
            ],
        ),
        group(
            "out of use",
            vec![
                leaf(&account, MemoryPart::Balloon, "balloon of the hypervisor"),
                leaf(&account, MemoryPart::Corrupted, "damaged pages"),
            ],
        ),
        holders::unaccounted(snapshot, holders, &account),
    ]
    .into_iter()
    .filter(|entry| entry.bytes > 0)
    .collect();
    let origin = &snapshot.origin;
    Ok(MemoryAccount {
        schema: ACCOUNT_SCHEMA,
        memwright: env!("CARGO_PKG_VERSION").to_owned(),
        root: match origin.kind {
            OriginKind::Live => "live".to_owned(),
            OriginKind::Tree => origin.root.clone(),
        },
        kernel: origin.kernel.map(|version| version.to_string()),
        taken_unix_ms: origin.taken_unix_ms,
        summary: summary::sentence(&account, arc::parts(snapshot), &parts),
        total_bytes: account.total_bytes(),
        overcounted_bytes: account.overcounted_bytes(),
        parts,
        processes: processes(snapshot),
        unseen: unseen(snapshot, holders),
    })
}

fn free(snapshot: &Snapshot, account: &Account) -> AccountEntry {
    let (sample, page_bytes) = (&snapshot.sample, snapshot.origin.page_bytes);
    let zones = sample.zoneinfo.value().map_or(&[][..], |info| info.zones.as_slice());
    let in_zones = zones.iter().map(|zone| {
        let name = format!("node {} zone {}", zone.node, zone.name);
        (name, zone.free_pages.saturating_mul(page_bytes))
    });
    let deferred = zones::deferred_bytes(sample, page_bytes);
    let named = "in no zone yet (deferred initialization)".to_owned();
    let named = in_zones.chain([(named, deferred)]).collect();
    let mut lists = leaf(account, MemoryPart::Free, "free lists");
    entry::split(&mut lists, named, "counted by no zone");
    let cma = sample.meminfo.value().and_then(|meminfo| meminfo.cma_free_bytes).unwrap_or(0);
    if cma > 0 {
        let cma = mw_model::format_bytes(cma);
        lists.note = Some(format!("{cma} of it is CMA, for movable pages alone"));
    }
    let cpus = leaf(account, MemoryPart::PerCpuLists, "per-CPU lists (not in MemFree)");
    group("free", vec![lists, cpus])
}

fn cache(snapshot: &Snapshot, holders: &Holders, account: &Account) -> AccountEntry {
    let mut unevictable =
        leaf(account, MemoryPart::UnevictableCache, "files of ramfs and locked files, which stay");
    let filesystems = snapshot.filesystems.value().map_or(&[][..], Vec::as_slice);
    let ramfs = filesystems.iter().filter(|f| f.fstype == "ramfs").map(|f| f.target.as_str());
    let ramfs: Vec<&str> = ramfs.take(entry::MOST_NAMED).collect();
    if !ramfs.is_empty() {
        unevictable.note = Some(format!("ramfs on {}", ramfs.join(", ")));
    }
    group(
        "page cache",
        vec![
            holders::clean_cache(holders, account),
            leaf(account, MemoryPart::DirtyCache, "dirty"),
            leaf(account, MemoryPart::WritebackCache, "being written"),
            unevictable,
        ],
    )
}

fn huge_pages(snapshot: &Snapshot, account: &Account) -> AccountEntry {
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let parts = pools.iter().flat_map(|pool| {
        let size = mw_model::format_bytes(pool.page_bytes);
        let reserved = pool.reserved_pages.min(pool.free_pages);
        let used = pool.total_pages.saturating_sub(pool.free_pages);
        [
            (format!("{size} pages in use"), used),
            (format!("{size} pages reserved by mappings, untouched"), reserved),
            (format!("{size} pages free"), pool.available_pages()),
        ]
        .map(|(name, pages)| (name, pages.saturating_mul(pool.page_bytes)))
    });
    let mut pool = leaf(account, MemoryPart::HugePages, "pools of hugetlb pages");
    entry::split(&mut pool, parts.collect(), "other sizes");
    pool
}

fn processes(snapshot: &Snapshot) -> Vec<ProcessUse> {
    let list = snapshot.processes.value().map_or(&[][..], |processes| processes.list.as_slice());
    let of = |process: &Process| {
        let status = &process.status;
        Some(ProcessUse {
            pid: status.pid?,
            name: status.name.clone(),
            anon_bytes: status.rss_anon_bytes?,
            shared_bytes: status.rss_shmem_bytes.unwrap_or(0),
        })
    };
    let mut processes: Vec<ProcessUse> = list.iter().filter_map(of).collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.anon_bytes));
    processes.truncate(MOST_PROCESSES);
    processes
}

fn unseen(snapshot: &Snapshot, holders: &Holders) -> Vec<Missing> {
    let sample = &snapshot.sample;
    let missing = [
        sample.vmstat.missing(),
        sample.zoneinfo.missing(),
        snapshot.filesystems.missing(),
        snapshot.shm.missing(),
        snapshot.slabs.missing(),
        snapshot.processes.missing(),
        holders.groups.missing(),
        holders.files.missing(),
        holders.sockets.missing(),
    ];
    let mut unseen: Vec<Missing> = missing.into_iter().flatten().cloned().collect();
    unseen.extend(snapshot.origin.replaced.iter().cloned());
    unseen.extend(snapshot.processes.value().and_then(|all| all.whole().err()));
    let is_short = |reading: Option<bool>| reading == Some(false);
    if is_short(holders.groups.value().map(|groups| groups.complete)) {
        let why = "some cgroups could not be read within the limits of time and number";
        unseen.push(Missing::skipped("memory.stat", why));
    }
    if is_short(holders.files.value().map(|files| files.complete)) {
        let why = "some processes or files could not be read within the limits of time and number, or \
                   without the privilege";
        unseen.push(Missing::skipped("/proc/PID/fd", why));
    }
    unseen
}
