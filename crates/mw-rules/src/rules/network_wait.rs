//! # network-wait
//!
//! A task of the service waited for a peer on the network.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. For most of the request a task waited, and a packet from the network ended
//! the wait; or its process had sent a request that the peer acknowledged and did not answer. The connections of the
//! process name the peer. Memory was not the cause.
//!
//! ## Why it hurts
//! The answer of another machine was late: of a database, a name server, an object store. Where no connection tells, packets
//! may have been lost as well, which TCP sends again after 200 ms and more, and after 1 s, 3 s and 7 s for a new connection.
//!
//! ## What it looks like
//! This machine is idle. `ss -tin` has a connection of the task whose `lastsnd` is shorter than its `lastrcv`, and no
//! `unacked`.
//!
//! ## How to fix it
//! See why the peer does not answer. Where none is named, look at the connections of the task (`ss -tinp`): with
//! retransmissions it is the network, without any it is the peer.
//!
//! ## Threshold
//! The wait takes at least half of the request. A peer is named if the process in which the critical path ends opened a
//! connection to it, sent what the peer acknowledged, at most 1 s before the stall, and received nothing since for at least
//! half of the stall until it was read, and for 200 ms; the same of a connection that is not established, and of a
//! UDP socket that is connected to port 53. Connections are read when a stall is seen, twice a second, and less often as it
//! lasts. An idle connection of a pool, a client's connection, and one that never brought an answer are none. Of a peer at an
//! address of the loopback device the confidence is low, unless a packet ended the wait.
//!
//! Where the probe's own connection waited and the service's listen queue was full, that is the cause
//! (`listen-queue-full`), and where packets were lost, `network-loss`. Without a critical path, this rule finds nothing.
//!
//! ## References
//! ss(8); sock_diag(7); tcp(7), `TCP_INFO`, `tcp_syn_retries`.

use crate::awaited_peer::AwaitedPeer;
use crate::path_words::{manual, named};
use crate::rules::listen_queue_full::{self, PEER};
use crate::rules::network_loss;
use crate::spent_time::{CONFIRMED, LIKELY, POSSIBLE, SEEN, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::PathPart;
use mw_model::{Area, Finding, Missing, Remedy, Severity};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(time) = longest(stall) else { return Ok(None) };
    if listen_queue_full::explains(stall, &time) || network_loss::explains(stall, &time) {
        return Ok(None);
    }
    let task = &time.part.task;
    let who = named(stall, task);
    let Some(peer) = AwaitedPeer::of_part(stall, time.spent, time.part) else {
        let headline = format!("{who} waited for a peer on the network");
        let finding = Finding::new(Severity::Warning, Area::Network, headline)
            .with_impact("The answer of another machine was late, or packets were lost.")
            .with_remedy(connections(task.pid()));
        return Ok(Some(time.cause(finding, SEEN)));
    };
    let headline = format!("{who} waited for {}", peer.awaited());
    let finding = peer
        .describe(Finding::new(Severity::Warning, Area::Network, headline))
        .with_impact("The service is as slow as the peer that it asks.")
        .with_remedy(peer.remedy("see why the peer does not answer"));
    let sure = match PEER.contains(&time.spent) && peer.is_only_one() {
        // What the peer did is on this machine, and was not seen.
        false if peer.is_of_this_machine() => POSSIBLE,
        false => LIKELY,
        true => CONFIRMED,
    };
    Ok(Some(time.cause(finding, sure)))
}

/// True if a peer on the network was waited for in this time, by a connection of the process.
pub(crate) fn explains(stall: &StallWindow<'_>, time: &SpentTime<'_>) -> bool {
    AwaitedPeer::of_part(stall, time.spent, time.part).is_some()
}

/// Waits that a packet ended, or those of a process that waited for a peer: whichever took longer.
fn longest<'a>(stall: &StallWindow<'a>) -> Option<SpentTime<'a>> {
    let request = stall.request?;
    let waits = |spent, part: &PathPart| AwaitedPeer::of_part(stall, spent, part).is_some();
    let by_peer = SpentTime::of(request, waits);
    let by_packet = SpentTime::on(request, PEER);
    let times = by_packet.into_iter().chain(by_peer);
    times.max_by(|a, b| a.percent().total_cmp(&b.percent()))
}

fn connections(pid: Option<u32>) -> Remedy {
    let command = match pid {
        Some(pid) => format!("ss -tinp | grep -A1 pid={pid},"),
        None => "ss -tinp".to_owned(),
    };
    manual("look at the connections of the task", &command)
}
