//! The lease table in a memfd, for the next server.
//!
//! Two slots of [`SLOT_BYTES`] are written alternately, so that one is whole whenever the writer is
//! killed. A slot begins with its generation (8 bytes), the length of the table (4) and a CRC-32 over
//! generation, length and table (4); the valid slot with the higher generation counts. A file of
//! another version is ignored as a whole.

use crate::lease_table::LeaseTable;
use crate::wire::{WireReader, WireWriter};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const HEADER_BYTES: usize = 16;
/// Enough for the largest table, whose pools' stripes take at most 64,000 bytes, twice.
const SLOT_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct StateFile {
    file: OwnedFd,
    generation: u64,
    saved: LeaseTable,
}

impl StateFile {
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("memwright-pool", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, 2 * SLOT_BYTES as u64)?;
        let mut state = Self { file, generation: 0, saved: LeaseTable::default() };
        // A server that is started before there is a pool finds a table, too.
        state.write(&LeaseTable::default())?;
        Ok(state)
    }

    /// An earlier server's file, and the table that it wrote last; `None` if it is not a state file
    /// of this version.
    pub(crate) fn open(file: OwnedFd) -> Option<(Self, LeaseTable)> {
        let mut slots = [0, 1].map(|slot| read_slot(&file, slot));
        slots.sort_by_key(|slot| slot.as_ref().map(|(generation, _)| *generation));
        let [_, newest] = slots;
        let (generation, table) = newest?;
        Some((Self { file, generation, saved: table.clone() }, table))
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes the table if it differs from the one that was written last.
    pub(crate) fn save(&mut self, table: &LeaseTable) -> io::Result<()> {
        if *table != self.saved {
            self.write(table)?;
            self.saved = table.clone();
        }
        Ok(())
    }

    fn write(&mut self, table: &LeaseTable) -> io::Result<()> {
        let content = table.encode();
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        if HEADER_BYTES + content.len() > SLOT_BYTES {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.generation += 1;
        let mut header = WireWriter::default();
        header.u64(self.generation).u32(length);
        let mut bytes = header.into_bytes();
        let mut sum = crc32fast::Hasher::new();
        sum.update(&bytes);
        sum.update(&content);
        bytes.extend_from_slice(&sum.finalize().to_le_bytes());
        bytes.extend_from_slice(&content);
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            done += pwrite(&self.file, rest, slot_offset(self.generation) + done as u64)?;
        }
        Ok(())
    }
}

fn slot_offset(generation: u64) -> u64 {
    generation % 2 * SLOT_BYTES as u64
}

fn read_slot(file: &OwnedFd, slot: u64) -> Option<(u64, LeaseTable)> {
    let mut bytes = vec![0; SLOT_BYTES];
    let mut read = 0;
    while read < bytes.len() {
        match pread(file, bytes.get_mut(read..)?, slot_offset(slot) + read as u64) {
            Ok(0) | Err(_) => break,
            Ok(more) => read += more,
        }
    }
    let mut header = WireReader::new(bytes.get(..HEADER_BYTES)?);
    let (generation, length, sum) = (header.u64()?, header.u32()? as usize, header.u32()?);
    let content = bytes.get(HEADER_BYTES..HEADER_BYTES.checked_add(length)?)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes.get(..12)?);
    hasher.update(content);
    if generation % 2 != slot || hasher.finalize() != sum {
        return None;
    }
    LeaseTable::decode(content).map(|table| (generation, table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease_table::{AttachOutcome, Ownership, Requester};
    use crate::{NumaPolicy, Owners, PageSize, PoolSpec};

    fn table() -> LeaseTable {
        let mut table = LeaseTable::default();
        let spec = PoolSpec {
            name: "db".parse().unwrap(),
            bytes: 64 << 20,
            pages: PageSize::Base,
            nodes: NumaPolicy::Bind(vec![0]),
            owners: Owners { users: vec![7], groups: vec![8] },
            trusting: false,
        };
        let pool = table.create(spec).unwrap();
        while table.add_stripe(pool).is_some() {}
        let requester = Requester { user: 7, process: 8 };
        let keep = Some("cache".parse().unwrap());
        let outcome =
            table.attach(pool, requester, 9 << 20, keep, &mut |_| Ownership::Free).unwrap();
        let AttachOutcome::Granted { lease, stripes, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(stripes.len(), 2);
        table.tie(lease, 9);
        table
    }

    /// Promise (The pool): The state file is complete whenever the server is killed, and a torn one is not used.
    #[test]
    fn the_last_complete_table_is_read() {
        let mut state = StateFile::new().unwrap();
        let read = StateFile::open(state.file.try_clone().unwrap());
        assert_eq!(read.unwrap().1, LeaseTable::default());
        let first = table();
        state.save(&first).unwrap();
        let mut second = first.clone();
        second.end_lease(0);
        state.save(&second).unwrap();
        let copy = || state.file.try_clone().unwrap();
        assert_eq!(StateFile::open(copy()).unwrap().1, second);
        // The third generation is in the second slot; torn, the second generation counts.
        pwrite(&state.file, &[0xFF; 64], (SLOT_BYTES + HEADER_BYTES) as u64 + 4).unwrap();
        let (found, read) = StateFile::open(copy()).unwrap();
        assert_eq!((read, found.generation), (first, 2));
        pwrite(&state.file, &[0xFF; 64], HEADER_BYTES as u64).unwrap();
        assert!(StateFile::open(copy()).is_none());
    }

    #[test]
    fn decoding_arbitrary_bytes_does_not_panic() {
        let whole = table().encode();
        assert_eq!(LeaseTable::decode(&whole), Some(table()));
        for at in 0..whole.len() {
            assert_eq!(LeaseTable::decode(&whole[..at]), None);
            let mut changed = whole.clone();
            changed[at] ^= 0xFF;
            let _ = LeaseTable::decode(&changed);
        }
    }
}
