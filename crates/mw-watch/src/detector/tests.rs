//! Stalls as a list of turns: the time in milliseconds, what was seen, what it comes to.

use super::*;
use std::time::Duration;

const LIMITS: MonitorLimits = MonitorLimits { canary_ms: 100.0, token_ms: None };

const LIMIT: Duration = Duration::from_millis(500);
const ALARM: Duration = Duration::from_millis(100);

fn duration(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1000.0)
}

fn probe(under_way: Option<ProbeRequest>, last: Option<ProbeRequest>) -> ProbeReading {
    ProbeReading { limit: LIMIT, alarm_after: ALARM, under_way, last }
}

fn under_way(elapsed_ms: f64) -> ProbeReading {
    let request = ProbeRequest { elapsed: duration(elapsed_ms), ..ProbeRequest::default() };
    probe(Some(request), None)
}

fn answered(sequence: u64, took_ms: f64, failed: bool) -> ProbeReading {
    let elapsed = duration(took_ms);
    probe(None, Some(ProbeRequest { sequence, elapsed, failed, ..ProbeRequest::default() }))
}

fn detector(limits: MonitorLimits, probes: usize) -> Detector {
    Detector::new(limits, (0..probes).map(|_| "db".to_owned()))
}

/// The stalls that begin or end at this time.
fn turn(detector: &mut Detector, now_ms: f64, readings: MonitorReadings<'_>) -> Vec<Stall> {
    let time = TurnTime { monotonic_ms: now_ms, unix_ms: now_ms as u64 };
    let mut changes = Vec::new();
    detector.turn(&MonitorReadings { time, ..readings }, &mut changes);
    changes
}

/// Result of each turn, if any.
#[track_caller]
fn check(
    limits: MonitorLimits,
    turns: &[(f64, ProbeReading, CanaryReading, bool)],
    expected: &[(f64, &str)],
) {
    let mut detector = detector(limits, 1);
    let mut came: Vec<(f64, String)> = Vec::new();
    for (now_ms, probe, canary, pressure) in turns {
        let readings = MonitorReadings {
            probes: &[*probe],
            canary: Some(*canary),
            pressure: *pressure,
            ..MonitorReadings::default()
        };
        came.extend(turn(&mut detector, *now_ms, readings).into_iter().map(|stall| {
            (*now_ms, if stall.has_ended() { "over".to_owned() } else { stall.trigger.name })
        }));
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

/// Promise (The recorder): A stall within a stall is one incident, and so is a service that stays down.
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
    turns.push((301_000.0, answered(1001, 1.0, false)));
    turns.push((302_000.0, answered(1002, 0.1, true)));
    check(LIMITS, &probe_turns(&turns), &[(0.0, "db"), (301_000.0, "over"), (302_000.0, "db")]);
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
    let limits = MonitorLimits { token_ms: Some(1000.0), ..LIMITS };
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
    check(LIMITS, &turns, &[(0.0, "pressure"), (91_500.0, "over")]);
    let turn =
        |tenth: u32| (f64::from(tenth) * 100.0, fine, none, tenth < 30 && tenth.is_multiple_of(10));
    let turns: Vec<_> = (0..100).map(turn).collect();
    check(LIMITS, &turns, &[(0.0, "pressure"), (4500.0, "over")]);
}

/// The stalls of so many hours in which the machine is always under pressure, and the canary is slow when it is asked.
fn stalls_under_pressure(hours: u32, slow: impl Fn(u32) -> bool) -> Vec<(u32, String)> {
    let mut detector = detector(LIMITS, 1);
    let mut begun = Vec::new();
    for second in 0..hours * 3600 {
        let touching_ms = if slow(second) { 300.0 } else { 0.0 };
        let readings = MonitorReadings {
            probes: &[answered(1, 1.0, false)],
            canary: Some(CanaryReading { touching_ms, late_ms: 0.0 }),
            pressure: true,
            ..MonitorReadings::default()
        };
        let changes = turn(&mut detector, f64::from(second) * 1000.0, readings);
        let begins = changes.into_iter().filter(|stall| !stall.has_ended());
        begun.extend(begins.map(|stall| (second, stall.trigger.name)));
    }
    begun
}

#[test]
fn pressure_that_somebody_keeps_up_hides_no_stall_of_another_monitor() {
    // Its first minute is evidence of the pressure.
    let begun = stalls_under_pressure(2, |second| second == 30 || second == 1000);
    let canary: Vec<u32> =
        begun.iter().filter(|(_, name)| name == "canary").map(|(second, _)| *second).collect();
    assert_eq!(canary, [1000]);
    let begun = stalls_under_pressure(24, |_| false);
    // After 5, 15 and 35 minutes, and then every half an hour.
    assert_eq!(begun.len(), 50, "{begun:?}");
    let seconds: Vec<u32> = begun.iter().map(|(second, _)| *second).take(5).collect();
    assert_eq!(seconds, [0, 301, 902, 2103, 3904]);
}

/// Promise (The recorder): Each probe's stall is an incident of its own.
#[test]
fn each_probe_has_a_stall_of_its_own() {
    let mut detector = detector(LIMITS, 2);
    let slow = CanaryReading { touching_ms: 300.0, late_ms: 0.0 };
    let mut turn = |now_ms, probes: [ProbeReading; 2]| -> Vec<Monitor> {
        let readings = MonitorReadings {
            probes: &probes,
            canary: Some(slow),
            pressure: true,
            ..MonitorReadings::default()
        };
        turn(&mut detector, now_ms, readings).iter().map(|stall| stall.monitor).collect()
    };
    assert_eq!(turn(0.0, [under_way(600.0), under_way(3.0)]), [Monitor::Probe(0)]);
    assert_eq!(turn(10.0, [under_way(610.0), under_way(501.0)]), [Monitor::Probe(1)]);
    let (first, good) = (answered(1, 700.0, false), answered(2, 1.0, false));
    assert_eq!(turn(100.0, [first, under_way(591.0)]), []);
    assert_eq!(turn(110.0, [good, under_way(601.0)]), []);
    assert_eq!(turn(1150.0, [good, under_way(1700.0)]), [Monitor::Probe(0)]);
}

#[test]
fn the_slowest_request_of_a_stall_is_kept() {
    let mut detector = detector(LIMITS, 1);
    let mut over = None;
    let at = |began_ms: u64, sequence, took_ms| {
        let (began_ns, elapsed) = (began_ms * 1_000_000, duration(took_ms));
        probe(None, Some(ProbeRequest { sequence, began_ns, elapsed, ..ProbeRequest::default() }))
    };
    for (now_ms, reading) in [
        (700.0, at(0, 1, 700.0)),
        (1700.0, at(800, 2, 900.0)),
        (2300.0, at(1700, 3, 600.0)),
        (2400.0, at(2300, 4, 1.0)),
        (3500.0, at(3400, 5, 1.0)),
    ] {
        let readings = MonitorReadings { probes: &[reading], ..MonitorReadings::default() };
        over = over.or(turn(&mut detector, now_ms, readings).into_iter().find_map(|s| s.slowest));
    }
    let times = over.map(|slowest| (slowest.began_ns, slowest.ended_ns()));
    assert_eq!(times, Some((800_000_000, 1_700_000_000)));
    assert_eq!(detector.probe_stalls().count(), 0);
}

#[test]
fn a_request_for_evidence_begins_beside_a_stall_and_hides_none() {
    let mut detector = detector(LIMITS, 1);
    let mut turn = |now_ms, probe_ms, touching_ms, requested| {
        let readings = MonitorReadings {
            probes: &[under_way(probe_ms)],
            canary: Some(CanaryReading { touching_ms, late_ms: 0.0 }),
            requested,
            ..MonitorReadings::default()
        };
        let changes = turn(&mut detector, now_ms, readings);
        changes.iter().map(|stall| (!stall.has_ended(), stall.monitor)).collect::<Vec<_>>()
    };
    assert_eq!(turn(0.0, 0.0, 0.0, true), [(true, Monitor::Requested)]);
    assert_eq!(turn(10.0, 0.0, 150.0, false), [(true, Monitor::Canary)], "not hidden");
    assert_eq!(turn(20.0, 0.0, 0.0, false), []);
    assert_eq!(turn(1030.0, 0.0, 0.0, false), [(false, Monitor::Canary)]);
    assert_eq!(turn(4990.0, 600.0, 0.0, true), [(true, Monitor::Probe(0))], "the same request");
    assert_eq!(turn(9980.0, 600.0, 0.0, false), [], "it goes on");
    assert_eq!(turn(9990.0, 600.0, 0.0, false), []);
    assert_eq!(turn(10_990.0, 600.0, 0.0, false), [(false, Monitor::Requested)]);
    assert_eq!(turn(11_000.0, 600.0, 0.0, true), [(true, Monitor::Requested)], "beside a stall");
}
