//! Work of run-times for themselves, by functions of theirs on a user stack.

use crate::user_place::UserPlace;

/// Work of a run-time, or its lack of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunTimeWork {
    /// Go marks what is in use.
    GoMarking,
    /// A goroutine that allocates has to help Go's collector first.
    GoAssist,
    /// Go stops all goroutines.
    GoStop,
    /// A thread of Go has no goroutine to run.
    GoIdle,
    /// A worker of Tokio has no task to run.
    TokioIdle,
    /// A thread of Python waits for the interpreter.
    PythonLock,
    /// HotSpot collects garbage.
    JavaCollection,
}

/// Beginnings of the names of functions. What precedes is work within what follows.
const FUNCTIONS: &[(RunTimeWork, &[&str])] = &[
    (RunTimeWork::GoAssist, &["runtime.gcAssistAlloc", "runtime.gcParkAssist"]),
    (RunTimeWork::GoStop, &["runtime.stopTheWorld"]),
    (RunTimeWork::GoMarking, &["runtime.gcBgMarkWorker"]),
    (RunTimeWork::GoIdle, &["runtime.findRunnable", "runtime.findrunnable", "runtime.stopm"]),
    (
        RunTimeWork::TokioIdle,
        &[
            "tokio::runtime::scheduler::multi_thread::park::Parker::park",
            "tokio::runtime::scheduler::multi_thread::park::Inner::park",
            "tokio::runtime::scheduler::multi_thread::worker::Context::park",
            "tokio::runtime::park::CachedParkThread::park",
            "tokio::runtime::park::Inner::park",
        ],
    ),
    (RunTimeWork::PythonLock, &["take_gil"]),
    (RunTimeWork::JavaCollection, &["GenMarkSweep::", "GenCollectedHeap::", "DefNewGeneration::"]),
];

impl UserPlace {
    /// The work of a run-time that its functions show.
    pub fn run_time_work(&self) -> Option<RunTimeWork> {
        let is_by = |of: &[&str]| {
            self.functions.iter().any(|function| of.iter().any(|name| function.starts_with(name)))
        };
        FUNCTIONS.iter().find(|(_, functions)| is_by(functions)).map(|(work, _)| *work)
    }
}

impl RunTimeWork {
    /// In words, to follow the functions of a task.
    pub fn label(self) -> &'static str {
        match self {
            Self::GoMarking => "the garbage collector of Go",
            Self::GoAssist => "helping the garbage collector of Go before it may allocate",
            Self::GoStop => "stopping all goroutines of Go",
            Self::GoIdle => "a thread of Go without a goroutine to run",
            Self::TokioIdle => "a worker of Tokio without a task to run",
            Self::PythonLock => "waiting for the interpreter lock of Python",
            Self::JavaCollection => "the serial garbage collector of Java",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(functions: &str, expected: Option<RunTimeWork>) {
        let functions = functions.split(" < ").map(str::to_owned).collect();
        let place = UserPlace { functions, ..UserPlace::default() };
        assert_eq!(place.run_time_work(), expected, "{place:?}");
    }

    /// Stacks as Go 1.26, Tokio 1, CPython 3.11 and OpenJDK 17 have them.
    #[test]
    fn work_of_run_times_is_recognized() {
        for (functions, work) in [
            (
                "runtime.futex < runtime.notesleep < runtime.mPark < runtime.stopm < runtime.findRunnable",
                RunTimeWork::GoIdle,
            ),
            (
                "runtime.scanobject < runtime.gcDrain < runtime.gcBgMarkWorker.func2",
                RunTimeWork::GoMarking,
            ),
            (
                "runtime.gcDrainN < runtime.gcAssistAlloc1 < runtime.gcAssistAlloc.func2",
                RunTimeWork::GoAssist,
            ),
            ("runtime.futex < runtime.stopTheWorldWithSema", RunTimeWork::GoStop),
            (
                "epoll_wait < mio::poll::Poll::poll < tokio::runtime::io::driver::Driver::turn < \
                 tokio::runtime::scheduler::multi_thread::park::Parker::park",
                RunTimeWork::TokioIdle,
            ),
            ("pthread_cond_timedwait < take_gil < PyEval_RestoreThread", RunTimeWork::PythonLock),
            (
                "GenCollectedHeap::prepare_for_compaction < GenMarkSweep::invoke_at_safepoint",
                RunTimeWork::JavaCollection,
            ),
        ] {
            check(functions, Some(work));
        }
    }

    #[test]
    fn work_of_programs_is_not() {
        check("syscall.Syscall < syscall.Fsync < main.serve", None);
        check("__GI_fsync < tokio::runtime::task::core::Core<T,S>::poll", None);
        check("__GI_fsync < main < tokio::runtime::park::CachedParkThread::block_on", None);
        check("syscall < tokio::runtime::scheduler::multi_thread::park::Unparker::unpark", None);
    }
}
