//! Read-ahead that fills the page cache with pages that nobody uses. A program keeps the read-ahead that a file had when it
//! was opened (mm/readahead.c, `file_ra_state_init()`).

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

/// Remedy where faults read far more than a page, and the page cache loses for it what is read again: a fault on a mapped file
/// reads as much as the device's read-ahead (mm/filemap.c, `do_sync_mmap_readahead()`). What read(2) and swap bring in is in the
/// same counters: the amount for a fault has to be near that of the device.
pub(crate) fn remedy(window: &Window) -> Option<Remedy> {
    let faults = window.rate(Counter::Pgmajfault).ok().filter(|rate| *rate >= FAULTS_PER_S)?;
    let read_kib = window.rate(Counter::Pgpgin).ok()?;
    if window.rate(Counter::Pswpin).is_ok_and(|pages| pages > 0.0) {
        return None;
    }
    let page_kib = window.now.origin.page_bytes as f64 / 1024.0;
    let again_kib = window.rate(Counter::WorkingsetRefaultFile).ok()? * page_kib;
    let is_excess =
        read_kib >= faults * KIB_PER_FAULT && again_kib * 100.0 >= read_kib * AGAIN_PERCENT;
    let kib_per_fault = read_kib / faults;
    let (disk, bytes) = nearest(window.now.disks.value()?, kib_per_fault).filter(|_| is_excess)?;
    let summary = format!(
        "if the mapped files are on {}, lower its read-ahead of {} to {DEFAULT_KIB} KiB, and restart their programs: each fault reads \
         {kib_per_fault:.0} KiB, and what is in use is dropped for it",
        disk.name,
        format_bytes(bytes)
    );
    let step = shell_word(&disk.name).map(|name| {
        Step::manual(format!("echo {DEFAULT_KIB} > /sys/block/{name}/queue/read_ahead_kb"))
    });
    Some(Remedy::named(summary, step.into_iter().collect()))
}

/// The device whose read-ahead is nearest to what a fault reads, at most twice as much or as little: one that is made of others
/// (dm, md) before those.
fn nearest(disks: &[Disk], kib_per_fault: f64) -> Option<(&Disk, u64)> {
    let is_near = |bytes: u64| (0.5..=2.0).contains(&(bytes as f64 / 1024.0 / kib_per_fault));
    let is_stacked = |disk: &Disk| ["dm-", "md"].iter().any(|prefix| disk.name.starts_with(prefix));
    let sizes = disks.iter().filter_map(|disk| Some((disk, disk.read_ahead_bytes?)));
    let near = sizes.filter(|(_, bytes)| *bytes >= MUCH_BYTES && is_near(*bytes));
    near.max_by_key(|(disk, bytes)| (is_stacked(disk), *bytes))
}
