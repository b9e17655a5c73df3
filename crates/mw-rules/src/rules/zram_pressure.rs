//! # zram-pressure
//!
//! zram swap saves little memory, is full, or is used last.
//!
//! ## What it finds
//! A zram device that is used as swap, of which one of the following is true:
//!
//! - It stores at least 5% of memory, and takes at least 75% of that for it: the data do not compress.
//! - It takes 95% of its `mem_limit`: the next page that is swapped out is refused.
//! - It takes at least 25% of memory, however well the data compress: a note, and a warning where it takes at least 60% of what it
//!   stores.
//!
//! What a tmpfs has more than all shared memory (`Shmem` of meminfo) is in swap: where that is a quarter of what is swapped out at
//! least, the tmpfs is named.
//!
//! Also a zram device whose priority of swap is below that of another device: a note. Without `-p`, swapon(8) gives each
//! area a lower priority than the one before.
//!
//! Also zswap that holds pages while all swap is on zram: a note. What it writes out is compressed once more.
//!
//! A zram device that holds a file system is not judged, nor is zswap in front of a disk, which meminfo counts as `Zswap`.
//!
//! ## Why it hurts
//! zram frees memory only by what it saves. Data that are compressed or encrypted already do not become smaller:
//! swapping them out costs a compression for each page, and the memory stays as short as it was, so that more is
//! swapped out. At `mem_limit` a write fails, the page stays where it is, and the kernel goes on to the OOM killer
//! with swap that seems to be free.
//!
//! ## What it looks like
//! Swap is in use, but MemAvailable does not grow; kswapd and the compression take CPU time. What zram takes is in no
//! line of /proc/meminfo. The kernel log has "Write-error on swap-device" at the limit.
//!
//! ## How to fix it
//! Look at `zramctl`. Swap on a disk or SSD takes what does not compress, either besides zram, or as its `backing_dev`
//! with `echo huge > /sys/block/zram0/writeback`. Raise `mem_limit`, or set it to 0, where it is the limit. If the
//! working set exceeds memory, nothing but less of it helps (see swap-thrash).
//!
//! ## Threshold
//! Usual programs compress to a third or a half. zram keeps a page as it is that does not compress to three quarters or
//! so: at 75% of the data, most pages are of that kind (`huge_pages` of mm_stat). Below 5% of memory the gaps of its
//! allocator are a large share, and it does not matter. Both are warnings, because swapping does not help any
//! more. A quarter of memory is a note: it is usual on telephones, and elsewhere more than the distributions' defaults
//! need (half of memory at a ratio of 3 is 17%).
//!
//! ## References
//! Linux, Documentation/admin-guide/blockdev/zram.rst; zramctl(8).

use crate::share::percent;
use mw_model::{
    Area, Finding, MemoryFilesystem, Missing, Quantity, Remedy, Severity, Snapshot, Step, Window,
    Zram, derived, format_bytes,
};
use mw_proc::swaps::Swap;

const POOR_PERCENT: f64 = 75.0;
const MIN_STORED_PERCENT: f64 = 5.0;
const LIMIT_PERCENT: f64 = 95.0;
const LARGE_PERCENT: f64 = 25.0;
const MEDIOCRE_PERCENT: f64 = 60.0;
const FILES_PERCENT: f64 = 25.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let areas: Vec<Finding> =
        used_last(snapshot).into_iter().chain(compressed_twice(snapshot)).collect();
    let devices = match snapshot.zrams.required() {
        Ok(devices) => devices.as_slice(),
        // The areas of swap are known without the devices.
        Err(_) if !areas.is_empty() => &[],
        Err(missing) => return Err(missing),
    };
    let memory = derived::memory_bytes(&snapshot.sample)?;
    let page_bytes = snapshot.origin.page_bytes;
    let files = SwappedFiles::of(snapshot);
    let troubles =
        devices.iter().filter_map(|device| finding(device, memory, page_bytes, files.as_ref()));
    Ok(troubles.chain(areas).collect())
}

/// zswap takes a page before the swap area does (mm/page_io.c, `swap_writeout()`).
fn compressed_twice(snapshot: &Snapshot) -> Option<Finding> {
    let swaps = snapshot.swaps.value()?;
    let zram = swaps.first().filter(|_| swaps.iter().all(Swap::is_zram))?;
    let held = snapshot.sample.meminfo.value()?.zswapped_bytes.filter(|bytes| *bytes > 0)?;
    let headline = format!(
        "zswap is in front of {}, which compresses once more what zswap writes out",
        zram.path
    );
    // A page in zswap has its slot in the area as well.
    let written = zram.used_bytes.saturating_sub(held);
    Some(
        Finding::new(Severity::Note, Area::Swap, headline)
            .with_evidence("Zswapped", Quantity::Bytes(held), "/proc/meminfo")
            .with_evidence("written to zram", Quantity::Bytes(written), "/proc/swaps")
            .with_impact(
                "A page that zswap writes out is decompressed and compressed again, and takes memory as before: there is no disk \
                 behind zswap.",
            )
            .with_remedy(Remedy::named(
                "use one of both: zram without zswap, or zswap in front of swap on a disk",
                vec![Step::manual(
                    "echo N > /sys/module/zswap/parameters/enabled    # and zswap.enabled=0 at boot",
                )],
            )),
    )
}

/// A zram device that the kernel turns to only when a slower area is full (mm/swapfile.c, `swap_alloc_slow()`).
fn used_last(snapshot: &Snapshot) -> Option<Finding> {
    let swaps = snapshot.swaps.value()?;
    let is_zram = |swap: &&Swap| swap.is_zram();
    let zram = swaps.iter().filter(is_zram).max_by_key(|swap| swap.priority)?;
    let slower = swaps.iter().filter(|swap| !is_zram(swap));
    let first = slower.max_by_key(|swap| swap.priority).filter(|s| s.priority > zram.priority)?;
    let headline = format!(
        "{} is filled before {}: its priority of swap is {}, that of zram {}",
        first.path, zram.path, first.priority, zram.priority
    );
    Some(
        Finding::new(Severity::Note, Area::Swap, headline)
            .with_evidence("used of zram", Quantity::Bytes(zram.used_bytes), "/proc/swaps")
            .with_evidence("used before it", Quantity::Bytes(first.used_bytes), "/proc/swaps")
            .with_impact("Pages go to the slow device while the fast one is empty.")
            .with_remedy(Remedy::named(
                "give zram the higher priority",
                vec![Step::manual(format!(
                    "swapoff {0} && swapon -p 100 {0}    # and in fstab or zram-generator.conf",
                    zram.path
                ))],
            )),
    )
}

/// Problem of a device, and its remedy.
struct ZramProblem {
    severity: Severity,
    headline: String,
    summary: &'static str,
    command: String,
}

fn trouble(device: &Zram, memory: u64, data: u64) -> Option<ZramProblem> {
    let (name, used, limit) = (&device.name, device.mm_stat.used_bytes, device.mm_stat.limit_bytes);
    let writeback = || format!("echo huge >/sys/block/{name}/writeback, which needs a backing_dev");
    if percent(data, memory) >= MIN_STORED_PERCENT && percent(used, data) >= POOR_PERCENT {
        return Some(ZramProblem {
            severity: Severity::Warning,
            headline: format!(
                "{name} takes {} of memory to swap out {}: the data do not compress",
                format_bytes(used),
                format_bytes(data)
            ),
            summary: "swap what does not compress to a disk",
            command: writeback(),
        });
    }
    if limit > 0 && percent(used, limit) >= LIMIT_PERCENT {
        return Some(ZramProblem {
            severity: Severity::Warning,
            headline: format!(
                "{name} takes {} of its limit of {}: at the limit it refuses what is swapped out",
                format_bytes(used),
                format_bytes(limit)
            ),
            summary: "raise or remove the limit of the device",
            command: format!("echo 0 >/sys/block/{name}/mem_limit"),
        });
    }
    let share = percent(used, memory);
    let is_poor = percent(used, data) >= MEDIOCRE_PERCENT;
    (share >= LARGE_PERCENT).then(|| ZramProblem {
        severity: if is_poor { Severity::Warning } else { Severity::Note },
        headline: format!(
            "{name} takes {} of memory ({share:.0}%) for {} that are swapped out",
            format_bytes(used),
            format_bytes(data)
        ),
        summary: "swap to a disk what is not used, or use less memory",
        command: writeback(),
    })
}

/// Files of a tmpfs in swap, which stay there until they are deleted.
struct SwappedFiles {
    /// At least so many.
    bytes: u64,
    fullest: MemoryFilesystem,
}

impl SwappedFiles {
    /// What the fullest tmpfs has more than all shared memory (`Shmem`) is in swap. None where swap is not one zram device.
    fn of(snapshot: &Snapshot) -> Option<Self> {
        let shmem = snapshot.sample.meminfo.value()?.shmem_bytes?;
        let [swap] = snapshot.swaps.value()?.as_slice() else { return None };
        let mounts = snapshot.filesystems.value()?.iter().filter(|mount| mount.fstype == "tmpfs");
        let fullest = mounts.max_by_key(|mount| mount.used_bytes)?.clone();
        let bytes = fullest.used_bytes?.checked_sub(shmem).filter(|_| swap.is_zram())?;
        Some(Self { bytes, fullest })
    }
}

fn finding(
    device: &Zram,
    memory: u64,
    page_bytes: u64,
    files: Option<&SwappedFiles>,
) -> Option<Finding> {
    let (name, stat) = (&device.name, &device.mm_stat);
    // Pages of one repeated word take nothing, and say nothing about the others.
    let data = stat.stored_bytes.saturating_sub(stat.same_pages.saturating_mul(page_bytes));
    let trouble = trouble(device, memory, data)?;
    let file = format!("/sys/block/{name}/mm_stat");
    let size_file = format!("/sys/block/{name}/disksize");
    let files = files.filter(|files| percent(files.bytes, data) >= FILES_PERCENT);
    let mut steps = vec![Step::manual("zramctl"), Step::manual(trouble.command)];
    let mut headline = trouble.headline;
    let mut summary = trouble.summary.to_owned();
    if let Some(SwappedFiles { bytes, fullest }) = files {
        let (target, bytes) = (&fullest.target, format_bytes((*bytes).min(data)));
        headline.push_str(&format!("; at least {bytes} of it are files in {target}"));
        summary = format!("delete files in {} that nobody needs, or {summary}", fullest.target);
        steps.insert(0, Step::manual_on("ls -lS", &fullest.target));
    }
    let mut finding = Finding::new(trouble.severity, Area::Swap, headline)
        .with_evidence("data that are swapped out", Quantity::Bytes(data), file.clone())
        .with_evidence("mem_used_total", Quantity::Bytes(stat.used_bytes), file.clone())
        .with_evidence("disksize", Quantity::Bytes(device.size_bytes), size_file)
        .with_impact("Swapping out frees little memory or none, and costs CPU time for each page.")
        .with_remedy(Remedy::named(summary, steps));
    if let Some(SwappedFiles { bytes, .. }) = files {
        let bytes = Quantity::Bytes(*bytes);
        finding = finding.with_evidence("files of tmpfs in swap", bytes, "statfs");
    }
    if stat.limit_bytes > 0 {
        let limit = Quantity::Bytes(stat.limit_bytes);
        finding = finding.with_evidence("mem_limit", limit, file.clone());
    }
    if let Some(huge) = stat.huge_pages {
        let bytes = Quantity::Bytes(huge.saturating_mul(page_bytes));
        finding = finding.with_evidence("data that did not compress", bytes, file);
    }
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Reading;
    use mw_proc::meminfo::Meminfo;
    use mw_proc::mm_stat::MmStat;

    const MEMORY: u64 = 1000 << 20;

    fn found(stored_mib: u64, used_mib: u64, limit_mib: u64) -> Option<Severity> {
        let mm_stat = MmStat {
            stored_bytes: stored_mib << 20,
            used_bytes: used_mib << 20,
            limit_bytes: limit_mib << 20,
            ..MmStat::default()
        };
        let device = Zram { name: "zram0".to_owned(), size_bytes: MEMORY, mm_stat };
        finding(&device, MEMORY, 4096, None).map(|finding| finding.severity)
    }

    /// Promise (Findings): Compressed swap is reported where it saves nothing or is full, and zram that is no swap is
    /// not.
    #[test]
    fn it_is_judged_by_what_it_saves_and_what_it_takes() {
        assert_eq!(found(400, 130, 0), None, "a usual ratio");
        assert_eq!(found(0, 0, 0), None, "empty");
        assert_eq!(found(40, 40, 0), None, "little");
        assert_eq!(found(200, 160, 0), Some(Severity::Warning));
        assert_eq!(found(400, 130, 135), Some(Severity::Warning));
        assert_eq!(found(400, 130, 200), None, "below the limit");
        assert_eq!(found(700, 260, 0), Some(Severity::Note));
        assert_eq!(found(420, 260, 0), Some(Severity::Warning), "it saves little");
    }

    /// Promise (Findings): Files of a tmpfs that fill zram are named: only who deletes them frees the memory.
    #[test]
    fn files_of_tmpfs_that_fill_it_are_named() {
        let mount = |target: &str, used_mib: u64| MemoryFilesystem {
            target: target.to_owned(),
            fstype: "tmpfs".to_owned(),
            used_bytes: Some(used_mib << 20),
            ..MemoryFilesystem::default()
        };
        let found = |shmem_mib: u64| {
            let filesystems = Reading::Value(vec![mount("/run", 2), mount("/tmp", 300)]);
            let swap = Swap { path: "/dev/zram0".to_owned(), ..Swap::default() };
            let swaps = Reading::Value(vec![swap]);
            let mut snapshot = Snapshot { filesystems, swaps, ..Snapshot::default() };
            let shmem_bytes = Some(shmem_mib << 20);
            snapshot.sample.meminfo = Reading::Value(Meminfo { shmem_bytes, ..Meminfo::default() });
            let mm_stat =
                MmStat { stored_bytes: 420 << 20, used_bytes: 300 << 20, ..MmStat::default() };
            let device = Zram { name: "zram0".to_owned(), size_bytes: MEMORY, mm_stat };
            finding(&device, MEMORY, 4096, SwappedFiles::of(&snapshot).as_ref()).unwrap().headline
        };
        assert!(found(50).ends_with("; at least 250 MiB of it are files in /tmp"), "{}", found(50));
        assert!(!found(290).contains("files"), "they are in memory");
    }

    /// Promise (Findings): zswap in front of swap that is on zram alone is named: pages are compressed twice.
    #[test]
    fn zswap_before_zram_is_named() {
        let found = |paths: &[&str], zswapped_mib: u64| {
            let mut snapshot = Snapshot::default();
            let swap = |path: &&str| Swap { path: (*path).to_owned(), ..Swap::default() };
            snapshot.swaps = Reading::Value(paths.iter().map(swap).collect());
            let zswapped_bytes = Some(zswapped_mib << 20);
            snapshot.sample.meminfo =
                Reading::Value(Meminfo { zswapped_bytes, ..Meminfo::default() });
            compressed_twice(&snapshot).is_some()
        };
        assert!(found(&["/dev/zram0"], 500));
        assert!(!found(&["/dev/zram0", "/dev/sda2"], 500), "a disk");
        assert!(!found(&["/dev/zram0"], 0));
        assert!(!found(&[], 500));
    }

    #[test]
    fn pages_of_one_word_do_not_count() {
        let mm_stat = MmStat {
            stored_bytes: 400 << 20,
            used_bytes: 90 << 20,
            same_pages: (300 << 20) / 4096,
            ..MmStat::default()
        };
        let device = Zram { name: "zram0".to_owned(), size_bytes: MEMORY, mm_stat };
        assert!(
            finding(&device, MEMORY, 4096, None).is_some_and(|f| f.headline.contains("100 MiB"))
        );
    }
}
