//! The critical path in the Trace Event Format, which Perfetto's UI and chrome://tracing open.
//!
//! Each task of the path is a track; each part is a complete event (`"ph": "X"`) on it, times in microseconds.

use mw_critical_path::{Kind, Path, RunMode, Trace, Unseen};
use serde_json::{Value, json};

/// The path as a JSON document.
pub fn json(trace: &Trace, path: &Path) -> String {
    let mut events: Vec<Value> = Vec::new();
    for hop in &path.hops {
        let (tid, pid) = (hop.task, trace.process(hop.task));
        let name = trace.task_name(tid);
        events.push(json!({
            "name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": { "name": name },
        }));
    }
    for part in &path.parts {
        let tid = path.hops.get(part.hop).map_or(0, |hop| hop.task);
        events.push(json!({
            "name": name(part.kind),
            "cat": category(part.kind),
            "ph": "X",
            "ts": microseconds(part.from.saturating_sub(path.from)),
            "dur": microseconds(part.duration()),
            "pid": trace.process(tid),
            "tid": tid,
            "args": { "stack": trace.stack(part.stack), "waker": trace.stack(part.waker_stack) },
        }));
    }
    let document = json!({ "displayTimeUnit": "ms", "traceEvents": events });
    mw_model::visible::json(&document.to_string()) + "\n"
}

fn microseconds(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

fn category(kind: Kind) -> &'static str {
    match kind {
        Kind::Running(_) => "running",
        Kind::Runnable(_) => "runnable",
        Kind::Waiting(_) | Kind::TimedOut(_) | Kind::Idle(_) => "waiting",
        Kind::Stopped => "stopped",
        Kind::Unseen(_) => "not traced",
    }
}

fn name(kind: Kind) -> String {
    match kind {
        Kind::Running(RunMode::Kernel(work)) => format!("kernel: {}", work.label()),
        Kind::Running(RunMode::In(wait)) => format!("kernel: {}", wait.label()),
        Kind::Running(RunMode::User) => "user mode".to_owned(),
        Kind::Waiting(wait)
        | Kind::TimedOut(wait)
        | Kind::Idle(wait)
        | Kind::Unseen(Unseen::NotWoken(wait)) => wait.label().to_owned(),
        other => category(other).to_owned(),
    }
}
