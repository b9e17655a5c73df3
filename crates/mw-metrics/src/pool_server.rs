//! Metrics of a pool server, which `memwright pool stats --metrics` prints.

use mw_model::{PoolReport, PoolRow};
use std::fmt::Write;

/// A pool server and its pools, in the text format of Prometheus.
pub fn pool_server(report: &PoolReport) -> String {
    let mut text = String::new();
    let server = &report.server;
    for (name, kind, value) in [
        ("budget_bytes", "gauge", server.budget_bytes),
        ("leases_total", "counter", server.leases_total),
        ("requests_total", "counter", server.requests_total),
        ("refused_total", "counter", server.refused_total),
        ("bad_messages_total", "counter", server.bad_messages_total),
        ("stray_descriptors_total", "counter", server.stray_descriptors_total),
    ] {
        let name = format!("memwright_pool_server_{name}");
        let _ = writeln!(text, "# TYPE {name} {kind}\n{name} {value}");
    }
    let _ = writeln!(text, "# TYPE memwright_pool_bytes gauge");
    for pool in &report.pools {
        for (state, bytes) in [
            ("ready", pool.ready_bytes),
            ("leased", pool.leased_bytes),
            ("draining", pool.draining_bytes),
            ("scrubbing", pool.scrubbing_bytes),
            ("kept", pool.kept_bytes),
            ("missing", pool.missing_bytes),
        ] {
            let labels = format!("pool=\"{}\",state=\"{state}\"", pool.name);
            let _ = writeln!(text, "memwright_pool_bytes{{{labels}}} {bytes}");
        }
    }
    for (name, kind, value) in [
        ("leases", "gauge", (|pool| pool.leases.into()) as fn(&PoolRow) -> u64),
        ("leases_total", "counter", |pool| pool.leases_total),
        ("scrubbed_bytes_total", "counter", |pool| pool.scrubbed_bytes_total),
        ("in_trouble", "gauge", |pool| (!pool.trouble.is_empty()).into()),
    ] {
        let _ = writeln!(text, "# TYPE memwright_pool_{name} {kind}");
        for pool in &report.pools {
            let value = value(pool);
            let _ = writeln!(text, "memwright_pool_{name}{{pool=\"{}\"}} {value}", pool.name);
        }
    }
    text
}
