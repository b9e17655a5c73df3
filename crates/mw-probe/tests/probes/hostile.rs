//! Servers that do what no server should: each costs failed probes and nothing else.

use crate::{answers, fails, fails_as, start, taken, wait};
use mw_model::FailureKind;
use mw_probe::Prober;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// What is asked of a hostile server: every kind that reads an answer, and how one begins.
const KINDS: &[(&str, &[u8])] = &[
    ("http", b"HTTP/1.1 200 "),
    ("redis", b"+P"),
    #[cfg(feature = "postgres")]
    ("postgres", b"R\0\0\x01\0"),
    #[cfg(feature = "mysql")]
    ("mysql", b"\0\x01\0\0\x0a"),
];

/// A server that hands every connection to `serve`, on a thread each, for as long as the test runs.
fn server(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Probes of every kind, each against a server of its own.
fn against(serve: impl Fn(&[u8], TcpStream) + Send + Sync + Clone + 'static) -> Vec<Prober> {
    let probers = KINDS.iter().map(|(kind, start_of_answer)| {
        let serve = serve.clone();
        let address = server(move |stream| serve(start_of_answer, stream));
        start(&format!("{kind}://{address}"), 300)
    });
    probers.collect()
}

/// Keeps a connection open until the other side ends it.
fn hold(mut stream: TcpStream) {
    let mut bytes = [0; 1024];
    while stream.read(&mut bytes).is_ok_and(|got| got > 0) {}
}

/// Promise (The recorder): A hostile target causes failed probes and nothing else, and a stopped database is detected
/// while it hangs.
#[test]
fn one_that_never_answers() {
    for prober in against(|_, stream| hold(stream)) {
        let limit = prober.spec().limit;
        wait("the limit to be passed", || prober.under_way().filter(|probe| probe.elapsed > limit));
        let said = fails(&prober);
        assert!(said.starts_with("timed out while"), "{said}");
        assert!(taken(&prober).worst_us >= 300_000);
    }
}

#[test]
fn one_that_answers_a_byte_now_and_then() {
    let drip = |start_of_answer: &[u8], mut stream: TcpStream| {
        let _ = stream.write_all(start_of_answer);
        while stream.write_all(b"1").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    for prober in against(drip) {
        let said = fails(&prober);
        let waits = ["waiting for the answer", "logging in"];
        let said = said.strip_prefix("timed out while ").unwrap();
        assert!(waits.iter().any(|wait| said.starts_with(wait)), "{said}");
    }
}

#[test]
fn one_that_answers_garbage() {
    let garbage = |_: &[u8], mut stream: TcpStream| {
        let _ = stream.write_all(b"\x00\xff\x1b[31mgarbage\x07\r\n\r\n");
        hold(stream);
    };
    for prober in against(garbage) {
        let (kind, said) = fails_as(&prober);
        assert_eq!(kind, FailureKind::Malformed, "{said}");
        assert!(!said.chars().any(char::is_control), "{said:?}");
        assert!(!said.starts_with("timed out"), "{}: {said:?}", prober.spec().target);
    }
}

#[test]
fn one_that_never_stops_answering() {
    let flood = |_: &[u8], mut stream: TcpStream| while stream.write_all(&[b'x'; 65536]).is_ok() {};
    for prober in against(flood) {
        let said = fails(&prober);
        assert!(said.len() < 300 && !said.starts_with("timed out"), "{said}");
    }
}

#[test]
fn one_that_hangs_up() {
    for prober in against(|_, stream| drop(stream)) {
        let (kind, said) = fails_as(&prober);
        assert!(said.contains("closed") || said.contains("reset"), "{said}");
        assert!([FailureKind::Closed, FailureKind::Reset].contains(&kind), "{kind:?}");
    }
}

#[test]
fn a_redis_server_that_repeats_the_password() {
    let address = server(|mut stream| {
        let mut bytes = [0; 1024];
        let got = stream.read(&mut bytes).unwrap_or(0);
        let asked = String::from_utf8_lossy(bytes.get(..got).unwrap()).replace("\r\n", " ");
        let _ = stream.write_all(format!("-ERR unknown command {asked}\r\n").as_bytes());
        hold(stream);
    });
    let prober = start(&format!("redis://:s3cret%21@{address}"), 5_000);
    let said = fails(&prober);
    assert!(said.starts_with("the server refused: ERR unknown command"), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
    assert!(!format!("{prober:?} {}", prober.spec().target).contains("s3cret"));
}

#[test]
fn an_http_server_that_ends_idle_connections() {
    let address = server(|mut stream| {
        // One answer that promises more, and the end.
        let mut bytes = [0; 1024];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let prober = start(&format!("http://{address}/health"), 5_000);
    for _ in 0..10 {
        answers(&prober);
    }
    assert_eq!(taken(&prober).failures, 0);
}

#[test]
fn an_http_server_that_answers_an_error() {
    let address = server(|mut stream| {
        let mut bytes = [0; 1024];
        while stream.read(&mut bytes).is_ok_and(|got| got > 0) {
            let _ = stream.write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let failure = fails_as(&start(&format!("http://{address}"), 5_000));
    assert_eq!(failure, (FailureKind::HttpStatus, "status 503 No".to_owned()));
}

#[test]
fn what_a_redis_server_says_is_kept() {
    for said in ["LOADING Redis is loading the dataset in memory", "OOM command not allowed"] {
        let address = server(move |mut stream| {
            let mut bytes = [0; 1024];
            while stream.read(&mut bytes).is_ok_and(|got| got > 0) {
                let _ = stream.write_all(format!("-{said}\r\n").as_bytes());
            }
        });
        let failure = fails_as(&start(&format!("redis://{address}"), 5_000));
        assert_eq!(failure, (FailureKind::ServiceError, format!("the server refused: {said}")));
    }
}

#[test]
fn an_http_probe_of_a_tls_server() {
    let address = server(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(&[21, 3, 1, 0, 2, 2, 70]);
        hold(stream);
    });
    assert_eq!(fails_as(&start(&format!("http://{address}"), 5_000)).0, FailureKind::Tls);
}

#[test]
fn an_endless_body_is_not_waited_for() {
    let address = server(|mut stream| {
        let mut bytes = [0; 1024];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
    });
    answers(&start(&format!("http://{address}"), 5_000));
}

#[cfg(feature = "postgres")]
#[test]
fn a_postgres_server_that_never_stops_greeting() {
    let address = server(|mut stream| {
        // A parameter `a` of value `b`, again and again.
        let greetings = b"S\0\0\0\x08a\0b\0".repeat(1000);
        while stream.write_all(&greetings).is_ok() {}
    });
    let prober = start(&format!("postgres://{address}"), 20_000);
    assert_eq!(fails(&prober), "the answer is longer than 64 KiB");
}

/// A MySQL server of version 8 as far as it takes: it says `first` to a login and then answers
/// what is asked.
#[cfg(feature = "mysql")]
fn mysql_8(first: &'static [u8]) -> String {
    fn send(stream: &mut TcpStream, number: u8, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        let _ = stream.write_all(&[&length[..3], &[number], payload].concat());
    }
    server(move |mut stream| {
        let mut bytes = [0; 1024];
        let nonce = b"12345678\0\xff\xff\x2d\x02\0\xff\xc7\x15\0\0\0\0\0\0\0\0\0\0ABCDEFGHIJKL\0";
        let greeting = [b"\x0a8.0.36\0\x01\0\0\0", &nonce[..], b"caching_sha2_password\0"];
        send(&mut stream, 0, &greeting.concat());
        let _ = stream.read(&mut bytes);
        send(&mut stream, 2, first);
        send(&mut stream, 3, &[0, 0, 0, 2, 0, 0, 0]);
        while stream.read(&mut bytes).is_ok_and(|got| got > 0) {
            let end = [0xfe, 0, 0, 2, 0];
            let packets: [&[u8]; 5] = [&[1], b"\x03def", &end, b"\x011", &end];
            for (number, packet) in (1..).zip(packets) {
                send(&mut stream, number, packet);
            }
        }
    })
}

#[cfg(feature = "mysql")]
#[test]
fn a_mysql_server_that_knows_the_hash_and_one_that_wants_the_password_itself() {
    answers(&start(&format!("mysql://me:s3cret@{}", mysql_8(&[1, 3])), 5_000));
    let said = fails(&start(&format!("mysql://me:s3cret@{}", mysql_8(&[1, 4])), 5_000));
    assert!(said.contains("use the Unix socket") && !said.contains("s3cret"), "{said}");
}
