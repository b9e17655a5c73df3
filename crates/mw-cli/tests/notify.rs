//! `[[notify]]`: the recorder tells of incidents, and `memwright notify` tries whether messages arrive.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_test::LoggedChild;
use rustix::process::Signal;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The part of an address that is a secret.
const SECRET: &str = "T00s3cr3t";

/// A recorder, and what it says line by line.
struct Recorder(LoggedChild);

impl Recorder {
    fn start(dir: &Path, config: &Path, args: &[&str]) -> Self {
        let mut command = memwright(config);
        command.args(["watch", "--recording"]).arg(dir.join("recording.db")).args(args);
        Self(LoggedChild::spawn(&mut command))
    }

    #[track_caller]
    fn lines_to(&self, part: &str) -> Vec<String> {
        self.0.lines_to(part, PATIENCE)
    }
}

fn memwright(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.arg("--config").arg(config);
    command
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A server that accepts every message: its head, its body, and when it came.
fn server() -> (u16, Receiver<(String, serde_json::Value, u64)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let Some((head, body)) = mw_test::read_request(&client) else { continue };
            let _ = sender.send((head, serde_json::from_str(&body).unwrap(), mw_sys::unix_ms()));
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (port, messages)
}

/// An address where nothing listens.
fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Promise (The recorder): An invalid `[[notify]]` is said in one line without its secrets, and the recorder goes on;
/// a receiver that hangs keeps neither other receivers from their message nor the recorder from its end.
#[test]
fn the_recorder_tells_of_an_incident_beside_a_receiver_that_hangs() {
    let dir = TempDir::new().unwrap();
    let (port, messages) = server();
    // Its kernel accepts connections; nobody reads.
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{port}/{SECRET}\n");
    let url_file = write(dir.path(), "url", &url);
    let config = format!(
        "[[notify]]\nurl-file = '{}'\ncause = ['service-failure']\n\
         [[notify]]\nname = 'hung'\nwebhook = 'http://{}/'\ntimeout = '60s'\n",
        url_file.display(),
        hung.local_addr().unwrap(),
    );
    let config = write(dir.path(), "memwright.toml", &config);
    let address = nobody();
    let probe = format!("db=tcp://{address}");
    let args = ["--probe", &probe, "--no-canary", "--interval", "200ms"];
    let mut recorder = Recorder::start(dir.path(), &config, &args);
    recorder.lines_to("recording to ");

    // An invalid file is said in a line, and the recorder goes on with what it has.
    let valid = std::fs::read_to_string(&config).unwrap();
    let wrong = "[[notify]]\nwebhook = 'https://me:pa55@hooks.example/'\n";
    std::fs::write(&config, wrong).unwrap();
    recorder.0.child.signal(Signal::HUP);
    let said = recorder.lines_to("configuration not reloaded").join("\n");
    assert!(said.contains("name that with token-file") && !said.contains("pa55"), "{said}");
    std::fs::write(&config, valid).unwrap();

    // Somebody answers: the outage is over.
    let service = TcpListener::bind(&address).unwrap();
    std::thread::spawn(move || service.incoming().for_each(drop));
    let mut seen = recorder.lines_to("see: memwright report");
    let (first, _, _) = messages.recv_timeout(PATIENCE).unwrap();
    assert!(first.starts_with(&format!("POST /{SECRET} ")), "{first}");

    recorder.0.child.signal(Signal::TERM);
    let ended = mw_test::exit_within(&mut recorder.0.child.0, PATIENCE).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    seen.extend(recorder.0.lines.iter());
    assert!(seen.iter().any(|line| line.contains("notify hung: ")), "{seen:#?}");
    assert!(!seen.iter().any(|line| line.contains(SECRET)), "{seen:#?}");
}

/// The file of a token, and the configuration with the password of a probe.
#[test]
fn secrets_that_everybody_can_read_are_named() {
    let dir = TempDir::new().unwrap();
    let token = write(dir.path(), "token", "t0k3n");
    let config = format!(
        "[[watch.probe]]\nname = 'db'\ntarget = 'postgres://me:{SECRET}@{}/db'\n\
         [[notify]]\nwebhook = 'http://{}/'\ntoken-file = '{}'\n",
        nobody(),
        nobody(),
        token.display()
    );
    let config = write(dir.path(), "memwright.toml", &config);
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let warned = |file: &str| format!("{file}: holds a secret, and every local user can read it");
    mode(&token, 0o600);
    mode(&config, 0o644);
    let recorder = Recorder::start(dir.path(), &config, &["--no-canary", "--no-profile"]);
    let said = recorder.lines_to(&warned("memwright.toml")).join("\n");
    assert!(!said.contains(&warned("token")) && !said.contains(SECRET), "{said}");
    drop(recorder);
    mode(&token, 0o644);
    mode(&config, 0o640);
    let recorder = Recorder::start(dir.path(), &config, &["--no-canary", "--no-profile"]);
    let said = recorder.lines_to(&warned("token")).join("\n");
    assert!(!said.contains(&warned("memwright.toml")), "{said}");
}

#[test]
fn a_message_arrives_within_two_seconds_of_its_incident() {
    let dir = TempDir::new().unwrap();
    let (port, messages) = server();
    // On a slow machine the outage may last long enough to be told before.
    let config = format!("[[notify]]\nwebhook = 'http://127.0.0.1:{port}/hook'\nopen = false\n");
    let config = write(dir.path(), "memwright.toml", &config);
    let address = nobody();
    let probe = format!("db=tcp://{address}");
    let args = ["--probe", &probe, "--no-canary", "--interval", "200ms"];
    let recorder = Recorder::start(dir.path(), &config, &args);
    recorder.lines_to("collecting evidence");
    // Somebody answers: the outage is over.
    let service = TcpListener::bind(&address).unwrap();
    std::thread::spawn(move || service.incoming().for_each(drop));
    recorder.lines_to("see: memwright report");
    let known = mw_sys::unix_ms();
    let (first, body, came) = messages.recv_timeout(PATIENCE).unwrap();
    assert!(came < known + 2000, "{} ms", came - known);
    assert!(first.starts_with("POST /hook "), "{first}");
    assert_eq!((&body["probe"], &body["state"]), (&"db".into(), &"closed".into()), "{body}");
    assert_eq!(body["cause"], "service-failure");
    assert_eq!(body["report"], format!("memwright report {}", body["incident"]));
}

/// By default, of a service that is down and stays down.
#[test]
fn an_outage_is_told_while_it_lasts() {
    let dir = TempDir::new().unwrap();
    let (port, messages) = server();
    let config = format!("[[notify]]\nwebhook = 'http://127.0.0.1:{port}/hook'\n");
    let config = write(dir.path(), "memwright.toml", &config);
    let address = nobody();
    let probe = format!("db=tcp://{address}");
    let args = ["--probe", &probe, "--no-canary", "--interval", "200ms"];
    let recorder = Recorder::start(dir.path(), &config, &args);
    recorder.lines_to("collecting evidence");
    let (_, open, _) = messages.recv_timeout(PATIENCE).unwrap();
    assert_eq!((&open["state"], &open["probe"]), (&"open".into(), &"db".into()), "{open}");
    assert_eq!(open["severity"], "critical", "{open}");
    assert!(open["stall_ms"].as_f64().unwrap() >= 5000.0, "{open}");
    let service = TcpListener::bind(&address).unwrap();
    std::thread::spawn(move || service.incoming().for_each(drop));
    let (_, over, _) = messages.recv_timeout(PATIENCE).unwrap();
    let same = |key: &str| assert_eq!(over[key], open[key], "{over}");
    ["incident", "probe", "severity", "started_unix_ms"].into_iter().for_each(same);
    assert_eq!(over["state"], "closed", "{over}");
}

/// Promise (The recorder): `memwright notify --test` says for each receiver what came of a test message, without a
/// secret.
#[test]
fn a_test_message_says_for_each_receiver_what_came_of_it() {
    let dir = TempDir::new().unwrap();
    let (port, messages) = server();
    let url_file = write(dir.path(), "url", &format!("http://127.0.0.1:{port}/{SECRET}"));
    let config = format!(
        "[[notify]]\nformat = 'slack'\nurl-file = '{}'\n\
         [[notify]]\nname = 'oncall'\nwebhook = 'http://{}/'\n",
        url_file.display(),
        nobody(),
    );
    let config = write(dir.path(), "memwright.toml", &config);
    let run = |args: &[&str]| -> Output { memwright(&config).args(args).output().unwrap() };

    let both = run(&["notify", "--test"]);
    let page = text(&both.stdout);
    assert_eq!(both.status.code(), Some(1), "{page}");
    assert!(page.starts_with("the test message was delivered to 1 of 2 receivers\n"), "{page}");
    assert!(page.contains("  slack: ") && page.contains(": delivered in "), "{page}");
    assert!(page.contains("  oncall: ") && page.contains("connection refused"), "{page}");
    assert!(!page.contains(SECRET), "{page}");
    let (first, body, _) = messages.recv_timeout(PATIENCE).unwrap();
    assert!(first.starts_with(&format!("POST /{SECRET} ")), "{first}");
    assert!(body["text"].as_str().unwrap().contains("nothing has happened"), "{body}");

    assert_eq!(run(&["notify", "--test", "slack"]).status.code(), Some(0));
    let unknown = run(&["notify", "--test", "pager"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("there are: slack, oncall"));
    assert!(text(&run(&["notify"]).stdout).starts_with("2 receivers; try them with: "));
    let empty = write(dir.path(), "empty.toml", "");
    let none = memwright(&empty).args(["notify", "--test"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("no receivers configured: add [[notify]]"));
}
