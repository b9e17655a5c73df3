//! # network-wait
//!
//! A task of the service waited for a peer on the network.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. For most of the request a task waited, and a packet from the network ended
//! the wait. That the peer was slow and that packets were lost look the same from here. Memory was not the cause.
//!
//! ## Why it hurts
//! The answer of another machine was late, or packets were lost and TCP sent them again: after 1 s, 3 s and 7 s for a
//! new connection, and after 200 ms and more for an open one.
//!
//! ## What it looks like
//! `ss -tin` has `retrans` and a large `rtt` for the connection, or its peer just does not answer. This machine is idle.
//!
//! ## How to fix it
//! Look at the connections of the task (`ss -tinp`): with retransmissions it is the network, without any it is the peer.
//!
//! ## Threshold
//! The wait takes at least half of the request. Where the probe's own connection waited and the service's listen queue
//! was full, that is the cause (`listen-queue-full`), and where it lost packets, `network-loss`. Without a critical path,
//! this rule finds nothing.
//!
//! ## References
//! ss(8); tcp(7), `tcp_syn_retries`.

use crate::path_words::{manual, named};
use crate::rules::listen_queue_full::{self, PEER};
use crate::rules::network_loss;
use crate::spent_time::{SEEN, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{Area, Finding, Missing, Severity};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(time) = SpentTime::on(request, PEER) else { return Ok(None) };
    if listen_queue_full::explains(stall, &time) || network_loss::explains(stall, time.spent) {
        return Ok(None);
    }
    let task = &time.part.task;
    let headline = format!("{} waited for a peer on the network", named(stall, task));
    let command = match task.pid() {
        Some(pid) => format!("ss -tinp | grep -A1 pid={pid},"),
        None => "ss -tinp".to_owned(),
    };
    let finding = Finding::new(Severity::Warning, Area::Network, headline)
        .with_impact("The answer of another machine was late, or packets were lost.")
        .with_remedy(manual("look at the connections of the task", &command));
    Ok(Some(time.cause(finding, SEEN)))
}
