//! The recorder's own threads: they are evidence of what they met, and no part of the service.

use crate::made::Made;
use crate::paths::{explained, group, link, made, task, with_group};
use mw_critical_path::{CpuHolder, PathTask, RunMode, TimeKind, Wait};
use mw_model::{GroupUse, TriggerKind, WaitKind};

const RECORDER: u32 = 230;

fn thread(tid: u32, name: &str) -> PathTask {
    PathTask { process: RECORDER, ..task(tid, name) }
}

/// The parts are of a thread of the recorder for which its probe waited.
fn held_up(parts: &[(TimeKind, u64)]) -> Made {
    let mut made = made(parts);
    made.incident.recorder = RECORDER;
    let (probe, helper) = (thread(5, "mw-probe-db"), thread(234, "mw-helper"));
    if let Some(path) = made.incident.path.as_mut() {
        path.task = probe.clone();
        path.chain = vec![link(&probe, Wait::Futex, &helper)];
        path.parts.iter_mut().for_each(|part| part.task = helper.clone());
    }
    made
}

/// An allocation of the probe waited for one of another thread of the recorder, which the shortage delayed as it did the
/// service.
#[test]
fn a_probe_that_waited_for_the_recorder_says_nothing_of_the_service() {
    let parts =
        [(TimeKind::Runnable(CpuHolder::Unknown), 70), (TimeKind::TimedOut(Wait::Poll), 28)];
    let unknown = explained(&held_up(&parts));
    assert!(unknown.causes.is_empty(), "{:?}", unknown.verdict);
    let reclaimed = held_up(&parts).waits((812, "postgres"), WaitKind::DirectReclaim, 7_900, 9);
    let reclaimed = explained(&reclaimed);
    assert_eq!(reclaimed.causes[0].finding.rule, "reclaim-storm", "{}", reclaimed.verdict);
    // What it met itself, others met as well.
    let met = explained(&held_up(&[(TimeKind::Waiting(Wait::DirectReclaim), 95)]));
    assert_eq!(met.causes[0].finding.rule, "reclaim-storm", "{}", met.verdict);
}

/// Any request computes; none waits for memory unless memory is short.
#[test]
fn a_shortage_of_memory_is_the_cause_from_three_tenths_on_where_nothing_explains_more() {
    let explained_beside = |recorder, memory, computed| {
        let parts = [
            (TimeKind::Waiting(Wait::CgroupReclaim), memory),
            (TimeKind::Running(RunMode::User), computed),
            (TimeKind::Runnable(CpuHolder::Tracer), recorder),
        ];
        let made = with_group(made(&parts), GroupUse { max_events: Some(900), ..group() });
        let incident = explained(&made);
        let first = incident.causes.into_iter().next();
        first.map(|cause| (cause.finding.rule, cause.confidence_percent < 40))
    };
    let explained = |memory, computed| explained_beside(0, memory, computed);
    assert_eq!(explained(42, 30), Some(("cgroup-limit".to_owned(), true)));
    assert_eq!(explained(42, 45), None, "neither explains half");
    assert_eq!(explained(28, 20), None);
    assert_eq!(explained(20, 55).map(|(rule, _)| rule).as_deref(), Some("service-itself"));
    // The recorder works because something stalls.
    let first = |recorder, memory| explained_beside(recorder, memory, 20).map(|(rule, _)| rule);
    assert_eq!(first(28, 26).as_deref(), Some("cgroup-limit"));
    assert_eq!(first(28, 20), None);
    assert_eq!(first(55, 36).as_deref(), Some("recorder-itself"));
}

#[test]
fn what_memwright_takes_itself_is_subtracted() {
    let explained = |own: u64, rest: u64| {
        let parts = [
            (TimeKind::Runnable(CpuHolder::Tracer), own),
            (TimeKind::Waiting(Wait::CgroupReclaim), rest),
        ];
        let made = with_group(made(&parts), GroupUse { max_events: Some(900), ..group() });
        let cause = explained(&made).causes.into_iter().next().unwrap();
        (cause.finding.rule, cause.explains_percent, cause.finding.headline)
    };
    let (rule, explains, _) = explained(40, 45);
    assert_eq!((rule.as_str(), explains), ("cgroup-limit", Some(75)));
    let (rule, explains, headline) = explained(70, 20);
    assert_eq!((rule.as_str(), explains), ("recorder-itself", Some(70)));
    assert!(headline.contains("memwright itself"), "{headline}");
}

/// The canary shares its address space with all threads of the recorder, and waits for those that reclaim.
#[test]
fn a_thread_of_the_recorder_is_no_sufferer_in_a_headline() {
    let mut made = made(&[(TimeKind::Waiting(Wait::DirectReclaim), 95)]).trigger(
        TriggerKind::Canary,
        "canary",
        13_400.0,
    );
    let helper = thread(234, "mw-helper");
    made.incident.recorder = RECORDER;
    if let Some(path) = made.incident.path.as_mut() {
        path.task = thread(231, "mw-canary");
        path.parts.iter_mut().for_each(|part| part.task = helper.clone());
    }
    let verdict = explained(&made).verdict;
    assert!(verdict.contains("reclaim memory directly") && !verdict.contains("mw-"), "{verdict}");
    let beside = made.clone().waits((812, "postgres"), WaitKind::DirectReclaim, 9_000, 90);
    let suffering = explained(&beside).suffering;
    assert!(suffering.iter().any(|role| role.task == "postgres"), "{suffering:?}");
    // Without a path as well.
    let mut counted = made.clone().waits((231, "mw-canary"), WaitKind::DirectReclaim, 13_000, 9);
    counted.incident.path = None;
    let alone = explained(&counted);
    assert!(
        alone.verdict.contains("reclaim memory directly") && !alone.verdict.contains("mw-"),
        "{}",
        alone.verdict
    );
    assert_eq!(alone.suffering[0].task, "mw-canary", "nobody else did");
    let beside = explained(&counted.waits((812, "postgres"), WaitKind::DirectReclaim, 900, 9));
    let suffering: Vec<&str> = beside.suffering.iter().map(|role| role.task.as_str()).collect();
    assert_eq!(suffering, ["postgres"]);
    if let Some(path) = made.incident.path.as_mut() {
        path.parts.iter_mut().for_each(|part| part.kind = TimeKind::Waiting(Wait::FileRead));
    }
    let evidence = format!("{:?}", explained(&made).causes[0].finding.evidence);
    assert!(evidence.contains("a thread of memwright's own"), "{evidence}");
}
