//! # network-loss
//!
//! Packets between the probe and the service were lost, or took long.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The kernel sent segments of the probe's own connection again, because the
//! other end did not acknowledge them, or their round trip took most of the request. Memory was not the cause.
//!
//! ## Why it hurts
//! A packet that is lost is sent again only after a timeout: 1 s, 3 s and 7 s after the first for a new connection, 200 ms
//! and more for an open one, twice as long each time. Other clients of the service lose packets on the same way.
//!
//! ## What it looks like
//! The service is idle. `ss -tino` shows `retrans`, a growing `rto` and `unacked` for the connection, `nstat` a growing
//! `TcpRetransSegs`.
//!
//! ## How to fix it
//! See where the packets are dropped: by the queue of an interface (`tc -s qdisc`, `ip -s link`), by a firewall, in a full
//! connection table (`conntrack -S`), or beyond this machine. A peer that is switched off or has lost its address looks the
//! same from here.
//!
//! ## Threshold
//! The probe waited for half of the request's time in waits during which a segment was sent again, or a round trip takes
//! 40% of it. With a critical path, at least half of the request is time in which no task of this machine worked on it.
//! Where the listen queue was full, the kernel drops packets itself, and that is the cause (`listen-queue-full`).
//! Only the connections of probes over TCP are known, not those of the service.
//!
//! ## References
//! tcp(7), `TCP_INFO`; Linux, net/ipv4/tcp_timer.c, `tcp_retransmit_timer()`; ss(8); nstat(8).

use crate::path_words::manual;
use crate::spent_time::{CONFIRMED, LIKELY, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Area, Finding, Missing, Quantity, SegmentDelivery, Severity};

/// Time in which no task of this machine worked on the request.
pub(crate) const UNATTENDED: &[TimeClass] =
    &[TimeClass::Network, TimeClass::Idle, TimeClass::TimeLimit, TimeClass::Unknown];

/// Of the request's time, the share of waits with retransmissions, and of one round trip.
const LEAST_RETRANSMITTING_PERCENT: f64 = 50.0;
const LEAST_ROUND_TRIP_PERCENT: f64 = 40.0;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(delivery) = delayed_delivery(stall) else { return Ok(None) };
    let peer = delivery.peer.map_or_else(|| "the service".to_owned(), |peer| peer.to_string());
    let is_lost = delivery.retransmitted > 0;
    let did = if is_lost { "lost" } else { "delayed" };
    let command = match delivery.peer {
        Some(peer) => format!("ss -tino dst '{peer}'; nstat -az TcpRetransSegs; tc -s qdisc"),
        None => "nstat -az TcpRetransSegs; tc -s qdisc".to_owned(),
    };
    let finding = Finding::new(
        Severity::Critical,
        Area::Network,
        format!("the network {did} packets to {peer}"),
    )
    .with_evidence(
        "segments that were sent again",
        Quantity::Count(delivery.retransmitted.into()),
        "TCP_INFO",
    )
    .with_evidence(
        "segments without acknowledgement",
        Quantity::Count(delivery.unacknowledged.into()),
        "TCP_INFO",
    )
    .with_evidence(
        "round trip",
        Quantity::Milliseconds(delivery.round_trip_us as f64 / 1000.0),
        "TCP_INFO",
    )
    .with_impact(
        "Nobody answers a request that does not arrive; the kernel sends it again later and later.",
    )
    .with_remedy(manual("see where packets are dropped", &command));
    Ok(match stall.request {
        Some(request) => {
            SpentTime::on(request, UNATTENDED).map(|time| time.cause(finding, CONFIRMED))
        }
        None => Some(Suspect::of_score(finding, LIKELY.into())),
    })
}

/// True if loss or delay on the network explains time in which no task of this machine worked on the request.
pub(crate) fn explains(stall: &StallWindow<'_>, spent: TimeClass) -> bool {
    UNATTENDED.contains(&spent) && delayed_delivery(stall).is_some()
}

/// Delivery of the slowest request, where loss or delay took a large part of its time.
fn delayed_delivery<'a>(stall: &StallWindow<'a>) -> Option<&'a SegmentDelivery> {
    let delivery = stall.incident.delivery.as_ref()?;
    let service = stall.incident.service.as_ref();
    if service.and_then(|service| service.listen_queue).is_some_and(|queue| queue.is_full()) {
        return None;
    }
    let worst_ms = stall.incident.trigger.worst_ms;
    let is_share = |ms: f64, percent: f64| ms > 0.0 && ms * 100.0 >= worst_ms * percent;
    let is_lost = delivery.retransmitted > 0
        && is_share(delivery.retransmitting_ms as f64, LEAST_RETRANSMITTING_PERCENT);
    let is_late = is_share(delivery.round_trip_us as f64 / 1000.0, LEAST_ROUND_TRIP_PERCENT);
    (is_lost || is_late).then_some(delivery)
}
