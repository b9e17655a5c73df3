//! # lock-wait
//!
//! A session waited for a lock that another session held.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The task that served the request waited for another task of the same
//! service, which slept, idled or computed meanwhile: a lock of a table or row, or a mutex. Memory was not
//! the cause.
//!
//! ## Why it hurts
//! A lock that is held by a session which waits for its client, or that runs long, stops all that need it.
//! The machine is idle.
//!
//! ## What it looks like
//! pg_stat_activity has `wait_event_type` Lock, and pg_blocking_pids() names the session that holds it;
//! SHOW ENGINE INNODB STATUS has `LOCK WAIT`.
//!
//! ## How to fix it
//! Find the session that holds the lock (`SELECT pg_blocking_pids(PID)`) and why its transaction stays
//! open; set `lock_timeout` and `idle_in_transaction_session_timeout`.
//!
//! ## Threshold
//! The wait takes at least half of the request, and no wait of the other task for memory, disk or CPU
//! explains it. Threads of a Java virtual machine that wait while it collects garbage wait for no lock.
//!
//! ## References
//! PostgreSQL, "Explicit Locking", pg_locks; MariaDB, information_schema.INNODB_LOCK_WAITS.

use crate::path_words::{manual, named, why};
use crate::request::RequestTime;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::{PathPart, Wait, WaitLink};
use mw_model::{Area, Finding, Missing, Quantity, Remedy, ServiceSession, Severity};

const LIKELY: u8 = 85;
/// The service says it itself.
const CONFIRMED: u8 = 95;

/// Ways in which the task that holds a lock spends its time: of these none is a resource.
pub(crate) const HOLDING: &[TimeClass] = &[
    TimeClass::Sleep,
    TimeClass::TimeLimit,
    TimeClass::Idle,
    TimeClass::Lock,
    TimeClass::Computing,
    TimeClass::Network,
    TimeClass::Unknown,
];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some((spent, part)) = request.main() else { return Ok(None) };
    // All threads of a virtual machine wait for its own, and some of them for each other.
    if !HOLDING.contains(&spent) || request.path.main_pause().is_some() {
        return Ok(None);
    }
    // Of locks behind each other the last one is held by the task that keeps them all waiting.
    let link = request.path.chain.iter().rfind(|link| is_within_service(link));
    let session = blocked_session(stall, request);
    let (headline, sure) = match (session, link) {
        (Some(session), _) => (of_sessions(session), CONFIRMED),
        (None, Some(link)) => (of_tasks(stall, link), LIKELY),
        (None, None) => return Ok(None),
    };
    let mut finding = Finding::new(Severity::Warning, Area::Service, headline)
        .with_impact("Every session that needs the lock waits for its holder.")
        .with_remedy(remedy(stall, link, part));
    if let Some(link) = link {
        let wait = Quantity::Text(link.wait.label().to_owned());
        finding = finding.with_evidence(of_tasks(stall, link), wait, "critical path");
    }
    if let (Some(session), Some(view)) = (session, &stall.incident.service_view) {
        let wait = session.waits_in.clone().unwrap_or_else(|| session.state.clone());
        let what = format!("session {}", session.session);
        finding = finding.with_evidence(what, Quantity::Text(wait), view.source.clone());
    }
    let explains = request.percent(HOLDING);
    let explains = if part.task.tid == request.path.task.tid { 0.0 } else { explains };
    Ok(Some(Suspect::new(finding, sure).explaining(explains)))
}

/// Way to find the holder: as the server reports it, where it is known; else by what the waiting process does.
fn remedy(stall: &StallWindow<'_>, link: Option<&WaitLink>, part: &PathPart) -> Remedy {
    const POSTGRES: &str =
        "psql -c 'SELECT pid, pg_blocking_pids(pid), query FROM pg_stat_activity'";
    const MYSQL: &str = "mysql -e 'SHOW ENGINE INNODB STATUS'";
    const BY_NAME: [(&str, &str); 3] =
        [("postgres", POSTGRES), ("mariadbd", MYSQL), ("mysqld", MYSQL)];
    let name = link.map_or("", |link| {
        link.waiter.process_name.as_deref().unwrap_or(link.waiter.name.as_str())
    });
    let of_view = stall.incident.service_view.as_ref().map_or("", |view| view.source.as_str());
    let by_view = [("pg_", POSTGRES), ("information_schema", MYSQL), ("SHOW", MYSQL)];
    let by_view = by_view.iter().find(|(source, _)| of_view.starts_with(source));
    let known = by_view.or_else(|| BY_NAME.iter().find(|(server, _)| *server == name));
    if let Some((_, command)) = known {
        return manual("find the session that holds the lock", command);
    }
    let holder = link.map_or(&part.task, |link| &link.other);
    manual("see what the holder of the lock does", &why(holder))
}

/// The session of the request that waits for another one, by the service's own view. PostgreSQL numbers sessions as
/// their processes, which the path has. Of sessions that wait behind each other the last is taken, else the longest wait.
fn blocked_session<'a>(
    stall: &StallWindow<'a>,
    request: &RequestTime<'_>,
) -> Option<&'a ServiceSession> {
    const NUMBERED: &str = "pg_";
    let view = stall.incident.service_view.as_ref()?;
    let blocked = || view.sessions.iter().filter(|session| !session.blocked_by.is_empty());
    let is_blocked = |number: &u64| blocked().any(|session| session.session == *number);
    let is_last = |session: &ServiceSession| !session.blocked_by.iter().any(is_blocked);
    let of_request = |session: &&ServiceSession| {
        !view.source.starts_with(NUMBERED) || request.has_task(session.session)
    };
    blocked().filter(of_request).max_by_key(|session| (is_last(session), session.for_ms))
}

fn of_sessions(session: &ServiceSession) -> String {
    let blockers: Vec<String> = session.blocked_by.iter().map(u64::to_string).collect();
    format!("session {} blocked session {}", blockers.join(", "), session.session)
}

fn of_tasks(stall: &StallWindow<'_>, link: &WaitLink) -> String {
    format!("{} blocked {}", named(stall, &link.other), named(stall, &link.waiter))
}

/// True if both are tasks of one service that wait for each other in a lock: threads of one process, or processes
/// of one name in one cgroup.
fn is_within_service(link: &WaitLink) -> bool {
    let (waiter, other) = (&link.waiter, &link.other);
    let of_one_process = waiter.process == other.process && waiter.process != 0;
    // That of a task that has ended is not known.
    let of_one_group =
        waiter.cgroup == other.cgroup || waiter.cgroup.is_none() || other.cgroup.is_none();
    let of_one_name = waiter.name == other.name && of_one_group;
    let by_lock = match link.wait {
        Wait::Futex | Wait::Semaphore | Wait::Mutex => true,
        // System V semaphores and latches: between processes only.
        Wait::Poll | Wait::Worker | Wait::Signal => !of_one_process,
        _ => false,
    };
    by_lock && (of_one_process || of_one_name)
}
