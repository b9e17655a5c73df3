//! System V segments with memory of a pool.
//!
//! Such a segment is the kernel's own except for its memory: id, key, permissions and attach count. The
//! preload library creates it, requests a lease that is bound to it, and maps the lease's memory wherever
//! the segment is attached. The status that the kernel reports to every process (`SHM_STAT_ANY`) decides
//! who created it, who may have its memory, and when the lease ends.
//!
//! Memory that two users have had cannot be leased to either of them without being exchanged
//! ([`crate::lease_table`]). So a segment that others may attach needs a pool whose users trust each
//! other.

use crate::lease_table::{LeaseEntry, LeaseId, LeaseTable, RefusalReason};
use crate::peer::ClientPeer;
use crate::protocol::Refusal;
use mw_sys::{SysvSegment, SysvState};

/// In a mode: reading and writing for one class, and anything for group and others.
const READ_WRITE: u32 = 0o6;
const OTHERS: u32 = 0o66;

/// Checks that a segment's memory may be a lease of a pool for this peer.
pub(crate) fn check_tie(
    id: u32,
    peer: &ClientPeer,
    is_trusting_pool: bool,
    table: &LeaseTable,
) -> Result<(), RefusalReason> {
    // A process without a number here cannot be identified (PID namespaces).
    let is_own = |state: &SysvState| peer.process != 0 && state.creator == peer.process;
    let found = state(id).filter(is_own);
    let Some(state) = found.filter(|state| state.users == [peer.user; 2]) else {
        let why = format!("process {} has not created segment {id}", peer.process);
        return Err((Refusal::NoSuchSegment, why));
    };
    if table.tied(id).is_some() {
        return Err((Refusal::Invalid, format!("segment {id} has its memory already")));
    }
    if state.mode & OTHERS != 0 && !is_trusting_pool {
        let why = format!(
            "segment {id} is accessible to other users (mode {:o}), and the pool's users do not trust \
             each other: memwright pool create --trusting",
            state.mode & 0o777
        );
        return Err((Refusal::Denied, why));
    }
    Ok(())
}

/// The lease that is a segment's memory, for a peer who may attach the segment.
pub(crate) fn lease_for<'a>(
    id: u32,
    peer: &ClientPeer,
    table: &'a LeaseTable,
) -> Result<(LeaseId, &'a LeaseEntry), RefusalReason> {
    let tied = table.tied(id).filter(|(_, entry)| exists(entry));
    let none = || (Refusal::NoSuchSegment, format!("no pool has the memory of segment {id}"));
    let (lease, entry) = tied.ok_or_else(none)?;
    let spec = table.pool(entry.pool).map(|pool| &pool.spec).ok_or_else(none)?;
    let is_trusted = spec.trusting && peer.may_use(spec);
    let is_own = peer.user == entry.user || peer.user == 0;
    if !(is_own || is_trusted) || !state(id).is_some_and(|state| may_attach(peer, &state)) {
        let why = format!("permission denied: segment {id} is of user {}", entry.user);
        return Err((Refusal::Denied, why));
    }
    Ok((lease, entry))
}

fn state(id: u32) -> Option<SysvState> {
    i32::try_from(id).ok().and_then(|id| SysvSegment::from_id(id).state().ok())
}

/// True if the segment exists that a lease is tied to.
pub(crate) fn exists(lease: &LeaseEntry) -> bool {
    let state = lease.segment.and_then(state);
    state.is_some_and(|state| state.creator == lease.process)
}

/// True if the kernel would let this peer read and write it (ipc/util.c, `ipcperms`).
fn may_attach(peer: &ClientPeer, state: &SysvState) -> bool {
    let class = if state.users.contains(&peer.user) {
        6
    } else if state.groups.iter().any(|group| peer.groups.contains(group)) {
        3
    } else {
        0
    };
    peer.user == 0 || state.mode >> class & READ_WRITE == READ_WRITE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_decide_who_gets_a_segments_memory() {
        let of = |user, group| ClientPeer { user, process: 1, groups: vec![group], admin: false };
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
