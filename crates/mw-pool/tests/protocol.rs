//! Any bytes may come over the socket: none of them is a panic, and what is a message is one in
//! both directions.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_pool::protocol::LeasePhase;
use mw_pool::protocol::{
    ClientRequest, Contents, DecodeError, Lease, LeaseStatus, MAX_MESSAGE_BYTES, PoolBytes,
    PoolStatus, Refusal, Reply, ServerStatus,
};
use mw_pool::{NumaPolicy, Owners, PageSize, PoolSpec};

/// xorshift64*: the same bytes at each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

fn spec() -> PoolSpec {
    PoolSpec {
        name: "x".repeat(32).parse().unwrap(),
        bytes: u64::MAX,
        pages: PageSize::HUGE_1G,
        nodes: NumaPolicy::Interleave((0..64).collect()),
        owners: Owners { users: (0..16).collect(), groups: (0..16).collect() },
        trusting: true,
    }
}

fn requests() -> Vec<ClientRequest> {
    let name = || "db".parse().unwrap();
    vec![
        ClientRequest::Attach { pool: name(), bytes: 1 << 40, keep: Some(name()), segment: None },
        ClientRequest::Attach { pool: name(), bytes: 0, keep: None, segment: Some(7) },
        ClientRequest::Segment(8),
        ClientRequest::Create(spec()),
        ClientRequest::Create(PoolSpec { nodes: NumaPolicy::Bind(vec![0]), ..spec() }),
        ClientRequest::Create(PoolSpec {
            nodes: NumaPolicy::Default,
            pages: PageSize::Base,
            ..spec()
        }),
        ClientRequest::Remove(name()),
        ClientRequest::Grow(name(), 7),
        ClientRequest::Shrink(name(), 8),
        ClientRequest::Release(name()),
        ClientRequest::Next(None),
        ClientRequest::Next(Some(name())),
        ClientRequest::Server,
        ClientRequest::NextLease(7),
    ]
}

fn replies() -> Vec<Reply> {
    let lease = Lease {
        id: 1,
        bytes: 2,
        stripe_bytes: 3,
        granule_bytes: 4,
        locked: true,
        contents: Contents::Kept { generation: 5, dirty: true },
    };
    let pool = PoolStatus {
        spec: spec(),
        stripe_bytes: 1,
        bytes: PoolBytes { ready: 1, leased: 2, draining: 3, zeroing: 4, kept: 5, missing: 6 },
        leases: 7,
        leases_total: 8,
        zeroed_bytes_total: 9,
        locked: true,
        trouble: "ä".repeat(512),
    };
    let server =
        ServerStatus { lacks: "é".repeat(512), owners_known: true, ..ServerStatus::default() };
    vec![
        Reply::Done,
        Reply::Attached(lease.clone()),
        Reply::Attached(Lease { contents: Contents::Zeroed, ..lease }),
        Reply::Wait { ready_bytes: 1, coming_bytes: 2 },
        Reply::Pool(Box::new(pool)),
        Reply::End,
        Reply::Server(Box::new(server)),
        Reply::Lease(LeaseStatus {
            id: 1,
            pool: "db".parse().unwrap(),
            user: 2,
            process: 3,
            bytes: 4,
            phase: LeasePhase::Kept,
            keep: Some("cache".parse().unwrap()),
            segment: Some(5),
        }),
        Reply::Refused(Refusal::Failed, "no".to_owned()),
    ]
}

#[test]
fn messages_round_trip_and_are_short() {
    for request in requests() {
        let bytes = request.encode();
        assert!(bytes.len() <= MAX_MESSAGE_BYTES);
        assert_eq!(ClientRequest::decode(&bytes), Ok(request));
    }
    for reply in replies() {
        let bytes = reply.encode();
        assert!(bytes.len() <= MAX_MESSAGE_BYTES);
        assert_eq!(Reply::decode(&bytes), Some(reply));
    }
    let long = Reply::Refused(Refusal::Limit, "ö".repeat(70_000)).encode();
    assert!(long.len() <= MAX_MESSAGE_BYTES && Reply::decode(&long).is_some());
}

#[test]
fn another_version_is_recognized_and_can_be_refused() {
    let mut bytes = ClientRequest::Server.encode();
    bytes[4] = 9;
    assert_eq!(ClientRequest::decode(&bytes), Err(DecodeError::Version(9)));
    let mut refusal = Reply::Refused(Refusal::Protocol, "speak 2".to_owned()).encode();
    refusal[4] = 2;
    assert!(matches!(Reply::decode(&refusal), Some(Reply::Refused(Refusal::Protocol, _))));
    let mut done = Reply::Done.encode();
    done[4] = 2;
    assert_eq!(Reply::decode(&done), None);
}

/// Promise (The pool): No message makes the server panic: a million arbitrary messages.
#[test]
fn a_million_arbitrary_messages_do_not_panic() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut messages: Vec<Vec<u8>> = requests().iter().map(ClientRequest::encode).collect();
    messages.extend(replies().iter().map(Reply::encode));
    let mut read = 0;
    for round in 0..1_000_000 {
        let mut bytes = match round % 4 {
            0 => (0..random.below(64)).map(|_| random.next().to_le_bytes()[0]).collect(),
            _ => messages[random.below(messages.len())].clone(),
        };
        for _ in 0..random.below(4) {
            match (random.below(3), bytes.len()) {
                (0, 1..) => {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next().to_le_bytes()[0];
                }
                (1, len @ 1..) => bytes.truncate(random.below(len)),
                _ => bytes.push(random.next().to_le_bytes()[0]),
            }
        }
        // What is read is written as it came: there is one form of each message.
        if let Ok(request) = ClientRequest::decode(&bytes) {
            read += 1;
            assert_eq!(request.encode(), bytes);
        }
        if let Some(reply) = Reply::decode(&bytes) {
            read += 1;
            if !matches!(reply, Reply::Refused(..)) {
                assert_eq!(reply.encode(), bytes);
            }
        }
    }
    assert!(read > 100_000, "{read}");
}
