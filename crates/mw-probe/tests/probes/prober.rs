//! What holds for a prober whatever it asks.

use crate::{answers, fails_as, spec, start, taken, wait};
use mw_model::{Connection, FailureKind, SegmentDelivery};
use mw_probe::{MAX_TIME, ProbeRequest, ProbeSpec, Prober, Target, TargetError};
use rustix::event::{PollFd, PollFlags, poll};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

#[test]
fn a_server_that_listens_answers_and_one_that_is_gone_refuses() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let prober = start(&format!("tcp://{address}"), 5_000);
    answers(&prober);
    let connection = prober.connection();
    assert!(matches!(connection, Some(Connection::Tcp { local: Some(local), peer })
        if local.ip() == address.ip() && peer == address));
    drop(server);
    wait("a refusal", || prober.last().filter(|last| last.failed));
    let expected = format!("connecting to {address}: connection refused");
    assert_eq!(fails_as(&prober), (FailureKind::Refused, expected));
    assert_eq!(prober.connection(), Some(Connection::Tcp { local: None, peer: address }));
    let tick = taken(&prober);
    assert!(tick.failures > 0 && tick.answers >= tick.failures, "{tick:?}");
}

#[test]
fn a_unix_socket_answers_until_its_queue_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service.sock");
    let missing = start(&format!("unix:{}", path.display()), 300);
    let expected = format!("connecting to {}: no such file or directory", path.display());
    assert_eq!(fails_as(&missing), (FailureKind::Refused, expected));
    drop(missing);
    let _server = UnixListener::bind(&path).unwrap();
    let prober = start(&format!("unix:{}", path.display()), 300);
    assert_eq!(prober.spec().name, "unix-service");
    answers(&prober);
    // Clients that nobody accepts, until the kernel takes no more: connect waits, or would.
    let clients = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let mut held = Vec::new();
    loop {
        let flags = rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC;
        let family = rustix::net::AddressFamily::UNIX;
        let kind = rustix::net::SocketType::STREAM;
        let client = rustix::net::socket_with(family, kind, flags, None).unwrap();
        if rustix::net::connect(&client, &clients).is_err() {
            break;
        }
        held.push(client);
    }
    wait("a time-out", || prober.last().filter(|last| last.failed));
    let failure = prober.last_failure().unwrap();
    assert_eq!(failure.text, "timed out while connecting, its listen queue being full");
    assert_eq!(failure.kind, FailureKind::TimedOut);
    let own = Some(std::process::id());
    assert!(matches!(prober.connection(),
        Some(Connection::Unix { inode: Some(_), listener, .. }) if listener == own));
}

/// The kernel drops what is sent to a socket whose queue is full, as a network that loses packets does.
#[test]
fn segments_that_are_sent_again_are_counted() {
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM);
    let server = rustix::net::socket(family, kind, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&server, &any).unwrap();
    rustix::net::listen(&server, 0).unwrap();
    let address: SocketAddr = rustix::net::getsockname(&server).unwrap().try_into().unwrap();
    let _waits = std::net::TcpStream::connect(address).unwrap();
    let prober = start(&format!("tcp://{address}"), 2_500);
    let seen = |request: Option<ProbeRequest>| request.and_then(|request| request.delivery);
    let is_lost = |delivery: &SegmentDelivery| delivery.retransmitted > 0;
    let so_far = wait("a segment again", || seen(prober.under_way()).filter(is_lost));
    assert!((900..2_500).contains(&so_far.retransmitting_ms), "{so_far:?}");
    let delivery = wait("a time-out", || seen(prober.last()));
    // net/ipv4/tcp_timer.c: the first SYN is repeated after a second.
    assert!(delivery.retransmitted >= 1, "{delivery:?}");
    assert!((2_000..4_000).contains(&delivery.retransmitting_ms), "{delivery:?}");
    assert_eq!((delivery.peer, delivery.unacknowledged), (Some(address), 1));
}

/// Promise (The recorder): A failed request is told from a slow one, by its kind and in the service's own words.
#[test]
fn failures_are_told_apart() {
    let (kind, said) = fails_as(&start("tcp://no-such-host.invalid:1", 5_000));
    assert_eq!(kind, FailureKind::NameResolution, "{said}");
    assert!(said.starts_with("cannot resolve 'no-such-host.invalid': "), "{said}");
    let (kind, said) = fails_as(&start("exec:sh -c 'echo broken >&2; exit 3'", 5_000));
    assert_eq!((kind, said.as_str()), (FailureKind::ExitCode, "exit code 3: broken"));
    let (kind, _) = fails_as(&start("exec:/no/such/program", 5_000));
    assert_eq!(kind, FailureKind::Other);
}

/// Promise (The recorder): While there is a sign that a service waits, it is asked at half of the limit, from the sign on,
/// so that no longer stall fits between two requests.
#[test]
fn a_sign_ends_its_pause_and_shortens_those_after_it() {
    let limit = Duration::from_millis(200);
    let asked_once = |target: &str| {
        let hourly = ProbeSpec { limit, interval: MAX_TIME, ..spec(target, 5_000) };
        let prober = Prober::start(hourly).unwrap();
        wait("an answer", || prober.last().filter(|last| !last.failed));
        taken(&prober);
        prober
    };
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let prober = asked_once(&format!("tcp://{}", server.local_addr().unwrap()));
    let program = asked_once("exec:true");
    program.set_alert(true);
    prober.set_alert(true);
    let mut more = 0;
    wait("four more requests", || {
        more += taken(&prober).answers;
        (more >= 4).then_some(())
    });
    assert_eq!(taken(&program).answers, 0, "a program is started once an interval");
}

#[test]
fn it_ends_at_once_while_its_target_never_answers() {
    let prober = start("exec:sleep 1000", 600_000);
    wait("a probe", || prober.under_way().filter(|probe| probe.elapsed.as_millis() > 60));
    let tick = taken(&prober);
    assert!(tick.answers == 0 && tick.worst_us >= 60_000, "{tick:?}");
    assert!(prober.last().is_none());
    let begun = Instant::now();
    drop(prober);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// Whether the alarm rings within `time`.
fn rings(prober: &Prober, time: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(prober.overdue(), PollFlags::IN)];
    poll(&mut fds, Some(&time.try_into().unwrap())) == Ok(1)
}

#[test]
fn the_alarm_rings_when_the_limit_is_passed_or_a_probe_fails() {
    let slow = start("exec:sleep 1000", 600_000);
    assert!(rings(&slow, Duration::from_secs(20)));
    let elapsed = slow.under_way().unwrap().elapsed;
    assert!(elapsed >= slow.spec().limit, "{elapsed:?}");
    slow.clear_overdue();
    assert!(!rings(&slow, 3 * slow.spec().limit), "it rings once");

    let mut refused = spec("tcp://127.0.0.1:1", 60_000);
    refused.limit = Duration::from_secs(60);
    let refused = Prober::start(refused).unwrap();
    assert!(rings(&refused, Duration::from_secs(20)));
    assert!(refused.last().unwrap().failed);

    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut quick = spec(&format!("tcp://{}", server.local_addr().unwrap()), 60_000);
    quick.limit = Duration::from_secs(60);
    let quick = Prober::start(quick).unwrap();
    assert!(!rings(&quick, Duration::from_millis(300)));
    answers(&quick);
}

#[test]
fn what_is_odd_is_refused_before_a_thread_is_started() {
    let good = spec("tcp://127.0.0.1:1", 100);
    for name in ["", "a b", "a.b", &"x".repeat(65), "naïve"] {
        let mut odd = good.clone();
        odd.name = name.to_owned();
        assert!(Prober::start(odd).is_err(), "{name}");
    }
    for time in [Duration::ZERO, Duration::MAX] {
        let mut odd = good.clone();
        odd.interval = time;
        assert!(Prober::start(odd).is_err());
        let mut odd = good.clone();
        odd.timeout = time;
        assert!(Prober::start(odd).is_err());
    }
}

#[test]
fn targets_are_read_and_shown() {
    for (text, shown, name) in [
        ("tcp://db1:5432", "tcp://db1:5432", "tcp-5432"),
        ("tcp://[::1]:80", "tcp://[::1]:80", "tcp-80"),
        ("unix:/run/a.b/my.service.sock", "unix:/run/a.b/my.service.sock", "unix-my-service"),
        ("exec:./ping.sh", "exec:./ping.sh", "exec-ping"),
        ("http://web", "http://web:80/", "http-80"),
        ("http://[::1]:8080/a?b=c", "http://[::1]:8080/a?b=c", "http-8080"),
        ("redis://cache", "redis://cache:6379", "redis-6379"),
        ("redis://me:secret@cache:1", "redis://me@cache:1", "redis-1"),
        ("redis:///?socket=/run/r.sock", "redis:///?socket=/run/r.sock", "redis-r"),
        ("exec:mysqladmin -psecret 'a b'", "exec:mysqladmin …", "exec-mysqladmin"),
    ] {
        let target: Target = text.parse().unwrap();
        assert_eq!(target.to_string(), shown);
        assert_eq!(target.default_name(), name);
    }
}

#[test]
fn what_is_no_target_is_refused_without_repeating_it() {
    let long = format!("exec:{}", "secret".repeat(1000));
    for text in [
        "",
        "secret",
        "tcp:secret",
        "tcp://",
        "tcp://secret",
        "tcp://secret:0",
        "tcp://secret:65536",
        "tcp://secret:1:2",
        "tcp://[secret:1",
        "tcp://sec ret:1",
        "unix:secret",
        "unix:",
        "http://",
        "http://secret:x/",
        "http://me:secret@host/",
        "http://host/sec ret\r\nX: y",
        "https://secret",
        "redis://:secret@",
        "redis://:secret%@host",
        "redis://:secret%0a@host",
        "redis://:secret%ff@host",
        "redis://:secret@host?socket=/run/r.sock",
        "redis://:secret@host?timeout=1",
        "redis://:secret@/?socket=secret",
        "mysql://:secret@host:port",
        "postgres://:secret@host:port",
        "exec:",
        "exec:'secret",
        "exec:''",
        "exec:sec\0ret",
        &long,
    ] {
        let error: TargetError = text.parse::<Target>().unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[cfg(not(any(feature = "postgres", feature = "mysql")))]
#[test]
fn what_is_not_built_in_says_what_to_do() {
    for (text, expected) in [
        ("postgres://host", "build with --features postgres, or use exec:psql"),
        ("mysql://host", "build with --features mysql, or use exec:mysqladmin"),
    ] {
        let error = text.parse::<Target>().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Promise (The recorder): Passwords appear in no message.
#[cfg(all(feature = "postgres", feature = "mysql"))]
#[test]
fn databases_are_read_and_shown() {
    for (text, shown, name) in [
        ("postgres://a:secret@db", "postgres://a@db:5432", "postgres-5432"),
        ("postgresql://db:1/shop", "postgres://db:1/shop", "postgres-1"),
        (
            "postgres://a@/shop?socket=/run/postgresql",
            "postgres://a@/shop?socket=/run/postgresql/.s.PGSQL.5432",
            "postgres-5432",
        ),
        ("mysql://a:secret@db", "mysql://a@db:3306", "mysql-3306"),
        ("mysql:///?socket=/run/mysqld.sock", "mysql:///?socket=/run/mysqld.sock", "mysql-mysqld"),
    ] {
        let target: Target = text.parse().unwrap();
        assert_eq!(target.to_string(), shown);
        assert_eq!(target.default_name(), name);
        assert!(!format!("{target:?}").contains("secret"));
    }
}
