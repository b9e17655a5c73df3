#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use super::*;
use crate::Outcome;
use crate::case::CaseKind;
use crate::judge::MeasurementSeries;
use crate::judge::transcript::RunPhase;

fn run(case: &str, kernel: &str, outcome: Outcome) -> CaseRun {
    let run = CaseRun::new(case, "firing", CaseKind::Rule, kernel, outcome);
    CaseRun { first_step_s: Some(3.1), wall_s: 12.3, ..run }
}

fn series(values: &[(RunPhase, f64)]) -> MeasurementSeries {
    let values = values.iter().copied().collect();
    MeasurementSeries { name: "create".into(), unit: "s".into(), has_bounds: true, values }
}

fn create() -> MeasurementSeries {
    series(&[(RunPhase::Before, 2.0), (RunPhase::During, 14.04), (RunPhase::Fixed, 2.1)])
}

#[test]
fn the_summary_counts_cases_and_names_failures() {
    let failed = Outcome::Failed("why".to_owned());
    let skipped = Outcome::Skipped("why".to_owned());
    let check = |runs: Vec<CaseRun>, want: &str| {
        let report = LabReport::new("0", runs);
        assert_eq!(report.text().lines().next(), Some(want));
    };
    check(
        vec![run("a", "6.1", Outcome::Passed), run("b", "6.12", failed)],
        "1 of 2 cases passed on kernels 6.1 and 6.12; failed: b/firing",
    );
    check(
        vec![run("a", "6.1", Outcome::Passed), run("b", "6.1", skipped.clone())],
        "1 of 2 cases passed on kernel 6.1; 1 skipped",
    );
    let repeated = CaseRun { tries: 2, ..run("a", "6.1", Outcome::Passed) };
    check(
        vec![repeated],
        "1 of 1 cases passed on kernel 6.1; flaky, passed when repeated: a/firing",
    );
    check(vec![run("a", "6.1", skipped)], "no case could be run on kernel 6.1; 1 skipped");
    check(vec![], "no case selected");
}

#[test]
fn text_shows_effects_and_the_console_of_a_failure() {
    let mut bad = run("b", "6.1", Outcome::Failed("too slow".to_owned()));
    bad.measured = vec![create()];
    bad.console_tail = Some("last\nwords".to_owned());
    let text = LabReport::new("0", vec![run("a", "6.1", Outcome::Passed), bad]).text();
    let want = "\
1 of 2 cases passed on kernel 6.1; failed: b/firing

case      kernel  outcome  first step  time  effect
a/firing  6.1     passed   3.1 s       12 s
b/firing  6.1     failed   3.1 s       12 s  create 2 s, during 14.0 (x7.02), fixed 2.10 (x1.05)

b/firing on 6.1 failed: too slow
  | last
  | words
";
    assert_eq!(text, want);
}

#[test]
fn rounds_of_a_case_share_a_row() {
    let round = |factor: f64, outcome| {
        let measured = vec![series(&[(RunPhase::Before, 2.0), (RunPhase::During, 2.0 * factor)])];
        CaseRun { measured, ..run("a", "6.1", outcome) }
    };
    let failed = Outcome::Failed("too slow".to_owned());
    let again = CaseRun { tries: 2, ..round(9.0, Outcome::Passed) };
    let rounds = vec![round(7.0, Outcome::Passed), again, round(5.0, failed)];
    let text = LabReport::new("0", rounds).markdown();
    assert!(text.starts_with("2 of 3 runs passed on kernel 6.1; failed: a/firing"), "{text}");
    let want = "| `a/firing` | 6.1 | passed 2 of 3, 1 of them when repeated; **failed: too slow** | \
                12 s | create: 2 → 14 s (x5 to x9) |";
    assert!(text.contains(want), "{text}");
}

#[test]
fn markdown_has_effects_first_and_details_below() {
    let mut measured = run("a", "6.1", Outcome::Passed);
    measured.measured = vec![create()];
    let skipped = run("a", "6.12", Outcome::Skipped("x|y".to_owned()));
    let text = LabReport::new("0", vec![measured, skipped]).markdown();
    assert!(text.contains("first step: median 3.1 s, at most 3.1 s"), "{text}");
    let row = "| `a/firing` | 6.1 | passed | 12 s | create: 2 → 14.0 → 2.10 s |\n";
    assert!(text.contains(row), "{text}");
    assert!(text.contains("| `a/firing` | 6.12 | skipped: x\\|y | 12 s |  |"), "{text}");
    let detail = "| `a/firing` | 6.1 | create, s | 2 | 14.0 (x7.02) | 2.10 (x1.05) | – |\n";
    assert!(text.contains(detail), "{text}");
}

#[test]
fn kernels_with_the_same_outcome_share_a_row_where_nothing_is_measured() {
    let runs = vec![run("a", "6.1", Outcome::Passed), run("a", "6.12", Outcome::Passed)];
    let text = LabReport::new("0", runs).markdown();
    assert!(text.contains("| `a/firing` | 6.1, 6.12 | passed | 12 s, 12 s |\n"), "{text}");
}
