use super::*;
use crate::records::records;
use mw_critical_path::outside_tid;

const SWITCH: &str = "ID: 1
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:int prev_pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:16;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:24;\tsize:16;\tsigned:0;
\tfield:int next_pid;\toffset:40;\tsize:4;\tsigned:1;
";
const WAKING: &str = "ID: 2
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;
";
const SAMPLE: u32 = 9;
const SWITCH_CPU_WIDE: u32 = 15;
const INTERRUPTIBLE: i64 = 1;

/// Bytes that the kernel writes for an event of one CPU, with numbers of tasks as it counts them.
struct Ring {
    bytes: Vec<u8>,
    at: Nanos,
}

impl Ring {
    fn record(&mut self, kind: u32, body: &[u8]) {
        let size = u16::try_from(8 + body.len()).unwrap();
        let header = [&kind.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes()].concat();
        self.bytes.extend([&header, body].concat());
    }

    /// Event, task, time, an empty stack and the fields of the tracepoint.
    fn sample(&mut self, event: u64, header: Tid, fields: &[u8]) {
        self.at += 10;
        let task = u64::from(header) << 32 | u64::from(header);
        let numbers = [event, task, self.at, 0].map(u64::to_ne_bytes).concat();
        let size = u32::try_from(fields.len()).unwrap();
        self.record(SAMPLE, &[&numbers, &size.to_ne_bytes()[..], fields, &[0; 4]].concat());
    }

    fn switch(&mut self, (prev, header): (Tid, Tid), next: Tid, name: &[u8]) {
        let mut fields = [0; 44];
        fields[4..8].copy_from_slice(&prev.to_ne_bytes());
        fields[8..12].copy_from_slice(&prev.to_ne_bytes());
        fields[16..24].copy_from_slice(&INTERRUPTIBLE.to_ne_bytes());
        fields[24..24 + name.len()].copy_from_slice(name);
        fields[40..44].copy_from_slice(&next.to_ne_bytes());
        self.sample(1, header, &fields);
    }

    fn waking(&mut self, (by, header): (Tid, Tid), task: Tid) {
        let mut fields = [0; 28];
        fields[4..8].copy_from_slice(&by.to_ne_bytes());
        fields[8..12].copy_from_slice(&task.to_ne_bytes());
        self.sample(2, header, &fields);
    }

    fn clock(&mut self, header: Tid) {
        self.sample(3, header, &[]);
    }

    fn enters(&mut self, header: Tid) {
        self.at += 10;
        let task = u64::from(header) << 32 | u64::from(header);
        let body = [0, task, self.at, 1].map(u64::to_ne_bytes).concat();
        self.record(SWITCH_CPU_WIDE, &body);
    }

    /// The trace, as the namespace of these numbers has it.
    fn trace(&self, numbers: TaskNumbers) -> mw_critical_path::Trace {
        let options =
            TraceOptions { resident_events: 0, resident_stacks: 0, ..TraceOptions::RECORDER };
        let mut recorded = TraceRecorder::new(options, numbers);
        let parsed = |text| TracepointFormat::parse(text).unwrap();
        let origins = HashMap::from([
            (1, SampleKind::switch(&parsed(SWITCH)).unwrap()),
            (2, SampleKind::waking(&parsed(WAKING)).unwrap()),
            (3, SampleKind::Clock),
        ]);
        for record in records(&self.bytes) {
            recorded.take(0, &record, &origins);
        }
        let mut copy = TraceCopy::default();
        while recorded.copy(&mut copy) {}
        copy.into_trace((0, Nanos::MAX), &mut crate::symbols::Symbols::default())
    }
}

/// In a nested PID namespace 1000 is 2 and 1001 is 3; 50 is outside of it.
#[test]
fn numbers_of_the_initial_namespace_are_translated() {
    let mut ring = Ring { bytes: Vec::new(), at: 0 };
    // 2 is not known by its number in the initial namespace yet.
    ring.waking((50, 0), 1000);
    ring.switch((50, 0), 1000, b"client");
    ring.enters(2);
    ring.waking((1000, 2), 1001);
    ring.switch((1000, 2), 50, b"kswapd0");
    ring.enters(0);
    ring.clock(0);
    ring.switch((50, 0), 0, b"swapper/0");
    ring.enters(0);
    ring.clock(0);
    // The tracepoints of the idle task are silent here: nobody knows who this is.
    ring.enters(0);
    ring.switch((60, 0), 1001, b"server");
    ring.enters(3);
    ring.clock(3);
    let trace = ring.trace(TaskNumbers::nested());
    let (kswapd, other) = (outside_tid(50), outside_tid(60));
    let tasks: Vec<(Tid, Tid)> = trace
        .events
        .iter()
        .map(|event| match event.kind {
            EventKind::SwitchOut { task, next, .. } => (task, next),
            EventKind::Waking { task, by, .. } => (by, task),
            EventKind::SwitchIn { task } | EventKind::Sample { task, .. } => (task, task),
            other => panic!("{other:?}"),
        })
        .collect();
    // Who enters a CPU is told by the switch before, but where that was silent.
    let expected = [
        (kswapd, 2),
        (kswapd, 2),
        (2, 3),
        (2, kswapd),
        (kswapd, kswapd),
        (kswapd, 0),
        (UNKNOWN_OUTSIDE, UNKNOWN_OUTSIDE),
        (other, 3),
        (3, 3),
    ];
    assert_eq!(tasks, expected);
    assert_eq!((trace.task_name(kswapd), trace.process(kswapd)), ("kswapd0", kswapd));
    let known: Vec<Tid> = trace.tasks.keys().copied().collect();
    assert_eq!(known, [2, 3, kswapd], "each task has one number");
}

/// A task that has been released is switched in once more: its header has no number.
#[test]
fn a_released_task_has_the_number_of_the_switch_before() {
    let mut ring = Ring { bytes: Vec::new(), at: 0 };
    ring.switch((7, 7), 8, b"ends");
    ring.enters(u32::MAX);
    ring.waking((8, u32::MAX), 7);
    ring.switch((8, u32::MAX), 7, b"parent");
    ring.enters(7);
    let trace = ring.trace(TaskNumbers::default());
    let kinds: Vec<EventKind> = trace.events.iter().map(|event| event.kind).collect();
    assert!(matches!(kinds[1], EventKind::Waking { task: 7, by: 8, .. }), "{kinds:?}");
    assert!(!trace.tasks.contains_key(&u32::MAX), "{:?}", trace.tasks);
}

/// More stacks than are kept, but few of them of events that are.
///
/// Promise (Tracing: why): In a long trace the stacks of dropped events make room for new ones.
#[test]
fn in_a_long_trace_the_stacks_of_dropped_events_make_room() {
    let mut recorded = small_recorder();
    let mut begun = TraceCopy::default();
    for at in 1..1000 {
        let stack = recorded.stack([at, at + 1].into_iter(), false);
        recorded.push(at, 0, EventKind::Sample { task: 1, stack });
        if at == 30 {
            assert!(recorded.copy(&mut begun));
        }
    }
    assert!(recorded.compactions > 10, "{}", recorded.compactions);
    for mut copy in [begun, TraceCopy::default()] {
        while recorded.copy(&mut copy) {}
        let stacks: Vec<&[u64]> = copy.stacks.iter().collect();
        assert!((20..=40).contains(&copy.events.len()), "{}", copy.events.len());
        for event in &copy.events {
            let EventKind::Sample { stack, .. } = event.kind else { panic!("{event:?}") };
            assert_eq!(stacks[index(stack)], [event.at, event.at + 1]);
        }
    }
}

fn small_recorder() -> TraceRecorder {
    let options = TraceOptions { events: 40, stacks: 64, ..TraceOptions::RECORDER };
    let options = TraceOptions { resident_events: 0, resident_stacks: 0, ..options };
    TraceRecorder::new(options, TaskNumbers::default())
}

/// Two neighbours switch thousands of times while a server is stopped: the request began before what is left of them.
///
/// Promise (Tracing: why): A wait that began when a trace began, or early in it, is in the trace however much others switch
/// meanwhile.
#[test]
fn a_long_wait_outlasts_many_switches_of_others() {
    const SERVER: Tid = 9;
    let mut recorded = small_recorder();
    let stack = recorded.stack([7].into_iter(), true);
    let stops = EventKind::SwitchOut { task: SERVER, state: TaskState::Stopped, stack, next: 1 };
    recorded.push(5, 0, stops);
    for at in 10..1000 {
        let stack = recorded.stack([at].into_iter(), true);
        let (task, next) = if at % 2 == 0 { (1, 2) } else { (2, 1) };
        recorded.push(at, 0, EventKind::SwitchOut { task, state: TaskState::Waiting, stack, next });
    }
    let mut copy = TraceCopy::default();
    while recorded.copy(&mut copy) {}
    let trace = copy.into_trace((6, Nanos::MAX), &mut crate::symbols::Symbols::default());
    assert_eq!(trace.from, 0);
    assert!(trace.complete_from > 900, "{}", trace.complete_from);
    let first = trace.events[0];
    assert_eq!((first.at, trace.stack(StackId(1)).len()), (5, 1), "{first:?}");
    assert!(matches!(first.kind, EventKind::SwitchOut { task: SERVER, .. }));
    assert_eq!((trace.complete_from(SERVER), trace.complete_from(1)), (0, trace.complete_from));
}

/// Promise (Tracing: why): Of what a task did before the request only the last is kept, and what is not kept costs no names.
#[test]
fn what_ended_before_the_request_has_no_names() {
    let options = TraceOptions { resident_events: 0, resident_stacks: 0, ..TraceOptions::RECORDER };
    let mut recorded = TraceRecorder::new(options, TaskNumbers::default());
    let mut stacks = Vec::new();
    for at in [10, 20, 200] {
        let stack = recorded.stack([at].into_iter(), true);
        let leaves = EventKind::SwitchOut { task: 1, state: TaskState::Waiting, stack, next: 2 };
        recorded.push(at, 0, leaves);
        stacks.push(stack);
    }
    let mut copy = TraceCopy::default();
    while recorded.copy(&mut copy) {}
    let trace = copy.into_trace((100, Nanos::MAX), &mut crate::symbols::Symbols::default());
    assert_eq!(trace.events.iter().map(|event| event.at).collect::<Vec<_>>(), [20, 200]);
    assert_eq!(stacks.iter().map(|id| trace.stack(*id).len()).collect::<Vec<_>>(), [0, 1, 1]);
}
