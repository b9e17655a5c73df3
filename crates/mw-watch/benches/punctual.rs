//! How soon a stall is seen: `cargo bench -p mw-watch --bench punctual -- [STALLS]`.
//!
//! A web server of our own answers at once, but for one answer in about two seconds, which takes
//! [`SLOW`], all of it in the kernel. Printed is how long after the limit had passed, by the server's
//! clock, the recorder saw it, how long after that it had the first kernel stack of a task, and its
//! gaps between two looks at the counters. A stall that began while another was under way
//! (of the machine's own) is that one's incident, and counted apart.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark ends where something fails")]

use mw_model::Incident;
use mw_probe::ProbeSpec;
use mw_record::Recording;
use mw_watch::{Watch, WatchEvent, WatchOptions};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const USUAL_STALLS: usize = 100;
const PROBE: &str = "web";
const LIMIT: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(1800);

fn main() {
    let stalls = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(USUAL_STALLS);
    let server = Arc::new(Server::default());
    let address = serve(&server);
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("recording.db");
    let watch = Watch::start(WatchOptions {
        probes: vec![ProbeSpec {
            name: PROBE.to_owned(),
            target: format!("http://{address}/").parse().unwrap(),
            limit: LIMIT,
            interval: Duration::from_millis(20),
            timeout: Duration::from_secs(5),
            details: mw_probe::Details::default(),
        }],
        ..WatchOptions::new(recording.clone())
    })
    .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let mut incidents = Vec::new();
    for _ in 0..stalls {
        server.slow.store(true, Ordering::SeqCst);
        std::thread::sleep(SLOW + PAUSE);
        incidents.extend(next_incident(&watch, Duration::ZERO));
    }
    while let Some(incident) = next_incident(&watch, Duration::from_secs(10)) {
        incidents.push(incident);
    }
    drop(watch);
    say(&server.begun_unix_ms.lock().unwrap(), &incidents);
    println!(
        "us that a sample was late, the worst of each second: {}",
        spread(&lateness(&recording))
    );
}

fn say(begun: &[u64], incidents: &[Incident]) {
    let (mut late, mut unseen) = (Vec::new(), Vec::new());
    for begun in begun {
        match late_ms(incidents, *begun) {
            Some(late_ms) => late.push(late_ms),
            None => unseen.push(*begun),
        }
    }
    late.sort_unstable();
    let within = late.iter().filter(|late| **late <= 20).count();
    let others = unseen.iter().filter(|begun| is_within(incidents, **begun)).count();
    println!("{} stalls: {within} seen within 20 ms of their limit", begun.len() - others);
    println!("{} not seen, and {others} more within others", unseen.len() - others);
    println!("ms after the limit: {}", spread(&late));
    let seen = incidents.iter().filter(|incident| incident.trigger.name == PROBE);
    let profiles = seen.filter_map(|incident| incident.profile.as_ref());
    let first: Vec<Option<u64>> = profiles.map(|profile| profile.first_us).collect();
    let mut taken: Vec<u64> = first.iter().copied().flatten().collect();
    taken.sort_unstable();
    let within = taken.iter().filter(|first| **first <= 10_000).count();
    println!("{} profiles: {within} with a kernel stack within 10 ms", first.len());
    println!("us from there to the first stack: {}", spread(&taken));
}

/// Delay after its limit at which a stall was seen that began then; none where it is part of another.
fn late_ms(incidents: &[Incident], begun_unix_ms: u64) -> Option<u64> {
    let passed = begun_unix_ms + LIMIT.as_millis() as u64;
    let during = |incident: &&Incident| {
        incident.trigger.name == PROBE
            && incident.seen_unix_ms + 1 >= passed
            && incident.seen_unix_ms < passed + PAUSE.as_millis() as u64
    };
    let incident = incidents.iter().find(during)?;
    Some(incident.seen_unix_ms.saturating_sub(passed))
}

/// True if a stall began while another was under way.
fn is_within(incidents: &[Incident], begun_unix_ms: u64) -> bool {
    let mut spans =
        incidents.iter().map(|other| other.started_unix_ms..=other.ended_unix_ms + 1000);
    spans.any(|span| span.contains(&begun_unix_ms))
}

fn next_incident(watch: &Watch, at_most: Duration) -> Option<Incident> {
    loop {
        match watch.event(at_most)? {
            WatchEvent::Incident(incident) => return Some(*incident),
            WatchEvent::Begun(_)
            | WatchEvent::Provisional(_)
            | WatchEvent::Updated(_)
            | WatchEvent::NotCaptured(_) => {}
            WatchEvent::Delayed { error, .. } => panic!("{error}"),
        }
    }
}

fn lateness(recording: &std::path::Path) -> Vec<u64> {
    let recording = Recording::open(recording).unwrap();
    let (first, last) = recording.range().unwrap().unwrap();
    let ticks = recording.ticks(first, last).unwrap();
    let mut late: Vec<u64> = ticks.iter().map(|tick| tick.recorder.late_us).collect();
    late.sort_unstable();
    late
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

/// State that the server shares with those who ask for slow answers.
#[derive(Default)]
struct Server {
    /// True if the next answer is to be slow.
    slow: AtomicBool,
    /// Times at which it began to be slow.
    begun_unix_ms: Mutex<Vec<u64>>,
}

/// Answers every request, one of them slowly where that is asked for; its address.
fn serve(server: &Arc<Server>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = Arc::clone(server);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            answer(stream, &server);
        }
    });
    address
}

fn answer(mut stream: TcpStream, server: &Server) {
    let mut request = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while request.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
        line.clear();
    }
    if server.slow.swap(false, Ordering::SeqCst) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        server.begun_unix_ms.lock().unwrap().push(now.as_millis() as u64);
        let (begun, mut zeros) = (Instant::now(), vec![0; 1 << 20]);
        let mut zero = File::open("/dev/zero").unwrap();
        while begun.elapsed() < SLOW {
            zero.read_exact(&mut zeros).unwrap();
        }
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}
