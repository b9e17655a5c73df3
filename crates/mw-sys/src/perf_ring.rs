//! The ring that the kernel writes an event's records to (perf_event_open(2), "MMAP layout").

use crate::perf::PerfEvent;
use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `perf_event_header`: type, flags and size of a record.
const HEADER_BYTES: usize = 8;

/// While a ring is read its space is returned in so many parts.
const PARTS_RETURNED: usize = 16;

/// A ring of records, mapped for its life.
///
/// The kernel writes from the tail that we last set up to its head and never beyond: what lies
/// between is ours until the tail is moved.
#[derive(Debug)]
pub struct PerfRing {
    page: NonNull<perf_event_mmap_page>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is valid in every thread of the process.
#[allow(unsafe_code, reason = "it holds a pointer to its own mapping")]
unsafe impl Send for PerfRing {}

impl PerfRing {
    /// Maps a ring of `bytes` for an event; those that record into it do so from then on.
    ///
    /// # Errors
    /// `InvalidInput` where `bytes` is no power of two of whole pages; mmap(2)'s: `EPERM` beyond
    /// `kernel.perf_event_mlock_kb` and the limit of locked memory.
    pub fn map(event: &PerfEvent, bytes: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        if !bytes.is_power_of_two() || bytes < page_bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let length = bytes.checked_add(page_bytes).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at a place of the kernel's choice touches nothing that is there.
        #[allow(unsafe_code, reason = "mapping memory")]
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, prot, flags, event, 0) }?;
        let page = NonNull::new(start.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { page, page_bytes, data_bytes: bytes })
    }

    /// Capacity in bytes of records.
    pub fn capacity_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Appends all whole records to `into` and returns their space to the kernel; how many
    /// bytes that were, at most [`Self::capacity_bytes`].
    pub fn drain(&mut self, into: &mut Vec<u8>) -> usize {
        let tail = self.tail().load(Ordering::Relaxed);
        // Acquire: the records up to this head were written before it.
        let head = self.head().load(Ordering::Acquire);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data_bytes);
        // The ring is a power of two, so that the remainder survives the numbers' wrapping.
        let from = usize::try_from(tail % (self.data_bytes as u64)).unwrap_or(0);
        let first = length.min(self.data_bytes - from);
        self.copy(from, first, into);
        self.copy(0, length - first, into);
        // Release: the kernel may write there once we have read.
        self.tail().store(head, Ordering::Release);
        length
    }

    /// Passes each whole record to `take`, header and all, where it lies; only one that crosses the ring's end is
    /// copied, to `crossing`. Space is returned to the kernel while the rest is read.
    pub fn for_each(&mut self, crossing: &mut Vec<u8>, mut take: impl FnMut(&[u8])) {
        let mut tail = self.tail().load(Ordering::Relaxed);
        // Acquire: the records up to this head were written before it.
        let head = self.head().load(Ordering::Acquire);
        let (part, mut returned) = ((self.data_bytes / PARTS_RETURNED) as u64, tail);
        let mut left = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data_bytes);
        while left >= HEADER_BYTES {
            // The ring is a power of two, so that the remainder survives the numbers' wrapping.
            let from = usize::try_from(tail % (self.data_bytes as u64)).unwrap_or(0);
            // Records begin at multiples of 8 bytes: no header crosses the end.
            let header = self.data(from, HEADER_BYTES.min(self.data_bytes - from));
            let size = header.get(6..8).and_then(|size| size.try_into().ok());
            let size = size.map_or(0, |size| usize::from(u16::from_ne_bytes(size)));
            if size < HEADER_BYTES || size > left {
                break;
            }
            let first = size.min(self.data_bytes - from);
            if first == size {
                take(self.data(from, size));
            } else {
                crossing.clear();
                self.copy(from, first, crossing);
                self.copy(0, size - first, crossing);
                take(crossing);
            }
            left -= size;
            tail = tail.wrapping_add(size as u64);
            if tail.wrapping_sub(returned) >= part {
                // Release: the kernel may write there once we have read.
                self.tail().store(tail, Ordering::Release);
                returned = tail;
            }
        }
        // Release: as above.
        self.tail().store(head, Ordering::Release);
    }

    /// Appends `length` bytes from offset `from` of the data.
    fn copy(&self, from: usize, length: usize, into: &mut Vec<u8>) {
        into.extend_from_slice(self.data(from, length));
    }

    /// `length` bytes from offset `from` of the data, between tail and head.
    fn data(&self, from: usize, length: usize) -> &[u8] {
        debug_assert!(from + length <= self.data_bytes, "within the ring");
        // SAFETY: the data starts a page after the mapping's start and is `data_bytes` long, of
        // which the caller stays within.
        #[allow(unsafe_code, reason = "the ring's data")]
        let data = unsafe { self.page.as_ptr().cast::<u8>().add(self.page_bytes + from) };
        // SAFETY: `length` bytes from there are mapped, initialised and written by nobody until
        // the tail is moved: they lie between tail and head.
        #[allow(unsafe_code, reason = "the ring's data")]
        unsafe {
            std::slice::from_raw_parts(data, length)
        }
    }

    fn head(&self) -> &AtomicU64 {
        // SAFETY: the first page is mapped and holds the structure; taking a field's address
        // reads nothing.
        #[allow(unsafe_code, reason = "shared with the kernel")]
        let head = unsafe { &raw mut (*self.page.as_ptr()).data_head };
        // SAFETY: aligned, mapped as long as this value lives, and accessed by atomics alone.
        #[allow(unsafe_code, reason = "shared with the kernel")]
        unsafe {
            AtomicU64::from_ptr(head)
        }
    }

    fn tail(&self) -> &AtomicU64 {
        // SAFETY: as in `head`.
        #[allow(unsafe_code, reason = "shared with the kernel")]
        let tail = unsafe { &raw mut (*self.page.as_ptr()).data_tail };
        // SAFETY: as in `head`.
        #[allow(unsafe_code, reason = "shared with the kernel")]
        unsafe {
            AtomicU64::from_ptr(tail)
        }
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        let length = self.page_bytes + self.data_bytes;
        // SAFETY: exactly this mapping, which nothing refers to any more.
        #[allow(unsafe_code, reason = "unmapping memory")]
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::{PerfAttr, PerfSource, SamplePeriod};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::time::{Duration, Instant};

    const SAMPLE: u32 = perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;

    fn clock(hz: u32) -> PerfAttr {
        PerfAttr {
            source: PerfSource::CpuClock,
            period: SamplePeriod::Hz(hz),
            stack_frames: Some(16),
            user_stack: None,
            fields: false,
            user_mode: false,
            names: false,
            scheduling: false,
            mappings: false,
            wake_bytes: 4096,
        }
    }

    /// Types of the records of whole bytes; fails on a record that is cut.
    fn types(mut bytes: &[u8]) -> Vec<u32> {
        let mut types = Vec::new();
        while !bytes.is_empty() {
            types.push(u32::from_ne_bytes(bytes[..4].try_into().unwrap()));
            let size = usize::from(u16::from_ne_bytes(bytes[6..8].try_into().unwrap()));
            bytes = &bytes[size..];
        }
        types
    }

    /// A clock on CPU 0; reports the test as skipped where there is none.
    #[track_caller]
    fn open(hz: u32) -> Option<PerfEvent> {
        let event = PerfEvent::open(&clock(hz), 0);
        event.map_err(|error| mw_test::skip(format!("needs CAP_PERFMON: {error}"))).ok()
    }

    /// Waits until the ring holds records.
    fn wait_readable(event: &PerfEvent) {
        let mut fds = [PollFd::new(event, PollFlags::IN)];
        let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
        let _ = poll(&mut fds, Some(&limit));
    }

    /// The ring is filled and drained many times, so that records cross its end.
    #[test]
    fn records_are_whole_across_the_end_of_the_ring() {
        let Some(event) = open(4000) else { return };
        let mut ring = PerfRing::map(&event, 4096).unwrap();
        event.enable().unwrap();
        let (mut bytes, mut total, since) = (Vec::new(), 0, Instant::now());
        while total < 5 * ring.capacity_bytes() && since.elapsed() < Duration::from_secs(20) {
            bytes.clear();
            let drained = ring.drain(&mut bytes);
            assert_eq!(drained, bytes.len());
            assert!(drained <= ring.capacity_bytes());
            assert!(types(&bytes).iter().all(|kind| (1..=22).contains(kind)), "{bytes:?}");
            total += drained;
            wait_readable(&event);
        }
        assert!(total >= 5 * ring.capacity_bytes(), "only {total} bytes");
        event.disable().unwrap();
        bytes.clear();
        ring.drain(&mut bytes);
        bytes.clear();
        assert_eq!(ring.drain(&mut bytes), 0, "disabled");
    }

    #[test]
    fn each_record_is_passed_whole() {
        let Some(event) = open(4000) else { return };
        let mut ring = PerfRing::map(&event, 4096).unwrap();
        event.enable().unwrap();
        let (mut crossing, mut crossed) = (Vec::new(), 0);
        let (mut total, since) = (0, Instant::now());
        while total < 5 * ring.capacity_bytes() && since.elapsed() < Duration::from_secs(20) {
            ring.for_each(&mut crossing, |record| {
                assert_eq!(types(record).len(), 1);
                assert!((1..=22).contains(&types(record)[0]), "{record:?}");
                total += record.len();
            });
            crossed += usize::from(!crossing.is_empty());
            crossing.clear();
            wait_readable(&event);
        }
        assert!(total >= 5 * ring.capacity_bytes(), "only {total} bytes");
        assert!(crossed > 0, "no record crossed the end");
    }

    #[test]
    fn lost_records_are_counted() {
        const LOST: u32 = perf_event_open_sys::bindings::PERF_RECORD_LOST;
        let Some(event) = open(4000) else { return };
        let mut ring = PerfRing::map(&event, 4096).unwrap();
        event.enable().unwrap();
        let (since, mut found) = (Instant::now(), Vec::new());
        while !found.contains(&LOST) && since.elapsed() < Duration::from_secs(20) {
            // Long enough for the ring to overflow.
            std::thread::sleep(Duration::from_millis(100));
            let mut bytes = Vec::new();
            ring.drain(&mut bytes);
            found.extend(types(&bytes));
        }
        assert!(found.contains(&LOST), "{found:?}");
    }

    #[test]
    fn two_events_share_a_ring_and_are_distinguished() {
        let Some(owner) = open(500) else { return };
        let mut ring = PerfRing::map(&owner, 1 << 16).unwrap();
        let guest = PerfEvent::open(&clock(500), 0).unwrap();
        guest.record_into(&owner).unwrap();
        assert_ne!(owner.id(), guest.id());
        guest.enable().unwrap();
        let (since, mut bytes) = (Instant::now(), Vec::new());
        while bytes.is_empty() && since.elapsed() < Duration::from_secs(20) {
            wait_readable(&owner);
            ring.drain(&mut bytes);
        }
        guest.disable().unwrap();
        assert_eq!(types(&bytes).first(), Some(&SAMPLE));
        assert_eq!(bytes[8..16], guest.id().to_ne_bytes());
    }

    #[test]
    fn a_ring_is_a_power_of_two_of_pages() {
        let Some(event) = open(1) else { return };
        for bytes in [0, 1024, 3 * 4096] {
            assert!(PerfRing::map(&event, bytes).is_err(), "{bytes}");
        }
    }
}
