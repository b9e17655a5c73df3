//! What an incident says in lists of lines, alike in the terminal and in HTML. The lines are not escaped.

use mw_model::{
    BlameShare, Cause, HeartbeatKind, HeartbeatReport, Incident, Service, ServiceSession,
    ServiceView, format_duration_ms,
};

/// The most lines of one list.
const MAX_LINES: usize = 12;

/// A list under a heading.
pub(crate) struct Section {
    pub(crate) heading: &'static str,
    pub(crate) lines: Vec<String>,
}

/// The lists that have lines.
pub(crate) fn sections(incident: &Incident) -> Vec<Section> {
    let section = |heading, lines: Vec<String>| Section { heading, lines };
    let all = [
        section("blame", blamed(incident)),
        section("contributing causes", contributed(incident)),
        section("ruled out", ruled_out(incident)),
        section("the service", service(incident)),
        section(
            "the service's own view",
            incident.service_view.as_ref().map(view).unwrap_or_default(),
        ),
    ];
    let cut = |mut section: Section| {
        section.lines.truncate(MAX_LINES);
        section
    };
    all.into_iter().filter(|section| !section.lines.is_empty()).map(cut).collect()
}

/// What belongs to a headline and is not in it: `slow-disk, 97% of the slowest request, confidence 97%`.
pub fn badge(cause: &Cause) -> String {
    let share = cause.explains_percent;
    let share = share.map_or(String::new(), |p| format!(", {p}% of the slowest request"));
    format!("{}{share}, confidence {}%", cause.finding.rule, cause.confidence_percent)
}

/// What cluster software reported, with the time since the stall began.
pub(crate) fn heartbeats(incident: &Incident) -> Vec<String> {
    let said = |report: &HeartbeatReport| {
        let HeartbeatReport { unix_ms, software, says, line, times, .. } = report;
        let when = match unix_ms.checked_sub(incident.started_unix_ms) {
            Some(after) => format!("{} after the stall began", format_duration_ms(after as f64)),
            None => "shortly before".to_owned(),
        };
        let what = match says {
            HeartbeatKind::Late => "was late with a heartbeat",
            HeartbeatKind::Unheard => "did not hear another machine, which may have stalled itself",
        };
        let times = if *times > 1 { format!(", {times} times") } else { String::new() };
        format!("{software} {what}, {when}{times}: {line}")
    };
    incident.heartbeats.iter().take(MAX_LINES).map(said).collect()
}

/// Time that the victim lost, by culprit.
fn blamed(incident: &Incident) -> Vec<String> {
    let line = |share: &BlameShare| {
        let time = format_duration_ms(share.lost_ms as f64);
        let (victim, culprit, cause) = (&share.victim, &share.culprit, share.cause_name());
        match (share.is_own(), share.is_proven()) {
            (true, _) => format!("{victim} lost {time} at its own limit ({cause})"),
            (false, true) => format!("{victim} lost {time} to {culprit} ({cause})"),
            (false, false) => format!("{victim} lost {time} to an unknown culprit ({cause})"),
        }
    };
    incident.blame.iter().map(line).collect()
}

fn contributed(incident: &Incident) -> Vec<String> {
    let line = |cause: &Cause| {
        let percent = cause.explains_percent.unwrap_or(0);
        format!("{percent}% of the request: {} ({})", cause.finding.headline, cause.finding.rule)
    };
    incident.contributed.iter().map(line).collect()
}

fn ruled_out(incident: &Incident) -> Vec<String> {
    incident.ruled_out.iter().map(|out| format!("{}: {}", out.what, out.why)).collect()
}

fn service(incident: &Incident) -> Vec<String> {
    let found = incident.service.as_ref().map(named);
    let outage = incident.outage.as_ref().map(|outage| outage.text.clone());
    found.into_iter().chain(outage.filter(|text| !text.is_empty())).collect()
}

fn named(service: &Service) -> String {
    let first = service.processes.first();
    let process = first.map_or_else(
        || "no process".to_owned(),
        |process| format!("{} ({})", process.name, process.pid),
    );
    let more = match service.processes.len() {
        0 | 1 => String::new(),
        2 => " and another process".to_owned(),
        count => format!(" and {} more processes", count - 1),
    };
    let place = service.unit.as_ref().or(service.cgroup.as_ref());
    let place = place.map_or(String::new(), |place| format!(", {place}"));
    format!("{process}{more}{place}; {}", service.found_by)
}

fn view(view: &ServiceView) -> Vec<String> {
    let values = view.values.iter().map(|value| format!("{} {}", value.name, value.value));
    let events = view.events.iter().map(|event| {
        let took = event.took_ms.map_or(String::new(), |ms| format!(" {}", format_duration_ms(ms)));
        format!("{}:{took} {}", event.source, event.text)
    });
    view.sessions.iter().map(session).chain(values).chain(events).collect()
}

fn session(session: &ServiceSession) -> String {
    let waits =
        session.waits_in.as_ref().map_or(String::new(), |wait| format!(", waits in {wait}"));
    let blockers: Vec<String> = session.blocked_by.iter().map(u64::to_string).collect();
    let blocked = match blockers.is_empty() {
        true => String::new(),
        false => format!(", blocked by {}", blockers.join(", ")),
    };
    let time = session
        .for_ms
        .map_or(String::new(), |ms| format!(" for {}", format_duration_ms(ms as f64)));
    let query = session.query.as_ref().map_or(String::new(), |query| format!(": {query}"));
    format!(
        "session {} ({}): {}{time}{waits}{blocked}{query}",
        session.session, session.who, session.state
    )
}
