//! What Kubernetes' node-problem-detector reads: conditions of a node, each decided by some rules alone, and the lines
//! of the kernel's log that say that memory could not be allocated.

use mw_rules::NodeCondition;
use serde_json::{Value, json};

/// Path of the host's root in the container of node-problem-detector, and of memwright on the host.
const HOST: &str = "/host";
const PROGRAM: &str = "/host/usr/bin/memwright";

/// Of a check, which takes some 30 ms on an idle node.
const INTERVAL: &str = "60s";
const TIMEOUT: &str = "10s";

/// Reasons and patterns (of Go's regexp) of the kernel's log: mm/page_alloc.c, `warn_alloc`; mm/hugetlb.c. Kills and hung
/// tasks are in the configuration that node-problem-detector comes with.
const LINES: &[(&str, &str)] = &[
    ("PageAllocationFailure", r"page allocation failure: order:\d+.*"),
    ("HugePageAllocationShort", r"HugeTLB: allocating \d+ of page size .* failed.*"),
];

/// The custom plugin: its configuration. Keys are in the order of the alphabet, with every feature of serde_json.
pub(super) fn plugin() -> Value {
    let conditions = NodeCondition::ALL.iter().map(|condition| {
        let (reason, message) = condition.fine();
        json!({ "message": message, "reason": reason, "type": condition.name() })
    });
    let rules = NodeCondition::ALL.iter().flat_map(|condition| {
        condition.rules().map(|rule| {
            json!({
                "args": [
                    "check", "--root", HOST, "--format", "npd", "--after", "3m", "--only", rule.id,
                ],
                "condition": condition.name(),
                "path": PROGRAM,
                "reason": rule.camel_case(),
                "timeout": TIMEOUT,
                "type": "permanent",
            })
        })
    });
    json!({
        "conditions": conditions.collect::<Vec<_>>(),
        "metricsReporting": true,
        "plugin": "custom",
        "pluginConfig": {
            "concurrency": 1,
            "invoke_interval": INTERVAL,
            "max_output_length": 80,
            "timeout": TIMEOUT,
        },
        "rules": rules.collect::<Vec<_>>(),
        "source": "memwright",
    })
}

/// The monitor of the kernel's log: its configuration. Its events have no condition.
pub(super) fn kernel_log() -> Value {
    let rules = LINES.iter().map(
        |(reason, pattern)| json!({ "type": "temporary", "reason": reason, "pattern": pattern }),
    );
    json!({
        "bufferSize": 10,
        "conditions": [],
        "logPath": "/dev/kmsg",
        "lookback": "5m",
        "metricsReporting": true,
        "plugin": "kmsg",
        "rules": rules.collect::<Vec<_>>(),
        "source": "memwright-kernel-log",
    })
}
