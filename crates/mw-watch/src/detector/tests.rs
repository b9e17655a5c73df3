//! Stalls as a list of turns: the time in milliseconds, what was seen, what it comes to.

use super::*;

const LIMITS: Limits = Limits { canary_ms: 100.0, token_ms: None };

fn under_way(ms: f64) -> ProbeReading {
    ProbeReading { limit_ms: 500.0, under_way_ms: Some(ms), last: None }
}

fn answered(number: u64, took_ms: f64, failed: bool) -> ProbeReading {
    ProbeReading { limit_ms: 500.0, under_way_ms: None, last: Some((number, took_ms, failed)) }
}

/// What each turn comes to, where it is something.
#[track_caller]
fn check(
    limits: Limits,
    turns: &[(f64, ProbeReading, CanaryReading, bool)],
    expected: &[(f64, &str)],
) {
    let mut detector = Detector::new(limits, 1);
    let mut came: Vec<(f64, String)> = Vec::new();
    for (now_ms, probe, canary, pressure) in turns {
        let probes = [*probe];
        let seen = Readings { probes: &probes, canary: Some(*canary), pressure: *pressure };
        match detector.turn(*now_ms, seen) {
            Turn::Same => {}
            Turn::Begun(passed) => came.push((*now_ms, passed.trigger("db").name)),
            Turn::Over { .. } => came.push((*now_ms, "over".to_owned())),
        }
    }
    let expected: Vec<(f64, String)> =
        expected.iter().map(|(t, w)| (*t, (*w).to_owned())).collect();
    assert_eq!(came, expected);
}

fn probe_turns(turns: &[(f64, ProbeReading)]) -> Vec<(f64, ProbeReading, CanaryReading, bool)> {
    turns.iter().map(|(t, probe)| (*t, *probe, CanaryReading::default(), false)).collect()
}

#[test]
fn a_stall_begins_while_the_probe_waits_and_ends_when_it_was_good_for_a_second() {
    let turns = probe_turns(&[
        (0.0, under_way(499.0)),
        (10.0, under_way(509.0)),
        (5000.0, under_way(5499.0)),
        (5010.0, answered(1, 5500.0, false)),
        (5020.0, answered(2, 3.0, false)),
        (6010.0, answered(3, 3.0, false)),
        (6030.0, answered(3, 3.0, false)),
        (7000.0, answered(4, 3.0, false)),
    ]);
    check(LIMITS, &turns, &[(10.0, "db"), (6010.0, "over")]);
}

#[test]
fn a_stall_within_a_stall_is_the_same_one() {
    let turns = probe_turns(&[
        (0.0, under_way(600.0)),
        (100.0, answered(1, 700.0, false)),
        (200.0, answered(2, 1.0, false)),
        (900.0, under_way(600.0)),
        (1300.0, under_way(1000.0)),
        (1400.0, answered(3, 1100.0, false)),
        (1500.0, answered(4, 1.0, false)),
        (2600.0, answered(4, 1.0, false)),
    ]);
    check(LIMITS, &turns, &[(0.0, "db"), (2600.0, "over")]);
}

#[test]
fn a_service_that_stays_down_is_one_incident() {
    let mut turns = Vec::new();
    for second in 0..300_u32 {
        turns.push((f64::from(second) * 1000.0, answered(u64::from(second) + 1, 0.1, true)));
    }
    turns.push((300_000.0, answered(1000, 1.0, false)));
    turns.push((301_000.0, answered(1001, 0.1, true)));
    check(LIMITS, &probe_turns(&turns), &[(0.0, "db"), (60_000.0, "over"), (301_000.0, "db")]);
}

#[test]
fn memory_is_told_from_processors_by_the_pair() {
    let fine = answered(1, 1.0, false);
    let both = CanaryReading { touching_ms: 300.0, late_ms: 290.0 };
    let memory = CanaryReading { touching_ms: 120.0, late_ms: 3.0 };
    check(LIMITS, &[(0.0, fine, both, false)], &[]);
    check(LIMITS, &[(0.0, fine, memory, false)], &[(0.0, "canary")]);
}

#[test]
fn a_heartbeat_is_warned_of_at_a_quarter_of_its_token() {
    let limits = Limits { token_ms: Some(1000.0), ..LIMITS };
    let late = |late_ms| CanaryReading { touching_ms: 0.0, late_ms };
    let fine = answered(1, 1.0, false);
    check(
        limits,
        &[(0.0, fine, late(249.0), false), (10.0, fine, late(250.0), false)],
        &[(10.0, "heartbeat")],
    );
}

#[test]
fn pressure_that_lasts_begins_one_stall() {
    let fine = answered(1, 1.0, false);
    let none = CanaryReading::default();
    let turn = |tenth: u32| {
        (f64::from(tenth) * 100.0, fine, none, tenth < 900 && tenth.is_multiple_of(10))
    };
    let turns: Vec<_> = (0..1000).map(turn).collect();
    check(LIMITS, &turns, &[(0.0, "pressure"), (60_000.0, "over")]);
    let turn =
        |tenth: u32| (f64::from(tenth) * 100.0, fine, none, tenth < 30 && tenth.is_multiple_of(10));
    let turns: Vec<_> = (0..100).map(turn).collect();
    check(LIMITS, &turns, &[(0.0, "pressure"), (4500.0, "over")]);
}
