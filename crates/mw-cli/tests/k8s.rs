//! `memwright k8s condition` with an API server that answers as a kube-apiserver has answered, or misbehaves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_test::LoggedChild;
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "eyJhbGciOi.s3cr3t";

/// Reply of a kube-apiserver 1.37.2.
const NODE: &str = include_str!("../../mw-cluster/src/k8s/condition/node.json");
/// Refusal of that server.
const FORBIDDEN: &str = r#"{"apiVersion":"v1","code":403,"details":{"kind":"nodes","name":"n1"},"kind":"Status","message":"nodes \"n1\" is forbidden: User \"system:serviceaccount:memwright:memwright\" cannot delete resource \"nodes\" in API group \"\" at the cluster scope","metadata":{},"reason":"Forbidden","status":"Failure"}"#;
const DENIED: &str = r#"{"kind":"Status","status":"Failure","message":"nodes \"n2\" is forbidden: ValidatingAdmissionPolicy 'memwright' with binding 'memwright' denied request: memwright may change the status of the node that it runs on, and of no other","reason":"Invalid","code":422}"#;

/// A request as the server saw it.
struct Request {
    head: String,
    body: Value,
}

/// Answers each request with a status and a body, the last one for ever.
fn server(answers: Vec<(u16, String)>) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for (place, mut client) in listener.incoming().map_while(Result::ok).enumerate() {
            let Some((head, body)) = mw_test::read_request(&client) else { continue };
            let body = serde_json::from_str(&body).unwrap_or_default();
            let _ = sender.send(Request { head, body });
            let (status, text) = answers.get(place).or(answers.last()).unwrap();
            let length = text.len();
            let _ = write!(
                client,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
            );
        }
    });
    (url, requests)
}

fn node() -> Vec<(u16, String)> {
    vec![(200, NODE.to_owned())]
}

fn fixture(name: &str) -> String {
    mw_test::fixture(name).display().to_string()
}

struct Pod {
    _dir: TempDir,
    token: PathBuf,
}

impl Pod {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        Self { _dir: dir, token }
    }

    fn command(&self, url: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        command.args(["k8s", "condition", "--api-server", url, "--token-file"]).arg(&self.token);
        command.args(args).env("NODE_NAME", "n1").env_remove("KUBERNETES_SERVICE_HOST");
        command
    }

    fn run(&self, url: &str, args: &[&str]) -> Output {
        self.command(url, args).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Promise (Fixing): `k8s condition` sets the conditions of its node and no others, and a status that stays keeps its
/// time.
#[test]
fn a_fragmented_node_is_reported_with_its_reason() {
    let (url, requests) = server(node());
    let ended = Pod::new().run(&url, &["--root", &fixture("fragmented-node/firing")]);
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended.stderr));
    let said = text(&ended.stdout);
    let first = "node n1: MemoryFragmented True (FragmentedNode): fragmented-node: ";
    assert!(said.starts_with(first) && said.lines().count() == 3, "{said}");

    let get = requests.recv_timeout(PATIENCE).unwrap();
    assert!(get.head.starts_with("GET /api/v1/nodes/n1?resourceVersion=0 "), "{}", get.head);
    let patch = requests.recv_timeout(PATIENCE).unwrap();
    let (head, body) = (patch.head.to_lowercase(), patch.body);
    assert!(patch.head.starts_with("PATCH /api/v1/nodes/n1/status?fieldManager=memwright "));
    assert!(head.contains("content-type: application/strategic-merge-patch+json"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {}", TOKEN.to_lowercase())), "{head}");
    let condition = &body["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&"MemoryFragmented".into(), &"True".into())
    );
    // It has been so before: the time is that of the Node object.
    assert_eq!(condition["lastTransitionTime"], "2026-11-25T16:38:31Z");
}

#[test]
fn a_healthy_node_has_no_condition_that_is_true() {
    let (url, requests) = server(node());
    let ended = Pod::new().run(&url, &["--root", &fixture("healthy/debian-6.1")]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let patch = requests.iter().take(2).last().unwrap().body;
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 3);
    assert!(conditions.iter().all(|condition| condition["status"] == "False"), "{patch}");
}

#[test]
fn a_patch_is_printed_or_the_conditions_are_removed() {
    let (url, requests) = server(node());
    let pod = Pod::new();
    let dry =
        pod.run("https://api.invalid", &["--dry-run", "--root", &fixture("healthy/debian-6.1")]);
    let patch: Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!(patch["status"]["conditions"][1]["reason"], "HugePagesAreAvailable");
    let removed = pod.run(&url, &["--remove"]);
    assert_eq!(text(&removed.stdout), "node n1: conditions removed\n");
    let patch = requests.recv_timeout(PATIENCE).unwrap();
    assert_eq!(patch.body["status"]["conditions"][2]["$patch"], "delete");
}

#[test]
fn what_the_server_refuses_is_said_with_what_to_do() {
    let pod = Pod::new();
    let root = fixture("healthy/debian-6.1");
    for (status, body, said) in [
        (403, FORBIDDEN, "needs get on nodes and patch on nodes/status"),
        (422, DENIED, "and of no other"),
        (404, "{}", "HTTP 404; --node or NODE_NAME names the node"),
        (401, "not json", "HTTP 401; is the token"),
        (200, "not json", "the answer is no JSON"),
        (302, "", "HTTP 302"),
        (500, TOKEN, "HTTP 500\n"),
    ] {
        let (url, _requests) = server(vec![(status, body.to_owned())]);
        let ended = pod.run(&url, &["--root", &root]);
        let error = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{status}: {error}");
        assert!(error.contains(said) && error.lines().count() == 1, "{status}: {error}");
        assert!(!error.contains(TOKEN), "{error}");
    }
}

/// Promise (Fixing): The token of `k8s condition` is sent over TLS alone, and is in no message.
#[test]
fn what_cannot_be_asked_is_a_mistake_of_usage() {
    let pod = Pod::new();
    let check = |url: &str, args: &[&str], part: &str| {
        let ended = pod.run(url, args);
        let error = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(part), "{args:?}: {error}");
    };
    check("http://api.example", &[], "must begin with https://");
    check("https://user:pw@api.example", &[], "must not have credentials");
    check("https://api.example", &["--node", "../pods"], "invalid name of a node '../pods'");
    check("https://api.example", &["--node", ""], "invalid name of a node ''");
    check("https://api.example", &["--every", "1s"], "at least 5s");
    let outside = Command::new(env!("CARGO_BIN_EXE_memwright"))
        .args(["k8s", "condition"])
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    assert_eq!(outside.status.code(), Some(2));
    assert!(text(&outside.stderr).contains("no API server"), "{}", text(&outside.stderr));
}

/// A server that accepts and says nothing.
#[test]
fn a_server_that_hangs_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let start = Instant::now();
    let ended = Pod::new().run(&url, &["--root", &fixture("healthy/debian-6.1")]);
    assert!(text(&ended.stderr).contains("no answer within 10s"), "{}", text(&ended.stderr));
    assert!(start.elapsed() < PATIENCE);
}

/// An outage is said once, the end of it too; an unchanged state is not sent again; SIGTERM ends it.
///
/// Promise (Fixing): `k8s condition --every` outlives an outage of the API server with one line, and sends an
/// unchanged state every five minutes only.
#[test]
fn at_an_interval_it_outlives_an_outage() {
    let outage = (503, "{}".to_owned());
    let answers = vec![outage.clone(), outage, (200, NODE.to_owned())];
    let (url, requests) = server(answers);
    let pod = Pod::new();
    let root = fixture("fragmented-node/firing");
    let mut command = pod.command(&url, &["--every", "5s", "--root", &root]);
    let mut spoken = LoggedChild::spawn(command.stdout(Stdio::null()));
    let lines = spoken.lines_to("MemoryStalling False", PATIENCE);
    let said = lines.iter().filter(|line| line.contains("HTTP 503")).count();
    assert_eq!(said, 1, "{lines:?}");
    // Two failed, then the question and the patch.
    assert_eq!(requests.iter().take(4).count(), 4);
    assert!(requests.recv_timeout(Duration::from_secs(12)).is_err(), "sent again");
    spoken.child.signal(Signal::TERM);
    assert_eq!(spoken.child.0.wait().unwrap().code(), Some(0));
}

/// Container of the chart: no capability, a user that owns nothing, and of the host only /proc and /sys.
///
/// Promise (Fixing): The container of the chart needs no privilege for any of the conditions.
#[test]
fn an_unprivileged_container_sees_enough_for_every_condition() {
    if !mw_test::is_root() {
        return mw_test::skip("only root may become another user");
    }
    let ended = Command::new("bwrap")
        .args(["--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib"])
        .args(["--symlink", "usr/lib64", "/lib64", "--perms", "0755", "--dir", "/host"])
        .args(["--ro-bind", "/proc", "/host/proc"])
        .args(["--ro-bind", "/sys", "/host/sys", "--ro-bind", env!("CARGO_BIN_EXE_memwright")])
        .args(["/memwright", "/usr/bin/setpriv", "--reuid=65534", "--regid=65534"])
        .args(["--clear-groups", "--bounding-set=-all", "--no-new-privs", "/memwright", "k8s"])
        .args(["condition", "--dry-run", "--root", "/host"])
        .output()
        .unwrap();
    let error = text(&ended.stderr);
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{error}");
    let patch: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 3);
    for condition in conditions {
        assert_ne!(condition["status"], "Unknown", "{condition}");
    }
}
