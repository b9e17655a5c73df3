//! The server, its clients, and those that mean it harm.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod common;

use common::{
    Certificates, LARGE_BYTES, RIGHT, ask, connect_from, get, get_from, start, start_with_password,
};
use mw_web::{MAX_CONNECTIONS, Protection, WebConfig};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_request_is_answered_and_a_dropped_server_closes_its_port() {
    let (server, address, _) = start(None);
    let answer = get(address, "").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\npage /x\n"), "{answer}");
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

/// Promise (Metrics): Clients that send nothing or are slow are cut off and keep out nobody.
#[test]
fn clients_that_send_nothing_keep_out_nobody() {
    let (_server, address, _) = start(None);
    let mut silent = Vec::new();
    for index in 0..4000 {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(b"GET / HT");
        silent.push(stream);
        if silent.len() > 4 * MAX_CONNECTIONS {
            silent.remove(0);
        }
        if index % 400 == 0 {
            let answer = get(address, "").unwrap();
            assert!(answer.ends_with("page /x\n"), "{index}: {answer}");
        }
    }
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    assert!(threads < 4 * MAX_CONNECTIONS, "{threads}");
}

#[test]
fn a_slow_client_is_cut_off() {
    let (_server, address, _) = start(None);
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    // A byte now and then extends no deadline.
    for byte in b"GET / HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
        assert!(begun.elapsed() < 3 * mw_web::MAX_TIME);
    }
    assert!(begun.elapsed() >= mw_web::MAX_TIME / 2);
}

#[test]
fn tls_asks_for_certificates_and_reads_its_files_again() {
    let files = Certificates::new();
    files.issue("server");
    files.issue("client");
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    let path = files.write("web.yml", tls);
    let (_server, address, page) = start(Some(WebConfig::new(path)));
    assert!(files.connect(address, None).unwrap().ends_with("page /x\n"));
    assert!(!get(address, "").is_ok_and(|answer| answer.contains("page")), "no plain text");

    let mutual = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
    files.write("web.yml", &format!("{tls}{mutual}"));
    assert!(files.connect(address, None).is_err());
    assert!(files.connect(address, Some("client")).unwrap().ends_with("page /x\n"));

    files.write("server.key", "no key");
    assert!(files.connect(address, Some("client")).is_err(), "what is wrong opens nothing");
    assert!(!get(address, "").is_ok_and(|answer| answer.contains("page")));
    let told = page.told.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "once: {told:?}");
    assert!(told[0].contains("server.key: "), "{told:?}");
    files.issue("server");
    assert!(files.connect(address, Some("client")).unwrap().ends_with("page /x\n"));
}

#[test]
fn a_password_is_asked_for() {
    let (_server, address, _dir) = start_with_password(4);
    let refused = get(address, "").unwrap();
    assert!(refused.starts_with("HTTP/1.1 401 ") && !refused.contains("page"), "{refused}");
    let answer = get(address, RIGHT).unwrap();
    assert!(answer.ends_with("page /x\n"), "{answer}");
}

/// A cost with which a password takes some time.
fn slow_cost() -> (u32, Duration) {
    let time = |cost| {
        let start = Instant::now();
        bcrypt::hash("x", cost).unwrap();
        start.elapsed()
    };
    let mut costs = (4..16).map(|cost| (cost, time(cost)));
    costs.find(|(_, time)| *time >= Duration::from_millis(50)).unwrap()
}

/// Runs while others connect as fast as they can; returns how often they did.
fn beside<T>(others: usize, connect: impl Fn(usize) + Sync, run: impl FnOnce() -> T) -> (T, u64) {
    let (is_over, count) = (AtomicBool::default(), AtomicU64::default());
    std::thread::scope(|scope| {
        for other in 0..others {
            let (is_over, count, connect) = (&is_over, &count, &connect);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    connect(other);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let over = end_on_drop(&is_over);
        let result = run();
        drop(over);
        (result, count.load(Ordering::Relaxed))
    })
}

/// Ends the others, also when the test fails.
fn end_on_drop(is_over: &AtomicBool) -> impl Drop {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    Over(is_over)
}

/// Promise (Metrics): Wrong passwords keep out nobody, and their refusal does not tell which users exist.
#[test]
fn wrong_passwords_keep_out_nobody() {
    let (cost, once) = slow_cost();
    let (_server, address, _dir) = start_with_password(cost);
    let wrong = |other: usize| {
        let credentials = ["cHJvbTp3cm9uZw==", "bm9ib2R5Ondyb25n"][other % 2];
        let _ = get(address, &format!("Authorization: Basic {credentials}\r\n"));
    };
    let scrape = |own: [u8; 4]| {
        let start = Instant::now();
        let answer = get_from(own, address, RIGHT).unwrap();
        assert!(answer.ends_with("page /x\n"), "{answer}");
        start.elapsed()
    };
    let ((first, longest), _) = beside(20, wrong, || {
        let first = scrape([127, 0, 0, 2]);
        let more = (0..20).map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            scrape([127, 0, 0, 2]).max(scrape([127, 0, 0, 1]))
        });
        (first, more.max().unwrap())
    });
    println!(
        "a verification takes {once:?}; the first answer {first:?}, the others {longest:?} at most"
    );
    // Two passwords are verified before the first, at most, and none before the others; by threads of the lowest
    // priority, beside other tests. Prometheus waits for 10 s.
    assert!(first < 30 * once + Duration::from_secs(5), "{first:?} with {once:?} each");
    assert!(longest < Duration::from_secs(5), "{longest:?} with {once:?} each");
}

/// A socket to a far machine: what is read after something was written arrives after the time of a round trip.
struct Far {
    socket: TcpStream,
    has_written: bool,
}

impl Read for Far {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if std::mem::take(&mut self.has_written) {
            std::thread::sleep(Duration::from_millis(80));
        }
        self.socket.read(bytes)
    }
}

impl Write for Far {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.has_written = true;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[test]
fn idle_connections_keep_out_no_client_that_is_far_away() {
    let files = Certificates::new();
    files.issue("server");
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    let (_server, address, _) = start(Some(WebConfig::new(files.write("web.yml", tls))));
    let held = Mutex::new(VecDeque::new());
    let idle = |_| {
        // 200 a second, each held until long after the server has closed it.
        std::thread::sleep(Duration::from_millis(5));
        let mut held = held.lock().unwrap();
        held.push_back(TcpStream::connect(address));
        if held.len() > 2 * MAX_CONNECTIONS {
            held.pop_front();
        }
    };
    let ((), count) = beside(1, idle, || {
        for round in 0..10 {
            let socket = connect_from([127, 0, 0, 1], address).unwrap();
            let mut far = files.encrypt(Far { socket, has_written: false }, None);
            let answer = ask(&mut far, "").unwrap_or_else(|error| panic!("{round}: {error}"));
            assert!(answer.ends_with("page /x\n"), "{answer}");
        }
    });
    assert!(count > MAX_CONNECTIONS as u64, "{count}");
}

#[test]
fn clients_that_do_not_read_keep_out_nobody() {
    let (_server, address, _) = start(None);
    let mut deaf = Vec::new();
    for _ in 0..2 * MAX_CONNECTIONS {
        let mut stream = connect_from([127, 0, 0, 2], address).unwrap();
        stream.write_all(b"GET /large HTTP/1.1\r\n\r\n").unwrap();
        deaf.push(stream);
    }
    for own in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        let answer = get_from(own, address, "").unwrap();
        assert!(answer.ends_with("page /x\n"), "{answer}");
    }
}

#[test]
fn a_large_page_arrives_whole() {
    let files = Certificates::new();
    files.issue("server");
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    let (_tls, encrypted, _) = start(Some(WebConfig::new(files.write("web.yml", tls))));
    let (_plain, plain, _) = start(None);
    let bytes = |stream: &mut dyn ReadWrite| {
        stream.write_all(b"GET /large HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").map(|(head, body)| (head.contains(" 200 "), body.len()))
    };
    let mut client = files.encrypt(TcpStream::connect(encrypted).unwrap(), None);
    assert_eq!(bytes(&mut client), Some((true, LARGE_BYTES)));
    assert_eq!(bytes(&mut TcpStream::connect(plain).unwrap()), Some((true, LARGE_BYTES)));
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[test]
fn a_page_that_is_not_there_yet_keeps_out_nobody() {
    let (_server, address, _) = start(None);
    let mut waiting = TcpStream::connect(address).unwrap();
    waiting.write_all(b"GET /never HTTP/1.1\r\n\r\n").unwrap();
    assert!(get(address, "").unwrap().ends_with("page /x\n"));
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("not yet measured"), "{answer}");
}

#[test]
fn what_is_wrong_in_the_file_is_said_with_its_name() {
    let files = Certificates::new();
    files.issue("server");
    files.issue("other");
    let wrong = |text: &str| {
        let path = files.write("web.yml", text);
        check(&path).unwrap_err()
    };
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: ";
    assert!(wrong("tls_server_config: 1").contains("web.yml: "));
    assert!(wrong("tls: 1").contains("unknown field"));
    assert!(wrong(&format!("{tls}absent.key")).contains("absent.key: No such file"));
    assert!(wrong(&format!("{tls}server.pem")).contains("server.pem: "));
    assert!(wrong(&format!("{tls}other.key")).contains("server.pem: "));
    assert!(wrong(&format!("{tls}server.key\n  client_ca_file: ca.pem")).contains("needs"));
    assert!(wrong("basic_auth_users:\n  a: plain").contains("not a bcrypt hash"));
    let path =
        files.write("web.yml", &format!("{tls}server.key\nhttp_server_config:\n  http2: true"));
    assert!(check(&path).unwrap().has_tls);
    assert_eq!(check(&files.write("web.yml", "basic_auth_users: {}")), Ok(Protection::default()));
    let costly = bcrypt::hash("x", 4).unwrap().replacen("$04$", "$20$", 1);
    assert!(
        wrong(&format!("basic_auth_users:\n  a: {costly}"))
            .contains("the cost 20, not one of 4 to 16")
    );
}

#[test]
fn files_with_secrets_are_named() {
    let files = Certificates::new();
    files.issue("server");
    let hash = bcrypt::hash("secret", 4).unwrap();
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    let users = format!("basic_auth_users:\n  a: {hash}\n");
    let secret = |text: &str| check(&files.write("web.yml", text)).unwrap().secret_files;
    assert_eq!(secret(&format!("{tls}{users}")), [files.path("web.yml"), files.path("server.key")]);
    assert_eq!(secret(tls), [files.path("server.key")]);
    assert_eq!(secret(&users), [files.path("web.yml")]);
    assert!(secret("").is_empty());
}

fn check(path: &Path) -> Result<Protection, String> {
    WebConfig::new(path.to_owned()).check()
}
