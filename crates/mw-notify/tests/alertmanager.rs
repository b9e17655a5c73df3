//! Debian's Alertmanager shows an alert that was made from an incident.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_model::{Host, Incident, Trigger};
use mw_notify::{Filter, Notice, ReceiverConfig, ReceiverTarget, Webhook, WebhookFormat, deliver};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names an Alertmanager that is not installed.
const PROGRAM: &str = "MW_ALERTMANAGER";

struct Server {
    process: Child,
    port: u16,
    _data: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let all = named.into_iter().chain([PathBuf::from("/usr/bin/prometheus-alertmanager")]);
    all.into_iter().find(|path| path.exists())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Somebody else may take a port that was free: Alertmanager ends then, and the next one is tried.
fn start(program: &Path) -> Server {
    let mut servers = (0..5).filter_map(|_| try_start(program));
    servers.next().unwrap_or_else(|| panic!("{} does not start", program.display()))
}

fn try_start(program: &Path) -> Option<Server> {
    let data = TempDir::new().unwrap();
    let config = data.path().join("alertmanager.yml");
    std::fs::write(&config, "route: {receiver: none}\nreceivers: [{name: none}]\n").unwrap();
    let port = free_port();
    let process = Command::new(program)
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.path={}", data.path().display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--cluster.listen-address=")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = Server { process, port, _data: data };
    let mut has_ended = false;
    mw_test::wait_until("Alertmanager", PATIENCE, || {
        has_ended = server.process.try_wait().unwrap().is_some();
        has_ended || get(port, "/-/ready").is_some_and(|answer| answer.contains(" 200 "))
    });
    (!has_ended).then_some(server)
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).ok()?;
    server.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(server, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    server.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn alerts(port: u16) -> Vec<serde_json::Value> {
    let answer = get(port, "/api/v2/alerts").unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// Promise (The recorder): Alertmanager, sendmail and the journal understand what they are sent; names call nobody
/// and add no header.
#[test]
fn an_incident_that_is_over_is_an_active_alert() {
    let Some(program) = program() else {
        return mw_test::skip("no Alertmanager; apt-get install prometheus-alertmanager");
    };
    let server = start(&program);
    assert!(alerts(server.port).is_empty());
    let url = format!("http://127.0.0.1:{}/api/v2/alerts", server.port);
    let webhook = Webhook::new(WebhookFormat::Alertmanager, Some(&url), None, None, None).unwrap();
    let table = ReceiverConfig {
        name: "alertmanager".to_owned(),
        target: ReceiverTarget::Webhook(webhook),
        filter: Filter::default(),
        timeout: Duration::from_secs(10),
        group: Duration::from_secs(600),
        outage: Duration::from_secs(5),
        max_per_hour: 20,
    };
    let incident = Incident {
        id: 17,
        host: Host { name: "db1".to_owned(), ..Host::default() },
        trigger: Trigger { name: "db".to_owned(), worst_ms: 1234.0, ..Trigger::default() },
        started_unix_ms: mw_sys::unix_ms() - 10_000,
        ended_unix_ms: mw_sys::unix_ms() - 6000,
        verdict: "db stalled for 1.2 s: cause unknown".to_owned(),
        ..Incident::default()
    };
    deliver(&table, &Notice::new(&incident)).unwrap();
    mw_test::wait_until("the alert", PATIENCE, || !alerts(server.port).is_empty());
    let alert = &alerts(server.port)[0];
    assert_eq!(alert["status"]["state"], "active", "{alert}");
    let labels = [
        ("alertname", "MemwrightStall"),
        ("instance", "db1"),
        ("probe", "db"),
        ("cause", "unknown"),
    ];
    for (label, value) in labels {
        assert_eq!(alert["labels"][label], value, "{alert}");
    }
    assert_eq!(alert["annotations"]["incident"], "17");
    assert_eq!(alert["annotations"]["report"], "memwright report 17");
}
