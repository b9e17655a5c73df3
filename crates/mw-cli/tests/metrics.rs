//! `watch --listen`, by itself and with a real Prometheus and Alertmanager.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_test::{ChildGuard, LoggedChild};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(90);

/// A recorder with a probe that is slow while a file is there.
struct Recorder {
    spoken: LoggedChild,
    port: u16,
    slow: PathBuf,
}

impl Recorder {
    fn start(dir: &Path, port: u16) -> Self {
        let (script, slow) = (dir.join("probe"), dir.join("slow"));
        let text = format!("#!/bin/sh\n[ ! -e {} ] || sleep 3\n", slow.display());
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        command
            .args(["watch", "--no-profile", "--canary-limit", "30s", "--limit", "2s", "--listen"])
            .arg(format!("127.0.0.1:{port}"))
            .arg(format!("--probe=web=exec:{}", script.display()))
            .arg("--recording")
            .arg(dir.join("recording.db"));
        Self { spoken: LoggedChild::spawn(&mut command), port, slow }
    }

    #[track_caller]
    fn wait_for(&self, words: &str) -> String {
        self.spoken.line(words, PATIENCE)
    }

    fn scrape(&self, accept: &str) -> String {
        get(self.port, "/metrics", accept)
    }
}

/// A port that was free just now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The whole response.
fn get(port: u16, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[track_caller]
fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    mw_test::wait_for(what, PATIENCE, Duration::from_millis(200), look)
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

const ROUNDS: usize = 8;

/// Promise (Metrics): `watch --listen` serves OpenMetrics to clients that ask for it and the text format to others;
/// scrapes cost no memory.
#[test]
fn scrapes_get_the_format_they_ask_for_and_cost_no_memory() {
    let dir = TempDir::new().unwrap();
    let recorder = Recorder::start(dir.path(), free_port());
    recorder.wait_for("metrics on 127.0.0.1:");
    let text = until("a page", || Some(recorder.scrape("*/*")).filter(|a| a.contains(" 200 OK")));
    assert!(text.contains("Content-Type: text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("memwright_stall_seconds_count{probe=\"web\"} 0\n"), "{text}");
    assert!(text.contains("memwright_allocatable_bytes{numa_node=\"0\",page_size=\"4k\"} "));
    let open = recorder.scrape("application/openmetrics-text;version=1.0.0");
    assert!(open.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.ends_with("# EOF\n"), "{open}");
    assert!(get(recorder.port, "/other", "").starts_with("HTTP/1.1 404 "));

    // The recorder finds the service a second after its start, and its trace takes 10 MiB then. Its threads come and go:
    // growth has to end, at 256 bytes a scrape.
    std::thread::sleep(Duration::from_secs(3));
    let pid = recorder.spoken.child.0.id();
    let grown = |_| {
        let before = resident_kib(pid);
        (0..2000).for_each(|_| drop(recorder.scrape("")));
        resident_kib(pid).saturating_sub(before)
    };
    let rounds: Vec<u64> = (0..ROUNDS).map(grown).collect();
    assert!(rounds.iter().rev().take(2).all(|kib| *kib < 512), "{rounds:?} KiB");
}

/// Promise (Metrics): A port in use, a wrong certificate or a wrong web configuration do not stop the recorder;
/// nothing is served without the TLS and passwords that are configured.
#[test]
fn a_port_in_use_is_said_and_tried_again() {
    let dir = TempDir::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let recorder = Recorder::start(dir.path(), taken.local_addr().unwrap().port());
    let line = recorder.wait_for("cannot listen on 127.0.0.1:");
    assert!(line.contains("Address already in use") && line.contains("choose another"), "{line}");
    recorder.wait_for("recording to ");
    drop(taken);
    recorder.wait_for("metrics on 127.0.0.1:");
}

#[test]
fn what_is_wrong_on_the_command_line_stops_the_start() {
    for args in [&["--listen", "localhost"][..], &["--web.config.file", "web.yml"]] {
        let ended =
            Command::new(env!("CARGO_BIN_EXE_memwright")).arg("watch").args(args).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{args:?}");
    }
}

/// A program of Debian's prometheus or prometheus-alertmanager.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

struct Prometheus {
    _prometheus: ChildGuard,
    _alertmanager: ChildGuard,
    port: u16,
}

impl Prometheus {
    fn start(dir: &Path, target: u16, receiver: u16) -> Option<Self> {
        let (prometheus, alertmanager) =
            (program("prometheus")?, program("prometheus-alertmanager")?);
        let (port, alerts) = (free_port(), free_port());
        let rules = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../packaging/prometheus/memwright.rules.yml")
            .canonicalize()
            .unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs:\n- job_name: memwright\n  static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{alerts}']}}]}}]}}\n",
            rules.display()
        );
        std::fs::write(dir.join("prometheus.yml"), config).unwrap();
        let config = format!(
            "route: {{receiver: test, group_wait: 1s, group_interval: 1s}}\nreceivers:\n- name: test\n  \
             webhook_configs: [{{url: 'http://127.0.0.1:{receiver}/'}}]\n"
        );
        std::fs::write(dir.join("alertmanager.yml"), config).unwrap();
        let start = |program: &Path, args: &[String]| {
            let mut command = Command::new(program);
            let quiet = command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
            ChildGuard(quiet.current_dir(dir).spawn().unwrap())
        };
        let alertmanager = start(
            &alertmanager,
            &[
                "--config.file=alertmanager.yml".to_owned(),
                "--storage.path=alertmanager".to_owned(),
                "--cluster.listen-address=".to_owned(),
                format!("--web.listen-address=127.0.0.1:{alerts}"),
            ],
        );
        let prometheus = start(
            &prometheus,
            &[
                "--config.file=prometheus.yml".to_owned(),
                "--storage.tsdb.path=data".to_owned(),
                "--enable-feature=exemplar-storage".to_owned(),
                format!("--web.listen-address=127.0.0.1:{port}"),
            ],
        );
        until("Prometheus", || TcpStream::connect(("127.0.0.1", port)).ok());
        until("Prometheus", || get(port, "/-/ready", "").contains(" 200 OK").then_some(()));
        Some(Self { _prometheus: prometheus, _alertmanager: alertmanager, port })
    }

    fn api(&self, path: &str) -> Value {
        let answer = get(self.port, path, "");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        // Chunked: the JSON is from the first brace to the last.
        let json = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    fn query(&self, expr: &str) -> Vec<Value> {
        let answer = self.api(&format!("/api/v1/query?query={}", encoded(expr)));
        assert_eq!(answer["status"], "success", "{expr}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// Alerts; not those of the pressure of this machine, which other tests may stall.
    fn firing(&self) -> Vec<String> {
        let firing = self.query("ALERTS{alertstate=\"firing\",probe=~\"web|\"}");
        let name = |alert: &Value| alert["metric"]["alertname"].as_str().unwrap().to_owned();
        firing.iter().map(name).collect()
    }
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "%{byte:02X}");
        out
    })
}

/// Titles and queries of all panels.
fn panels() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana");
    let mut panels = Vec::new();
    for file in ["memwright-host.json", "memwright-fleet.json"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let expr = target["expr"].as_str().unwrap();
                let expr =
                    ["$job", "$instance"].iter().fold(expr.to_owned(), |e, v| e.replace(v, ".+"));
                let expr = expr.replace("$__rate_interval", "1m");
                panels.push((format!("{file}: {}", panel["title"]), expr));
            }
        }
    }
    panels
}

/// Sends on what Alertmanager posts.
fn receiver() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, posts) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let mut post = Vec::new();
            let _ = stream.read_to_end(&mut post);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if sender.send(String::from_utf8_lossy(&post).into_owned()).is_err() {
                return;
            }
        }
    });
    (port, posts)
}

/// Promise (Metrics): A stall reaches Prometheus, every panel of the dashboards, and the receiver of Alertmanager.
#[test]
fn a_stall_reaches_every_panel_and_the_receiver_of_alerts() {
    let dir = TempDir::new().unwrap();
    let (receiver, posts) = receiver();
    let recorder = Recorder::start(dir.path(), free_port());
    recorder.wait_for("metrics on 127.0.0.1:");
    let Some(prometheus) = Prometheus::start(dir.path(), recorder.port, receiver) else {
        return mw_test::skip(
            "Prometheus is not installed: no prometheus or prometheus-alertmanager in PATH",
        );
    };
    until("a scrape", || (!prometheus.query("memwright_build_info").is_empty()).then_some(()));
    assert_eq!(prometheus.query("up == 1").len(), 1);
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(prometheus.firing(), [""; 0], "a healthy machine");

    std::fs::write(&recorder.slow, "").unwrap();
    recorder.wait_for("stall: web");
    std::fs::remove_file(&recorder.slow).unwrap();
    while !recorder.wait_for("; see: memwright report").contains(": web ") {}
    until("an alert", || prometheus.firing().contains(&"MemwrightStall".to_owned()).then_some(()));
    let of_web = |post: &String| post.contains("\"probe\":\"web\"");
    let delivered = until("a delivery", || posts.try_iter().find(of_web));
    assert!(delivered.contains("\"alertname\":\"MemwrightStall\""), "{delivered}");
    assert!(delivered.contains("runbook_url"), "{delivered}");
    assert_eq!(prometheus.firing(), ["MemwrightStall"]);

    let found = prometheus.query("memwright_finding{severity=~\"warning|critical\"}");
    for (panel, expr) in panels() {
        // Nothing runs out here.
        let may_be_empty = expr.contains("memwright_exhaustion_seconds")
            || (expr.contains("memwright_finding") && found.is_empty());
        assert!(may_be_empty || !prometheus.query(&expr).is_empty(), "{panel}: {expr}");
    }
    let exemplars =
        "/api/v1/query_exemplars?query=memwright_stall_seconds_bucket&start=0&end=9999999999";
    assert!(prometheus.api(exemplars).to_string().contains("\"incident_id\":\""));
}
