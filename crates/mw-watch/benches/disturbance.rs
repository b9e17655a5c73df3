//! What the recorder's start and its evidence-taking add to the answers of a service on busy CPUs:
//! `cargo bench -p mw-watch --bench disturbance -- [--rounds N]`.
//!
//! A client asks a server of our own a thousand times a second while a program computes on each CPU. In turn, in one
//! run: nothing beside them; the recorder starts; the recorder takes the evidence of stalls of another server, which
//! answers late. Printed are percentiles of the answers, and what they are more than without the recorder; the bound
//! is 5 ms more at p99.9.
#![allow(clippy::unwrap_used, reason = "a benchmark ends where something fails")]

use mw_probe::ProbeSpec;
use mw_test::measure::{median, number, others};
use mw_watch::{Watch, WatchEvent, WatchOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Duration of the measurement in each phase.
const PHASE: Duration = Duration::from_secs(6);
const INTERVAL: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_millis(200);
/// Every so often the other server answers so late.
const SLOW_EVERY: u32 = 3;
const SLOW: Duration = Duration::from_millis(1200);
const BOUND_MS: f64 = 5.0;

/// Milliseconds of a phase at the percentiles that are printed.
type Percentiles = [f64; 3];
const SHARES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

fn main() {
    let rounds = number("--rounds", 5);
    println!("{}", others());
    let service = serve(Duration::ZERO);
    let other = serve(SLOW);
    let hogs: Vec<Hog> =
        (0..std::thread::available_parallelism().unwrap().get()).map(|_| Hog::start()).collect();
    let mut phases: [Vec<Percentiles>; 3] = Default::default();
    let mut stalls = 0;
    for _ in 0..rounds {
        phases[0].push(measure(service, || {}));
        let mut watch = None;
        phases[1].push(measure(service, || watch = Some(start(other))));
        phases[2].push(measure(service, || {}));
        let watch = watch.unwrap();
        while let Some(event) = watch.event(Duration::ZERO) {
            stalls +=
                usize::from(matches!(event, WatchEvent::Incident(_) | WatchEvent::Provisional(_)));
        }
    }
    drop(hogs);
    println!("{rounds} rounds, {stalls} explanations of stalls");
    let plain = medians(&phases[0]);
    for (name, of) in ["without the recorder", "its start", "its evidence"].iter().zip(&phases) {
        let values = medians(of).into_iter().zip(plain).zip(SHARES);
        let text = values
            .map(|((ms, plain), (share, _))| format!("{share} {ms:.2} ms ({:+.2})", ms - plain));
        println!("{name:<22} {}", text.collect::<Vec<_>>().join(", "));
    }
    let worst = phases.iter().skip(1).map(|of| medians(of)[2] - plain[2]).fold(0.0, f64::max);
    println!("at most {worst:.2} ms more at p99.9 (bound: {BOUND_MS} ms)");
}

/// The medians of the rounds.
fn medians(rounds: &[Percentiles]) -> Percentiles {
    [0, 1, 2].map(|share| median(rounds.iter().map(|round| round[share]).collect()))
}

/// Asks the service at each interval for one phase, in which `beside` runs in another thread.
fn measure(service: SocketAddr, beside: impl FnOnce() + Send) -> Percentiles {
    let mut answers: Vec<f64> = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(beside);
        let mut connection = TcpStream::connect(service).unwrap();
        connection.set_nodelay(true).unwrap();
        let began = Instant::now();
        while began.elapsed() < PHASE {
            let asked = Instant::now();
            connection.write_all(b"?").unwrap();
            connection.read_exact(&mut [0]).unwrap();
            answers.push(asked.elapsed().as_secs_f64() * 1000.0);
            std::thread::sleep(INTERVAL.saturating_sub(asked.elapsed()));
        }
    });
    answers.sort_by(f64::total_cmp);
    SHARES.map(|(_, share)| answers[((answers.len() - 1) as f64 * share).round() as usize])
}

/// A recorder that probes the server that is late.
fn start(other: SocketAddr) -> Watch {
    let dir = tempfile::tempdir().unwrap();
    let details = mw_probe::Details::default();
    let target = format!("http://{other}/").parse().unwrap();
    let (interval, timeout) = (Duration::from_millis(500), Duration::from_secs(5));
    let spec =
        ProbeSpec { name: "other".to_owned(), target, limit: LIMIT, interval, timeout, details };
    let options =
        WatchOptions { probes: vec![spec], ..WatchOptions::new(dir.keep().join("recording.db")) };
    Watch::start(options).unwrap()
}

/// A server whose answers are late at times, where `slow` is not zero: to HTTP; otherwise it answers a byte with a byte.
fn serve(slow: Duration) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (count, connection) in (0_u32..).zip(listener.incoming().flatten()) {
            std::thread::spawn(move || answer(connection, slow, count));
        }
    });
    address
}

fn answer(mut connection: TcpStream, slow: Duration, mut count: u32) {
    let mut request = [0; 4096];
    connection.set_nodelay(true).unwrap();
    while let Ok(1..) = connection.read(&mut request) {
        count += 1;
        if slow.is_zero() {
            drop(connection.write_all(b"!"));
            continue;
        }
        if count.is_multiple_of(SLOW_EVERY) {
            std::thread::sleep(slow);
        }
        drop(connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    }
}

/// A program that computes.
struct Hog(Child);

impl Hog {
    fn start() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
