//! What does not respond holds up no incident of another service.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "common/server.rs"]
mod server;

use mw_probe::{Details, ProbeSpec};
use mw_watch::{Watch, WatchEvent, WatchOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A user who may write to the directory of a service's log puts a FIFO in its place.
#[test]
fn a_log_that_does_not_respond_keeps_no_incident_from_being_told() {
    let dir = TempDir::new().unwrap();
    let fifo = dir.path().join("gc.log");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let slow: [Arc<AtomicBool>; 2] = Default::default();
    let spec = |name: &str, slow: &Arc<AtomicBool>, gc_log: Option<PathBuf>| ProbeSpec {
        name: name.to_owned(),
        target: format!("http://{}/", server::serve(slow, Duration::from_secs(1))).parse().unwrap(),
        limit: Duration::from_millis(300),
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(10),
        details: Details { gc_log, ..Details::default() },
    };
    let watch = Watch::start(WatchOptions {
        probes: vec![spec("java", &slow[0], Some(fifo)), spec("other", &slow[1], None)],
        canary: None,
        profile: false,
        ..WatchOptions::new(dir.path().join("recording.db"))
    })
    .unwrap();
    slow[0].store(true, Ordering::SeqCst);
    wait_for(&watch, "java");
    slow[1].store(true, Ordering::SeqCst);
    wait_for(&watch, "other");
    assert_eq!(watch.stuck(), None);
}

fn wait_for(watch: &Watch, probe: &str) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match watch.event(Duration::from_secs(1)) {
            Some(WatchEvent::Incident(incident)) if incident.trigger.name == probe => return,
            Some(WatchEvent::Delayed { error, .. }) => panic!("{error}"),
            _ => {}
        }
    }
    panic!("no incident of {probe}");
}
