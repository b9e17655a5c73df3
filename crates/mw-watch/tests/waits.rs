//! Waits of a real service's cgroup, summed up a second at a time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mw_model::{GroupWait, Resource, WaitOrigin};
use mw_probe::{Details, ProbeSpec};
use mw_test::TestCgroup;
use mw_watch::{Watch, WatchOptions};
use rustix::process::{Pid, Signal, kill_process_group};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A web server with three threads of its own for each CPU, which compute.
const SERVICE: &str = "echo $$ > \"$0\"; n=$(($(nproc) * 3)); while [ $n -gt 0 ]; do \
                       (while :; do :; done) & n=$((n-1)); done; \
                       exec python3 -m http.server --bind 127.0.0.1 \"$1\"";

const PATIENCE: Duration = Duration::from_secs(90);
const ENOUGH_US: u64 = 500_000;

struct BusyService(Child);

impl BusyService {
    fn start(group: &TestCgroup, port: u16) -> Self {
        let child = Command::new("sh")
            .args(["-c", SERVICE])
            .arg(group.members())
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for BusyService {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Promise (Blame): What the cgroup of a service waits is summed up by who makes it wait, also without a stall.
#[test]
fn a_service_that_competes_with_itself_waits_for_itself() {
    if !mw_test::is_root() {
        return;
    }
    let group = match TestCgroup::unified() {
        Ok(group) if group.path().join("cpu.pressure").exists() => group,
        Ok(_) => return mw_test::skip("no pressure of cgroups"),
        Err(error) => return mw_test::skip(format!("no cgroup of version 2: {error}")),
    };
    // Somebody else may take the port meanwhile; then the service ends at once.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let service = BusyService::start(&group, port);
    let dir = tempfile::tempdir().unwrap();
    let web = ProbeSpec {
        name: "web".to_owned(),
        target: format!("http://127.0.0.1:{port}/").parse().unwrap(),
        limit: Duration::from_secs(10),
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(60),
        details: Details::default(),
    };
    let options = WatchOptions {
        probes: vec![web],
        group_waits: true,
        profile: false,
        ..WatchOptions::new(dir.path().join("recording"))
    };
    let began = Instant::now();
    let watch = Watch::start(options).unwrap();
    let of_cpu = |waits: &[GroupWait], origin: Option<WaitOrigin>| -> u64 {
        let is_of = |wait: &&GroupWait| {
            wait.resource == Resource::Cpu && origin.is_none_or(|origin| wait.origin == origin)
        };
        waits.iter().filter(is_of).map(|wait| wait.waited_us).sum()
    };
    let waits = loop {
        assert!(began.elapsed() < PATIENCE, "{:?}", watch.group_waits());
        std::thread::sleep(Duration::from_millis(500));
        let waits = watch.group_waits();
        let found = waits.into_iter().find(|(_, waits)| of_cpu(waits, None) >= ENOUGH_US);
        if let Some((victim, waits)) = found {
            let path = victim.cgroup.unwrap();
            assert!(group.path().ends_with(path.trim_start_matches('/')), "{path}");
            break waits;
        }
    };
    let (all, itself) = (of_cpu(&waits, None), of_cpu(&waits, Some(WaitOrigin::Itself)));
    assert!(u128::from(all) <= began.elapsed().as_micros(), "{waits:?}");
    assert!(itself > 0, "{waits:?}");
    drop(watch);
    drop(service);
}
