//! Failures that are told apart from slowness: an immediate one has no cause on this machine but what ended the
//! service.

use crate::diagnosis::{Diagnosis, suspects_by};
use crate::oom_words::process;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    Area, EndKind, FailureKind, Finding, Incident, ProcessEnd, ProcessKill, Quantity, Remedy,
    Severity, SkippedRule, Step,
};

/// The service said it itself.
const CERTAIN: u8 = 95;

/// The cause of a stall in which the service failed at once, or the OOM killer ended it; `None` where it was slow.
pub(crate) fn diagnose(stall: &StallWindow<'_>, _: &mut Vec<SkippedRule>) -> Option<Diagnosis> {
    let trigger = &stall.incident.trigger;
    let kind = trigger.failure_kind.filter(|kind| *kind != FailureKind::TimedOut)?;
    let outage = stall.incident.outage.as_ref();
    let end = outage.and_then(|outage| outage.ended.as_ref());
    // It is slow before its end: its tasks reclaim until no page is left.
    let is_of_memory = |end| kill_of(stall.incident, end).is_some_and(ProcessKill::is_of_memory);
    let is_oom_killed = end.is_some_and(|end| end.how == EndKind::OomKilled || is_of_memory(end));
    if !trigger.failed_at_once() && !is_oom_killed {
        return None;
    }
    let of_failures = crate::RULES.iter().filter(|rule| rule.has_cause() && rule.is_of_failures);
    // A rule that could not be checked is no help here: the service said itself why it failed.
    let suspects = suspects_by(of_failures, stall, &mut Vec::new()).into_iter();
    let mut causes: Vec<_> =
        suspects.map(Suspect::by_strength).filter(|cause| cause.score.is_plausible()).collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.score));
    causes.push(by_itself(stall, kind).by_strength());
    Some(Diagnosis { causes, ..Diagnosis::default() })
}

/// The failure in the service's own words.
fn by_itself(stall: &StallWindow<'_>, kind: FailureKind) -> Suspect {
    let said = stall.incident.trigger.failure.clone().unwrap_or_default();
    let (what, command) = advice(kind);
    // Where the service answered, its own words say more than that it listens.
    let outage = stall.incident.outage.as_ref().filter(|outage| !outage.listens);
    let ended = outage.and_then(|outage| outage.ended.as_ref());
    let killed = ended.and_then(|end| kill_of(stall.incident, end));
    let ended = ended.map(|ended| killed.map_or_else(|| end(ended), ProcessKill::headline));
    // Of a process that is gone only the log is left.
    let command = if ended.is_some() { "journalctl -u UNIT -n 50" } else { command };
    // Another process may have taken the service's place: its words are quoted.
    let own_words = (is_in_words(kind) && !said.is_empty()).then(|| format!("it said '{said}'"));
    let headline = ended.or(own_words).unwrap_or_else(|| what.to_owned());
    let finding = Finding::new(Severity::Warning, Area::Service, headline)
        .with_evidence("error of the service", Quantity::Text(said), "probe")
        .with_impact("The request failed at once; nothing on this machine delayed it.")
        .with_remedy(Remedy::named("check the service and its log", vec![Step::manual(command)]));
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
    let rule = crate::registry::last_resort().to_owned();
    Suspect::new(Finding { rule, ..finding }, CERTAIN)
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

fn advice(kind: FailureKind) -> (&'static str, &'static str) {
    match kind {
        FailureKind::Refused => ("connection refused", "ss -ltnp"),
        FailureKind::Reset => ("the peer reset the connection", "journalctl -u UNIT -n 50"),
        FailureKind::Closed => ("the peer closed the connection", "journalctl -u UNIT -n 50"),
        FailureKind::Unreachable => ("the address is unreachable", "ip route get ADDRESS"),
        FailureKind::NameResolution => ("the host name was not resolved", "getent hosts NAME"),
        FailureKind::Authentication => ("the login was refused", "journalctl -u UNIT -n 50"),
        FailureKind::Tls => ("the TLS handshake failed", "openssl s_client -connect ADDRESS"),
        FailureKind::HttpStatus => ("the service answered with an error", "curl -i URL"),
        FailureKind::ExitCode => ("the command of the probe failed", "journalctl -u UNIT -n 50"),
        FailureKind::Killed => ("the command of the probe was killed", "journalctl -k -n 50"),
        FailureKind::OutOfMemory => {
            ("the service could not allocate memory", "journalctl -u UNIT -n 50")
        }
        FailureKind::NoSpace => ("a file system of the service was full", "df -h"),
        FailureKind::ServiceError => ("the service reported an error", "journalctl -u UNIT -n 50"),
        FailureKind::Malformed => ("the answer was malformed", "ss -ltnp"),
        FailureKind::TimedOut | FailureKind::Other => ("the request failed", "journalctl -n 50"),
    }
}
