use super::*;
use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder};
use crate::trace::{EventKind, Task};

const FSYNC: &str = "io_schedule < folio_wait_bit < folio_wait_writeback < ext4_sync_file";
const DONE: &str = "try_to_wake_up < folio_wake_bit < folio_end_writeback < bio_endio";
const THIRD: Tid = 40;

/// A client waits from 100 to 1100 for a process whose thread `SERVER` idles in poll until a timer wakes it.
fn idling() -> TraceBuilder {
    let mut traced = TraceBuilder::new(2000);
    for task in [SERVER, OTHER, THIRD] {
        traced.trace.tasks.insert(task, Task { name: "go".to_owned(), process: SERVER });
    }
    traced.blocks(50, 1, SERVER, "schedule < ep_poll");
    traced.interrupt(1090, SERVER, "hrtimer_wakeup").runs(1090, 1, SERVER);
    traced.runs(90, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < unix_stream_read_generic");
    traced.wakes(1100, SERVER, CLIENT).runs(1100, 0, CLIENT);
    traced
}

impl TraceBuilder {
    /// A thread waits for writeback of a page.
    fn syncs(&mut self, (from, to): (Nanos, Nanos), task: Tid) -> &mut Self {
        self.runs(from - 5, 2, task).blocks(from, 2, task, FSYNC);
        self.interrupt(to, task, DONE).runs(to, 2, task).blocks(to + 5, 2, task, "futex_wait")
    }
}

const WRITEBACK: TimeKind = TimeKind::Waiting(Wait::Writeback);
const IDLE: TimeKind = TimeKind::TimedOut(Wait::Poll);

/// Time of the request that is spent so.
fn time(traced: &TraceBuilder, kind: TimeKind) -> Nanos {
    let parts = traced.path(100, 1100).parts;
    parts.iter().filter(|part| part.kind == kind).map(PathPiece::duration).sum()
}

/// Promise (Tracing: why): Where the threads of a run-time were idle but one, which waited for a disk, that wait explains
/// the request, as what is inferred.
#[test]
fn a_sibling_in_fsync_explains_an_idle_process() {
    let mut traced = idling();
    traced.syncs((120, 1080), OTHER);
    let path = traced.path(100, 1100);
    let sibling = path.sibling.unwrap();
    assert_eq!((sibling.task, sibling.wait, sibling.total), (OTHER, Wait::Writeback, 960));
    assert_eq!((time(&traced, WRITEBACK), time(&traced, IDLE)), (960, 30));
    let part = path.parts.iter().find(|part| part.kind == WRITEBACK).unwrap();
    let hop = path.hops[part.hop];
    assert_eq!((hop.task, hop.inferred), (OTHER, true));
    assert_eq!(hop.waited_for_by.map(|(_, wait)| wait), Some(Wait::Poll));
    let summary = path.summary(&traced.trace);
    assert!(summary.parts[0].inferred && summary.chain.last().unwrap().inferred, "{summary:#?}");
    assert_eq!(traced.trace.stack(part.waker_stack)[1], "folio_wake_bit");
}

/// Go hands a goroutine on to another thread between two system calls.
#[test]
fn waits_of_several_threads_add_up() {
    let mut traced = idling();
    traced.syncs((120, 420), OTHER).syncs((440, 740), THIRD).syncs((760, 1060), OTHER);
    assert_eq!(time(&traced, WRITEBACK), 900);
    let sibling = traced.path(100, 1100).sibling.unwrap();
    assert_eq!((sibling.task, sibling.total), (OTHER, 600));
}

#[test]
fn threads_that_wait_at_once_count_once() {
    let mut traced = idling();
    traced.syncs((120, 1020), OTHER).syncs((140, 740), THIRD).syncs((760, 1060), THIRD);
    assert_eq!(time(&traced, WRITEBACK), 940);
}

#[test]
fn a_thread_that_runs_may_have_the_request_instead() {
    let mut traced = idling();
    traced.syncs((120, 1080), OTHER);
    traced.runs(120, 3, THIRD).blocks(1000, 3, THIRD, "futex_wait");
    assert_eq!((time(&traced, WRITEBACK), time(&traced, IDLE)), (0, 990));
    assert_eq!(traced.path(100, 1100).sibling, None);
}

#[test]
fn waits_that_cover_little_explain_nothing() {
    let mut traced = idling();
    traced.syncs((120, 520), OTHER);
    assert_eq!((time(&traced, WRITEBACK), time(&traced, IDLE)), (0, 990));
}

#[test]
fn another_process_is_no_sibling() {
    let mut traced = idling();
    traced.syncs((120, 1080), OTHER);
    traced.trace.tasks.get_mut(&OTHER).unwrap().process = OTHER;
    assert_eq!((time(&traced, WRITEBACK), traced.path(100, 1100).sibling), (0, None));
}

/// The recorder syncs its file while its probe waits.
#[test]
fn the_process_that_traces_is_not_looked_into() {
    let mut traced = idling();
    traced.syncs((120, 1080), OTHER);
    traced.trace.tracer = Some(SERVER);
    assert_eq!((time(&traced, WRITEBACK), time(&traced, IDLE)), (0, 990));
}

#[test]
fn a_sibling_that_waits_for_itself_explains_nothing() {
    for own in ["do_nanosleep < hrtimer_nanosleep", "wait_woken < n_tty_read", "io_wq_worker"] {
        let mut traced = idling();
        traced.runs(115, 2, OTHER).blocks(120, 2, OTHER, own);
        traced.interrupt(1080, OTHER, "hrtimer_wakeup").runs(1080, 2, OTHER);
        assert_eq!(time(&traced, IDLE), 990, "{own}");
    }
}

#[test]
fn a_sibling_in_reclaim_explains_an_idle_process() {
    let mut traced = idling();
    traced.runs(120, 2, OTHER);
    let stack = traced.stack("shrink_node < do_try_to_free_pages < try_to_free_pages");
    for at in (200..1000).step_by(100) {
        traced.event(at, 2, EventKind::Sample { task: OTHER, stack });
    }
    traced.blocks(1080, 2, OTHER, "futex_wait");
    assert_eq!(time(&traced, TimeKind::Running(RunMode::In(Wait::DirectReclaim))), 960);
}
