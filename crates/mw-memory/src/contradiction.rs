//! Counters that cannot be right: the one place where they are compared with each other.
//!
//! Free memory, page cache, anonymous memory and kernel objects are parts of MemTotal, and each page is on one list.
//! A counter above MemTotal, or a list with more pages than there are of its kind, was left wrong by a kernel defect;
//! or the files are of two machines, as where lxcfs answers for /proc/meminfo and the host for /sys.

use crate::reclaimable::{file_cache_bytes, kernel_reclaimable_bytes};
use mw_proc::meminfo::Meminfo;

/// The files are read one after the other, and the kernel updates its counters in batches for each CPU: up to so
/// much counters differ that are right.
const TOLERANCE: u64 = 100;

/// A counter and the one that shows that both cannot be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    pub counter: String,
    pub source: &'static str,
    pub bytes: u64,
    /// The counter, or the sum, that it cannot exceed.
    pub bound: &'static str,
    pub bound_bytes: u64,
}

const MEMINFO: &str = "/proc/meminfo";

/// True if a part is larger than the whole by more than the counters' tolerance.
#[must_use]
pub fn exceeds(bytes: u64, bound_bytes: u64) -> bool {
    bytes > bound_bytes.saturating_add(bound_bytes / TOLERANCE)
}

/// The counters of one meminfo, of the machine or of a node, that contradict others of the same file.
#[must_use]
pub fn contradictions(meminfo: &Meminfo) -> Vec<Contradiction> {
    let Some(total) = meminfo.mem_total_bytes else { return Vec::new() };
    let found = |counter: &str, bytes: u64, bound: &'static str, bound_bytes: u64| {
        exceeds(bytes, bound_bytes).then(|| Contradiction {
            counter: counter.to_owned(),
            source: MEMINFO,
            bytes,
            bound,
            bound_bytes,
        })
    };
    let parts = PARTS.iter().filter_map(|(name, of)| found(name, of(meminfo)?, "MemTotal", total));
    let lists = file_lists_bytes(meminfo);
    let lists = lists.filter(|lists| !exceeds(*lists, total)).and_then(|lists| {
        let files = files_and_anonymous_bytes(meminfo)?;
        found("Active(file) + Inactive(file)", lists, "Cached + Buffers + AnonPages", files)
    });
    let available = meminfo.mem_available_bytes.filter(|bytes| !exceeds(*bytes, total));
    let available = available.and_then(|available| {
        let bound = "MemFree + Active(file) + Inactive(file) + KReclaimable";
        found("MemAvailable", available, bound, reclaimable_bytes(meminfo)?)
    });
    parts.chain(lists).chain(available).collect()
}

type Counter = fn(&Meminfo) -> Option<u64>;

/// Parts of MemTotal.
const PARTS: [(&str, Counter); 12] = [
    ("MemFree", |m| m.mem_free_bytes),
    ("MemAvailable", |m| m.mem_available_bytes),
    ("Cached", |m| m.cached_bytes),
    ("Active(anon)", |m| m.active_anon_bytes),
    ("Inactive(anon)", |m| m.inactive_anon_bytes),
    ("Active(file)", |m| m.active_file_bytes),
    ("Inactive(file)", |m| m.inactive_file_bytes),
    ("Unevictable", |m| m.unevictable_bytes),
    ("AnonPages", |m| m.anon_pages_bytes),
    ("Shmem", |m| m.shmem_bytes),
    ("SReclaimable", |m| m.sreclaimable_bytes),
    ("SUnreclaim", |m| m.sunreclaim_bytes),
];

/// meminfo without the counters that cannot be right: what is absent is computed from others, as on a kernel that does
/// not print it.
#[must_use]
pub fn sound(meminfo: &Meminfo) -> Meminfo {
    let mut sound = *meminfo;
    let Some(total) = meminfo.mem_total_bytes else { return sound };
    let most = |bytes: Option<u64>| bytes.filter(|bytes| !exceeds(*bytes, total));
    let lists = [
        meminfo.active_anon_bytes,
        meminfo.inactive_anon_bytes,
        meminfo.active_file_bytes,
        meminfo.inactive_file_bytes,
        meminfo.unevictable_bytes,
    ];
    let lists = lists.into_iter().flatten().fold(0, u64::saturating_add);
    let files = file_lists_bytes(meminfo).zip(files_and_anonymous_bytes(meminfo));
    if exceeds(lists, total) || files.is_some_and(|(lists, files)| exceeds(lists, files)) {
        sound.active_file_bytes = None;
        sound.inactive_file_bytes = None;
        sound.active_bytes = None;
        sound.inactive_bytes = None;
        sound.active_anon_bytes = None;
        sound.inactive_anon_bytes = None;
        sound.unevictable_bytes = most(meminfo.unevictable_bytes);
    }
    sound.mem_free_bytes = meminfo.mem_free_bytes.map(|bytes| bytes.min(total));
    sound.cached_bytes = most(meminfo.cached_bytes);
    sound.anon_pages_bytes = most(meminfo.anon_pages_bytes);
    sound.shmem_bytes = most(meminfo.shmem_bytes);
    sound.kreclaimable_bytes = most(meminfo.kreclaimable_bytes);
    sound.sreclaimable_bytes = most(meminfo.sreclaimable_bytes);
    sound.sunreclaim_bytes = most(meminfo.sunreclaim_bytes);
    let bound = reclaimable_bytes(&sound).unwrap_or(total).min(total);
    sound.mem_available_bytes = meminfo.mem_available_bytes.filter(|bytes| !exceeds(*bytes, bound));
    sound
}

fn file_lists_bytes(meminfo: &Meminfo) -> Option<u64> {
    Some(meminfo.active_file_bytes?.saturating_add(meminfo.inactive_file_bytes?))
}

/// Pages that the lists of files may have: pages of files, and anonymous ones that a program has released
/// (MADV_FREE). None of a node, whose file has no such lines.
fn files_and_anonymous_bytes(meminfo: &Meminfo) -> Option<u64> {
    let cache = meminfo.cached_bytes?.saturating_add(meminfo.buffers_bytes.unwrap_or(0));
    let cache = cache.saturating_add(meminfo.swap_cached_bytes.unwrap_or(0));
    Some(cache.saturating_add(meminfo.anon_pages_bytes?))
}

/// All that MemAvailable is made of (`si_mem_available()`).
fn reclaimable_bytes(meminfo: &Meminfo) -> Option<u64> {
    let free = meminfo.mem_free_bytes?;
    let kernel = kernel_reclaimable_bytes(meminfo);
    Some(free.saturating_add(file_cache_bytes(meminfo)).saturating_add(kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn machine() -> Meminfo {
        Meminfo {
            mem_total_bytes: Some(8 * GIB),
            mem_free_bytes: Some(GIB),
            mem_available_bytes: Some(3 * GIB),
            cached_bytes: Some(3 * GIB),
            shmem_bytes: Some(GIB / 2),
            active_file_bytes: Some(GIB),
            inactive_file_bytes: Some(GIB + GIB / 2),
            anon_pages_bytes: Some(GIB),
            ..Meminfo::default()
        }
    }

    fn counters(meminfo: &Meminfo) -> Vec<String> {
        contradictions(meminfo).into_iter().map(|found| found.counter).collect()
    }

    #[test]
    fn counters_that_fit_stay_as_they_are() {
        assert_eq!(counters(&machine()), Vec::<String>::new());
        assert_eq!(sound(&machine()), machine());
        // A batch of the CPUs.
        let late =
            Meminfo { mem_available_bytes: Some(3 * GIB + GIB / 2 + (8 << 20)), ..machine() };
        assert_eq!(counters(&late), Vec::<String>::new());
    }

    #[test]
    fn a_list_that_leaks_is_replaced_by_the_page_cache() {
        let leaked = Meminfo {
            inactive_file_bytes: Some(40 * GIB),
            mem_available_bytes: Some(41 * GIB),
            ..machine()
        };
        assert_eq!(counters(&leaked), ["MemAvailable", "Inactive(file)"]);
        let sound = sound(&leaked);
        assert_eq!(sound.mem_available_bytes, None);
        assert_eq!(file_cache_bytes(&sound), 2 * GIB + GIB / 2, "Cached - Shmem");
    }

    #[test]
    fn a_leak_below_memtotal_is_found_by_what_the_list_may_have() {
        let leaked = Meminfo { inactive_file_bytes: Some(5 * GIB), ..machine() };
        assert_eq!(counters(&leaked), ["Active(file) + Inactive(file)"]);
        let available = Meminfo { mem_available_bytes: Some(6 * GIB), ..machine() };
        assert_eq!(counters(&available), ["MemAvailable"]);
        assert_eq!(sound(&available).mem_available_bytes, None);
    }

    #[test]
    fn released_anonymous_pages_are_on_the_lists_of_files() {
        let lazy = Meminfo { inactive_file_bytes: Some(2 * GIB + GIB / 2), ..machine() };
        assert_eq!(counters(&lazy), Vec::<String>::new());
    }
}
