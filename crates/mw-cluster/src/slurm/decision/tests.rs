use super::*;
use mw_model::SkippedRule;
use mw_model::{Missing, Subject};

fn node(state: &str, reason: &str) -> SlurmNode {
    let reason = if reason.is_empty() { String::new() } else { format!("   Reason={reason}\n") };
    SlurmNode::parse(format!("   State={state} Weight=1\n{reason}").as_bytes()).unwrap()
}

fn finding(rule: &str, severity: Severity) -> Finding {
    let mut finding = Finding::new(
        severity,
        Subject::Other("node 0".to_owned()),
        "unusable index 0.97 at order 9",
    );
    finding.rule = rule.to_owned();
    finding
}

fn hazard(rule: &str) -> Judgement {
    Judgement::Hazard(DrainReason::new(&finding(rule, Severity::Critical)))
}

fn fine() -> Judgement {
    Judgement::Fine { unchecked: vec!["memlock-limit".to_owned()] }
}

const OURS: &str = "memwright: fragmented-node: x [root@2026-11-25T03:34:11]";
const THEIRS: &str = "fan broken [alice@2026-11-25T03:34:11]";

/// Decides and says in a word what is to be done.
fn word(state: &str, reason: &str, judgement: &Judgement, can_remedy: bool) -> &'static str {
    word_of(state, reason, judgement, Permissions { drain: true, remedy: can_remedy })
}

fn word_of(state: &str, reason: &str, judgement: &Judgement, leave: Permissions) -> &'static str {
    match decide(&node(state, reason), judgement, leave) {
        None => "unknown",
        Some(DrainDecision::Drain(_)) => "drain",
        Some(DrainDecision::Remedy(_)) => "remedy",
        Some(DrainDecision::Resume) => "resume",
        Some(DrainDecision::Nothing(why)) => match why {
            Inaction::Healthy => "healthy",
            Inaction::TakenOut { .. } => "taken out",
            Inaction::StillThere(_) => "still there",
            Inaction::NotYet(_) => "not yet",
            Inaction::Busy => "busy",
            Inaction::Unchecked(_) => "unchecked",
        },
    }
}

#[test]
fn a_node_with_a_hazard_is_drained_unless_it_is_out() {
    let found = hazard("fragmented-node");
    for (state, reason, expected) in [
        ("IDLE", "", "drain"),
        ("ALLOCATED", "", "drain"),
        ("IDLE+NOT_RESPONDING", "", "drain"),
        ("DOWN*", "", "drain"),
        // A note that an administrator left on a node that gets jobs.
        ("MIXED", THEIRS, "drain"),
        ("IDLE+DRAIN", THEIRS, "taken out"),
        ("IDLE+DRAIN", "", "taken out"),
        ("IDLE+FAIL", THEIRS, "taken out"),
        ("DOWN", "Not responding [slurm@2026-11-25T03:34:11]", "taken out"),
    ] {
        assert_eq!(word(state, reason, &found, true), expected, "{state} {reason}");
    }
}

#[test]
fn only_an_own_drain_of_an_idle_node_ends() {
    for (state, reason, expected) in [
        ("IDLE+DRAIN", OURS, "resume"),
        ("IDLE+DRAIN+NOT_RESPONDING", OURS, "resume"),
        ("ALLOCATED+DRAIN", OURS, "busy"),
        ("IDLE+COMPLETING+DRAIN", OURS, "busy"),
        ("DOWN+DRAIN", OURS, "busy"),
        ("IDLE+DRAIN", THEIRS, "taken out"),
        ("IDLE+DRAIN", "see memwright: fragmented-node: x", "taken out"),
        ("IDLE+DRAIN", "", "taken out"),
        ("IDLE", OURS, "healthy"),
        ("IDLE", "", "healthy"),
    ] {
        assert_eq!(word(state, reason, &fine(), true), expected, "{state} {reason}");
    }
}

#[test]
fn a_rule_that_could_not_be_checked_ends_no_drain() {
    let reason = "memwright: memlock-limit: x [root@2026-11-25T03:34:11]";
    assert_eq!(word("IDLE+DRAIN", reason, &fine(), false), "unchecked");
    for (state, reason) in [("IDLE", ""), ("IDLE+DRAIN", OURS)] {
        assert_eq!(word(state, reason, &Judgement::Unknown, true), "unknown");
    }
}

#[test]
fn room_is_made_on_an_idle_node_that_was_drained_here() {
    let found = hazard("fragmented-node");
    assert_eq!(word("IDLE+DRAIN", OURS, &found, true), "remedy");
    assert_eq!(word("IDLE+DRAIN", OURS, &found, false), "still there");
    assert_eq!(word("MIXED+DRAIN", OURS, &found, true), "still there");
    assert_eq!(word("IDLE+DRAIN", THEIRS, &found, true), "taken out");
    // The reason names what is wrong now.
    assert_eq!(word("IDLE+DRAIN", OURS, &hazard("oom-kill"), true), "drain");
}

/// The report of a machine with these findings.
fn report(findings: &[Finding]) -> Report {
    let healthy = mw_test::fixture("healthy/debian-6.12");
    let source = mw_collect::input::open(&healthy).unwrap();
    let mut report = mw_rules::check(&mw_collect::window(&source), None);
    assert!(report.findings.is_empty());
    report.findings = findings.to_vec();
    // The tree lacks files of rules that are newer.
    report.skipped.clear();
    report
}

#[test]
fn severity_and_rules_choose_the_findings_that_drain() {
    let report = report(&[
        finding("oom-kill", Severity::Critical),
        finding("fragmented-node", Severity::Warning),
    ]);
    let rule = |rules: &[&str], severity| {
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        match (DrainPolicy { rules: &rules, severity, is_job_served: false }).judge(&report) {
            Judgement::Hazard(reason) => reason.rule,
            other => format!("{other:?}"),
        }
    };
    let nothing = "Fine { unchecked: [] }";
    assert_eq!(rule(&[], Some(Severity::Critical)), "oom-kill");
    assert_eq!(rule(&["fragmented-node"], Some(Severity::Note)), "fragmented-node");
    assert_eq!(rule(&["fragmented-node"], Some(Severity::Critical)), nothing);
    assert_eq!(rule(&[], None), nothing);
}

#[test]
fn what_could_not_be_checked_is_no_health() {
    let mut report = report(&[]);
    let missing = Missing::absent("/proc/buddyinfo", "not in this tree");
    report
        .skipped
        .push(SkippedRule { rule: "fragmented-node".to_owned(), missing: missing.clone() });
    let policy =
        DrainPolicy { rules: &[], severity: Some(Severity::Critical), is_job_served: false };
    let unchecked = vec!["fragmented-node".to_owned()];
    assert_eq!(policy.judge(&report), Judgement::Fine { unchecked });
    report.unchecked.push(missing);
    assert_eq!(policy.judge(&report), Judgement::Unknown);
}

#[test]
fn a_reason_is_one_plain_bounded_line() {
    let mut found = finding("fragmented-node", Severity::Critical);
    found.headline = "a=\"b\"\n'c' $(d) \u{1F600}".to_owned();
    assert_eq!(DrainReason::new(&found).line(), "memwright: fragmented-node: a:_b_ _c_ _(d) _");
    found.headline = "\u{e4}x".repeat(500);
    let line = DrainReason::new(&found).line();
    assert!(line.len() == MAX_REASON_BYTES && line.ends_with(CUT), "{line}");
    assert_eq!(rule_of(&line), Some("fragmented-node"));
}

#[test]
fn only_what_lasts_drains() {
    let found = hazard("fragmented-node");
    let leave = Permissions { drain: false, remedy: true };
    assert_eq!(word_of("IDLE", "", &found, leave), "not yet");
    assert_eq!(word_of("IDLE+DRAIN", OURS, &found, leave), "remedy");
    let other = hazard("reclaim-storm");
    assert_eq!(word_of("ALLOCATED+DRAIN", OURS, &other, leave), "still there", "the reason stays");
    assert_eq!(word_of("IDLE+DRAIN", THEIRS, &found, leave), "taken out");
}

#[test]
fn a_process_or_a_job_that_is_served_drains_nothing() {
    let judged = |subject: Subject, is_job_served| {
        let mut report = mw_rules::check(&mw_model::Window::default(), None);
        report.unchecked.clear();
        let mut finding = Finding::new(Severity::Critical, subject, "found");
        finding.rule = "map-count-limit".to_owned();
        report.findings = vec![finding];
        let policy = DrainPolicy { rules: &[], severity: Some(Severity::Note), is_job_served };
        matches!(policy.judge(&report), Judgement::Hazard(_))
    };
    assert!(judged(Subject::Node(0), false));
    assert!(!judged(Subject::Node(0), true));
    for subject in [
        Subject::Process("toy".to_owned()),
        Subject::Cgroup(Some("/user".to_owned())),
        Subject::Mount("/dev/shm".to_owned()),
    ] {
        assert!(!judged(subject.clone(), false), "{subject}");
    }
}
