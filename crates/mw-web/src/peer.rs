//! Those who share the limits of this server, and which connection is closed for a new one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

/// An IPv4 address, or the 64 bits of an IPv6 address that name a network: whoever has one address of it has them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerNetwork(IpAddr);

const NETWORK: u128 = !0 << 64;

impl PeerNetwork {
    pub(crate) fn new(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => Self(Ipv6Addr::from_bits(v6.to_bits() & NETWORK).into()),
            v4 @ IpAddr::V4(_) => Self(v4),
        }
    }
}

/// Progress of a connection; the first of these loses the least when it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnectionPhase {
    /// The response has been sent.
    Answered,
    /// No complete request yet.
    Receiving,
    /// A complete request waits for its response, or the response is being sent.
    Requested,
}

/// Order in which connections are closed for a new one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EvictionOrder {
    pub(crate) peer: PeerNetwork,
    pub(crate) phase: ConnectionPhase,
    pub(crate) begun: Instant,
}

/// The index of the connection to close: one of the peer with the most connections, the oldest in the earliest phase. A
/// peer therefore keeps its connections as long as another one has more of them.
pub(crate) fn victim(crowd: &[EvictionOrder]) -> Option<usize> {
    let mut counts: BTreeMap<PeerNetwork, usize> = BTreeMap::new();
    for standing in crowd {
        *counts.entry(standing.peer).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    let of_largest = |standing: &EvictionOrder| counts.get(&standing.peer) == Some(&most);
    let candidates = crowd.iter().enumerate().filter(|(_, standing)| of_largest(standing));
    candidates.min_by_key(|(_, standing)| (standing.phase, standing.begun)).map(|(at, _)| at)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::Duration;

    fn peer(address: &str) -> PeerNetwork {
        PeerNetwork::new(address.parse().unwrap())
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:0:0:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }

    #[test]
    fn the_peer_with_the_most_connections_loses_one() {
        let start = Instant::now();
        let standing = |address, phase, age_ms: u64| EvictionOrder {
            peer: peer(address),
            phase,
            begun: start + Duration::from_millis(1000 - age_ms),
        };
        let crowd = [
            standing("192.0.2.1", ConnectionPhase::Answered, 900),
            standing("192.0.2.2", ConnectionPhase::Requested, 800),
            standing("192.0.2.2", ConnectionPhase::Receiving, 10),
            standing("192.0.2.2", ConnectionPhase::Receiving, 20),
            standing("192.0.2.1", ConnectionPhase::Receiving, 700),
        ];
        assert_eq!(victim(&crowd), Some(3), "the oldest that has sent no request");
        assert_eq!(victim(&crowd[..2]), Some(0), "one each: what is over");
        assert_eq!(victim(&crowd[1..2]), Some(0), "a request, if there is nothing else");
        assert_eq!(victim(&[]), None);
    }
}
