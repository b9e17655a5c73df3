//! What the sampling thread of a recorder does after its start, before a stall and in one: it
//! allocates nothing, asks the kernel for nothing but time and what it has open, and stays in memory.
//!
//! The thread is that of [`Watch`], looked at from outside by its number.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "common/server.rs"]
mod server;

use mw_probe::ProbeSpec;
use mw_test::is_root;
use mw_watch::{Watch, WatchEvent, WatchOptions};
use std::alloc::System;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker, Allocator};

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

/// The thread whose allocations are counted.
static THREAD: AtomicU32 = AtomicU32::new(0);
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// Its first seconds, in which it may still allocate.
const WARM_UP: Duration = Duration::from_secs(4);

/// Duration of the test in calm.
const CALM: Duration = Duration::from_secs(4);

const LIMIT: Duration = Duration::from_millis(200);
const SLOW: Duration = Duration::from_millis(1_500);
const PATIENCE: Duration = Duration::from_secs(60);

struct Counter;

impl Counter {
    fn count(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        if thread == THREAD.load(Ordering::Relaxed) {
            COUNTED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl AllocationTracker for Counter {
    fn allocated(&self, _: usize, _: usize, _: usize, _: AllocationGroupId) {
        self.count();
    }

    fn deallocated(
        &self,
        _: usize,
        _: usize,
        _: usize,
        _: AllocationGroupId,
        _: AllocationGroupId,
    ) {
        self.count();
    }
}

/// A recorder with everything on, in a directory of its own, and its service.
struct Recorder {
    watch: Watch,
    slow: Arc<AtomicBool>,
    thread: u32,
    _dir: TempDir,
}

impl Recorder {
    fn start() -> Self {
        let slow = Arc::new(AtomicBool::new(false));
        let dir = TempDir::new().unwrap();
        let spec = ProbeSpec {
            name: "web".to_owned(),
            target: format!("http://{}/", server::serve(&slow, SLOW)).parse().unwrap(),
            limit: LIMIT,
            interval: Duration::from_millis(100),
            timeout: Duration::from_secs(5),
            details: mw_probe::Details::default(),
        };
        let watch = Watch::start(WatchOptions {
            probes: vec![spec],
            token_timeout: Some(Duration::from_secs(60)),
            ..WatchOptions::new(dir.path().join("recording.db"))
        })
        .unwrap();
        std::thread::sleep(WARM_UP);
        let thread = thread_named("mw-sample");
        Self { watch, slow, thread, _dir: dir }
    }

    /// Some time without a stall, then one, to the end of its incident.
    fn calm_and_a_stall(&self) {
        std::thread::sleep(CALM);
        self.slow.store(true, Ordering::SeqCst);
        let until = Instant::now() + PATIENCE;
        let (mut begun, mut kept) = (false, false);
        while !kept {
            assert!(Instant::now() < until, "no incident of the stall");
            match self.watch.event(PATIENCE) {
                Some(WatchEvent::Begun(trigger)) => begun |= trigger.name == "web",
                Some(WatchEvent::Incident(_)) => kept = begun,
                Some(WatchEvent::NotCaptured(error)) => panic!("{error}"),
                Some(WatchEvent::Provisional(_) | WatchEvent::Updated(_)) | None => {}
                Some(WatchEvent::Delayed { error, .. }) => panic!("{error}"),
            }
        }
    }

    fn proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/self/task/{}/{file}", self.thread)).unwrap()
    }

    /// Faults of memory that was not there, without and with a disk.
    fn faults(&self) -> (u64, u64) {
        let stat = self.proc("stat");
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (fields[7].parse().unwrap(), fields[9].parse().unwrap())
    }

    /// Bytes that it read from and wrote to disks, and wrote to anything.
    fn disk(&self) -> Vec<String> {
        let io = self.proc("io");
        let wanted = ["wchar", "syscw", "read_bytes", "write_bytes"];
        let is_wanted = |line: &&str| wanted.contains(&line.split(':').next().unwrap());
        io.lines().filter(is_wanted).map(str::to_owned).collect()
    }
}

fn thread_named(name: &str) -> u32 {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    let is_named = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let found: Vec<PathBuf> = threads.filter(is_named).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// System calls that are allowed: time, what is open, another thread's waking.
const ALLOWED: &[&str] = &["ppoll", "pread64", "clock_gettime", "futex", "restart_syscall", "read"];

/// The calls that strace counts, by name.
fn calls(trace: &Path) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for line in fs::read_to_string(trace).unwrap().lines() {
        if let Some((name, _)) = line.split_once('(') {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

/// Mappings with memory in them that is not locked.
fn unlocked() -> Vec<String> {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut name, mut resident, mut found) = (String::new(), false, Vec::new());
    for line in smaps.lines() {
        let (key, value) = line.split_once(' ').unwrap();
        match key {
            "Rss:" => resident = value.trim() != "0 kB",
            // What the kernel has put there itself cannot be reclaimed.
            "VmFlags:"
                if resident && !value.split(' ').any(|f| matches!(f, "lo" | "io" | "pf")) =>
            {
                found.push(format!("{name} {value}"));
            }
            key if !key.ends_with(':') => name = line.to_owned(),
            _ => {}
        }
    }
    found.retain(|mapping| !mapping.contains("[vdso]") && !mapping.contains("[vsyscall]"));
    found
}

/// Promise (The recorder): After its start the sampling thread allocates nothing, writes nothing, forks nothing and
/// stays resident, also during a stall; missing delay accounting is reported once.
#[test]
fn after_its_start_it_allocates_nothing_writes_nothing_forks_nothing_and_stays_in_memory() {
    AllocationRegistry::set_global_tracker(Counter).unwrap();
    AllocationRegistry::enable_tracking();
    THREAD.store(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
    drop(vec![1_u8; 100]);
    assert!(COUNTED.load(Ordering::Relaxed) >= 2, "it counts");

    let recorder = Recorder::start();
    THREAD.store(recorder.thread, Ordering::Relaxed);
    COUNTED.store(0, Ordering::Relaxed);
    let (disk, faults) = (recorder.disk(), recorder.faults());
    recorder.calm_and_a_stall();
    assert_eq!(recorder.disk(), disk);
    if is_root() {
        assert_eq!(recorder.faults(), faults, "small and large faults");
        assert_eq!(unlocked(), Vec::<String>::new());
        let policy = recorder.proc("stat");
        assert_eq!(policy.split_whitespace().rev().nth(11), Some("1"), "SCHED_FIFO: {policy}");
    }
    assert_eq!(COUNTED.load(Ordering::Relaxed), 0, "allocations and deallocations");

    // strace: apt-get install strace
    let dir = TempDir::new().unwrap();
    let trace = dir.path().join("trace");
    let mut strace = Command::new("strace")
        .args(["-p", &recorder.thread.to_string(), "-o"])
        .arg(&trace)
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("strace: {error}: apt-get install strace"));
    recorder.calm_and_a_stall();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&strace),
        rustix::process::Signal::INT,
    )
    .unwrap();
    strace.wait().unwrap();
    let calls = calls(&trace);
    assert!(calls["pread64"] > 100 && calls["ppoll"] > 20, "{calls:?}");
    let other: Vec<_> = calls.keys().filter(|call| !ALLOWED.contains(&call.as_str())).collect();
    assert!(other.is_empty(), "{other:?} of {calls:?}");
    assert_eq!(COUNTED.load(Ordering::Relaxed), 0, "allocations and deallocations");
    let said = recorder.watch.unseen().iter().filter(|missing| missing.what == "taskstats").count();
    assert_eq!(said, usize::from(mw_profile::delays_off().is_some()), "said once, at the start");
}
