//! Probes against real services and hostile ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod exec;
mod hostile;
mod http;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod prober;
mod real;
mod redis;

use mw_model::{FailureKind, ProbeTick, ServiceView};
use mw_probe::{ProbeRequest, ProbeSpec, Prober, Target};
use std::time::{Duration, Instant};

/// Far beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn spec(target: &str, timeout_ms: u64) -> ProbeSpec {
    let target: Target = target.parse().unwrap();
    ProbeSpec {
        name: target.default_name(),
        target,
        limit: Duration::from_millis(50),
        interval: Duration::from_millis(20),
        timeout: Duration::from_millis(timeout_ms),
        details: mw_probe::Details::default(),
    }
}

fn start(target: &str, timeout_ms: u64) -> Prober {
    Prober::start(spec(target, timeout_ms)).unwrap()
}

/// What was seen since the last call.
fn taken(prober: &Prober) -> ProbeTick {
    let mut tick = ProbeTick { name: prober.spec().name.clone(), ..ProbeTick::default() };
    prober.take_into(&mut tick);
    tick
}

/// Waits until `seen` says something.
fn wait<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = seen() {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asks for the service's view until it is as wanted.
fn view(prober: &Prober, wanted: impl Fn(&ServiceView) -> bool) -> ServiceView {
    prober.prepare_view();
    let begun = Instant::now();
    loop {
        let view = prober.view(Duration::from_secs(5)).unwrap();
        if view.value().is_some_and(&wanted) || begun.elapsed() > PATIENCE {
            let view = view.required().unwrap().clone();
            assert!(wanted(&view), "{view:?}");
            return view;
        }
        // InnoDB keeps what it tells of locks for as long as it is asked more than ten times a second.
        std::thread::sleep(Duration::from_millis(150));
    }
}

/// An answer of a probe that began after now.
fn next(prober: &Prober) -> ProbeRequest {
    let before = prober.last().map_or(0, |last| last.sequence) + 1;
    wait("an answer", || prober.last().filter(|last| last.sequence > before))
}

fn answers(prober: &Prober) {
    let last = next(prober);
    assert!(!last.failed, "{}: {:?}", prober.spec().target, prober.last_failure());
}

/// The next answer's failure.
fn fails(prober: &Prober) -> String {
    fails_as(prober).1
}

fn fails_as(prober: &Prober) -> (FailureKind, String) {
    let last = next(prober);
    assert!(last.failed, "{}: an answer", prober.spec().target);
    let failure = prober.last_failure().unwrap();
    (failure.kind, failure.text)
}
