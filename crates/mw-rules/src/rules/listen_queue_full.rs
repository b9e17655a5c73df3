//! # listen-queue-full
//!
//! The service accepted no connections, and its listen queue overflowed.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The probe's own connection waited for most of the request, and more
//! connections waited to be accepted than the backlog of the service's socket allows. Neither memory nor the network was
//! the cause.
//!
//! ## Why it hurts
//! The kernel drops the packets of further connections. Their clients try again after 1 s, 3 s and 7 s.
//!
//! ## What it looks like
//! Recv-Q of `ss -ltn` exceeds Send-Q for the service's address; `nstat` counts TcpExtListenOverflows.
//!
//! ## How to fix it
//! Find out why the service does not accept: all its worker threads may be busy or blocked. Then raise its backlog, and
//! net.core.somaxconn, which bounds it.
//!
//! ## Threshold
//! The wait takes at least half of the request, and the queue was longer than the backlog when the stall was seen.
//!
//! ## References
//! listen(2); tcp(7); Linux, net/ipv4/tcp_ipv4.c, `tcp_v4_syn_recv_sock()`.

use crate::path_words::manual;
use crate::spent_time::{CONFIRMED, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Area, Finding, ListenQueue, Missing, Quantity, Severity};

/// Waits that a packet from the network ended.
pub(crate) const PEER: &[TimeClass] = &[TimeClass::Network];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(time) = SpentTime::on(request, PEER) else { return Ok(None) };
    let Some(queue) = queue(stall, &time) else { return Ok(None) };
    let processes = stall.incident.service.iter().flat_map(|service| &service.processes).next();
    let who = processes.map_or_else(|| "the service".to_owned(), crate::oom_words::process);
    let headline = format!("{who} accepted no connections");
    let finding = Finding::new(Severity::Critical, Area::Service, headline)
        .with_evidence(
            "connections that wait to be accepted",
            Quantity::Count(queue.waiting.into()),
            "sock_diag",
        )
        .with_evidence("backlog", Quantity::Count(queue.limit.into()), "sock_diag")
        .with_impact(
            "Its listen queue was full: the kernel drops further connections, which retry after 1 s, 3 s, 7 s.",
        )
        .with_remedy(manual("see why it does not accept, then raise its backlog", "ss -ltn"));
    Ok(Some(time.cause(finding, CONFIRMED)))
}

/// True if the probe's own connection waited in the queue.
pub(crate) fn explains(stall: &StallWindow<'_>, time: &SpentTime<'_>) -> bool {
    queue(stall, time).is_some()
}

/// The full queue in which the probe's own connection waited: the kernel drops its packets meanwhile.
fn queue(stall: &StallWindow<'_>, time: &SpentTime<'_>) -> Option<ListenQueue> {
    let service = stall.incident.service.as_ref().filter(|_| time.is_of_asker())?;
    service.listen_queue.filter(|queue| queue.is_full())
}
