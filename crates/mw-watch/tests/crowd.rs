//! A recorder beside ten thousand processes: every look ends in its time, the sampling thread is as
//! punctual as without them, and one that is blocked is found among all.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "common/server.rs"]
mod server;

use mw_collect::Source;
use mw_model::Incident;
use mw_probe::ProbeSpec;
use mw_profile::{BlockedThreads, LOOK, TaskFiles, Tasks};
use mw_record::Recording;
use mw_watch::{AFTER, CanaryOptions, Watch, WatchEvent, WatchOptions};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROCESSES: usize = 10_000;

/// Memory limit of so many shells.
const MEMORY_KIB: u64 = 8 << 20;

/// Each waits for its end on a pipe, so that none outlives this process.
const CROWD: &str =
    "exec 3<&0; i=0; while [ $i -lt $0 ]; do read x <&3 & i=$((i+1)); done; echo ready; wait";

const LIMIT: Duration = Duration::from_millis(300);
const SLOW: Duration = Duration::from_secs(2);
const CALM: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(120);

/// Looks run beside builds and other tests: the best of so many is the look's own time.
const TRIES: usize = 7;

/// Shells that wait.
struct Crowd(Child);

impl Crowd {
    fn start(processes: usize) -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", CROWD, &processes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Self(shell)
    }

    fn signal(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::CONT);
        // The pipe's end ends them, and the shell takes leave of each.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A recorder, and a service that is slow when it is told to.
struct Recorder {
    watch: Watch,
    slow: Arc<AtomicBool>,
    path: PathBuf,
    _dir: TempDir,
}

/// Incident of the recorder for a stall.
struct Seen {
    incident: Incident,
    took: Duration,
    /// Median over the seconds of the delay of the latest sample of each.
    late_ms: f64,
    resident_bytes: u64,
}

impl Recorder {
    fn start() -> Self {
        let slow = Arc::new(AtomicBool::new(false));
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("recording.db");
        let web = ProbeSpec {
            name: "web".to_owned(),
            target: format!("http://{}/", server::serve(&slow, SLOW)).parse().unwrap(),
            limit: LIMIT,
            interval: Duration::from_millis(100),
            timeout: Duration::from_secs(60),
            details: mw_probe::Details::default(),
        };
        let watch = Watch::start(WatchOptions {
            probes: vec![web],
            canary: Some(CanaryOptions { limit: Duration::from_secs(5), ..Default::default() }),
            profile: false,
            ..WatchOptions::new(path.clone())
        })
        .unwrap();
        std::thread::sleep(Duration::from_secs(2));
        Self { watch, slow, path, _dir: dir }
    }

    fn stall(&self) -> Seen {
        let since = self.range().1;
        std::thread::sleep(CALM);
        self.slow.store(true, Ordering::SeqCst);
        let began = Instant::now();
        let incident = loop {
            assert!(began.elapsed() < PATIENCE, "no incident of the stall");
            match self.watch.event(PATIENCE) {
                Some(WatchEvent::Incident(incident)) if incident.trigger.name == "web" => {
                    break incident;
                }
                Some(WatchEvent::Delayed { error, .. }) => panic!("{error}"),
                _ => {}
            }
        };
        let took = began.elapsed();
        let recording = Recording::open(&self.path).unwrap();
        let ticks = recording.ticks(since + 1, u64::MAX).unwrap();
        let mut late_ms: Vec<f64> =
            ticks.iter().map(|tick| tick.recorder.late_us as f64 / 1000.0).collect();
        late_ms.sort_by(f64::total_cmp);
        let resident_bytes = ticks.last().unwrap().recorder.resident_bytes;
        Seen { incident: *incident, took, late_ms: late_ms[late_ms.len() / 2], resident_bytes }
    }

    fn range(&self) -> (u64, u64) {
        Recording::open(&self.path).unwrap().range().unwrap().unwrap()
    }
}

/// Duration of a sample: the best of several, the longest, and the best CPU time.
fn times(mut look: impl FnMut()) -> [Duration; 3] {
    let once = || {
        let (began, used) = (Instant::now(), mw_sys::thread_time());
        look();
        (began.elapsed(), mw_sys::thread_time() - used)
    };
    let (took, used): (Vec<_>, Vec<_>) = std::iter::repeat_with(once).take(TRIES).unzip();
    let used = used.into_iter().min().unwrap();
    [*took.iter().min().unwrap(), *took.iter().max().unwrap(), used]
}

fn available_kib() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Promise (The recorder): Beside ten thousand processes every sample meets its time limit, the sampling thread is as
/// punctual as without them, and a blocked process is found.
#[test]
fn ten_thousand_processes_leave_the_recorder_as_it_is() {
    if available_kib() < MEMORY_KIB {
        return mw_test::skip(format!(
            "too little memory: {PROCESSES} processes take {MEMORY_KIB} KiB"
        ));
    }
    let recorder = Recorder::start();
    let few = recorder.stall();
    let source = Source::live().unwrap();
    let few_snapshot = times(|| drop(mw_collect::snapshot(&source)));
    let crowd = Crowd::start(PROCESSES);
    let one = one_stopped_is_found();
    crowd.signal(Signal::STOP);
    let many = recorder.stall();
    let looks = [
        ("tasks", times(|| drop(Tasks::look(&mut TaskFiles::start().unwrap(), LOOK)))),
        (
            "blocked",
            times(|| BlockedThreads::default().look(&mut TaskFiles::start().unwrap(), LOOK)),
        ),
    ];
    let many_snapshot = times(|| drop(mw_collect::snapshot(&source)));
    drop(crowd);
    println!("best, longest, processor time: {looks:?}");
    println!("of a snapshot: {few_snapshot:?} without, {many_snapshot:?} with");
    println!("one that was stopped was found in {one} looks");
    println!("late: {:.2} ms without, {:.2} ms with", few.late_ms, many.late_ms);
    println!("incidents after {:?} and {:?}", few.took, many.took);
    println!("resident {} and {} bytes", few.resident_bytes, many.resident_bytes);
    println!("blocked {}, {:?}", many.incident.blocked.len(), many.incident.unseen);

    for (name, [took, ..]) in looks {
        assert!(took < 2 * LOOK, "{name}: {took:?}");
    }
    assert!(many_snapshot[2] < few_snapshot[2] + LOOK, "{many_snapshot:?} {few_snapshot:?}");
    assert!(many.late_ms < 4.0 * few.late_ms.max(5.0), "{} ms", many.late_ms);
    assert!(many.took < few.took + AFTER, "{:?}", many.took);
    assert!(many.resident_bytes < few.resident_bytes + (16 << 20), "{}", many.resident_bytes);
    // They are stopped before and after it too.
    assert!(many.incident.blocked.len() <= 1024);
}

/// One that is stopped, and came last: how many looks it takes to find it.
fn one_stopped_is_found() -> usize {
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    let mut blocked = BlockedThreads::default();
    let found =
        |blocked: &BlockedThreads| blocked.tasks().iter().any(|task| task.pid == child.id());
    let looks = (1..1_000).find(|_| {
        blocked.look(&mut TaskFiles::start().unwrap(), LOOK);
        found(&blocked)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    looks.unwrap_or_else(|| panic!("never found: {:?}", blocked.missing()))
}
