//! Messages to real receivers: HTTP servers that misbehave, programs that hang or flood, a sendmail, a journal.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_model::{Host, Incident, IncidentState, Trigger, TriggerKind};
use mw_notify::{
    FINISH_LIMIT, Filter, MAX_QUEUED, MESSAGE_ID, Notice, Notifier, ReceiverConfig, ReceiverTarget,
    SecretFile, Webhook, WebhookFormat, deliver,
};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(1);
const SECRET: &str = "B00/s3cr3t";

/// A request as a server saw it.
struct Request {
    head: String,
    body: String,
}

/// A server that answers the requests with these, one after the other, and the last of them for ever.
fn server(answers: &'static [&'static str]) -> (u16, Receiver<Request>) {
    serve(move |place, mut client| {
        let answer = answers.get(place).or(answers.last()).unwrap();
        let _ = client.write_all(answer.as_bytes());
    })
}

fn serve(mut answer: impl FnMut(usize, TcpStream) + Send + 'static) -> (u16, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for (place, client) in listener.incoming().map_while(Result::ok).enumerate() {
            let Some((head, body)) = mw_test::read_request(&client) else { continue };
            let _ = sender.send(Request { head, body });
            answer(place, client);
        }
    });
    (port, requests)
}

fn webhook(url: &str) -> ReceiverTarget {
    ReceiverTarget::Webhook(Webhook::new(WebhookFormat::Json, Some(url), None, None, None).unwrap())
}

fn table(target: ReceiverTarget) -> ReceiverConfig {
    ReceiverConfig {
        name: "test".to_owned(),
        target,
        filter: Filter::default(),
        timeout: TIMEOUT,
        outage: Duration::from_millis(200),
        group: Duration::ZERO,
        max_per_hour: 1000,
    }
}

fn local(port: u16) -> ReceiverConfig {
    table(webhook(&format!("http://127.0.0.1:{port}/hook")))
}

fn incident(id: u64) -> Incident {
    Incident {
        id,
        host: Host { name: "db1".to_owned(), ..Host::default() },
        trigger: Trigger { name: "db".to_owned(), worst_ms: 2500.0, ..Trigger::default() },
        verdict: "db stalled for 2.5 s: cause unknown".to_owned(),
        ..Incident::default()
    }
}

/// Why the message was not delivered, and how long that took.
#[track_caller]
fn failure(table: &ReceiverConfig) -> (String, bool, Duration) {
    let start = Instant::now();
    let failed = deliver(table, &Notice::new(&incident(7))).unwrap_err();
    (failed.text, failed.again, start.elapsed())
}

/// The log's next line that has this in it.
#[track_caller]
fn line(notifier: &Notifier, part: &str) -> String {
    let mut lines = Vec::new();
    let mut found = None;
    mw_test::wait_until("a line", PATIENCE, || {
        lines.extend(notifier.lines());
        found = lines.iter().find(|line| line.contains(part)).cloned();
        found.is_some()
    });
    found.unwrap()
}

fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn command(path: &Path) -> ReceiverConfig {
    table(ReceiverTarget::command(vec![path.display().to_string()]).unwrap())
}

fn secret_file(dir: &Path, name: &str, text: &str) -> SecretFile {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    SecretFile(path.display().to_string())
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 500 Oops\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy";

/// Promise (The recorder): A message about an incident arrives within 2 s after the incident is complete.
#[test]
fn a_message_arrives_within_two_seconds() {
    let (port, requests) = server(&[OK]);
    let notifier = Notifier::start(vec![local(port)]).unwrap();
    let start = Instant::now();
    notifier.tell(&incident(7));
    let request = requests.recv_timeout(PATIENCE).unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(request.head.starts_with("POST /hook HTTP/1.1"), "{}", request.head);
    let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!((&body["incident"], &body["cause"]), (&7.into(), &"unknown".into()), "{body}");
    assert_eq!(body["stall_ms"], 2500.0);
    assert!(notifier.finish().is_empty());
}

#[test]
fn an_error_of_the_server_is_tried_again() {
    let (port, requests) = server(&[BUSY, OK]);
    let notifier = Notifier::start(vec![local(port)]).unwrap();
    notifier.tell(&incident(7));
    line(&notifier, "incident 7 not yet delivered: HTTP 500: busy");
    line(&notifier, "delivered at try 2");
    assert_eq!(requests.iter().take(2).count(), 2);
}

/// Promise (The recorder): A receiver that hangs, refuses, redirects, fails or answers without end is given up in
/// time; what finds a full queue is counted, and the end of the recorder waits 2 s at most.
#[test]
fn a_server_that_hangs_or_refuses_is_given_up_in_time() {
    let (port, _requests) = serve(|_, client| std::mem::forget(client));
    let (text, again, took) = failure(&local(port));
    assert_eq!((text.as_str(), again), ("no answer within 1s", true));
    assert!(took < Duration::from_secs(10), "{took:?}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (text, again, _) = failure(&local(nobody));
    assert!(text.to_lowercase().contains("refused") && again, "{text}");
}

#[test]
fn a_redirect_is_not_followed() {
    let (target, requests) = server(&[OK]);
    let (port, _first) = serve(move |_, mut client| {
        let head = "HTTP/1.1 307 Elsewhere\r\ncontent-length: 0\r\nlocation: ";
        let _ = write!(client, "{head}http://127.0.0.1:{target}/\r\n\r\n");
    });
    let (text, again, _) = failure(&local(port));
    assert!(text.starts_with("HTTP 307") && !again, "{text}");
    assert!(requests.try_recv().is_err(), "nothing reached its target");
}

#[test]
fn of_an_endless_answer_little_is_read() {
    let (port, _requests) = serve(|_, mut client| {
        let _ = client.write_all(b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n");
        while client.write_all(b"10\r\naaaaaaaaaaaaaaaa\r\n").is_ok() {}
    });
    let (text, again, took) = failure(&local(port));
    assert!(text.starts_with("HTTP 503: aaaa") && text.len() < 300 && again, "{text}");
    assert!(took < TIMEOUT * 5, "{took:?}");
}

/// Promise (The recorder): Secrets of notifications are in no message and no error; neither a token nor the URL of
/// `url-file` is sent without TLS, except to this machine.
#[test]
fn secrets_are_sent_and_never_told() {
    let dir = TempDir::new().unwrap();
    // An answer that repeats the secret.
    let (port, requests) = serve(|_, mut client| {
        let _ = write!(client, "HTTP/1.1 403 No\r\nconnection: close\r\n\r\nbad {SECRET}\n");
    });
    let url = secret_file(dir.path(), "url", &format!("http://127.0.0.1:{port}/{SECRET}\n"));
    let token = secret_file(dir.path(), "token", &format!("{SECRET}\n"));
    let webhook = Webhook::new(WebhookFormat::Json, None, Some(url), Some(token), None).unwrap();
    let table = table(ReceiverTarget::Webhook(webhook));
    assert!(!format!("{table:?} {}", table.target).contains(SECRET));
    let (text, again, _) = failure(&table);
    assert_eq!((text.as_str(), again), ("HTTP 403", false), "not even a part of it");
    let head = requests.recv_timeout(PATIENCE).unwrap().head;
    assert!(head.starts_with(&format!("POST /{SECRET} ")), "{head}");
    assert!(head.contains(&format!("Bearer {SECRET}")), "{head}");
}

#[test]
fn a_secret_url_is_not_sent_in_the_clear() {
    let dir = TempDir::new().unwrap();
    let url = secret_file(dir.path(), "url", "http://hooks.example/services/B00/s3cr3t\n");
    let webhook = Webhook::new(WebhookFormat::Slack, None, Some(url), None, None).unwrap();
    let (text, again, _) = failure(&table(ReceiverTarget::Webhook(webhook)));
    assert!(text.contains("must begin with https://") && !again, "{text}");
    assert!(!text.contains("s3cr3t"), "{text}");
}

#[test]
fn a_part_of_a_secret_is_not_told_either() {
    let dir = TempDir::new().unwrap();
    let (port, _requests) = serve(|_, mut client| {
        let answer = "HTTP/1.1 403 No\r\nconnection: close\r\n\r\nno such hook: S3CR-3T\n";
        let _ = client.write_all(answer.as_bytes());
    });
    let url = secret_file(dir.path(), "url", &format!("http://127.0.0.1:{port}/x?key={SECRET}\n"));
    let webhook = Webhook::new(WebhookFormat::Json, None, Some(url), None, None).unwrap();
    let (text, _, _) = failure(&table(ReceiverTarget::Webhook(webhook)));
    assert_eq!(text, "HTTP 403");
}

#[test]
fn a_receiver_that_asks_for_no_pause_gets_one() {
    const NOW: &str =
        "HTTP/1.1 503 No\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (port, requests) = server(&[NOW, NOW, OK]);
    let notifier = Notifier::start(vec![local(port)]).unwrap();
    let start = Instant::now();
    notifier.tell(&incident(7));
    line(&notifier, "delivered at try 3");
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(requests.try_iter().count(), 3);
}

/// An outage that is under way.
fn open(id: u64) -> Incident {
    let started_unix_ms = mw_sys::unix_ms();
    let (state, ended_unix_ms) = (IncidentState::Open, started_unix_ms);
    Incident { state, started_unix_ms, ended_unix_ms, ..incident(id) }
}

#[test]
fn an_outage_is_told_while_it_lasts_and_at_its_end_beside_a_flood_and_a_message_that_fails() {
    // What a user's processes are called makes the receiver fail.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let Some((_, body)) = mw_test::read_request(&client) else { continue };
            let is_his = body.contains("oom_kill");
            let _ = client.write_all(if is_his { BUSY } else { OK }.as_bytes());
            if !is_his {
                let _ = sender.send(serde_json::from_str::<serde_json::Value>(&body).unwrap());
            }
        }
    });
    let notifier =
        Notifier::start(vec![ReceiverConfig { max_per_hour: 20, ..local(port) }]).unwrap();
    let down = open(7);
    notifier.tell(&down);
    for id in 100..200 {
        let trigger = Trigger {
            kind: TriggerKind::OomKill,
            name: "oom_kill".to_owned(),
            ..Trigger::default()
        };
        notifier.tell(&Incident { trigger, ..incident(id) });
    }
    let start = Instant::now();
    let first = bodies.recv_timeout(PATIENCE).unwrap();
    assert_eq!((&first["state"], &first["severity"]), (&"open".into(), &"critical".into()));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    notifier.tell(&Incident { state: IncidentState::Closed, ..down });
    let last = bodies.recv_timeout(PATIENCE).unwrap();
    assert_eq!((&last["state"], &last["incident"]), (&"closed".into(), &7.into()), "{last}");
    line(&notifier, "not reported: more than 20 in an hour");
}

#[test]
fn a_secret_that_cannot_be_read_is_said_with_its_file() {
    let dir = TempDir::new().unwrap();
    let check = |token: SecretFile, part: &str| {
        let webhook =
            Webhook::new(WebhookFormat::Json, Some("http://127.0.0.1:1/"), None, Some(token), None);
        let (text, _, _) = failure(&table(ReceiverTarget::Webhook(webhook.unwrap())));
        assert!(text.contains(part), "{text}");
    };
    check(SecretFile("/nowhere/token".to_owned()), "/nowhere/token: No such file");
    check(SecretFile("token".to_owned()), "LoadCredential=token:FILE");
    check(secret_file(dir.path(), "two", "a\nb\n"), "not one line of text");
    check(SecretFile(dir.path().display().to_string()), "not a regular file");
}

#[test]
fn a_full_queue_drops_and_says_how_many() {
    let dir = TempDir::new().unwrap();
    let gate = dir.path().join("gate");
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let slow = ReceiverConfig { timeout: PATIENCE, ..command(&script(dir.path(), "slow", &wait)) };
    let notifier = Notifier::start(vec![slow]).unwrap();
    let start = Instant::now();
    let too_many = 20;
    for id in 0..(MAX_QUEUED + too_many) as u64 {
        notifier.tell(&incident(id));
    }
    assert!(start.elapsed() < Duration::from_secs(1), "telling waits for nobody");
    std::fs::write(&gate, "").unwrap();
    let said = line(&notifier, "incidents dropped");
    let dropped: usize = said.split(' ').nth(2).unwrap().parse().unwrap();
    // One may be under way already.
    assert!((too_many - 1..=too_many).contains(&dropped), "{said}");
}

#[test]
fn the_end_waits_for_a_receiver_that_hangs_no_longer_than_its_limit() {
    let (port, requests) = serve(|_, client| std::mem::forget(client));
    let notifier =
        Notifier::start(vec![ReceiverConfig { timeout: Duration::from_secs(60), ..local(port) }])
            .unwrap();
    notifier.tell(&incident(7));
    requests.recv_timeout(PATIENCE).unwrap();
    let start = Instant::now();
    let said = notifier.finish();
    let lost = "notify test: not delivered before the end: 1";
    assert_eq!(said, [lost]);
    assert!(start.elapsed() < FINISH_LIMIT * 2, "{:?}", start.elapsed());
}

/// Promise (The recorder): A command of a notification that hangs or floods its output is ended with all that it
/// started.
#[test]
fn a_command_reads_the_incident_and_one_that_misbehaves_is_ended() {
    let dir = TempDir::new().unwrap();
    let got = dir.path().join("got");
    let cat = script(dir.path(), "cat", &format!("cat > {}", got.display()));
    deliver(&command(&cat), &Notice::new(&incident(7))).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(got).unwrap()).unwrap();
    assert_eq!(json["incident"], 7);
    // It does not read its input.
    deliver(&command(&script(dir.path(), "true", "exit 0")), &Notice::new(&incident(7))).unwrap();

    let left = dir.path().join("left");
    let hang = format!("(sleep 3; touch {}) & sleep 1000", left.display());
    let (text, again, took) = failure(&command(&script(dir.path(), "hang", &hang)));
    assert!(text.ends_with("killed after 1s") && again, "{text}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let flood = script(dir.path(), "flood", "yes | tr y x >&2");
    let (text, _, took) = failure(&command(&flood));
    assert!(text.contains("killed after") && text.len() < 2000, "{text}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let wrong = script(dir.path(), "wrong", "echo 'no such pager' >&2; exit 3");
    let (text, again, _) = failure(&command(&wrong));
    assert!(text.ends_with("exit status: 3: no such pager") && again, "{text}");
    std::thread::sleep(Duration::from_secs(3));
    assert!(!left.exists(), "what it had started was ended too");
}

#[test]
fn sendmail_gets_a_mail() {
    let dir = TempDir::new().unwrap();
    let got = dir.path().join("got");
    let text = format!("echo \"$@\" > {0}; cat >> {0}", got.display());
    let sendmail = script(dir.path(), "sendmail", &text);
    let to = vec!["dba@example.com".to_owned()];
    deliver(&table(ReceiverTarget::mail(to, Some(sendmail)).unwrap()), &Notice::new(&incident(7)))
        .unwrap();
    let mail = std::fs::read_to_string(got).unwrap();
    assert!(mail.starts_with("-i -- dba@example.com\nTo: dba@example.com\nSubject: "), "{mail}");
    let (head, body) = mail.split_once("\n\n").unwrap();
    assert!(head.contains("memwright: [db1] db stalled for 2.5 s"), "{head}");
    assert!(body.contains("memwright report 7"), "{body}");
}

/// The fields of an entry in the native protocol of journald.
fn fields(mut bytes: &[u8]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let (field, rest) = (&bytes[..end], &bytes[end + 1..]);
        if let Some(equals) = field.iter().position(|byte| *byte == b'=') {
            fields.push((text(&field[..equals]), text(&field[equals + 1..])));
            bytes = rest;
        } else {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            fields.push((text(field), text(&rest[8..8 + length])));
            bytes = &rest[8 + length + 1..];
        }
    }
    fields
}

#[test]
fn the_journal_gets_the_fields_of_an_incident() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("socket");
    let journal = UnixDatagram::bind(&socket).unwrap();
    deliver(&table(ReceiverTarget::Journal(socket)), &Notice::new(&incident(7))).unwrap();
    let mut bytes = vec![0; 1 << 16];
    let length = journal.recv(&mut bytes).unwrap();
    let fields = fields(&bytes[..length]);
    for (name, value) in [
        ("MESSAGE", "[db1] db stalled for 2.5 s: cause unknown"),
        ("MESSAGE_ID", MESSAGE_ID),
        ("PRIORITY", "4"),
        ("INCIDENT", "7"),
        ("CAUSE", "unknown"),
        ("PROBE", "db"),
        ("STALL_USEC", "2500000"),
    ] {
        assert!(fields.contains(&(name.to_owned(), value.to_owned())), "{name}: {fields:?}");
    }
    let (text, again, _) = failure(&table(ReceiverTarget::Journal(dir.path().join("none"))));
    assert!(text.contains("does systemd-journald run?") && again, "{text}");
}
