//! The scheduler trace on the running kernel. Needs root, as it does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use mw_critical_path::{EventKind, Trace};
use mw_profile::{SchedTracer, Symbols, TraceCopy, TraceOptions};
use mw_test::{alone, is_root};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);

/// A thread that sleeps several times; its number.
fn sleeper() -> u32 {
    let sleep = || {
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(1));
        }
        rustix::thread::gettid().as_raw_pid().cast_unsigned()
    };
    std::thread::spawn(sleep).join().unwrap()
}

fn copied(tracer: &mut SchedTracer) -> Trace {
    let mut copy = TraceCopy::default();
    while tracer.copy(&mut copy) {
        copy.make_room();
    }
    copy.into_trace((0, u64::MAX), &mut Symbols::default())
}

fn sleeps(trace: &Trace, tid: u32) -> usize {
    let is_sleep = |kind: EventKind| match kind {
        EventKind::SwitchOut { task, stack, .. } => {
            let is_in = |name: &str| trace.stack(stack).iter().any(|function| function == name);
            task == tid && (is_in("do_nanosleep") || is_in("__x64_sys_clock_nanosleep"))
        }
        _ => false,
    };
    trace.events.iter().filter(|event| is_sleep(event.kind)).count()
}

#[test]
fn a_trace_that_was_suspended_goes_on_with_a_gap() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let mut tracer = SchedTracer::open(TraceOptions::RECORDER).unwrap();
    tracer.start(&[]);
    let before = sleeper();
    tracer.switch().off();
    let unseen = sleeper();
    std::thread::sleep(PAUSE);
    tracer.resume();
    let after = sleeper();
    let trace = copied(&mut tracer);
    assert!(sleeps(&trace, before) >= 5 && sleeps(&trace, after) >= 5);
    assert_eq!(sleeps(&trace, unseen), 0);
    let [(begin, end)] = trace.gaps[..] else { panic!("{:?}", trace.gaps) };
    assert!(Duration::from_nanos(end - begin) >= PAUSE);
    tracer.switch().off();
    let ended = copied(&mut tracer);
    let (begin, end) = *ended.gaps.last().unwrap();
    assert_eq!((ended.gaps.len(), end), (2, ended.to), "what follows is not known");
    assert!(begin > trace.to);
}

#[test]
fn what_was_cleared_is_forgotten() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let mut tracer = SchedTracer::open(TraceOptions::RECORDER).unwrap();
    tracer.start(&[]);
    let before = sleeper();
    tracer.switch().off();
    tracer.clear();
    tracer.start(&[]);
    let after = sleeper();
    let trace = copied(&mut tracer);
    assert_eq!((sleeps(&trace, before), trace.gaps.len()), (0, 0));
    assert!(sleeps(&trace, after) >= 5);
    assert!(!trace.tasks.contains_key(&before));
}
