//! What a server tells of its pools, its leases and itself.

use super::MAX_TEXT_BYTES;
use crate::lease_table::LeasePhase;
use crate::spec::{Name, Spec, read_name, read_some_name};
use crate::wire::{Reader, Writer};

/// The place of each is its number.
const PHASES: [LeasePhase; 3] = [LeasePhase::Active, LeasePhase::Draining, LeasePhase::Kept];

/// How the bytes of a pool are used. Their sum is its size, but for what is yet to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolBytes {
    /// Zeroed, and nobody has them.
    pub ready: u64,
    /// Handed out.
    pub leased: u64,
    /// Given back, and somebody still has them.
    pub draining: u64,
    /// Being zeroed.
    pub scrubbing: u64,
    /// Given back, contents kept.
    pub kept: u64,
    /// Not populated yet.
    pub missing: u64,
}

/// A pool, as others are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus {
    /// What it is.
    pub spec: Spec,
    /// The bytes of each stripe.
    pub stripe_bytes: u64,
    /// How they are used.
    pub bytes: PoolBytes,
    /// How many leases there are, those that drain and are kept included.
    pub leases: u32,
    /// How many leases there were.
    pub leases_total: u64,
    /// How many bytes were zeroed by this server.
    pub scrubbed_bytes_total: u64,
    /// Whether the server keeps its pages in memory.
    pub locked: bool,
    /// What keeps it from being whole, in words; empty if nothing does.
    pub trouble: String,
}

/// A lease, as its user and root are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Its number.
    pub id: u64,
    /// The pool that it is of.
    pub pool: Name,
    /// Whose it is.
    pub user: u32,
    /// The process that asked for it; others may have it by now.
    pub process: u32,
    /// How much it is.
    pub bytes: u64,
    /// What it is.
    pub phase: LeasePhase,
    /// The name under which its contents are kept.
    pub keep: Option<Name>,
    /// The System V segment whose memory it is.
    pub segment: Option<u32>,
}

/// The server, as others are told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerStatus {
    /// The bytes that pools may have together.
    pub budget_bytes: u64,
    /// The bytes that they have.
    pub pools_bytes: u64,
    /// Leases that were given.
    pub leases_total: u64,
    /// Requests that were answered.
    pub requests_total: u64,
    /// Requests that were refused, of any kind.
    pub refused_total: u64,
    /// Messages that were none, or too long, or too many.
    pub bad_messages_total: u64,
    /// Messages that came with descriptors, which the kernel dropped. From Linux 6.16 on it refuses
    /// them to the sender, and the server does not see them.
    pub stray_descriptors_total: u64,
    /// Whether the kernel can say who else has memory that was given back.
    pub proves: bool,
    /// Whether a service manager keeps the descriptors.
    pub stored: bool,
    /// What the server lacks, in words; empty if nothing.
    pub lacks: String,
}

impl PoolStatus {
    pub(super) fn write(&self, to: &mut Writer) {
        self.spec.write(to);
        let PoolBytes { ready, leased, draining, scrubbing, kept, missing } = self.bytes;
        for bytes in [self.stripe_bytes, ready, leased, draining, scrubbing, kept, missing] {
            to.u64(bytes);
        }
        to.u32(self.leases).u64(self.leases_total).u64(self.scrubbed_bytes_total);
        to.u8(u8::from(self.locked)).text(&shortened(&self.trouble));
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            spec: Spec::read(from)?,
            stripe_bytes: from.u64()?,
            bytes: PoolBytes {
                ready: from.u64()?,
                leased: from.u64()?,
                draining: from.u64()?,
                scrubbing: from.u64()?,
                kept: from.u64()?,
                missing: from.u64()?,
            },
            leases: from.u32()?,
            leases_total: from.u64()?,
            scrubbed_bytes_total: from.u64()?,
            locked: from.flag()?,
            trouble: from.text(MAX_TEXT_BYTES)?,
        })
    }
}

impl LeaseStatus {
    pub(super) fn write(&self, to: &mut Writer) {
        let phase = PHASES.iter().position(|phase| *phase == self.phase).unwrap_or(0);
        to.u64(self.id).text(self.pool.as_ref()).u32(self.user).u32(self.process);
        to.u64(self.bytes).u8(u8::try_from(phase).unwrap_or(0));
        to.text(self.keep.as_ref().map_or("", AsRef::as_ref)).some_u32(self.segment);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            id: from.u64()?,
            pool: read_name(from)?,
            user: from.u32()?,
            process: from.u32()?,
            bytes: from.u64()?,
            phase: *PHASES.get(usize::from(from.u8()?))?,
            keep: read_some_name(from)?,
            segment: from.some_u32()?,
        })
    }
}

impl ServerStatus {
    pub(super) fn write(&self, to: &mut Writer) {
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
        to.u8(u8::from(self.proves)).u8(u8::from(self.stored)).text(&shortened(&self.lacks));
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            budget_bytes: from.u64()?,
            pools_bytes: from.u64()?,
            leases_total: from.u64()?,
            requests_total: from.u64()?,
            refused_total: from.u64()?,
            bad_messages_total: from.u64()?,
            stray_descriptors_total: from.u64()?,
            proves: from.flag()?,
            stored: from.flag()?,
            lacks: from.text(MAX_TEXT_BYTES)?,
        })
    }
}

/// No more of a text than a message has room for.
pub(super) fn shortened(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
