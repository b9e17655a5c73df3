//! A process at its limit of open files is seen, of the running machine and of a capture.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mw_collect::{Source, capture};
use mw_model::open_files::LEAST_LIMIT;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::fs::{self, File};
use std::process::{Child, Command};
use std::time::Duration;

/// A process with so many files open, and the three standard ones.
struct OpeningProcess(Child);

impl OpeningProcess {
    fn start(files: u64) -> Self {
        let null = File::open("/dev/null").unwrap();
        // A duplicate is inherited.
        let inherited: Vec<OwnedFd> = (0..files).map(|_| rustix::io::dup(&null).unwrap()).collect();
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        drop(inherited);
        // Its loader opens and closes libraries until then.
        let stat = format!("/proc/{}/stat", child.id());
        mw_test::wait_until("sleep sleeps", Duration::from_secs(10), || {
            fs::read_to_string(&stat).unwrap().contains(") S ")
        });
        Self(child)
    }

    fn open(&self) -> u64 {
        fs::read_dir(format!("/proc/{}/fd", self.0.id())).unwrap().count() as u64
    }

    fn limit(&self, soft: u64) {
        let limit = Rlimit { current: Some(soft), maximum: Some(soft) };
        prlimit(Some(Pid::from_child(&self.0)), Resource::Nofile, limit).unwrap();
    }

    /// The open files and the limit that a snapshot has.
    fn seen(&self, source: &Source) -> Option<(u64, Option<u64>)> {
        let snapshot = mw_collect::snapshot(source);
        let processes = &snapshot.processes.required().unwrap().list;
        let process = processes.iter().find(|of| of.status.pid == Some(self.0.id())).unwrap();
        Some((process.open_files?, process.limits?.open_files?.soft))
    }
}

impl Drop for OpeningProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

const TRIES: usize = 20;

#[test]
fn a_process_at_its_limit_is_seen_and_captured() {
    let live = Source::live().unwrap();
    let process = OpeningProcess::start(LEAST_LIMIT);
    let open = process.open();
    process.limit(open + 5);
    assert_eq!(process.seen(&live), None, "five are free");
    process.limit(open + 4);
    // On a busy machine the time limit of a look may leave it out.
    let seen = std::iter::repeat_with(|| process.seen(&live)).take(TRIES).flatten().next();
    assert_eq!(seen, Some((open, Some(open + 4))));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("capture.tar.zst");
    capture::write(&live, false, File::create(&path).unwrap()).unwrap();
    let captured = capture::read(File::open(&path).unwrap(), &path).unwrap();
    assert_eq!(process.seen(&captured), Some((open, Some(open + 4))));
}
