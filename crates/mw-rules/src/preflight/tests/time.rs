//! The range of the time.

use super::{GIB, IDLE, Machine, answer, measured};
use mw_model::{
    Answer, Backing, Calibration, Confidence, FreeLayer, Preflight, TimeEstimate, Window,
};

fn ask(request: &str, calibration: &Calibration) -> Preflight {
    let window = Window::new(Machine::new(&[IDLE]).build().snapshot);
    answer(&window, &request.parse().unwrap(), Some(calibration)).unwrap()
}

fn time(request: &str, calibration: &Calibration) -> TimeEstimate {
    ask(request, calibration).time.unwrap()
}

/// 1 GiB of small blocks, 4 GiB of large ones that are backed, and 8 GiB that the host reclaimed.
fn layered(unbacked_ns_per_byte: Option<f64>) -> Calibration {
    let layer = |gib: u64, small, reclaimed| FreeLayer {
        node: 0,
        bytes: gib * GIB,
        uncertain_bytes: 0,
        small,
        reclaimed,
    };
    let layers = vec![layer(1, true, false), layer(4, false, false), layer(8, false, true)];
    let backing = Backing {
        virtual_machine: true,
        gives_back: true,
        unbacked_ns_per_byte,
        layers,
        ..Backing::default()
    };
    Calibration { backing, ..measured() }
}

#[test]
fn what_competes_for_the_cpus_widens_the_range() {
    let crowded = Calibration { crowding: 2.0, ..measured() };
    let (alone, beside) = (time("8G,lock", &measured()), time("8G,lock", &crowded));
    assert_eq!(alone.confidence, Confidence::High);
    assert_eq!(beside.confidence, Confidence::Medium);
    assert!((beside.likely_ms / alone.likely_ms - 2.0).abs() < 1e-9);
    assert!(beside.high_ms > 2.0 * alone.high_ms);
    // A short request may be through before it loses its CPU.
    let (alone, beside) = (time("32M", &measured()), time("32M", &crowded));
    assert!(beside.low_ms < alone.likely_ms);
}

#[test]
fn a_request_that_ends_before_reclaimed_memory_is_fast() {
    let calibration = layered(Some(2.3));
    for request in ["2G", "2G,huge=thp"] {
        let time = time(request, &calibration);
        let plain = self::time(request, &measured());
        assert!(time.likely_ms < 1.2 * plain.likely_ms, "{request}: {time:?}");
        assert!(time.high_ms < 2.0 * plain.high_ms, "{request}: {time:?}");
    }
}

/// Promise (Checking): The time of `check --for` is a range; how much of the request lies in memory that the host of
/// a virtual machine has reclaimed is counted by the kernel's marks, without touching it.
#[test]
fn what_lies_in_reclaimed_memory_costs_what_was_measured() {
    // Without small blocks, 4 of 8 GiB are backed.
    let time = time("8G,huge=thp", &layered(Some(2.1)));
    let expected_ms = (8.0 * 0.1 + 4.0 * 2.0) * GIB as f64 / 1e6;
    assert!((0.95..1.1).contains(&(time.likely_ms / expected_ms)), "{time:?}");
    assert!(time.low_ms < expected_ms && time.high_ms > expected_ms);
    assert!(time.high_ms / time.low_ms < 4.0, "{time:?}");
    assert!(time.basis.contains("has to back 4"), "{}", time.basis);
}

#[test]
fn an_unknown_cost_is_not_stated_as_a_range_of_anything() {
    let preflight = ask("12G,huge=thp", &layered(None));
    assert_eq!(preflight.answer, Answer::Yes);
    match &preflight.time {
        Some(time) => assert!(time.basis.contains("at an assumed speed"), "{}", time.basis),
        None => assert!(preflight.unseen[0].to_string().contains("not known")),
    }
}

/// Promise (Checking): A time of which nothing can be said is left out with the reason.
#[test]
fn a_range_too_wide_to_say_anything_is_left_out_with_the_reason() {
    let mut calibration = layered(None);
    calibration.thp_ns_per_byte = Some(0.01);
    calibration.backing.layers[1].uncertain_bytes = 4 * GIB;
    let preflight = ask("2G,huge=thp", &calibration);
    assert_eq!(preflight.time, None);
    assert_eq!(preflight.summary, "yes: 2 GiB on transparent huge pages");
    let unseen = preflight.unseen[0].to_string();
    assert!(unseen.contains("cannot be predicted"), "{unseen}");
}
