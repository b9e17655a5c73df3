//! Alerts: one for each rule that finds hazards, and those of the recorder; and their tests for promtool.

use mw_rules::{RULES, Rule};

const PAGES: &str = "https://github.com/memwright/memwright/blob/main/docs";

/// The label of the host in tests.
const HOST: &str = "db1:9818";

pub(super) struct Alert {
    name: String,
    expr: String,
    wait: &'static str,
    /// None where the metric has one.
    severity: Option<&'static str>,
    summary: String,
    description: String,
    runbook: String,
    /// Series with which it fires after half an hour, with those of their labels that the alert has.
    fires: Vec<(&'static str, String, &'static str)>,
    /// Those labels.
    labels: Vec<(&'static str, String)>,
    /// Values of the same series with which it does not fire.
    quiet: &'static str,
}

pub(super) fn all() -> Vec<Alert> {
    let hazards = RULES.iter().filter(|rule| rule.has_hazard()).map(finding);
    hazards.chain(of_recorder()).collect()
}

fn finding(rule: &Rule) -> Alert {
    let id = rule.id;
    Alert {
        name: format!("Memwright{}", rule.camel_case()),
        expr: format!("memwright_finding{{rule=\"{id}\",severity!=\"note\"}} > 0"),
        wait: "15m",
        severity: None,
        summary: format!("{{{{ $labels.instance }}}}: {id}"),
        description: format!(
            "{} Run memwright check on the host for the evidence and the remedy.",
            rule.summary()
        ),
        runbook: format!("{PAGES}/rules/{id}.md"),
        fires: vec![("memwright_finding", format!("rule=\"{id}\",severity=\"critical\""), "1x60")],
        labels: vec![("rule", id.to_owned()), ("severity", "critical".to_owned())],
        quiet: "1x5 _x55",
    }
}

fn of_recorder() -> Vec<Alert> {
    let alert = |name: &str, expr: &str, summary: &str, description: &str| Alert {
        name: name.to_owned(),
        expr: expr.to_owned(),
        wait: "5m",
        severity: Some("warning"),
        summary: format!("{{{{ $labels.instance }}}}: {summary}"),
        description: description.to_owned(),
        runbook: format!("{PAGES}/metrics.md"),
        fires: Vec::new(),
        labels: Vec::new(),
        quiet: "1x60",
    };
    let of = |label: &str| format!("{{{{ $labels.{label} }}}}");
    vec![
        Alert {
            // A cause has no series before its first stall, so that increase() would miss that one.
            expr: "(memwright_stalls_total - memwright_stalls_total offset 15m) > 0 or \
                   (memwright_stalls_total unless memwright_stalls_total offset 15m) > 0"
                .to_owned(),
            wait: "0m",
            runbook: format!(
                "{PAGES}/{{{{ if eq $labels.cause \"unknown\" }}}}watch{{{{ else }}}}rules/{}{{{{ end }}}}.md",
                of("cause")
            ),
            fires: vec![(
                "memwright_stalls_total",
                "cause=\"zone-reclaim\",probe=\"db\"".to_owned(),
                "_x25 1x35",
            )],
            labels: vec![("cause", "zone-reclaim".to_owned()), ("probe", "db".to_owned())],
            quiet: "3x60",
            ..alert(
                "MemwrightStall",
                "",
                &format!("{} stalled by {}", of("probe"), of("cause")),
                "A stall within the last 15 minutes. Run memwright report last on the host for its evidence.",
            )
        },
        Alert {
            severity: Some("critical"),
            wait: "1m",
            runbook: format!("{PAGES}/watch.md"),
            fires: vec![("memwright_stalls_open", "probe=\"db\"".to_owned(), "0x20 1x40")],
            labels: vec![("probe", "db".to_owned())],
            quiet: "0x60",
            ..alert(
                "MemwrightStallOpen",
                "memwright_stalls_open > 0",
                &format!("{} stalls", of("probe")),
                "A stall has lasted for more than a minute. Run memwright report last on the host for its cause so far.",
            )
        },
        Alert {
            // As of a cause, a series is not there before its first stall.
            expr: "(memwright_blame_seconds_total{culprit!~\"unknown|others\"} - \
                   memwright_blame_seconds_total offset 1h) > 60 or \
                   (memwright_blame_seconds_total{culprit!~\"unknown|others\"} unless \
                   memwright_blame_seconds_total offset 1h) > 60"
                .to_owned(),
            wait: "0m",
            runbook: format!("{PAGES}/blame.md"),
            fires: vec![(
                "memwright_blame_seconds_total",
                "victim=\"db.service\",culprit=\"backup.service\",cause=\"page-cache-flood\""
                    .to_owned(),
                "_x25 90x35",
            )],
            labels: vec![
                ("victim", "db.service".to_owned()),
                ("culprit", "backup.service".to_owned()),
                ("cause", "page-cache-flood".to_owned()),
            ],
            quiet: "59x60",
            ..alert(
                "MemwrightBlame",
                "",
                &format!(
                    "{} lost more than a minute to {} by {}",
                    of("victim"),
                    of("culprit"),
                    of("cause")
                ),
                "Stalls within the last hour, as the critical paths of requests prove. Run memwright blame on the host for all culprits.",
            )
        },
        Alert {
            wait: "15m",
            runbook: format!("{PAGES}/trends.md"),
            fires: vec![(
                "memwright_exhaustion_seconds",
                "supply=\"huge-pages\",page_size=\"2M\"".to_owned(),
                "40000x60",
            )],
            labels: vec![("supply", "huge-pages".to_owned()), ("page_size", "2M".to_owned())],
            quiet: "90000x60",
            ..alert(
                "MemwrightExhaustion",
                "memwright_exhaustion_seconds < 86400",
                &format!("{} pages run out within a day", of("page_size")),
                "They have declined steadily in the recording. Run memwright trends on the host for how fast, and for the holder that grows.",
            )
        },
        Alert {
            wait: "15m",
            fires: vec![("memwright_checked", String::new(), "0x60")],
            ..alert(
                "MemwrightNotChecked",
                "memwright_checked == 0",
                "memory could not be checked",
                "Files of the kernel are hidden or do not respond. Run memwright check on the host for the reason.",
            )
        },
        Alert {
            fires: vec![("memwright_recording_up", String::new(), "0x60")],
            ..alert(
                "MemwrightRecordingStopped",
                "memwright_recording_up == 0",
                "the recording is not written",
                "The recorder runs, but cannot write its recording. Its log has the reason.",
            )
        },
        Alert {
            fires: vec![("memwright_sample_timestamp_seconds", String::new(), "0x60")],
            quiet: "0+60x60",
            ..alert(
                "MemwrightSamplesStale",
                "time() - memwright_sample_timestamp_seconds > 120",
                "the recorder does not sample",
                "The recorder answers, but has not read the counters for two minutes.",
            )
        },
        Alert {
            fires: vec![("memwright_check_timestamp_seconds", String::new(), "0x60")],
            quiet: "0+60x60",
            ..alert(
                "MemwrightMetricsStale",
                "time() - memwright_check_timestamp_seconds > 600",
                "metrics are older than ten minutes",
                "What writes the file of node_exporter's textfile collector has stopped, or the recorder does.",
            )
        },
    ]
}

pub(super) fn rules(alerts: &[Alert]) -> String {
    let mut out = String::from(
        "# Generated by cargo xtask docs.\ngroups:\n  - name: memwright\n    rules:\n",
    );
    for alert in alerts {
        out += &format!("      - alert: {}\n        expr: {}\n", alert.name, quoted(&alert.expr));
        out += &format!("        for: {}\n", alert.wait);
        if let Some(severity) = alert.severity {
            out += &format!("        labels:\n          severity: {severity}\n");
        }
        out += "        annotations:\n";
        for (name, text) in annotations(alert) {
            out += &format!("          {name}: {}\n", quoted(text));
        }
    }
    out
}

fn annotations(alert: &Alert) -> [(&'static str, &str); 3] {
    [
        ("summary", &*alert.summary),
        ("description", &*alert.description),
        ("runbook_url", &*alert.runbook),
    ]
}

/// Each alert fires on its series, and not on a healthy machine's.
pub(super) fn tests(alerts: &[Alert]) -> String {
    let mut out = String::from(
        "# Generated by cargo xtask docs.\nrule_files: [memwright.rules.yml]\nevaluation_interval: 1m\ntests:\n",
    );
    for alert in alerts {
        for is_quiet in [false, true] {
            out += "  - interval: 1m\n    input_series:\n";
            for (metric, labels, values) in &alert.fires {
                let comma = if labels.is_empty() { "" } else { "," };
                let series = format!("{metric}{{instance=\"{HOST}\"{comma}{labels}}}");
                let values = if is_quiet { alert.quiet } else { values };
                out += &format!("      - series: {}\n        values: {values}\n", quoted(&series));
            }
            out += &format!("    alert_rule_test:\n      - alertname: {}\n", alert.name);
            out += "        eval_time: 30m\n";
            out += if is_quiet { "        exp_alerts: []\n" } else { "        exp_alerts:\n" };
            if !is_quiet {
                out += &expected(alert);
            }
        }
    }
    out
}

fn expected(alert: &Alert) -> String {
    let mut out = format!("          - exp_labels:\n              instance: {}\n", quoted(HOST));
    for (name, value) in &alert.labels {
        out += &format!("              {name}: {value}\n");
    }
    if let Some(severity) = alert.severity {
        out += &format!("              severity: {severity}\n");
    }
    out += "            exp_annotations:\n";
    for (name, text) in annotations(alert) {
        let mut text = text
            .replace("{{ if eq $labels.cause \"unknown\" }}watch{{ else }}", "")
            .replace("{{ end }}", "")
            .replace("{{ $labels.instance }}", HOST);
        for (label, value) in &alert.labels {
            text = text.replace(&format!("{{{{ $labels.{label} }}}}"), value);
        }
        out += &format!("              {name}: {}\n", quoted(&text));
    }
    out
}

/// A YAML string.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
