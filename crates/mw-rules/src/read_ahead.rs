//! Read-ahead that fills the page cache with pages that nobody uses.

use mw_model::visible::shell_word;
use mw_model::{Disk, Remedy, Step, Window, format_bytes};
use mw_proc::vmstat::Counter;

/// What the kernel reads ahead of a program by default (`VM_READAHEAD_PAGES`, include/linux/mm.h), in KiB.
const DEFAULT_KIB: u64 = 128;

/// From which read-ahead on a device is named.
const MUCH_BYTES: u64 = 1 << 20;

/// What a fault on a mapped file reads on average, in KiB, from which on it is read-ahead rather than the page.
const KIB_PER_FAULT: f64 = 512.0;

/// Faults that read, a second: fewer are no load.
const FAULTS_PER_S: f64 = 50.0;

/// Share of the pages read that had been in the page cache shortly before, in percent.
const AGAIN_PERCENT: f64 = 25.0;

/// Remedy where faults on mapped files read far more than a page, and the page cache loses for it what is read again: a
/// fault reads as much as the device's read-ahead (mm/filemap.c, `do_sync_mmap_readahead()`).
pub(crate) fn remedy(window: &Window) -> Option<Remedy> {
    let faults = window.rate(Counter::Pgmajfault).ok().filter(|rate| *rate >= FAULTS_PER_S)?;
    let read_kib = window.rate(Counter::Pgpgin).ok()?;
    let page_kib = window.now.origin.page_bytes as f64 / 1024.0;
    let again_kib = window.rate(Counter::WorkingsetRefaultFile).ok()? * page_kib;
    let is_excess =
        read_kib >= faults * KIB_PER_FAULT && again_kib * 100.0 >= read_kib * AGAIN_PERCENT;
    let (disk, bytes) = most(window.now.disks.value()?).filter(|_| is_excess)?;
    let summary = format!(
        "lower the read-ahead of {} to {DEFAULT_KIB} KiB: each fault on a mapped file reads up to {} now, {:.0} KiB on average, and \
         what is in use is dropped for it",
        disk.name,
        format_bytes(bytes),
        read_kib / faults
    );
    let step = shell_word(&disk.name).map(|name| {
        Step::manual(format!("echo {DEFAULT_KIB} > /sys/block/{name}/queue/read_ahead_kb"))
    });
    Some(Remedy::named(summary, step.into_iter().collect()))
}

/// The device with the largest read-ahead: one that is made of others (dm, md) before those.
fn most(disks: &[Disk]) -> Option<(&Disk, u64)> {
    let sizes = disks.iter().filter_map(|disk| Some((disk, disk.read_ahead_bytes?)));
    let is_stacked = |disk: &Disk| ["dm-", "md"].iter().any(|prefix| disk.name.starts_with(prefix));
    sizes
        .filter(|(_, bytes)| *bytes >= MUCH_BYTES)
        .max_by_key(|(disk, bytes)| (*bytes, is_stacked(disk)))
}
