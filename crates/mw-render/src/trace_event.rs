//! The critical path in the Trace Event Format, which Perfetto's UI and chrome://tracing open.
//!
//! Each task of the path is a track; each part is a complete event (`"ph": "X"`) on it, times in microseconds.

use mw_critical_path::{CriticalPath, PathSummary, RunMode, Tid, TimeKind, Trace, UnseenReason};
use serde_json::{Value, json};

/// The path as a JSON document, with the places in programs that its summary has.
pub fn json(trace: &Trace, path: &CriticalPath, summary: &PathSummary) -> String {
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
            "args": {
                "stack": trace.stack(part.stack),
                "waker": trace.stack(part.waker_stack),
                "user": user_functions(summary, tid, part.kind),
            },
        }));
    }
    let document = json!({ "displayTimeUnit": "ms", "traceEvents": events });
    mw_model::visible::json(&document.to_string()) + "\n"
}

/// Functions of its program in which a task mostly was during parts of one kind.
fn user_functions(summary: &PathSummary, task: Tid, kind: TimeKind) -> &[String] {
    let of_part = summary.parts.iter().find(|part| (part.task.tid, part.kind) == (task, kind));
    of_part.map_or(&[], |part| &part.user.functions)
}

fn microseconds(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

fn category(kind: TimeKind) -> &'static str {
    match kind {
        TimeKind::Running(_) => "running",
        TimeKind::Runnable(_) => "runnable",
        TimeKind::Waiting(_) | TimeKind::TimedOut(_) | TimeKind::Idle(_) => "waiting",
        TimeKind::Stopped => "stopped",
        TimeKind::Unseen(_) => "not traced",
    }
}

fn name(kind: TimeKind) -> String {
    match kind {
        TimeKind::Running(RunMode::Kernel(work)) => format!("kernel: {}", work.label()),
        TimeKind::Running(RunMode::In(wait)) => format!("kernel: {}", wait.label()),
        TimeKind::Running(RunMode::User) => "user mode".to_owned(),
        TimeKind::Waiting(wait)
        | TimeKind::TimedOut(wait)
        | TimeKind::Idle(wait)
        | TimeKind::Unseen(UnseenReason::NotWoken(wait)) => wait.label().to_owned(),
        other => category(other).to_owned(),
    }
}
