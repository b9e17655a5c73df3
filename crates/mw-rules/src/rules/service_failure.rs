//! # service-failure
//!
//! The service failed at once: it refused the request, answered with an error, or had ended.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The probe's request failed before its limit had passed, so that it was not
//! slow; or the OOM killer or a daemon ended the service. The headline is how the service's process ended, else the
//! service's own words, else the kind of failure.
//!
//! ## Why it hurts
//! Clients get errors until the service answers again, however idle the machine is.
//!
//! ## What it looks like
//! `connection refused`, a reset connection, an HTTP status that is an error, a login that is refused, a failed
//! handshake; the unit is in state failed, or restarts.
//!
//! ## How to fix it
//! Check the service and its log: `journalctl -u UNIT -n 50`.
//!
//! ## Threshold
//! The failure came before the probe's limit. Where another rule explains the failure, such as `oom-kill` or
//! `disk-full`, that is the cause, and this one is listed after it.
//!
//! ## References
//! systemctl(1); journalctl(1).

use crate::named_limit;
use crate::oom_words::process;
use crate::path_words::unit_of_service;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    Area, EndKind, FailureKind, Finding, Incident, Missing, ProcessEnd, ProcessKill, Quantity,
    Remedy, Severity, Step,
};

/// The service said it itself.
pub(crate) const CERTAIN: u8 = 95;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    Ok(kind(stall).map(|kind| by_itself(stall, kind)))
}

/// An outage lasts so many times as long as the slowest answer.
const OUTAGE_TIMES: f64 = 3.0;

/// How the service failed at once, at a limit that it names, or before the OOM killer ended it; `None` where it was slow.
pub(crate) fn kind(stall: &StallWindow<'_>) -> Option<FailureKind> {
    let trigger = &stall.incident.trigger;
    let kind = trigger.failure_kind.filter(|kind| *kind != FailureKind::TimedOut)?;
    let outage = stall.incident.outage.as_ref();
    let end = outage.and_then(|outage| outage.ended.as_ref());
    // It is slow before its end: its tasks reclaim until no page is left.
    let is_of_memory = |end| kill_of(stall.incident, end).is_some_and(ProcessKill::is_of_memory);
    let is_oom_killed = end.is_some_and(|end| end.how == EndKind::OomKilled || is_of_memory(end));
    // An answer may be slow before it or after it: the service says itself what refuses the others.
    let is_refused =
        stall.length_ms() >= trigger.worst_ms * OUTAGE_TIMES && named_limit::named(stall).is_some();
    (trigger.failed_at_once() || is_oom_killed || is_refused).then_some(kind)
}

/// The failure in the service's own words.
fn by_itself(stall: &StallWindow<'_>, kind: FailureKind) -> Suspect {
    let said = stall.incident.trigger.failure.clone().unwrap_or_default();
    let (what, look) = advice(kind);
    // Where the service answered, its own words say more than that it listens.
    let outage = stall.incident.outage.as_ref().filter(|outage| !outage.listens);
    let ended = outage.and_then(|outage| outage.ended.as_ref());
    let killed = ended.and_then(|end| kill_of(stall.incident, end));
    let ended = ended.map(|ended| killed.map_or_else(|| end(ended), ProcessKill::headline));
    // Of a process that is gone only the log is left.
    let look = if ended.is_some() { Look::UnitLog } else { look };
    // Another process may have taken the service's place: its words are quoted.
    let own_words = (is_in_words(kind) && !said.is_empty()).then(|| format!("it said '{said}'"));
    let headline = ended.or(own_words).unwrap_or_else(|| what.to_owned());
    let finding = Finding::new(Severity::Warning, Area::Service, headline)
        .with_evidence("error of the service", Quantity::Text(said), "probe")
        .with_impact("The request failed at once: it was refused, and not slow.")
        .with_remedy(Remedy::named("check the service and its log", vec![look.step(stall)]));
    let finding = match killed {
        Some(kill) => finding.with_evidence(
            "signal",
            Quantity::Text(kill.signal.name().to_owned()),
            "signal:signal_generate",
        ),
        None => finding,
    };
    let finding = match outage.filter(|outage| !outage.text.is_empty()) {
        Some(outage) => {
            let text = Quantity::Text(outage.text.clone());
            finding.with_evidence("the service", text, "sockets, processes")
        }
        None => finding,
    };
    Suspect::new(finding, CERTAIN)
}

/// The kill of the process of the service that ended.
pub(crate) fn kill_of<'a>(incident: &'a Incident, end: &ProcessEnd) -> Option<&'a ProcessKill> {
    let kill = incident.kill.as_ref()?;
    (kill.victim.process.pid == end.process.pid).then_some(kill)
}

/// How a process of the service ended.
fn end(end: &ProcessEnd) -> String {
    let who = process(&end.process);
    match (end.how, end.signal) {
        (EndKind::Signalled, Some(signal)) => format!("{who} was ended by signal {signal}"),
        (EndKind::OomKilled, _) => format!("the OOM killer killed {who}"),
        _ => format!("{who} exited"),
    }
}

/// Whether the error says more than its kind.
fn is_in_words(kind: FailureKind) -> bool {
    use FailureKind::{Authentication, ExitCode, HttpStatus, Killed, Other};
    use FailureKind::{NoSpace, OutOfMemory, ServiceError};
    matches!(kind, Authentication | ExitCode | HttpStatus | Killed | Other)
        || matches!(kind, NoSpace | OutOfMemory | ServiceError)
}

/// Where the reason of a failure is found.
#[derive(Clone, Copy)]
enum Look {
    Command(&'static str),
    UnitLog,
}

impl Look {
    fn step(self, stall: &StallWindow<'_>) -> Step {
        match self {
            Self::Command(command) => Step::manual(command),
            Self::UnitLog => unit_log(stall),
        }
    }
}

/// The log of the service's unit.
pub(crate) fn unit_log(stall: &StallWindow<'_>) -> Step {
    Step::manual(format!("journalctl -u {} -n 50", unit_of_service(stall)))
}

fn advice(kind: FailureKind) -> (&'static str, Look) {
    use Look::{Command, UnitLog};
    match kind {
        FailureKind::Refused => ("connection refused", Command("ss -ltnp")),
        FailureKind::Reset => ("the peer reset the connection", UnitLog),
        FailureKind::Closed => ("the peer closed the connection", UnitLog),
        FailureKind::Unreachable => ("the address is unreachable", Command("ip route get ADDRESS")),
        FailureKind::NameResolution => {
            ("the host name was not resolved", Command("getent hosts NAME"))
        }
        FailureKind::Authentication => ("the login was refused", UnitLog),
        FailureKind::Tls => {
            ("the TLS handshake failed", Command("openssl s_client -connect ADDRESS"))
        }
        FailureKind::HttpStatus => ("the service answered with an error", Command("curl -i URL")),
        FailureKind::ExitCode => ("the command of the probe failed", UnitLog),
        FailureKind::Killed => {
            ("the command of the probe was killed", Command("journalctl -k -n 50"))
        }
        FailureKind::OutOfMemory => ("the service could not allocate memory", UnitLog),
        FailureKind::NoSpace => ("a file system of the service was full", Command("df -h")),
        FailureKind::ServiceError => ("the service reported an error", UnitLog),
        FailureKind::Malformed => ("the answer was malformed", Command("ss -ltnp")),
        FailureKind::TimedOut | FailureKind::Other => {
            ("the request failed", Command("journalctl -n 50"))
        }
    }
}
