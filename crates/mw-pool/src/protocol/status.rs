//! What a server reports of its pools, its leases and itself.

use crate::spec::{PoolName, PoolSpec, read_name, read_optional_name};
use crate::wire::{WireReader, WireWriter};

/// The longest text in a message, so that each message has room for it.
pub(super) const MAX_TEXT_BYTES: usize = 1024;

/// The phase of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeasePhase {
    /// A process has its socket, or the process that requested it still uses its memory, or it is the
    /// memory of a System V segment that exists.
    Active,
    /// It has ended, and its contents are to be kept; its memory may still be in use.
    Draining,
    /// Its memory is not in use; its contents are kept for its user.
    Kept,
}

/// In the order of their numbers in a message.
const PHASES: [LeasePhase; 3] = [LeasePhase::Active, LeasePhase::Draining, LeasePhase::Kept];

/// Use of the bytes of a pool. Their sum is its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolBytes {
    /// Zeroed, and not in use.
    pub ready: u64,
    /// Part of a lease.
    pub leased: u64,
    /// Returned, and still in use.
    pub draining: u64,
    /// Being zeroed by the server.
    pub zeroing: u64,
    /// Returned, with their contents kept.
    pub kept: u64,
    /// Not populated yet.
    pub missing: u64,
}

/// The status of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus {
    /// Name, size, pages, nodes and owners.
    pub spec: PoolSpec,
    /// The size of each stripe.
    pub stripe_bytes: u64,
    /// Use of its bytes.
    pub bytes: PoolBytes,
    /// Number of leases, draining and kept ones included.
    pub leases: u32,
    /// Number of leases that were granted.
    pub leases_total: u64,
    /// Bytes that this server has zeroed in place.
    pub zeroed_bytes_total: u64,
    /// True if the server has its pages locked in memory.
    pub locked: bool,
    /// The reason why it is not fully populated; empty if it is, or is about to be.
    pub trouble: String,
}

/// The status of a lease; its user and root see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseStatus {
    /// The lease number, unique for a server and its successors.
    pub id: u64,
    /// The pool that its memory is part of.
    pub pool: PoolName,
    /// The user who requested it.
    pub user: u32,
    /// The process that requested it; by now others may have its memory.
    pub process: u32,
    /// The size in bytes, of whole stripes.
    pub bytes: u64,
    /// Whether it is in use, ends, or is kept.
    pub phase: LeasePhase,
    /// The name under which its contents are kept.
    pub keep: Option<PoolName>,
    /// The System V segment whose memory it is.
    pub segment: Option<u32>,
}

/// The status of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerStatus {
    /// The limit on the size of all pools together.
    pub budget_bytes: u64,
    /// The size of all pools together.
    pub pools_bytes: u64,
    /// Leases that were granted.
    pub leases_total: u64,
    /// Requests that were answered.
    pub requests_total: u64,
    /// Requests and connections that were refused.
    pub refused_total: u64,
    /// Messages that were malformed, too long or too many.
    pub bad_messages_total: u64,
    /// Messages with descriptors, which the kernel dropped. From Linux 6.16 on it refuses to send
    /// them, and the server does not see them.
    pub stray_descriptors_total: u64,
    /// True if the kernel reports if returned memory is still in use.
    pub owners_known: bool,
    /// True if a service manager keeps the server's descriptors.
    pub stored: bool,
    /// Shortage of the server; empty if there is none.
    pub lacks: String,
}

impl PoolStatus {
    pub(super) fn write(&self, to: &mut WireWriter) {
        self.spec.write(to);
        let PoolBytes { ready, leased, draining, zeroing, kept, missing } = self.bytes;
        for bytes in [self.stripe_bytes, ready, leased, draining, zeroing, kept, missing] {
            to.u64(bytes);
        }
        to.u32(self.leases).u64(self.leases_total).u64(self.zeroed_bytes_total);
        to.u8(u8::from(self.locked)).text(&shortened(&self.trouble));
    }

    pub(super) fn read(from: &mut WireReader<'_>) -> Option<Self> {
        Some(Self {
            spec: PoolSpec::read(from)?,
            stripe_bytes: from.u64()?,
            bytes: PoolBytes {
                ready: from.u64()?,
                leased: from.u64()?,
                draining: from.u64()?,
                zeroing: from.u64()?,
                kept: from.u64()?,
                missing: from.u64()?,
            },
            leases: from.u32()?,
            leases_total: from.u64()?,
            zeroed_bytes_total: from.u64()?,
            locked: from.flag()?,
            trouble: from.text(MAX_TEXT_BYTES)?,
        })
    }
}

impl LeaseStatus {
    pub(super) fn write(&self, to: &mut WireWriter) {
        let phase = PHASES.iter().position(|phase| *phase == self.phase).unwrap_or(0);
        to.u64(self.id).text(self.pool.as_ref()).u32(self.user).u32(self.process);
        to.u64(self.bytes).u8(u8::try_from(phase).unwrap_or(0));
        to.text(self.keep.as_ref().map_or("", AsRef::as_ref)).optional_u32(self.segment);
    }

    pub(super) fn read(from: &mut WireReader<'_>) -> Option<Self> {
        Some(Self {
            id: from.u64()?,
            pool: read_name(from)?,
            user: from.u32()?,
            process: from.u32()?,
            bytes: from.u64()?,
            phase: *PHASES.get(usize::from(from.u8()?))?,
            keep: read_optional_name(from)?,
            segment: from.optional_u32()?,
        })
    }
}

impl ServerStatus {
    pub(super) fn write(&self, to: &mut WireWriter) {
        for number in [
            self.budget_bytes,
            self.pools_bytes,
            self.leases_total,
            self.requests_total,
            self.refused_total,
            self.bad_messages_total,
            self.stray_descriptors_total,
        ] {
            to.u64(number);
        }
        to.u8(u8::from(self.owners_known)).u8(u8::from(self.stored)).text(&shortened(&self.lacks));
    }

    pub(super) fn read(from: &mut WireReader<'_>) -> Option<Self> {
        Some(Self {
            budget_bytes: from.u64()?,
            pools_bytes: from.u64()?,
            leases_total: from.u64()?,
            requests_total: from.u64()?,
            refused_total: from.u64()?,
            bad_messages_total: from.u64()?,
            stray_descriptors_total: from.u64()?,
            owners_known: from.flag()?,
            stored: from.flag()?,
            lacks: from.text(MAX_TEXT_BYTES)?,
        })
    }
}

/// As much of a text as a message has room for.
pub(super) fn shortened(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
