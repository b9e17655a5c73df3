//! Names that others chose steer no terminal, forge no line and no colour, in any format.
#![allow(clippy::unwrap_used, reason = "tests")]

use mw_critical_path::{
    CpuHolder, MachineOperation, MachinePause, PathPart, PathSummary, PathTask, Sibling, TimeKind,
    UserPlace, Wait, WaitLink,
};
use mw_model::visible::is_invisible;
use mw_model::{
    Answer, Cause, Finding, Incident, IncidentRow, KernelWait, Missing, Obstacle, Preflight,
    Quantity, Remedy, Report, Role, Severity, Shift, SkippedRule, Snapshot, Step, Subject, Trigger,
    Window,
};
use mw_render::text::{self, IncidentList, TextLayout};
use mw_render::{html, json, nagios};
use proptest::prelude::*;

/// What a name may be: ends of lines, colours that no page has, other sequences, turned writing.
fn name() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("\nforged".to_owned()),
        Just("\r".to_owned()),
        Just("\u{1b}[35mforged".to_owned()),
        Just("\u{1b}]0;x\u{7}".to_owned()),
        Just("\u{9b}2J".to_owned()),
        Just("\u{202e}".to_owned()),
        Just("|".to_owned()),
        Just("'".to_owned()),
        "[ -~]{0,8}",
    ];
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.concat())
}

fn finding(name: &str) -> Finding {
    Finding::new(Severity::Warning, Subject::Mount(name.to_owned()), name)
        .with_evidence(name, Quantity::Text(name.to_owned()), name)
        .with_impact(name)
        .with_remedy(Remedy::named(
            name,
            vec![
                Step::manual_on("ls", name),
                Step::manual(name),
                Step::BootParameter { parameter: name.to_owned() },
                Step::write(name, name),
            ],
        ))
}

fn report(name: &str) -> Report {
    let finding = Finding { rule: name.to_owned(), ..finding(name) };
    let missing = Missing::failed(name, name);
    let empty = mw_rules::check(&Window::new(Snapshot::default()), None);
    Report {
        root: name.to_owned(),
        verdict: name.to_owned(),
        findings: vec![finding],
        skipped: vec![SkippedRule { rule: name.to_owned(), missing: missing.clone() }],
        preflight: Some(Preflight {
            request: "1G".parse().unwrap(),
            answer: Answer::No,
            summary: name.to_owned(),
            nodes: Vec::new(),
            dev_shm_bytes: None,
            time: None,
            obstacles: vec![Obstacle {
                what: name.to_owned(),
                blocks: true,
                needed_bytes: None,
                available_bytes: None,
                lift: name.to_owned(),
            }],
            pool_growth: None,
            folios: Vec::new(),
            unseen: vec![missing],
        }),
        ..empty
    }
}

fn path(name: &str) -> PathSummary {
    let task = PathTask {
        tid: 1,
        name: name.to_owned(),
        process: 2,
        process_name: Some(name.to_owned()),
        cgroup: Some(name.to_owned()),
        other_cgroups: vec![name.to_owned()],
    };
    let place = UserPlace {
        functions: vec![name.to_owned()],
        missing: Some(name.to_owned()),
        ..UserPlace::default()
    };
    let part = PathPart {
        kind: TimeKind::Runnable(CpuHolder::Task(3)),
        total_ns: 10,
        task: task.clone(),
        inferred: true,
        holder: Some(task.clone()),
        holders: Vec::new(),
        work: Some(name.to_owned()),
        stack: vec![name.to_owned()],
        waker_stack: vec![name.to_owned()],
        user: place.clone(),
    };
    let link = WaitLink {
        waiter: task.clone(),
        wait: Wait::Socket,
        other: task.clone(),
        inferred: true,
        stack: Vec::new(),
        user: place,
    };
    PathSummary {
        task: task.clone(),
        total_ns: 10,
        parts: vec![part],
        chain: vec![link],
        sibling: Some(Sibling { task: task.clone(), wait: Wait::Disk, total_ns: 5 }),
        pause: Some(MachinePause {
            process: task,
            operation: MachineOperation::Collection,
            total_ns: 5,
        }),
        ..PathSummary::default()
    }
}

fn incident(name: &str) -> Incident {
    let text = || name.to_owned();
    let role = || Role { task: text(), why: text(), ..Role::default() };
    Incident {
        verdict: text(),
        trigger: Trigger { name: text(), failure: Some(text()), ..Trigger::default() },
        path: Some(path(name)),
        causes: vec![Cause::new(finding(name), 50)],
        suffering: vec![role()],
        causing: vec![role()],
        waits: vec![KernelWait { task: text(), ..KernelWait::default() }],
        difference: vec![Shift { function: text(), ..Shift::default() }],
        unseen: vec![Missing::failed(name, name)],
        ..Incident::default()
    }
}

fn check(page: &str, colours: &[&str]) {
    let mut plain = page.to_owned();
    for colour in colours {
        plain = plain.replace(colour, "");
    }
    let bad = plain.chars().find(|c| *c != '\n' && is_invisible(*c));
    assert_eq!(bad, None, "{plain:?}");
    assert!(!page.lines().any(|line| line.starts_with("forged")), "{page}");
}

/// The colours of the pages.
const COLOURS: [&str; 12] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
    "\u{1b}[1m\u{1b}[31m",
    "\u{1b}[1m\u{1b}[32m",
    "\u{1b}[1m\u{1b}[33m",
    "\u{1b}[1m\u{1b}[36m",
    "\u{1b}[m",
];

/// Every page about something of this name.
fn check_pages(name: &str) {
    let (report, incident) = (report(name), incident(name));
    let row = IncidentRow {
        verdict: name.to_owned(),
        trigger_name: name.to_owned(),
        cause: Some(name.to_owned()),
        subject: Some(Subject::Other(name.to_owned())),
        ..IncidentRow::default()
    };
    for colour in [false, true] {
        let layout = TextLayout { colour, width: 400, ..TextLayout::default() };
        let colours = if colour { &COLOURS[..] } else { &[] };
        check(&text::report(&report, layout), colours);
        check(&text::incident(&incident, layout), colours);
        let rows = [row.clone(), row.clone()];
        for is_grouped in [true, false] {
            let list = IncidentList { rows: &rows, others: 0, is_grouped, now_unix_ms: 0 };
            check(&text::incidents(list, layout), colours);
        }
    }
    check(&nagios::report(&report), &[]);
    check(&json::report(&report).unwrap(), &[]);
    check(&html::incident(&incident).unwrap(), &[]);
}

#[test]
fn a_name_of_any_length_is_written() {
    check_pages(&"x".repeat(70_000));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]
    /// Promise (Findings): Names chosen by other users control no terminal and forge no line and no colour, in any
    /// format.
    #[test]
    fn no_page_has_what_a_name_brought(name in name()) {
        check_pages(&name);
    }
}
