//! Memory that is not given, and a process that is not run: only the first is a stall of memory.
//!
//! One test in a process of its own, for it is put into a cgroup and stopped.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use mw_model::CanaryTick;
use mw_probe::canary::Canary;
use mw_test::TestCgroup;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(10);
const STALL_US: u64 = 300_000;
/// A touch that takes longer is seen while it lasts.
const LIMIT: Duration = Duration::from_millis(100);

/// A memory cgroup of version 1 in which whoever gets no memory waits, and is not killed.
struct Starved(TestCgroup);

impl Starved {
    fn make() -> std::io::Result<Self> {
        let made = Self(TestCgroup::new("memory")?);
        fs::write(made.0.path().join("memory.oom_control"), "1")?;
        fs::write(made.limit(), "0")?;
        Ok(made)
    }

    fn limit(&self) -> PathBuf {
        self.0.path().join("memory.limit_in_bytes")
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        let _ = fs::write(self.limit(), "-1");
    }
}

/// Does `what` half a second after `file` has the line `begun`, from outside of this process.
fn later(file: &Path, begun: &str, what: &str) -> Child {
    let file = file.display();
    let script = format!("until grep -q '^{begun}' {file}; do sleep 0.01; done; sleep 0.5; {what}");
    Command::new("sh").args(["-c", &script]).spawn().unwrap()
}

/// The worst until `end` has run, and the longest that a touch was seen to take while it lasted. It
/// allocates nothing while memory is not given.
fn worst(canary: &Canary, mut end: Child) -> (CanaryTick, Duration) {
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(1) {
        longest = longest.max(canary.touching_for().unwrap_or_default());
        std::thread::sleep(BEAT);
    }
    assert!(end.wait().unwrap().success());
    (canary.take(), longest)
}

fn wait_for_a_turn(canary: &Canary) {
    canary.take();
    for _ in 0..2 {
        while canary.take().touch_us == 0 {
            std::thread::sleep(BEAT);
        }
    }
}

/// Promise (The recorder): A memory stall is distinguished from CPU contention.
#[test]
fn a_stall_of_memory_is_told_from_one_of_the_processor() {
    let canary = Canary::start(BEAT, 16 << 10).unwrap();
    wait_for_a_turn(&canary);

    // A process that is stopped is late everywhere.
    let own = std::process::id();
    let status = format!("/proc/{own}/status");
    let goes_on = later(status.as_ref(), "State:.T", &format!("kill -CONT {own}"));
    canary.take();
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)
        .unwrap();
    let (stopped, _) = worst(&canary, goes_on);
    assert!(stopped.late_us > STALL_US && stopped.idle_us > STALL_US, "{stopped:?}");

    let cgroup = match Starved::make() {
        Ok(cgroup) => cgroup,
        Err(error) => return mw_test::skip(format!("no memory cgroup of version 1: {error}")),
    };
    // One that is given no memory is late only where it touches some.
    let members = cgroup.0.members();
    let lift = format!("echo -1 > {}", cgroup.limit().display());
    let goes_on = later(&members, &own.to_string(), &lift);
    canary.take();
    fs::write(&members, own.to_string()).unwrap();
    let (starved, seen) = worst(&canary, goes_on);
    assert!(starved.touch_us > STALL_US, "{starved:?}");
    assert!(seen >= LIMIT, "{seen:?}");
    assert!(2 * starved.idle_us < starved.touch_us, "{starved:?}");
    drop(cgroup);
}
