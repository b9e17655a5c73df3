//! The first cause of a stall whose request waits where a process of lab/waits does, by construction.
//!
//! The machine is at rest, and no counter moves: the stack alone tells. What it cannot tell is the cause unknown.

use super::store::StoredKernel;
use super::waits::{KINDS, PAGE, PROC, StackSource, TRACE, column};
use anyhow::Context as _;
use mw_collect::input;
use mw_critical_path::{
    PathPart, PathSummary, PathTask, TimeKind, UserPlace, Wait, WaitLink, wait_of,
};
use mw_model::{Host, Incident, Sample, Service, ServiceProcess, Trigger, TriggerKind, Window};
use std::collections::{BTreeMap, BTreeSet};
use xtask::workspace::{read, root};

/// A machine of which nothing is wrong.
const HEALTHY: &str = "healthy/debian-6.12";

const REQUEST_MS: u64 = 5000;
const BEGAN_MS: u64 = 1_700_000_000_000;

/// First causes that are wrong, and what is no longer true of the page.
pub(crate) fn problems(kernels: &[StoredKernel]) -> anyhow::Result<Vec<String>> {
    let calm = machine_at_rest()?;
    let mut problems = Vec::new();
    let mut by_cause: BTreeMap<String, BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
    for kernel in kernels {
        for (kind, _, right) in KINDS {
            let stack = stack_of(kernel, kind).filter(|_| !TRACE.is_untold(kind));
            let Some(stack) = stack else { continue };
            let cause = first_cause(&calm, kind, &stack);
            if let Some(wrong) = cause.as_deref().filter(|cause| !right.contains(cause)) {
                let stack = stack.join(" < ");
                problems.push(format!(
                    "{}: the cause of a wait of kind {kind} is {wrong}, not {right:?}: {stack}",
                    kernel.name
                ));
            }
            let cause = cause.map_or("unknown".to_owned(), |cause| format!("`{cause}`"));
            by_cause
                .entry(cause)
                .or_default()
                .entry(*kind)
                .or_default()
                .insert(column(&kernel.name));
        }
    }
    let table = table(&by_cause);
    if !read(&root().join(PAGE))?.contains(&table) {
        problems.push(format!("{PAGE}: the table of causes should be\n{table}"));
    }
    Ok(problems)
}

/// The traced stack, where the kernel has it.
fn stack_of(kernel: &StoredKernel, kind: &str) -> Option<Vec<String>> {
    let of = |source: &StackSource| source.stack_of(kernel, kind).filter(|stack| !stack.is_empty());
    of(&TRACE).or_else(|| of(&PROC))
}

fn machine_at_rest() -> anyhow::Result<Window> {
    let archive = mw_test::fixture(HEALTHY);
    let source = input::open(&archive).with_context(|| archive.display().to_string())?;
    let mut window = mw_collect::window(&source);
    let now = &window.now.sample;
    window.earlier = vec![Sample { at_ms: now.at_ms - REQUEST_MS as f64, ..now.clone() }];
    Ok(window)
}

fn first_cause(calm: &Window, kind: &str, stack: &[String]) -> Option<String> {
    let mut incident = stall(kind, stack);
    mw_rules::explain(&mut incident, calm, Some(calm));
    incident.causes.into_iter().next().map(|cause| cause.finding.rule)
}

/// A probed service, of which one thread waits in this stack for as long as the request takes.
fn stall(kind: &str, stack: &[String]) -> Incident {
    let probe = PathTask { tid: 5, name: "mw-probe".to_owned(), process: 5, ..PathTask::default() };
    let cgroup = Some("/system.slice/service.service".to_owned());
    let server =
        PathTask { tid: 812, name: kind.to_owned(), process: 812, cgroup, ..PathTask::default() };
    let total_ns = REQUEST_MS * 1_000_000;
    let waits = PathPart {
        kind: TimeKind::Waiting(wait_of(stack).unwrap_or(Wait::Unknown)),
        total_ns,
        task: server.clone(),
        inferred: false,
        holder: None,
        holders: Vec::new(),
        work: None,
        stack: stack.to_owned(),
        waker_stack: Vec::new(),
        user: UserPlace::default(),
    };
    let asks = WaitLink {
        waiter: probe.clone(),
        wait: Wait::Poll,
        other: server,
        inferred: false,
        stack: Vec::new(),
        user: UserPlace::default(),
    };
    let path = PathSummary {
        task: probe,
        total_ns,
        parts: vec![waits],
        chain: vec![asks],
        ..PathSummary::default()
    };
    let processes = vec![ServiceProcess { pid: 812, name: kind.to_owned() }];
    Incident {
        id: 1,
        host: Host { cpus: 4, memory_bytes: 2 << 30, page_bytes: 4096, ..Host::default() },
        trigger: Trigger {
            kind: TriggerKind::Probe,
            name: kind.to_owned(),
            limit_ms: 500.0,
            worst_ms: REQUEST_MS as f64,
            failure: None,
            failure_kind: None,
        },
        started_unix_ms: BEGAN_MS,
        seen_unix_ms: BEGAN_MS + 500,
        ended_unix_ms: BEGAN_MS + REQUEST_MS,
        path: Some(path),
        service: Some(Service { processes, ..Service::default() }),
        ..Incident::default()
    }
}

/// Kinds by first cause, in Markdown. A kind that not every kernel gives this cause has the kernels beside it.
fn table(by_cause: &BTreeMap<String, BTreeMap<&str, BTreeSet<String>>>) -> String {
    let causes_of = |kind: &str| by_cause.values().filter(|kinds| kinds.contains_key(kind)).count();
    let mut lines = vec!["| first cause | kinds |".to_owned(), "|---|---|".to_owned()];
    for (cause, kinds) in by_cause {
        let name = |(kind, kernels): (&&str, &BTreeSet<String>)| match causes_of(kind) {
            1 => (*kind).to_owned(),
            _ => format!("{kind} ({})", Vec::from_iter(kernels.iter().cloned()).join(", ")),
        };
        let names: Vec<String> = kinds.iter().map(name).collect();
        lines.push(format!("| {cause} | {} |", names.join(", ")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_first_cause_is_a_rule() {
        for rule in KINDS.iter().flat_map(|(_, _, causes)| causes.iter()) {
            assert!(mw_rules::find(rule).is_some(), "{rule}");
        }
    }
}
