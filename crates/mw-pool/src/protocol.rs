//! What client and server say to each other: bytes, no I/O.
//!
//! The socket keeps messages apart (`SOCK_SEQPACKET`). A client sends one request and gets one
//! reply; neither is longer than [`MAX_MESSAGE_BYTES`]. Each begins with a magic number, the
//! version of the protocol and its kind, in 4, 2 and 2 bytes; numbers are little-endian, texts have
//! their length in front of them (2 bytes), lists their count. Whatever is not so is no message.
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
//! Any request may be refused. A message of another version is refused with the server's own, in
//! the layout of this version, whose header and refusal stay as they are.
//!
//! Over the lease descriptor, which is a socket of the same kind, a program may say one thing, a
//! single byte: [`CONSISTENT`]. The server says nothing there; it ends the lease when no process
//! has the other end any more, and the one that asked has ended or nothing of the memory; that of a
//! System V segment, when the segment is gone.

mod state;

use crate::spec::{Name, Spec, read_name, read_some_name};
use crate::wire::{Reader, Writer};
use state::shortened;

pub use state::{LeaseStatus, PoolBytes, PoolStatus, ServerStatus};

/// The version of the protocol.
pub const VERSION: u16 = 1;
/// The longest message.
pub const MAX_MESSAGE_BYTES: usize = 4096;
/// The most stripes of a lease: as many descriptors as one message can carry (`SCM_MAX_FD`, 253),
/// but for the lease's own, and rounded down.
pub const MAX_STRIPES: usize = 250;
/// The longest text of a refusal.
const MAX_TEXT_BYTES: usize = 1024;
const MAGIC: u32 = u32::from_le_bytes(*b"mwpl");

/// Said over a lease descriptor: what is in the memory may be used after the lease's end. Without
/// it, kept contents are called dirty.
pub const CONSISTENT: u8 = b'C';

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// For a lease of so many bytes.
    Attach {
        /// The pool.
        pool: Name,
        /// How much.
        bytes: u64,
        /// The name under which contents are to be kept after the lease, and may have been before.
        keep: Option<Name>,
        /// The System V segment whose memory it is to be: the lease goes on until that is gone. The
        /// process that asks has just made it.
        segment: Option<u32>,
    },
    /// For the memory of a System V segment.
    Segment(u32),
    /// For a pool to be made.
    Create(Spec),
    /// For a pool's end.
    Remove(Name),
    /// For a pool to be so many bytes larger.
    Grow(Name, u64),
    /// For a pool to be so many bytes smaller.
    Shrink(Name, u64),
    /// For contents that are kept in a pool to be given up.
    Release(Name),
    /// For the pool after this one, by name, or the first.
    Next(Option<Name>),
    /// For what the server has done.
    Server,
    /// For the first lease from this number on.
    NextLease(u64),
}

/// What was in memory when it was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Zeros.
    Zeroed,
    /// What an earlier lease of the same user left.
    Kept {
        /// How often it was handed out before.
        generation: u64,
        /// Whether it was given back without a word that it is consistent.
        dirty: bool,
    },
}

/// A lease, as the client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: u64,
    /// How many bytes it has: what was asked for, rounded up to whole stripes.
    pub bytes: u64,
    /// The bytes of each stripe.
    pub stripe_bytes: u64,
    /// What its pages are a multiple of.
    pub granule_bytes: u64,
    /// Whether the server keeps its pages in memory.
    pub locked: bool,
    /// What is in it.
    pub contents: Contents,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is no request of this protocol's version.
    Protocol,
    /// There is no such pool, or none that this user may see.
    NoSuchPool,
    /// Such a pool exists.
    Exists,
    /// This user may not.
    Denied,
    /// More than the pool, the budget or the machine can ever give.
    TooLarge,
    /// All is in use, and nothing is about to come back.
    Full,
    /// A limit of the server or of this user is reached.
    Limit,
    /// What was asked makes no sense.
    Invalid,
    /// The server could not do it.
    Failed,
    /// No pool has the memory of such a segment, or it is another user's.
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

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is done, or under way.
    Done,
    /// A lease; descriptors come with it.
    Attached(Lease),
    /// Not yet: ask again.
    Wait {
        /// How many bytes this user could have now.
        ready_bytes: u64,
        /// How many more are on their way: being populated, zeroed, or given back.
        coming_bytes: u64,
    },
    /// A pool.
    Pool(Box<PoolStatus>),
    /// There is no other pool.
    End,
    /// The server.
    Server(Box<ServerStatus>),
    /// A lease that there is.
    Lease(LeaseStatus),
    /// No.
    Refused(Refusal, String),
}

fn header(kind: u16) -> Writer {
    let mut to = Writer::default();
    to.u32(MAGIC).u16(VERSION).u16(kind);
    to
}

/// The version and the kind; none of what is no message.
fn read_header(from: &mut Reader<'_>) -> Option<(u16, u16)> {
    (from.u32()? == MAGIC).then_some(())?;
    Some((from.u16()?, from.u16()?))
}

/// What is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// Of another version of the protocol.
    Version(u16),
    /// Not of this protocol.
    Garbled,
}

impl Request {
    /// As bytes, at most [`MAX_MESSAGE_BYTES`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let named = |kind, name: &Name, bytes: Option<u64>| {
            let mut to = header(kind);
            to.text(name.as_ref());
            if let Some(bytes) = bytes {
                to.u64(bytes);
            }
            to
        };
        let name = |name: &Option<Name>| name.as_ref().map_or("", AsRef::as_ref).to_owned();
        match self {
            Self::Attach { pool, bytes, keep, segment } => {
                let mut to = named(1, pool, Some(*bytes));
                to.text(&name(keep)).some_u32(*segment);
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
        .bytes()
    }

    /// From bytes, whatever they are.
    ///
    /// # Errors
    /// What is no request.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        match read_header(&mut from) {
            Some((VERSION, kind)) => Self::read(kind, &mut from).ok_or(DecodeError::Garbled),
            Some((other, _)) => Err(DecodeError::Version(other)),
            None => Err(DecodeError::Garbled),
        }
    }

    fn read(kind: u16, from: &mut Reader<'_>) -> Option<Self> {
        let request = match kind {
            1 => Self::Attach {
                pool: read_name(from)?,
                bytes: from.u64()?,
                keep: read_some_name(from)?,
                segment: from.some_u32()?,
            },
            10 => Self::Segment(from.u32()?),
            2 => Self::Create(Spec::read(from)?),
            3 => Self::Remove(read_name(from)?),
            4 => Self::Grow(read_name(from)?, from.u64()?),
            5 => Self::Shrink(read_name(from)?, from.u64()?),
            6 => Self::Release(read_name(from)?),
            7 => Self::Next(read_some_name(from)?),
            8 => Self::Server,
            9 => Self::NextLease(from.u64()?),
            _ => return None,
        };
        from.end().map(|()| request)
    }
}

impl Lease {
    fn write(&self, to: &mut Writer) {
        to.u64(self.id).u64(self.bytes).u64(self.stripe_bytes).u64(self.granule_bytes);
        to.u8(u8::from(self.locked));
        match self.contents {
            Contents::Zeroed => to.u8(0),
            Contents::Kept { generation, dirty } => to.u8(1).u64(generation).u8(u8::from(dirty)),
        };
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
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
    /// As bytes, at most [`MAX_MESSAGE_BYTES`].
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
        to.bytes()
    }

    /// From bytes, whatever they are; none of what is no reply of this version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
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
