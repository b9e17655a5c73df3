//! A page of every program that has the library loaded. `memwright iotune` finds it by its first
//! bytes, at the beginning of a page of the library's data, and reads it as another process's memory
//! (proc_pid_mem(5)); to have the table read again it writes one number there.
//! A call of write(2) therefore reads only private memory, which nobody can unmap or truncate.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size and the alignment of the page.
pub const PAGE_BYTES: usize = 4096;

/// Magic number at its beginning; the last letter is the version.
pub const MAGIC: [u8; 16] = *b"memwright-iotuna";

/// Number of paths that are counted separately; more share the last entry.
pub const SLOTS: usize = 64;

/// `floor` of a program in which nothing goes uncached.
pub const OFF: u64 = u64::MAX;

/// `floor` of a program that is to read the table again.
pub const READ_AGAIN: u64 = 0;

/// `floor` of a program that is reading it: smaller than any size.
pub const READING: u64 = 1;

/// The page.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Control {
    magic: [u8; 16],
    /// The process that counts, by its own process number: after fork(2) the child starts at zero.
    pub process: AtomicU64,
    /// The smallest size from which on anything goes uncached, `OFF`, `READ_AGAIN` or `READING`.
    pub floor: AtomicU64,
    /// Transfers, by path.
    pub slots: [Slot; SLOTS],
    /// By path: bytes that were dropped from the page cache and of which it is not known whether
    /// they have. Programs with an older library have zeros there.
    pub unverified: [AtomicU64; SLOTS],
}

/// Position of `floor` in the page.
pub const FLOOR_OFFSET: usize = offset_of!(Control, floor);

/// Transfers of files of one line of the table.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Slot {
    /// `key` of the line's path; 0: the place is free.
    pub key: AtomicU64,
    /// The size in force; 0: none.
    pub size: AtomicU64,
    /// Bytes that were transferred as usual, of files that were examined.
    pub cached: AtomicU64,
    /// Bytes that were seen to have left the page cache.
    pub uncached: AtomicU64,
}

impl Slot {
    const fn free() -> Self {
        Self {
            key: AtomicU64::new(0),
            size: AtomicU64::new(0),
            cached: AtomicU64::new(0),
            uncached: AtomicU64::new(0),
        }
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

impl Control {
    /// That of a program in which nothing goes uncached.
    pub const fn new() -> Self {
        Self {
            magic: MAGIC,
            process: AtomicU64::new(0),
            floor: AtomicU64::new(OFF),
            slots: [const { Slot::free() }; SLOTS],
            unverified: [const { AtomicU64::new(0) }; SLOTS],
        }
    }

    /// The place of a path, by its key; where all are taken, the last.
    pub fn slot(&self, key: u64) -> usize {
        let taken = |slot: &Slot| {
            let free = slot.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed);
            matches!(free, Ok(0)) || free == Err(key)
        };
        self.slots.iter().position(taken).unwrap_or(SLOTS - 1)
    }

    /// Resets the counters, for that process.
    pub fn begin(&self, process: u64) {
        for slot in &self.slots {
            slot.cached.store(0, Ordering::Relaxed);
            slot.uncached.store(0, Ordering::Relaxed);
        }
        for unverified in &self.unverified {
            unverified.store(0, Ordering::Relaxed);
        }
        self.process.store(process, Ordering::Relaxed);
    }
}

/// Contents of such a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlSnapshot {
    /// The process that has counted, by the number that it knows itself by; 0: none has.
    pub process: u64,
    /// As `Control::floor`.
    pub floor: u64,
    /// Transfers, by path.
    pub slots: Vec<SeenSlot>,
}

/// Contents of a page for one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenSlot {
    /// `key` of the path.
    pub key: u64,
    /// The size in force; 0: none.
    pub size: u64,
    /// Bytes that went the usual way.
    pub cached: u64,
    /// Bytes that were seen to have left the page cache.
    pub uncached: u64,
    /// Bytes that were dropped from it and of which that is not verified.
    pub unverified: u64,
}

impl ControlSnapshot {
    /// Contents of a page that was read from another process; none where it is no such page.
    pub fn parse(page: &[u8]) -> Option<Self> {
        let rest = page.strip_prefix(&MAGIC)?;
        let mut numbers = rest.chunks_exact(8).map_while(|bytes| bytes.try_into().ok());
        let mut number = || numbers.next().map(u64::from_ne_bytes);
        let (process, floor) = (number()?, number()?);
        let mut slots = Vec::new();
        for _ in 0..SLOTS {
            let [key, size, cached, uncached] = [number()?, number()?, number()?, number()?];
            slots.push(SeenSlot { key, size, cached, uncached, unverified: 0 });
        }
        for slot in &mut slots {
            slot.unverified = number()?;
        }
        slots.retain(|slot| slot.key != 0);
        Some(Self { process, floor, slots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::Relaxed;

    #[test]
    fn the_page_is_what_is_parsed() {
        assert_eq!(size_of::<Control>(), PAGE_BYTES);
        assert_eq!((offset_of!(Control, process), FLOOR_OFFSET), (16, 24));
        assert_eq!((offset_of!(Control, slots), size_of::<Slot>()), (32, 32));
        assert_eq!(offset_of!(Control, unverified), 32 + SLOTS * 32);
        let mut page = MAGIC.to_vec();
        for number in [7, 65536, 1, 2, 3, 4] {
            page.extend(u64::to_ne_bytes(number));
        }
        assert_eq!(ControlSnapshot::parse(&page), None, "a page that is cut off");
        page.resize(PAGE_BYTES, 0);
        page[32 + SLOTS * 32] = 5;
        let slots = vec![SeenSlot { key: 1, size: 2, cached: 3, uncached: 4, unverified: 5 }];
        assert_eq!(
            ControlSnapshot::parse(&page),
            Some(ControlSnapshot { process: 7, floor: 65536, slots })
        );
        page[0] = 0;
        assert_eq!(ControlSnapshot::parse(&page), None);
    }

    #[test]
    fn a_path_keeps_its_place_and_more_than_there_are_share_the_last() {
        let control = Control::new();
        for key in 1..=SLOTS as u64 + 5 {
            assert_eq!(control.slot(key), (key as usize - 1).min(SLOTS - 1));
        }
        assert_eq!(control.slot(3), 2);
        control.slots[2].uncached.store(5, Relaxed);
        control.begin(9);
        assert_eq!(control.slots[2].uncached.load(Relaxed), 0);
        assert_eq!(control.slot(3), 2);
    }
}
