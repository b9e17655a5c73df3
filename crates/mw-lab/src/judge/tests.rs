//! Each kind of broken promise, one at a time.

use super::*;
use crate::vm::frames::GuestFrames;
use crate::vm::kernel_log;
use crate::vm::qemu::RunEnd;
use std::time::Duration;

const PROMISE: &str = "found = ['a']\nabsent = ['b']\nfix = ['a']\n[effect.create]\n\
    during = { times_at_least = 3.0 }\nfixed = { times_at_most = 1.5 }\n\
    reverted = { times_at_least = 3.0 }";

fn report(rules: &[(&str, &str)]) -> String {
    let finding = |(rule, severity): &(&str, &str)| {
        format!(r#"{{"rule":"{rule}","severity":"{severity}","subject":"s","headline":"h"}}"#)
    };
    let findings: Vec<String> = rules.iter().map(finding).collect();
    format!(r#"{{"findings":[{}],"skipped":[{{"rule":"blind"}}]}}"#, findings.join(","))
}

/// A run that keeps `PROMISE`.
fn good() -> GuestRun {
    let mut frames = GuestFrames::default();
    let mut step = |name: &str, text: &str| {
        frames.files.insert(name.to_owned(), text.as_bytes().to_vec());
        frames.files.insert(format!("{name}.exit"), b"0".to_vec());
    };
    let a = report(&[("a", "critical")]);
    for (phase, seconds) in [("before", 2.0), ("during", 9.0), ("fixed", 2.5), ("reverted", 8.0)] {
        step(&format!("{phase}/measure"), &format!("create {seconds} s"));
    }
    step("during/check", &a);
    step("fixed/check", &report(&[]));
    step("reverted/check", &a);
    let changes = r#"[{"path":"/p","before":"7","value":"0"},{"path":"/q","before":"always",
        "value":"never"},{"path":"/once","before":null,"value":"1"}]"#;
    step("fix", &format!(r#"{{"applied":{{"changes":{changes}}}}}"#));
    step("undo", "[]");
    step("reverted/settings", "/p 7\n/q [always] never\n/once \n");
    frames.files.insert("outcome".to_owned(), b"passed\n".to_vec());
    GuestRun {
        ended: RunEnd::Done,
        frames,
        console: String::new(),
        troubles: Vec::new(),
        steps: Vec::new(),
        boot: None,
        wall: Duration::ZERO,
    }
}

fn with(name: &str, text: &str) -> GuestRun {
    let mut run = good();
    run.frames.files.insert(name.to_owned(), text.as_bytes().to_vec());
    run
}

fn outcome(promise: &str, run: &GuestRun) -> Outcome {
    judge(&toml::from_str(promise).unwrap(), run).outcome
}

fn check_failure(promise: &str, run: &GuestRun, want: &str) {
    match outcome(promise, run) {
        Outcome::Failed(why) => assert_eq!(why, want),
        other => panic!("{other}, not {want:?}"),
    }
}

#[test]
fn a_kept_promise_passes_with_its_effect() {
    let judged = judge(&toml::from_str(PROMISE).unwrap(), &good());
    assert_eq!(judged.outcome, Outcome::Passed);
    let measured = measured(&Expect::default(), &judged.transcript);
    assert_eq!((measured[0].name.as_str(), measured[0].unit.as_str()), ("create", "s"));
    let values: Vec<f64> = measured[0].values.values().copied().collect();
    assert_eq!(values, [2.0, 9.0, 2.5, 8.0]);
}

/// Promise (The lab): A violated expectation of any kind fails a case: a finding, a fix, a revert, an effect, the
/// kernel log.
#[test]
fn wrong_findings_fail() {
    check_failure(
        PROMISE,
        &with("during/check", &report(&[("c", "note")])),
        "a reported no finding while the condition was in force (findings: c)",
    );
    check_failure(
        PROMISE,
        &with("during/check", &report(&[("a", "note"), ("b", "note")])),
        "b reported a finding, expected none: h",
    );
    check_failure("absent = ['blind']", &good(), "blind could not be checked");
    check_failure("no_finding = true", &good(), "a reported a finding, expected none: h");
    let beside = with("during/check", &report(&[("a", "critical"), ("c", "warning")]));
    let alone = "found = ['a']\nno_finding = true";
    check_failure(alone, &beside, "c reported a finding, expected none: h");
    assert_eq!(outcome(alone, &good()), Outcome::Passed);
    let noted = with("during/check", &report(&[("a", "note")]));
    assert_eq!(outcome("no_finding = true", &noted), Outcome::Passed);
    let mut blind = good();
    blind.frames.files.remove("during/check");
    check_failure(
        "no_finding = true",
        &blind,
        "memwright check did not run while the condition was in force",
    );
}

#[test]
fn a_headline_that_does_not_say_so_fails() {
    assert_eq!(outcome("found = ['a']\nsays = { a = 'h' }", &good()), Outcome::Passed);
    check_failure(
        "found = ['a']\nsays = { a = 'why' }",
        &good(),
        "the finding of a lacks \"why\": h",
    );
}

#[test]
fn a_fix_that_does_not_hold_fails() {
    let a = report(&[("a", "critical")]);
    check_failure(PROMISE, &with("fixed/check", &a), "a still reported a finding after fix");
    check_failure(PROMISE, &with("fix", r#"{"applied":{"changes":[]}}"#), "fix changed nothing");
    check_failure(
        PROMISE,
        &with("reverted/check", &report(&[])),
        "a reported no finding after undo",
    );
    let stays = PROMISE.replace("fix =", "stays = true\nfix =");
    check_failure(&stays, &good(), "a reported a finding after undo");
    check_failure(
        PROMISE,
        &with("reverted/settings", "/p 0\n/q [always] never\n"),
        "undo left /p at Some(\"0\"), before the fix it was \"7\"",
    );
    check_failure(PROMISE, &with("undo.exit", "5"), "undo exited with 5: []");
}

#[test]
fn an_effect_that_does_not_show_fails() {
    check_failure(
        PROMISE,
        &with("during/measure", "create 4 s"),
        "create during was 4, which is less than 3 times the 2 of before",
    );
    check_failure(
        PROMISE,
        &with("fixed/measure", "create 4 s"),
        "create fixed was 4, which is more than 1.5 times the 2 of before",
    );
    check_failure(
        PROMISE,
        &with("reverted/measure", "other 4 s"),
        "create reverted was not measured",
    );
    check_failure("effect.gone.during.at_least = 1.0", &good(), "measure.sh did not measure gone");
}

#[test]
fn the_kernels_log_may_hold_only_what_is_expected() {
    let mut run = good();
    run.troubles = kernel_log::scan("[ 9.0] Out of memory: Killed process 71 (hold)");
    check_failure(
        PROMISE,
        &run,
        "the guest's kernel logged: [ 9.0] Out of memory: Killed process 71 (hold)",
    );
    let expected = format!("log = ['Killed process']\n{PROMISE}");
    assert_eq!(outcome(&expected, &run), Outcome::Passed);
    run.troubles =
        kernel_log::scan("WARNING: CPU: 0\nwatchdog: BUG: soft lockup - CPU#0 stuck for 22s!");
    assert_eq!(outcome(PROMISE, &run), Outcome::Passed);
}

#[test]
fn a_run_without_an_end_is_no_play() {
    let mut run = good();
    run.ended = RunEnd::TimedOut;
    check_failure(PROMISE, &run, "the time limit was reached; the guest was at boot");
    let skipped = with("outcome", "skipped: no such driver");
    assert_eq!(outcome(PROMISE, &skipped), Outcome::Skipped("no such driver".to_owned()));
    check_failure(
        PROMISE,
        &with("outcome", "failed: make.sh exited with 1"),
        "make.sh exited with 1",
    );
}
