//! How soon a stall is seen: `cargo bench -p mw-watch --bench punctual -- [STALLS]`.
//!
//! A web server of our own answers at once, but for one answer in about two seconds, which takes
//! [`SLOW`]. Printed is how long after the limit had passed the recorder saw it, and its gaps between
//! two looks at the counters.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark ends where something fails")]

use mw_collect::probe::service::Spec;
use mw_record::{Recording, Retention};
use mw_watch::{Event, Options, Watch};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const USUAL_STALLS: usize = 100;
const LIMIT: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(1800);

fn main() {
    let stalls = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(USUAL_STALLS);
    let slow = Arc::new(AtomicBool::new(false));
    let address = serve(&slow);
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("recording.db");
    let watch = Watch::start(Options {
        recording: recording.clone(),
        retention: Retention::default(),
        probes: vec![Spec {
            name: "web".to_owned(),
            target: format!("http://{address}/").parse().unwrap(),
            limit: LIMIT,
            interval: Duration::from_millis(20),
            timeout: Duration::from_secs(5),
        }],
        canary: Some(mw_watch::CanaryOptions::default()),
        token_timeout: None,
        profile: true,
    })
    .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let mut late_ms = Vec::new();
    for _ in 0..stalls {
        slow.store(true, Ordering::SeqCst);
        std::thread::sleep(SLOW + PAUSE);
        late_ms.extend(seen(&watch, Duration::ZERO));
    }
    while late_ms.len() < stalls {
        let Some(late) = seen(&watch, Duration::from_secs(10)) else { break };
        late_ms.push(late);
    }
    drop(watch);
    late_ms.sort_unstable();
    let within = late_ms.iter().filter(|late| **late <= 20).count();
    println!("{stalls} stalls, {} seen; {within} within 20 ms of their limit", late_ms.len());
    println!("ms after the limit: {}", spread(&late_ms));
    println!("us between two looks, the worst of each second: {}", spread(&gaps(&recording)));
}

/// How late the next stall was seen, in milliseconds.
fn seen(watch: &Watch, at_most: Duration) -> Option<u64> {
    loop {
        match watch.event(at_most)? {
            Event::Incident(incident) => {
                let took_ms = incident.seen_unix_ms - incident.started_unix_ms;
                return Some(took_ms.saturating_sub(LIMIT.as_millis() as u64));
            }
            Event::Begun(_) => {}
            Event::Lost { error, .. } => panic!("{error}"),
        }
    }
}

fn gaps(recording: &std::path::Path) -> Vec<u64> {
    let recording = Recording::open(recording).unwrap();
    let (first, last) = recording.range().unwrap().unwrap();
    let ticks = recording.ticks(first, last).unwrap();
    let mut gaps: Vec<u64> = ticks.iter().map(|tick| tick.recorder.gap_us).collect();
    gaps.sort_unstable();
    gaps
}

fn spread(sorted: &[u64]) -> String {
    let at = |share: f64| sorted.get(((sorted.len() - 1) as f64 * share).round() as usize);
    match (at(0.5), at(0.99), sorted.last()) {
        (Some(median), Some(p99), Some(worst)) => {
            format!("median {median}, p99 {p99}, worst {worst}")
        }
        _ => "none".to_owned(),
    }
}

/// Answers every request, one of them slowly where that is asked for; its address.
fn serve(slow: &Arc<AtomicBool>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let slow = Arc::clone(slow);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            answer(stream, &slow);
        }
    });
    address
}

fn answer(mut stream: TcpStream, slow: &AtomicBool) {
    let mut request = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while request.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
        line.clear();
    }
    if slow.swap(false, Ordering::SeqCst) {
        std::thread::sleep(SLOW);
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}
