//! The messages between client and server: encoding and decoding, no I/O.
//!
//! The socket preserves message boundaries (`SOCK_SEQPACKET`). A client sends one request and gets
//! one reply; neither is longer than [`MAX_MESSAGE_BYTES`]. Each begins with a magic number, the
//! version of the protocol and the message's type, in 4, 2 and 2 bytes. Numbers are little-endian;
//! texts are preceded by their length (2 bytes), lists by their count. Anything else is malformed.
//!
//! | request | reply |
//! |---|---|
//! | attach | attached, with descriptors: the lease, then the stripes in order; wait |
//! | segment | attached, with descriptors: the stripes in order |
//! | create, remove, grow, shrink, release | done |
//! | next | pool, or end after the last |
//! | next lease | lease, or end after the last |
//! | server | server |
//!
//! Any request may be refused. A message of another version is refused with the server's version, in
//! the layout of this version: header and refusal are the same in every version.
//!
//! The lease's descriptor is a socket of the same type, over which a program may send one message, a
//! single byte: [`CONSISTENT`]. The server sends nothing there. It ends the lease when no process has
//! the other end any more and the process that requested it has ended or has none of the memory; the
//! lease of a System V segment, when the segment is removed.

mod status;

use crate::spec::{PoolName, PoolSpec, read_name, read_optional_name};
use crate::wire::{WireReader, WireWriter};
use status::{MAX_TEXT_BYTES, shortened};

pub use status::{LeasePhase, LeaseStatus, PoolBytes, PoolStatus, ServerStatus};

/// The version of the protocol.
pub const VERSION: u16 = 1;
/// The longest message.
pub const MAX_MESSAGE_BYTES: usize = 4096;
/// The most stripes of a lease: a message carries at most 253 descriptors (`SCM_MAX_FD`), one of them
/// the lease's own.
pub const MAX_STRIPES: usize = 250;
const MAGIC: u32 = u32::from_le_bytes(*b"mwpl");

/// Sent over a lease's socket: the contents may be used after the end of the lease. Without it, kept
/// contents are reported as dirty.
pub const CONSISTENT: u8 = b'C';

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientRequest {
    /// Lease memory.
    Attach {
        /// The pool.
        pool: PoolName,
        /// The size.
        bytes: u64,
        /// The name under which the contents are kept after the lease, and may have been kept before.
        keep: Option<PoolName>,
        /// The System V segment whose memory it becomes, just created by the requesting process. The
        /// lease lasts until the segment is removed.
        segment: Option<u32>,
    },
    /// Get the memory of a System V segment.
    Segment(u32),
    /// Create a pool.
    Create(PoolSpec),
    /// Remove a pool.
    Remove(PoolName),
    /// Make a pool larger by this many bytes.
    Grow(PoolName, u64),
    /// Make a pool smaller by this many bytes.
    Shrink(PoolName, u64),
    /// Discard the contents that are kept in a pool.
    Release(PoolName),
    /// Report the pool after this one, by name, or the first.
    Next(Option<PoolName>),
    /// Report the server's status.
    Server,
    /// Report the first lease from this number on.
    NextLease(u64),
}

/// The contents of memory when it was leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Zeros.
    Zeroed,
    /// Contents that an earlier lease of the same user left.
    Kept {
        /// Number of leases that it has had before.
        generation: u64,
        /// True if it was returned without a report that it is consistent.
        dirty: bool,
    },
}

/// A granted lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: u64,
    /// Its size: the requested size, rounded up to whole stripes.
    pub bytes: u64,
    /// The size of each stripe.
    pub stripe_bytes: u64,
    /// Unit of sizes, 2 MiB for transparent huge pages.
    pub granule_bytes: u64,
    /// True if the server has its pages locked in memory.
    pub locked: bool,
    /// Its contents.
    pub contents: Contents,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is malformed, or of another version of the protocol.
    Protocol,
    /// The pool does not exist, or this user may not use it.
    NoSuchPool,
    /// The pool exists already.
    Exists,
    /// Permission denied.
    Denied,
    /// More than the pool, the budget or the machine can ever provide.
    TooLarge,
    /// The pool is in use, and nothing is about to come back.
    Full,
    /// A limit of the server or of this user was reached.
    Limit,
    /// The request contradicts itself.
    Invalid,
    /// The server failed.
    Failed,
    /// No pool has the memory of this segment, or it is another user's.
    NoSuchSegment,
}

impl Refusal {
    const ALL: [Self; 10] = [
        Self::Protocol,
        Self::NoSuchPool,
        Self::Exists,
        Self::Denied,
        Self::TooLarge,
        Self::Full,
        Self::Limit,
        Self::Invalid,
        Self::Failed,
        Self::NoSuchSegment,
    ];
}

/// A server's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Done, or under way.
    Done,
    /// A lease, with its descriptors.
    Attached(Lease),
    /// Too little is ready: repeat the request later.
    Wait {
        /// Bytes that this user could have now.
        ready_bytes: u64,
        /// Bytes that are being populated, zeroed or returned.
        coming_bytes: u64,
    },
    /// A pool's status.
    Pool(Box<PoolStatus>),
    /// There is no other pool or lease.
    End,
    /// The server's status.
    Server(Box<ServerStatus>),
    /// A lease's status.
    Lease(LeaseStatus),
    /// The request is refused, with the reason.
    Refused(Refusal, String),
}

fn header(kind: u16) -> WireWriter {
    let mut to = WireWriter::default();
    to.u32(MAGIC).u16(VERSION).u16(kind);
    to
}

/// The version and the type of a message.
fn read_header(from: &mut WireReader<'_>) -> Option<(u16, u16)> {
    (from.u32()? == MAGIC).then_some(())?;
    Some((from.u16()?, from.u16()?))
}

/// The reason why a request could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// It is of another version of the protocol.
    Version(u16),
    /// It is malformed.
    Malformed,
}

impl ClientRequest {
    /// Encodes it, in at most [`MAX_MESSAGE_BYTES`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let named = |kind, name: &PoolName, bytes: Option<u64>| {
            let mut to = header(kind);
            to.text(name.as_ref());
            if let Some(bytes) = bytes {
                to.u64(bytes);
            }
            to
        };
        let name = |name: &Option<PoolName>| name.as_ref().map_or("", AsRef::as_ref).to_owned();
        match self {
            Self::Attach { pool, bytes, keep, segment } => {
                let mut to = named(1, pool, Some(*bytes));
                to.text(&name(keep)).optional_u32(*segment);
                to
            }
            Self::Segment(id) => {
                let mut to = header(10);
                to.u32(*id);
                to
            }
            Self::Create(spec) => {
                let mut to = header(2);
                spec.write(&mut to);
                to
            }
            Self::Remove(name) => named(3, name, None),
            Self::Grow(name, bytes) => named(4, name, Some(*bytes)),
            Self::Shrink(name, bytes) => named(5, name, Some(*bytes)),
            Self::Release(name) => named(6, name, None),
            Self::Next(after) => {
                let mut to = header(7);
                to.text(&name(after));
                to
            }
            Self::Server => header(8),
            Self::NextLease(from) => {
                let mut to = header(9);
                to.u64(*from);
                to
            }
        }
        .into_bytes()
    }

    /// Decodes any bytes.
    ///
    /// # Errors
    /// If they are malformed or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = WireReader::new(bytes);
        match read_header(&mut from) {
            Some((VERSION, kind)) => Self::read(kind, &mut from).ok_or(DecodeError::Malformed),
            Some((other, _)) => Err(DecodeError::Version(other)),
            None => Err(DecodeError::Malformed),
        }
    }

    fn read(kind: u16, from: &mut WireReader<'_>) -> Option<Self> {
        let request = match kind {
            1 => Self::Attach {
                pool: read_name(from)?,
                bytes: from.u64()?,
                keep: read_optional_name(from)?,
                segment: from.optional_u32()?,
            },
            10 => Self::Segment(from.u32()?),
            2 => Self::Create(PoolSpec::read(from)?),
            3 => Self::Remove(read_name(from)?),
            4 => Self::Grow(read_name(from)?, from.u64()?),
            5 => Self::Shrink(read_name(from)?, from.u64()?),
            6 => Self::Release(read_name(from)?),
            7 => Self::Next(read_optional_name(from)?),
            8 => Self::Server,
            9 => Self::NextLease(from.u64()?),
            _ => return None,
        };
        from.end().map(|()| request)
    }
}

impl Lease {
    fn write(&self, to: &mut WireWriter) {
        to.u64(self.id).u64(self.bytes).u64(self.stripe_bytes).u64(self.granule_bytes);
        to.u8(u8::from(self.locked));
        match self.contents {
            Contents::Zeroed => to.u8(0),
            Contents::Kept { generation, dirty } => to.u8(1).u64(generation).u8(u8::from(dirty)),
        };
    }

    fn read(from: &mut WireReader<'_>) -> Option<Self> {
        Some(Self {
            id: from.u64()?,
            bytes: from.u64()?,
            stripe_bytes: from.u64()?,
            granule_bytes: from.u64()?,
            locked: from.flag()?,
            contents: match from.u8()? {
                0 => Contents::Zeroed,
                1 => Contents::Kept { generation: from.u64()?, dirty: from.flag()? },
                _ => return None,
            },
        })
    }
}

impl Reply {
    /// Encodes it, in at most [`MAX_MESSAGE_BYTES`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to;
        match self {
            Self::Done => to = header(101),
            Self::Attached(lease) => {
                to = header(102);
                lease.write(&mut to);
            }
            Self::Wait { ready_bytes, coming_bytes } => {
                to = header(103);
                to.u64(*ready_bytes).u64(*coming_bytes);
            }
            Self::Pool(pool) => {
                to = header(104);
                pool.write(&mut to);
            }
            Self::End => to = header(105),
            Self::Server(server) => {
                to = header(106);
                server.write(&mut to);
            }
            Self::Lease(lease) => {
                to = header(108);
                lease.write(&mut to);
            }
            Self::Refused(refusal, text) => {
                to = header(107);
                let code = Refusal::ALL.iter().position(|other| other == refusal);
                to.u16(code.and_then(|code| u16::try_from(code).ok()).unwrap_or(0));
                to.text(&shortened(text));
            }
        }
        to.into_bytes()
    }

    /// Decodes any bytes; `None` if they are malformed or of another version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = WireReader::new(bytes);
        let (version, kind) = read_header(&mut from)?;
        let reply = match kind {
            107 => {
                let refusal = *Refusal::ALL.get(usize::from(from.u16()?))?;
                Self::Refused(refusal, from.text(MAX_TEXT_BYTES)?)
            }
            _ if version != VERSION => return None,
            101 => Self::Done,
            102 => Self::Attached(Lease::read(&mut from)?),
            103 => Self::Wait { ready_bytes: from.u64()?, coming_bytes: from.u64()? },
            104 => Self::Pool(Box::new(PoolStatus::read(&mut from)?)),
            105 => Self::End,
            106 => Self::Server(Box::new(ServerStatus::read(&mut from)?)),
            108 => Self::Lease(LeaseStatus::read(&mut from)?),
            _ => return None,
        };
        from.end().map(|()| reply)
    }
}
