//! The lease table as bytes, for the next server. The first two bytes are the version; a table of
//! another version is not decoded.

use super::{LeaseEntry, LeaseTable, NextIds, Pool, Stripe, StripeState};
use crate::protocol::{LeasePhase, MAX_STRIPES};
use crate::spec::{PoolSpec, read_optional_name};
use crate::wire::{WireReader, WireWriter};

const VERSION: u16 = 1;

impl LeaseTable {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = WireWriter::default();
        to.u16(VERSION).u32(self.next.pool).u32(self.next.stripe).u64(self.next.lease);
        to.u32(count(self.pools.len()));
        for (id, pool) in &self.pools {
            to.u32(*id).u64(pool.stripe_bytes).u64(pool.leases_total);
            pool.spec.write(&mut to);
        }
        // The next server finds no descriptor of an exchanged stripe.
        let stored = || self.stripes.iter().filter(|(_, s)| s.state != StripeState::Exchanged);
        to.u32(count(stored().count()));
        for (id, stripe) in stored() {
            to.u32(*id);
            stripe.write(&mut to);
        }
        to.u32(count(self.leases.len()));
        for (id, lease) in &self.leases {
            to.u64(*id);
            lease.write(&mut to);
        }
        to.into_bytes()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = WireReader::new(bytes);
        (from.u16()? == VERSION).then_some(())?;
        let next = NextIds { pool: from.u32()?, stripe: from.u32()?, lease: from.u64()? };
        let mut table = Self { next, ..Self::default() };
        for _ in 0..from.u32()? {
            let id = from.u32()?;
            let (stripe_bytes, leases_total) = (from.u64()?, from.u64()?);
            let spec = PoolSpec::read(&mut from)?;
            table.pools.insert(id, Pool { spec, stripe_bytes, leases_total, populating: 0 });
        }
        for _ in 0..from.u32()? {
            table.stripes.insert(from.u32()?, Stripe::read(&mut from)?);
        }
        for _ in 0..from.u32()? {
            table.leases.insert(from.u64()?, LeaseEntry::read(&mut from)?);
        }
        from.end().map(|()| table)
    }
}

impl Stripe {
    fn write(&self, to: &mut WireWriter) {
        to.u32(self.pool);
        match self.state {
            StripeState::Ready => to.u8(0),
            StripeState::Leased(lease) => to.u8(1).u64(lease),
            StripeState::Returned => to.u8(2),
            StripeState::Zeroing | StripeState::Exchanged => to.u8(3),
        };
        to.optional_u32(self.last_user);
    }

    fn read(from: &mut WireReader<'_>) -> Option<Self> {
        Some(Self {
            pool: from.u32()?,
            state: match from.u8()? {
                0 => StripeState::Ready,
                1 => StripeState::Leased(from.u64()?),
                2 => StripeState::Returned,
                3 => StripeState::Zeroing,
                _ => return None,
            },
            last_user: from.optional_u32()?,
        })
    }
}

impl LeaseEntry {
    fn write(&self, to: &mut WireWriter) {
        to.u32(self.pool).u32(self.user).u32(self.process);
        to.numbers(&self.stripes).text(self.keep.as_ref().map_or("", AsRef::as_ref));
        let phase = match self.phase {
            LeasePhase::Active => 0,
            LeasePhase::Draining => 1,
            LeasePhase::Kept => 2,
        };
        to.u64(self.generation).u8(u8::from(self.dirty)).u8(phase).optional_u32(self.segment);
    }

    fn read(from: &mut WireReader<'_>) -> Option<Self> {
        Some(Self {
            pool: from.u32()?,
            user: from.u32()?,
            process: from.u32()?,
            stripes: from.numbers(MAX_STRIPES)?,
            keep: read_optional_name(from)?,
            generation: from.u64()?,
            dirty: from.flag()?,
            phase: match from.u8()? {
                0 => LeasePhase::Active,
                1 => LeasePhase::Draining,
                2 => LeasePhase::Kept,
                _ => return None,
            },
            segment: from.optional_u32()?,
        })
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
