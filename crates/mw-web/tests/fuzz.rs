//! Hostile clients send what is no request, half of one, too much of one, and wrong passwords to two servers, one of them
//! with TLS, read nothing, and break connections off. Scrapers with the right password are answered meanwhile, and
//! nobody else is.
//!
//! `MW_WEB_FUZZ_S` is the duration in seconds, `MW_WEB_FUZZ_SEED` chooses other bytes, and `MW_WEB_FUZZ_BOUND_S` is the
//! longest that a scraper may wait, for a run beside other work.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod common;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::{Certificates, RIGHT, ask, connect_from, start};
use mw_web::{MAX_TIME, WebConfig, WebServer};
use rustix::net::sockopt::set_socket_linger;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections that a hostile client keeps open.
const MAX_KEPT: usize = 100;

/// The addresses of the hostile clients; the first is that of the scrapers.
const HOSTILE: [[u8; 4]; 4] = [[127, 0, 0, 1], [127, 0, 0, 3], [127, 0, 0, 4], [127, 0, 0, 5]];

/// A password of a low cost, so that many are verified.
const COST: u32 = 4;

/// xorshift64*: the same bytes for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next() as u8).collect()
    }
}

struct Servers {
    files: Certificates,
    plain: SocketAddr,
    encrypted: SocketAddr,
}

fn servers() -> (Servers, [WebServer; 2]) {
    let files = Certificates::new();
    files.issue("server");
    let hash = bcrypt::hash("secret", COST).unwrap();
    let users = format!("basic_auth_users:\n  prom: {hash}\n");
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    let (first, plain, _) = start(Some(WebConfig::new(files.write("plain.yml", &users))));
    let both = files.write("tls.yml", &format!("{tls}{users}"));
    let (second, encrypted, _) = start(Some(WebConfig::new(both)));
    (Servers { files, plain, encrypted }, [first, second])
}

/// Promise (Metrics): Hostile clients of the listener keep out no scraper and get no page.
#[test]
fn hostile_clients_keep_out_no_scraper() {
    let (seconds, seed) = (number("MW_WEB_FUZZ_S", 4), number("MW_WEB_FUZZ_SEED", 1));
    let (servers, running) = servers();
    let is_over = AtomicBool::default();
    let (mut waits, counts) = std::thread::scope(|scope| {
        let hostile: Vec<_> = (0..HOSTILE.len())
            .map(|index| {
                let (servers, is_over) = (&servers, &is_over);
                let random = Random((seed + index as u64 + 1) * 0x9e37_79b9);
                scope.spawn(move || attack(servers, HOSTILE[index], random, is_over))
            })
            .collect();
        let waits = scrape_for(&servers, Duration::from_secs(seconds), &is_over);
        let counts: Vec<_> = hostile.into_iter().map(|thread| thread.join().unwrap()).collect();
        (waits, counts)
    });
    let start = Instant::now();
    drop(running);
    assert!(start.elapsed() < bound(), "the servers end after {:?}", start.elapsed());
    let mut sent: BTreeMap<&str, u64> = BTreeMap::new();
    counts.into_iter().flatten().for_each(|(kind, count)| *sent.entry(kind).or_default() += count);
    waits.sort();
    let (p99, most) = (waits[waits.len() * 99 / 100], waits[waits.len() - 1]);
    println!(
        "{seconds} s, seed {seed}: {} scrapes, p99 {p99:.1?}, longest {most:.1?}; sent {sent:?}",
        waits.len()
    );
    assert!(sent.values().all(|count| *count > 0));
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// The longest that a scraper waits for its page, on a busy machine.
fn bound() -> Duration {
    Duration::from_secs(number("MW_WEB_FUZZ_BOUND_S", 4))
}

/// Ends the attack, also where a scrape fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How long each scrape took.
fn scrape_for(servers: &Servers, time: Duration, is_over: &AtomicBool) -> Vec<Duration> {
    let _over = Over(is_over);
    let (begun, mut waits) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        for is_encrypted in [false, true] {
            let start = Instant::now();
            let own = [127, 0, 0, 1 + (waits.len() / 2 % 2) as u8];
            let answer = loop {
                match scrape(servers, own, is_encrypted) {
                    Ok(answer) => break answer,
                    // A machine that has no CPU for the server for as long as a connection lasts.
                    Err(_) if bound() > MAX_TIME && start.elapsed() < bound() => {}
                    Err(error) => {
                        panic!("after {:?}, TLS {is_encrypted}: {error}", begun.elapsed())
                    }
                }
            };
            assert!(answer.ends_with("page /x\n"), "{answer}");
            assert!(start.elapsed() < bound(), "TLS {is_encrypted}: {:?}", start.elapsed());
            waits.push(start.elapsed());
        }
        // The rate of the scrapers.
        std::thread::sleep(Duration::from_millis(20));
    }
    waits
}

fn scrape(servers: &Servers, own: [u8; 4], is_encrypted: bool) -> io::Result<String> {
    match is_encrypted {
        false => ask(&mut connect_from(own, servers.plain)?, RIGHT),
        true => {
            let socket = connect_from(own, servers.encrypted)?;
            ask(&mut servers.files.encrypt(socket, None), RIGHT)
        }
    }
}

const KINDS: [&str; 8] =
    ["nothing", "random", "part", "altered", "long", "password", "record", "handshake"];

/// How often each kind was sent.
fn attack(
    servers: &Servers,
    own: [u8; 4],
    mut random: Random,
    is_over: &AtomicBool,
) -> BTreeMap<&'static str, u64> {
    let (mut sent, mut kept) = (BTreeMap::new(), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let kind = KINDS[random.below(KINDS.len())];
        let address = if random.below(2) == 0 { servers.plain } else { servers.encrypted };
        let Ok(socket) = connect_from(own, address) else { continue };
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        socket.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        *sent.entry(kind).or_default() += 1;
        if kind == "handshake" {
            let mut stream = servers.files.encrypt(socket, None);
            let payload = payload(KINDS[1 + random.below(5)], &mut random);
            // Errors are what it is after.
            let _ = stream.write_all(&payload).and_then(|()| stream.flush());
            verify(&read_some(&mut stream, &mut random), &payload);
            end(stream.sock, &mut random, &mut kept);
        } else {
            let mut socket = socket;
            let payload = payload(kind, &mut random);
            for piece in payload.chunks(1 + random.below(2000)) {
                if socket.write_all(piece).is_err() {
                    break;
                }
            }
            verify(&read_some(&mut socket, &mut random), &payload);
            end(socket, &mut random, &mut kept);
        }
    }
    sent
}

/// Breaks it off, closes one direction, keeps or closes it.
fn end(socket: TcpStream, random: &mut Random, kept: &mut Vec<TcpStream>) {
    match random.below(4) {
        0 => drop(set_socket_linger(&socket, Some(Duration::ZERO))),
        1 => drop(socket.shutdown(Shutdown::Write)),
        2 => return,
        _ => {}
    }
    kept.push(socket);
    if kept.len() > MAX_KEPT {
        kept.swap_remove(random.below(MAX_KEPT));
    }
}

/// Half of the clients read nothing.
fn read_some(stream: &mut dyn Read, random: &mut Random) -> Vec<u8> {
    let mut answer = vec![0; 4096];
    let count = if random.below(2) == 0 { 0 } else { stream.read(&mut answer).unwrap_or(0) };
    answer.truncate(count);
    answer
}

/// No page without the password, which random bytes do not have.
fn verify(answer: &[u8], payload: &[u8]) {
    let text = String::from_utf8_lossy(answer);
    let sent = String::from_utf8_lossy(payload);
    assert!(!text.contains("page /") && !text.starts_with("HTTP/1.1 200"), "{sent}\n{text}");
}

fn payload(kind: &str, random: &mut Random) -> Vec<u8> {
    let wrong = |random: &mut Random| {
        let user = ["prom", "nobody", ""][random.below(3)];
        let text = [user.as_bytes(), b":x", &random.bytes(200)].concat();
        let scheme = ["Basic", "basic", "Bearer", "Basic "][random.below(4)];
        format!("Authorization: {scheme} {}\r\n", BASE64_STANDARD.encode(text))
    };
    let method = ["GET", "HEAD", "POST", "PRI", "\u{1}"][random.below(5)];
    let path = ["/x", "/metrics?a=b", "*", "http://h/x", "/%00", "x"][random.below(6)];
    let version = ["1.1", "1.0", "2", "1.1 "][random.below(4)];
    let header = wrong(random);
    let request = format!("{method} {path} HTTP/{version}\r\nHost: a\r\n{header}\r\n");
    let mut bytes = request.into_bytes();
    match kind {
        "nothing" => Vec::new(),
        "random" => random.bytes(20_000),
        "part" => {
            bytes.truncate(random.below(bytes.len()));
            bytes
        }
        "altered" => {
            for _ in 0..=random.below(8) {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
            bytes
        }
        "long" => {
            let line = format!("h{}: {}\r\n", random.below(100), "v".repeat(random.below(300)));
            let lines = line.repeat(random.below(200));
            [b"GET /x HTTP/1.1\r\n", lines.as_bytes(), b"\r\n", &random.bytes(70_000)].concat()
        }
        "record" => {
            // Of each type, with a length that may not be that of what follows.
            let body = random.bytes(300);
            let kind = 20 + random.below(6) as u8;
            let length = [body.len(), random.below(1 << 16)][random.below(2)] as u16;
            let [high, low] = length.to_be_bytes();
            [&[kind, 3, 3, high, low, 1, 0, 0, low][..], &body].concat()
        }
        _ => format!("GET /x HTTP/1.1\r\nHost: a\r\n{header}\r\n").into_bytes(),
    }
}
