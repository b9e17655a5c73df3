//! System V segments whose memory is a pool's.
//!
//! Such a segment is the kernel's own in all but its memory: its number, its key, its rights and how
//! often it is attached. The library that is loaded into programs makes it, takes a lease that is
//! tied to it, and maps the lease's memory wherever the segment is attached. What the kernel says of
//! the segment, to anybody who asks (`SHM_STAT_ANY`), decides here: who made it, who may have its
//! memory, and when the lease is over.
//!
//! Memory that two users have had cannot be handed to either of them without being exchanged
//! ([`crate::lease_table`]). So a segment that others may attach is served by a pool alone whose users trust
//! each other.

use crate::grant::Granted;
use crate::lease_table::{LeaseEntry, Refused};
use crate::peer::Peer;
use crate::protocol::{Contents, Refusal, Reply};
use crate::server::Server;
use crate::spec::Name;
use mw_sys::{SysvSegment, SysvState};

/// Of a mode: reading and writing for the owner, and what anybody else may.
const READ_WRITE: u32 = 0o6;
const OTHERS: u32 = 0o66;

impl Server {
    /// Whether a segment's memory may be a lease of this pool.
    pub(crate) fn may_tie(&self, peer: &Peer, pool: &Name, id: u32) -> Result<(), Refused> {
        // A process without a number here cannot be told from any other (PID namespaces).
        let made = |state: &SysvState| peer.process != 0 && state.creator == peer.process;
        let found = look(id).filter(made);
        let Some(state) = found.filter(|state| state.users == [peer.user; 2]) else {
            let why = format!("process {} has made no segment {id} that is there", peer.process);
            return Err((Refusal::NoSuchSegment, why));
        };
        if self.book.tied(id).is_some() {
            return Err((Refusal::Invalid, format!("segment {id} has its memory")));
        }
        let pool = self.named(peer, pool)?;
        let trusting = self.book.pool(pool).is_some_and(|pool| pool.spec.trusting);
        if state.mode & OTHERS != 0 && !trusting {
            let why = format!(
                "segment {id} is for others too (mode {:o}), and the pool's users do not trust each \
                 other: memwright pool create --trusting",
                state.mode & 0o777
            );
            return Err((Refusal::Denied, why));
        }
        Ok(())
    }

    /// The memory of a segment for who may attach it.
    pub(crate) fn segment(&self, peer: &Peer, id: u32) -> Granted {
        let tied = self.book.tied(id).filter(|(_, lease)| is_there(lease));
        let none = || (Refusal::NoSuchSegment, format!("no pool has the memory of segment {id}"));
        let (lease, held) = tied.ok_or_else(none)?;
        let spec = self.book.pool(held.pool).map(|pool| &pool.spec).ok_or_else(none)?;
        let trusted = spec.trusting && peer.may_use(spec);
        let own = peer.user == held.user || peer.user == 0;
        if !(own || trusted) || !look(id).is_some_and(|state| may_attach(peer, &state)) {
            let why = format!("segment {id} is of user {}, and not for this one", held.user);
            return Err((Refusal::Denied, why));
        }
        let files = self
            .descriptors(&held.stripes)
            .map_err(|error| (Refusal::Failed, format!("the descriptors of it: {error}")))?;
        Ok((Reply::Attached(self.told(lease, Contents::Zeroed)?), files))
    }
}

fn look(id: u32) -> Option<SysvState> {
    i32::try_from(id).ok().and_then(|id| SysvSegment::from_id(id).state().ok())
}

/// Whether the segment is there that a lease is tied to.
pub(crate) fn is_there(lease: &LeaseEntry) -> bool {
    let state = lease.segment.and_then(look);
    state.is_some_and(|state| state.creator == lease.process)
}

/// Whether the kernel would let this peer read and write it (ipc/util.c, `ipcperms`).
fn may_attach(peer: &Peer, state: &SysvState) -> bool {
    let class = match () {
        () if state.users.contains(&peer.user) => 6,
        () if state.groups.iter().any(|group| peer.groups.contains(group)) => 3,
        () => 0,
    };
    peer.user == 0 || state.mode >> class & READ_WRITE == READ_WRITE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_read_and_write_a_segment_may_have_its_memory() {
        let of = |user, group| Peer { user, process: 1, groups: vec![group], admin: false };
        let state = |mode| SysvState { creator: 1, users: [7, 8], groups: [70, 80], mode };
        for (peer, mode, may) in [
            (of(7, 1), 0o600, true),
            (of(8, 1), 0o600, true),
            // An owner's rights are the owner's, whatever others have.
            (of(7, 70), 0o066, false),
            (of(9, 70), 0o660, true),
            (of(9, 80), 0o640, false),
            (of(9, 1), 0o660, false),
            (of(9, 1), 0o606, true),
            (of(0, 1), 0, true),
        ] {
            assert_eq!(may_attach(&peer, &state(mode)), may, "{peer:?} {mode:o}");
        }
    }
}
