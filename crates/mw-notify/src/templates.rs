//! The bodies of webhooks. Pure.

use crate::Notice;
use crate::receiver_config::WebhookFormat;
use mw_model::{IncidentState, Severity};
use serde_json::{Value, json};

/// Duration for which an open stall counts as lasting where nobody ends it.
const OPEN_MS: u64 = 24 * 3600 * 1000;

pub(crate) fn body(
    format: WebhookFormat,
    notice: &Notice,
    key: Option<&str>,
    now_unix_ms: u64,
) -> Value {
    match format {
        WebhookFormat::Json => serde_json::to_value(notice).unwrap_or_default(),
        WebhookFormat::Slack => json!({ "text": slack(notice) }),
        WebhookFormat::PagerDuty => pagerduty(notice, key.unwrap_or_default()),
        WebhookFormat::Alertmanager => alertmanager(notice, now_unix_ms),
    }
}

/// Characters of a name that neither call people (`<!channel>`) nor link.
fn slack(notice: &Notice) -> String {
    let text = format!("{}\n{}", notice.line(), notice.report);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn severity(notice: &Notice) -> &'static str {
    match notice.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Note => "info",
    }
}

fn pagerduty(notice: &Notice, key: &str) -> Value {
    const MAX_SUMMARY: usize = 1024;
    let summary: String = notice.line().chars().take(MAX_SUMMARY).collect();
    let action = if notice.opened_as.is_some() { "resolve" } else { "trigger" };
    json!({
        "routing_key": key,
        "event_action": action,
        "dedup_key": notice.key(),
        "payload": {
            "summary": summary,
            "source": notice.host,
            "severity": severity(notice),
            "timestamp": time(notice.started_unix_ms),
            "component": notice.probe,
            "class": notice.cause,
            "custom_details": notice,
        },
    })
}

/// A stall that is over is sent without an end: Alertmanager drops an alert that has ended and never fired, and
/// ends this one after its `resolve_timeout`.
fn alertmanager(notice: &Notice, now_unix_ms: u64) -> Value {
    let ends = match (notice.state, &notice.opened_as) {
        (IncidentState::Open, _) => Some(now_unix_ms + OPEN_MS),
        (_, Some(_)) => Some(now_unix_ms),
        (_, None) => None,
    };
    let opened = notice.opened_as.as_ref();
    let mut labels = json!({
        "alertname": if notice.test { "MemwrightTest" } else { "MemwrightStall" },
        "instance": notice.host,
        "probe": notice.probe,
        "cause": opened.map_or(&notice.cause, |told| &told.cause),
        "severity": severity(notice),
    });
    // Without it the alerts of all cgroups would be one.
    let cgroup = opened.map_or(&notice.cgroup, |told| &told.cgroup);
    if let (Some(cgroup), Some(labels)) = (cgroup, labels.as_object_mut()) {
        labels.insert("cgroup".to_owned(), cgroup.as_str().into());
    }
    let mut alert = json!({
        "labels": labels,
        "annotations": {
            "summary": notice.line(),
            "incident": notice.incident.to_string(),
            "report": notice.report,
        },
        "startsAt": time(notice.started_unix_ms),
    });
    if let (Some(ends), Some(alert)) = (ends, alert.as_object_mut()) {
        alert.insert("endsAt".to_owned(), time(ends).into());
    }
    json!([alert])
}

fn time(unix_ms: u64) -> String {
    let moment =
        i64::try_from(unix_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    moment.unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice_summary::NoticeSummary;

    fn notice(verdict: &str) -> Notice {
        Notice { verdict: verdict.to_owned(), ..Notice::test("db1", 1000) }
    }

    fn told(notice: &Notice) -> NoticeSummary {
        let Notice { source, cause, severity, cgroup, .. } = notice.clone();
        NoticeSummary { key: notice.key(), source, cause, severity, cgroup }
    }

    #[test]
    fn alerts_of_several_cgroups_are_several() {
        let of = |cgroup: &str| Notice { cgroup: Some(cgroup.to_owned()), ..notice("x") };
        let labels = |notice: &Notice| alertmanager(notice, 5000)[0]["labels"].clone();
        assert_eq!(labels(&of("/db"))["cgroup"], "/db");
        assert_ne!(labels(&of("/db")), labels(&of("/user.slice")));
        assert!(labels(&notice("x")).get("cgroup").is_none());
        let over = Notice { opened_as: Some(told(&of("/db"))), ..notice("x") };
        assert_eq!(labels(&over), labels(&of("/db")), "the labels of the beginning");
    }

    #[test]
    fn a_name_calls_nobody() {
        let text = slack(&notice("<!channel> & <http://evil|here>"));
        assert!(!text.contains(['<', '>']), "{text}");
    }

    #[test]
    fn what_was_told_while_it_lasted_is_ended() {
        let open = Notice { state: IncidentState::Open, ..notice("x") };
        let was_open = Notice { cause: "cgroup-limit".to_owned(), ..open.clone() };
        let over = Notice { opened_as: Some(told(&was_open)), ..notice("x") };
        let alert = |notice| alertmanager(notice, 5000)[0].clone();
        assert_eq!(alert(&over)["endsAt"], "1970-01-01T00:00:05Z");
        assert_eq!(alert(&over)["labels"]["cause"], "cgroup-limit", "the labels of the beginning");
        assert_eq!(alert(&open)["endsAt"], "1970-01-02T00:00:05Z");
        assert!(alert(&notice("x")).get("endsAt").is_none());
        assert_eq!(pagerduty(&open, "k")["event_action"], "trigger");
        assert_eq!(pagerduty(&over, "k")["event_action"], "resolve");
        assert_eq!(pagerduty(&open, "k")["dedup_key"], pagerduty(&over, "k")["dedup_key"]);
    }
}
