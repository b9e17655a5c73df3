//! The book as bytes, for the next server.
//!
//! A memfd of two places of [`PLACE_BYTES`], written in turn, so that one is whole whenever the
//! writer is killed. A place begins with its turn (8 bytes), the length of what follows the header
//! (4) and its CRC-32 over turn, length and content (4); the valid place with the higher turn is
//! the book. Versions: the content begins with one; what another version wrote is not read, and
//! then nothing of it is used.

use crate::lease_table::{LeaseEntry, LeasePhase, LeaseTable, Pool, Stripe, StripeState};
use crate::protocol::MAX_STRIPES;
use crate::spec::{Spec, read_some_name};
use crate::wire::{Reader, Writer};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const VERSION: u16 = 1;
const HEADER_BYTES: usize = 16;
/// As large as the largest book: its pools' stripes are at most 64,000 bytes, twice.
const PLACE_BYTES: usize = 1 << 20;

/// Where the book is written.
#[derive(Debug)]
pub(crate) struct StateFile {
    file: OwnedFd,
    turn: u64,
}

impl StateFile {
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("memwright-pool", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, 2 * PLACE_BYTES as u64)?;
        Ok(Self { file, turn: 0 })
    }

    /// The one that an earlier server wrote, and what it wrote last; none where it is no image, or
    /// another version's.
    pub(crate) fn open(file: OwnedFd) -> Option<(Self, LeaseTable)> {
        let mut found = [0, 1].map(|place| read_place(&file, place));
        found.sort_by_key(|found| found.as_ref().map(|(turn, _)| *turn));
        let [_, newest] = found;
        let (turn, book) = newest?;
        Some((Self { file, turn }, book))
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn write(&mut self, book: &LeaseTable) -> io::Result<()> {
        let content = encode(book);
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        if HEADER_BYTES + content.len() > PLACE_BYTES {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.turn += 1;
        let mut head = Writer::default();
        head.u64(self.turn).u32(length);
        let mut bytes = head.bytes();
        let mut sum = crc32fast::Hasher::new();
        sum.update(&bytes);
        sum.update(&content);
        bytes.extend_from_slice(&sum.finalize().to_le_bytes());
        bytes.extend_from_slice(&content);
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            done += pwrite(&self.file, rest, start(self.turn) + done as u64)?;
        }
        Ok(())
    }
}

/// Where a turn's place starts.
fn start(turn: u64) -> u64 {
    turn % 2 * PLACE_BYTES as u64
}

fn read_place(file: &OwnedFd, place: u64) -> Option<(u64, LeaseTable)> {
    let mut bytes = vec![0; PLACE_BYTES];
    let mut had = 0;
    while had < bytes.len() {
        match pread(file, bytes.get_mut(had..)?, start(place) + had as u64) {
            Ok(0) | Err(_) => break,
            Ok(more) => had += more,
        }
    }
    let mut header = Reader::new(bytes.get(..HEADER_BYTES)?);
    let (turn, length, sum) = (header.u64()?, header.u32()? as usize, header.u32()?);
    let content = bytes.get(HEADER_BYTES..HEADER_BYTES.checked_add(length)?)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes.get(..12)?);
    hasher.update(content);
    if turn % 2 != place || hasher.finalize() != sum {
        return None;
    }
    decode(content).map(|book| (turn, book))
}

fn encode(book: &LeaseTable) -> Vec<u8> {
    let mut to = Writer::default();
    to.u16(VERSION).u32(book.next.0).u32(book.next.1).u64(book.next.2);
    to.u32(count(book.pools.len()));
    for (id, pool) in &book.pools {
        to.u32(*id).u64(pool.stripe_bytes).u64(pool.leases_total);
        pool.spec.write(&mut to);
    }
    // What was given up has no descriptor that the next server could find.
    let had = || book.stripes.iter().filter(|(_, stripe)| stripe.state != StripeState::Exchanged);
    to.u32(count(had().count()));
    for (id, stripe) in had() {
        to.u32(*id).u32(stripe.pool);
        match stripe.state {
            StripeState::Ready => to.u8(0),
            StripeState::Leased(lease) => to.u8(1).u64(lease),
            StripeState::Returned => to.u8(2),
            StripeState::Scrubbing | StripeState::Exchanged => to.u8(3),
        };
        to.some_u32(stripe.last);
    }
    to.u32(count(book.leases.len()));
    for (id, lease) in &book.leases {
        to.u64(*id).u32(lease.pool).u32(lease.user).u32(lease.process);
        to.numbers(&lease.stripes).text(lease.keep.as_ref().map_or("", AsRef::as_ref));
        let phase = match lease.phase {
            LeasePhase::Active => 0,
            LeasePhase::Draining => 1,
            LeasePhase::Kept => 2,
        };
        to.u64(lease.generation).u8(u8::from(lease.dirty)).u8(phase).some_u32(lease.segment);
    }
    to.bytes()
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn decode(bytes: &[u8]) -> Option<LeaseTable> {
    let mut from = Reader::new(bytes);
    (from.u16()? == VERSION).then_some(())?;
    let mut book =
        LeaseTable { next: (from.u32()?, from.u32()?, from.u64()?), ..LeaseTable::default() };
    for _ in 0..from.u32()? {
        let id = from.u32()?;
        let (stripe_bytes, leases_total) = (from.u64()?, from.u64()?);
        let spec = Spec::read(&mut from)?;
        book.pools.insert(id, Pool { spec, stripe_bytes, leases_total, coming: 0 });
    }
    for _ in 0..from.u32()? {
        let (id, pool) = (from.u32()?, from.u32()?);
        let state = match from.u8()? {
            0 => StripeState::Ready,
            1 => StripeState::Leased(from.u64()?),
            2 => StripeState::Returned,
            3 => StripeState::Scrubbing,
            _ => return None,
        };
        book.stripes.insert(id, Stripe { pool, state, last: from.some_u32()? });
    }
    for _ in 0..from.u32()? {
        let id = from.u64()?;
        let (pool, user, process) = (from.u32()?, from.u32()?, from.u32()?);
        let (stripes, keep) = (from.numbers(MAX_STRIPES)?, read_some_name(&mut from)?);
        let (generation, dirty) = (from.u64()?, from.flag()?);
        let phase = match from.u8()? {
            0 => LeasePhase::Active,
            1 => LeasePhase::Draining,
            2 => LeasePhase::Kept,
            _ => return None,
        };
        let segment = from.some_u32()?;
        let held =
            LeaseEntry { pool, user, process, stripes, keep, generation, dirty, phase, segment };
        book.leases.insert(id, held);
    }
    from.end().map(|()| book)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease_table::{AttachOutcome, Ownership, Requester};
    use crate::{NumaPolicy, Owners, PageSize};

    fn book() -> LeaseTable {
        let mut book = LeaseTable::default();
        let spec = Spec {
            name: "db".parse().unwrap(),
            bytes: 64 << 20,
            pages: PageSize::Base,
            nodes: NumaPolicy::Bind(vec![0]),
            owners: Owners { users: vec![7], groups: vec![8] },
            trusting: false,
        };
        let pool = book.create(spec).unwrap();
        while book.add(pool).is_some() {}
        let asker = Requester { user: 7, process: 8 };
        let keep = Some("cache".parse().unwrap());
        let given = book.attach(pool, asker, 9 << 20, keep, &mut |_| Ownership::Free).unwrap();
        let AttachOutcome::Granted { lease, stripes, .. } = given else { panic!("{given:?}") };
        assert_eq!(stripes.len(), 2);
        book.tie(lease, 9);
        book
    }

    #[test]
    fn the_last_book_is_read_and_a_torn_one_is_not() {
        let mut image = StateFile::new().unwrap();
        let first = book();
        image.write(&first).unwrap();
        let mut second = first.clone();
        second.ended(0);
        image.write(&second).unwrap();
        let copy = || image.file.try_clone().unwrap();
        assert_eq!(StateFile::open(copy()).unwrap().1, second);
        // The second turn is in the first place: cut off, the first turn counts.
        pwrite(&image.file, &[0xFF; 64], HEADER_BYTES as u64 + 4).unwrap();
        let (found, book) = StateFile::open(copy()).unwrap();
        assert_eq!((book, found.turn), (first, 1));
        pwrite(&image.file, &[0xFF; 64], (PLACE_BYTES + HEADER_BYTES) as u64).unwrap();
        assert!(StateFile::open(copy()).is_none());
    }

    #[test]
    fn any_bytes_are_no_panic() {
        let whole = encode(&book());
        assert_eq!(decode(&whole), Some(book()));
        for at in 0..whole.len() {
            assert_eq!(decode(&whole[..at]), None);
            let mut changed = whole.clone();
            changed[at] ^= 0xFF;
            let _ = decode(&changed);
        }
    }
}
