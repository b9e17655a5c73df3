//! # network-loss
//!
//! Packets of the probe, or of the service to a peer, were lost or took long.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The kernel sent segments of the probe's own connection again, because the
//! other end did not acknowledge them, or their round trip took most of the request; or it sent segments of a connection
//! of the service again, to a peer such as its database, while the service waited. Memory was not the cause.
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
//! The probe waited for 30% of the request's time in waits during which a segment was sent again (answers may be lost as
//! well, which the other end sends again), or a round trip takes 40% of it. With a critical path, at least half of the
//! request is time in which no task of this machine worked on it; while segments were sent again for 80% of its time, a
//! task that only may have had the request did not work on it.
//! Where the listen queue was full, the kernel drops packets itself, and that is the cause (`listen-queue-full`).
//!
//! Of the connections of the service, of those that it asks on this machine and of a probe's command, the process in which
//! the critical path ends has one on which segments were sent again and not acknowledged for at least half of the stall
//! until it was read. Connections that clients opened do not count, but for that of the probe's command.
//!
//! ## References
//! tcp(7), `TCP_INFO`; Linux, net/ipv4/tcp_timer.c, `tcp_retransmit_timer()`; ss(8); nstat(8).

use crate::awaited_peer::{AwaitedPeer, UNATTENDED};
use crate::path_words::{manual, named};
use crate::spent_time::{CONFIRMED, LIKELY, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::{PathPart, TimeClass};
use mw_model::{Area, Finding, Missing, Quantity, SegmentDelivery, Severity};

/// Of the request's time, the share of waits with retransmissions, and of one round trip.
const LEAST_RETRANSMITTING_PERCENT: f64 = 30.0;
const LEAST_ROUND_TRIP_PERCENT: f64 = 40.0;
/// Waits with retransmissions that are nearly all of the request.
const THROUGHOUT_PERCENT: f64 = 80.0;

const IMPACT: &str =
    "Nobody answers a request that does not arrive; the kernel sends it again later and later.";

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(delivery) = delayed_delivery(stall) else { return Ok(of_service(stall)) };
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
    .with_impact(IMPACT)
    .with_remedy(manual("see where packets are dropped", &command));
    Ok(match stall.request {
        Some(request) => SpentTime::of(request, |spent, part| is_unattended(stall, spent, part))
            .map(|time| time.cause(finding, CONFIRMED)),
        None => Some(Suspect::of_score(finding, LIKELY.into())),
    })
}

/// Segments that a process of the service, or its client, sent to a peer, and that were lost.
fn of_service(stall: &StallWindow<'_>) -> Option<Suspect> {
    let is_it = |spent, part: &PathPart| lost_peer(stall, spent, part).is_some();
    let time = SpentTime::of(stall.request?, is_it)?;
    let peer = lost_peer(stall, time.spent, time.part)?;
    let task = &time.part.task;
    let sender = match peer.process().pid == task.process {
        true => named(stall, task),
        false => crate::oom_words::process(peer.process()),
    };
    let headline = format!("the network lost packets from {sender} to {}", peer.label());
    let finding = Finding::new(Severity::Critical, Area::Network, headline);
    let finding = peer
        .describe(finding)
        .with_impact(IMPACT)
        .with_remedy(peer.remedy("see where packets are dropped"));
    Some(time.cause(finding, if peer.is_only_one() { CONFIRMED } else { LIKELY }))
}

fn lost_peer<'a>(
    stall: &StallWindow<'a>,
    spent: TimeClass,
    part: &PathPart,
) -> Option<AwaitedPeer<'a>> {
    AwaitedPeer::of_part(stall, spent, part)
        .or_else(|| AwaitedPeer::of_client(stall, spent, part))
        .filter(AwaitedPeer::is_lost)
}

/// True if loss or delay on the network explains time in which no task of this machine worked on the request.
pub(crate) fn explains(stall: &StallWindow<'_>, time: &SpentTime<'_>) -> bool {
    is_unattended(stall, time.spent, time.part) && delayed_delivery(stall).is_some()
        || lost_peer(stall, time.spent, time.part).is_some()
}

/// The request need not have arrived at a task that is inferred: what the recorder took from it is no work on the request,
/// and nothing is that it did itself while the request's own segments were sent again.
fn is_unattended(stall: &StallWindow<'_>, spent: TimeClass, part: &PathPart) -> bool {
    let is_no_work = || spent == TimeClass::Memwright || is_lost_throughout(stall);
    UNATTENDED.contains(&spent) || part.inferred && is_no_work()
}

/// True if segments of the request were sent again for nearly all of its time: a machine acknowledges what arrives, however
/// slow its programs are.
fn is_lost_throughout(stall: &StallWindow<'_>) -> bool {
    let worst_ms = stall.incident.trigger.worst_ms;
    stall.incident.delivery.as_ref().is_some_and(|delivery| {
        delivery.retransmitted > 0
            && delivery.retransmitting_ms as f64 * 100.0 >= worst_ms * THROUGHOUT_PERCENT
    })
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
