//! Dashboards for Grafana, in the classic schema, which every version provisions from files.

use serde_json::{Value, json};

const SCHEMA: u32 = 39;

/// A panel: title, what it shows, the unit, the queries with their legends, and whether it is a table.
struct DashboardPanel {
    title: &'static str,
    description: &'static str,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
    kind: &'static str,
}

const HOST: &[DashboardPanel] = &[
    DashboardPanel {
        title: "Findings",
        description: "Rules with a finding now; memwright check on the host has the evidence and the remedy.",
        unit: "none",
        queries: &[(
            "memwright_finding{job=~\"$job\",instance=~\"$instance\"}",
            "{{rule}} ({{severity}})",
        )],
        kind: "table",
    },
    DashboardPanel {
        title: "Rules by outcome",
        description: "How many rules found something, passed, or could not be checked.",
        unit: "none",
        queries: &[("memwright_rules{job=~\"$job\",instance=~\"$instance\"}", "{{state}}")],
        kind: "stat",
    },
    DashboardPanel {
        title: "Allocatable memory",
        description: "Largest request that memwright check --for answers with yes, by NUMA node and page size.",
        unit: "bytes",
        queries: &[(
            "memwright_allocatable_bytes{job=~\"$job\",instance=~\"$instance\"}",
            "node {{numa_node}} {{page_size}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Unusable free memory",
        description: "Share of free memory in blocks too small for an order-9 request (a 2 MiB huge page on x86).",
        unit: "percentunit",
        queries: &[(
            "memwright_unusable_free_ratio{job=~\"$job\",instance=~\"$instance\",order=\"9\"}",
            "node {{numa_node}} {{zone}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Held memory",
        description: "Memory that reclaim cannot free without swap.",
        unit: "bytes",
        queries: &[(
            "memwright_held_bytes{job=~\"$job\",instance=~\"$instance\"}",
            "node {{numa_node}} {{by}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Huge pages",
        description: "Pages of the hugetlb pools by state; available are free and not reserved.",
        unit: "none",
        queries: &[(
            "memwright_hugepages{job=~\"$job\",instance=~\"$instance\"}",
            "{{page_size}} {{state}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Time until huge pages run out",
        description: "By the recorder's hourly forecast; no line where they do not decline steadily.",
        unit: "s",
        queries: &[(
            "memwright_exhaustion_seconds{job=~\"$job\",instance=~\"$instance\"}",
            "{{supply}} {{page_size}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Stalls by cause",
        description: "Stalls an hour, by probe and cause.",
        unit: "none",
        queries: &[(
            "sum by (probe, cause) (increase(memwright_stalls_total{job=~\"$job\",instance=~\"$instance\"}[1h]))",
            "{{probe}}: {{cause}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Stalled time",
        description: "Share of time in stalls, by probe.",
        unit: "percentunit",
        queries: &[(
            "sum by (probe) (rate(memwright_stall_seconds_sum{job=~\"$job\",instance=~\"$instance\"}[$__rate_interval]))",
            "{{probe}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Time lost to culprits",
        description: "Seconds that victims lost in stalls an hour, by culprit and cause.",
        unit: "s",
        queries: &[(
            "sum by (victim, culprit, cause) (increase(memwright_blame_seconds_total{job=~\"$job\",instance=~\"$instance\"}[1h]))",
            "{{victim}} to {{culprit}}: {{cause}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Settings",
        description: "Kernel settings that rules judge.",
        unit: "none",
        queries: &[("memwright_setting{job=~\"$job\",instance=~\"$instance\"}", "{{name}}")],
        kind: "table",
    },
];

const FLEET: &[DashboardPanel] = &[
    DashboardPanel {
        title: "Hosts by finding",
        description: "Hosts on which a rule has a finding of at least a warning.",
        unit: "none",
        queries: &[(
            "count by (rule, severity) (memwright_finding{job=~\"$job\",instance=~\"$instance\",severity=~\"warning|critical\"})",
            "{{rule}} ({{severity}})",
        )],
        kind: "table",
    },
    DashboardPanel {
        title: "Hosts that could not be checked",
        description: "Hosts whose kernel files are hidden or do not respond.",
        unit: "none",
        queries: &[(
            "count(memwright_checked{job=~\"$job\",instance=~\"$instance\"} == 0) or vector(0)",
            "hosts",
        )],
        kind: "stat",
    },
    DashboardPanel {
        title: "Least allocatable memory",
        description: "The ten NUMA nodes with the least memory for a request of base pages.",
        unit: "bytes",
        queries: &[(
            "bottomk(10, memwright_allocatable_bytes{job=~\"$job\",instance=~\"$instance\",page_size=\"4k\"})",
            "{{instance}} node {{numa_node}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Most fragmented",
        description: "The ten zones with the largest share of free memory in blocks smaller than order 9.",
        unit: "percentunit",
        queries: &[(
            "topk(10, memwright_unusable_free_ratio{job=~\"$job\",instance=~\"$instance\",order=\"9\",zone=\"Normal\"})",
            "{{instance}} node {{numa_node}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Huge pages run out first",
        description: "The ten hosts whose huge pages run out first, by the recorder's hourly forecast.",
        unit: "s",
        queries: &[(
            "bottomk(10, memwright_exhaustion_seconds{job=~\"$job\",instance=~\"$instance\"})",
            "{{instance}} {{supply}} {{page_size}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Stalls by cause",
        description: "Stalls of all hosts an hour, by cause.",
        unit: "none",
        queries: &[(
            "sum by (cause) (increase(memwright_stalls_total{job=~\"$job\",instance=~\"$instance\"}[1h]))",
            "{{cause}}",
        )],
        kind: "timeseries",
    },
    DashboardPanel {
        title: "Hosts by version",
        description: "Versions of memwright.",
        unit: "none",
        queries: &[(
            "count by (version) (memwright_build_info{job=~\"$job\",instance=~\"$instance\"})",
            "{{version}}",
        )],
        kind: "stat",
    },
];

pub(super) fn host() -> Value {
    dashboard("memwright-host", "memwright: host", HOST, false)
}

pub(super) fn fleet() -> Value {
    dashboard("memwright-fleet", "memwright: fleet", FLEET, true)
}

fn dashboard(uid: &str, title: &str, panels: &[DashboardPanel], is_fleet: bool) -> Value {
    let panels: Vec<Value> =
        panels.iter().enumerate().map(|(index, panel)| self::panel(index, panel)).collect();
    json!({
        "uid": uid,
        "title": title,
        "tags": ["memwright"],
        "schemaVersion": SCHEMA,
        "editable": false,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [
            {
                "name": "datasource",
                "label": "Data source",
                "type": "datasource",
                "query": "prometheus",
            },
            variable("job", "Job", "label_values(memwright_build_info, job)", true),
            variable(
                "instance",
                "Instance",
                "label_values(memwright_build_info{job=~\"$job\"}, instance)",
                is_fleet,
            ),
        ]},
        "panels": panels,
    })
}

fn variable(name: &str, label: &str, query: &str, is_multi: bool) -> Value {
    json!({
        "name": name,
        "label": label,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": is_multi,
        "includeAll": is_multi,
        "allValue": ".+",
    })
}

fn panel(index: usize, panel: &DashboardPanel) -> Value {
    const WIDTH: usize = 12;
    const HEIGHT: usize = 8;
    let is_table = panel.kind != "timeseries";
    let target = |(number, (expr, legend)): (usize, &(&str, &str))| {
        json!({
            "refId": char::from(b'A' + u8::try_from(number).unwrap_or(0)).to_string(),
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "expr": expr,
            "legendFormat": legend,
            "instant": is_table,
            "range": !is_table,
            "format": if panel.kind == "table" { "table" } else { "time_series" },
        })
    };
    let targets: Vec<Value> = panel.queries.iter().enumerate().map(target).collect();
    json!({
        "id": index + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {
            "x": index % 2 * WIDTH,
            "y": index / 2 * HEIGHT,
            "w": WIDTH,
            "h": HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    })
}
