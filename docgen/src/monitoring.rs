//! What is generated for Prometheus, Grafana and Kubernetes from the rules and the table of metrics: docs/metrics.md,
//! alerts with their tests, dashboards, conditions of nodes.

mod alerts;
mod dashboards;
mod npd;

use mw_metrics::{FAMILIES, Family};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Every generated file with its content.
pub(crate) fn files(files: &mut BTreeMap<PathBuf, Vec<u8>>) -> anyhow::Result<()> {
    files.insert("docs/metrics.md".into(), page().into());
    let alerts = alerts::all();
    files.insert("packaging/prometheus/memwright.rules.yml".into(), alerts::rules(&alerts).into());
    files.insert("packaging/prometheus/memwright.tests.yml".into(), alerts::tests(&alerts).into());
    for (name, dashboard) in [("host", dashboards::host()), ("fleet", dashboards::fleet())] {
        let text = serde_json::to_string_pretty(&dashboard)? + "\n";
        files.insert(format!("packaging/grafana/memwright-{name}.json").into(), text.into());
    }
    for (name, config) in [("monitor", npd::plugin()), ("kernel-log", npd::kernel_log())] {
        let text = serde_json::to_string_pretty(&config)? + "\n";
        files.insert(format!("packaging/kubernetes/memwright-{name}.json").into(), text.into());
    }
    Ok(())
}

fn page() -> String {
    let mut page = include_str!("monitoring/metrics.md").to_owned();
    page += "| metric | type | labels | meaning |\n|---|---|---|---|\n";
    for Family { name, kind, labels, recorder_only, help, .. } in FAMILIES {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let only = if *recorder_only { " Recorder only." } else { "" };
        let (kind, labels) = (kind.name(), labels.join(", "));
        page += &format!("| `{name}` | {kind} | {labels} | {help}{only} |\n");
    }
    page
}
