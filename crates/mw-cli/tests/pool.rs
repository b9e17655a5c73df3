//! `memwright pool`: a server, and what people ask of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_test::assert_schema;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Far longer than anything takes.
const LIMIT: Duration = Duration::from_secs(30);
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_memwright");

/// A server of its own, ended when it is dropped.
struct Server {
    dir: TempDir,
    child: Child,
}

impl Server {
    fn start(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("memwright.toml"), config).unwrap();
        let child = Command::new(PROGRAM)
            .args(["pool", "serve", "--config"])
            .arg(dir.path().join("memwright.toml"))
            .arg("--socket")
            .arg(dir.path().join("pool.sock"))
            .env_remove("NOTIFY_SOCKET")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { dir, child };
        mw_test::wait_until("an answer of the server", LIMIT, || {
            server.ask(&["list"]).status.success()
        });
        server
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("pool.sock")
    }

    fn ask(&self, args: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.arg("pool").args(args).arg("--socket").arg(self.socket()).output().unwrap()
    }

    /// Standard output, of what must be done.
    fn done(&self, args: &[&str]) -> String {
        let output = self.ask(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The exit code and standard error, of what must not.
    fn refused(&self, args: &[&str]) -> (i32, String) {
        let output = self.ask(args);
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        let ended = self.child.wait();
        assert!(ended.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[test]
fn pools_are_made_listed_changed_and_removed() {
    let server = Server::start("[pool]\nbudget = \"256M\"\n");
    assert!(server.done(&["list"]).starts_with("no pools of yours; budget 256 MiB"));
    assert_eq!(server.done(&["create", "db", "--size", "64M"]), "pool db of 64 MiB is ready\n");
    let list = server.done(&["list"]);
    assert!(list.starts_with("64 MiB of 64 MiB ready in 1 pool\n"), "{list}");
    assert_eq!(server.done(&["grow", "db", "32M"]), "pool db now has 96 MiB\n");
    assert_eq!(server.done(&["shrink", "db", "64M"]), "pool db now has 32 MiB\n");
    assert_eq!(server.done(&["release", "db"]), "pool db: contents released\n");
    let metrics = server.done(&["stats", "--format", "metrics"]);
    assert!(metrics.contains("memwright_pool_bytes{pool=\"db\",state=\"ready\"} 33554432\n"));
    let report: Value = serde_json::from_str(&server.done(&["stats", "--json"])).unwrap();
    assert_eq!(report["pools"][0]["ready_bytes"], 32 << 20);
    server.done(&["create", "cache", "--size", "32M"]);
    for command in ["list", "stats"] {
        let report = server.done(&[command, "cache", "--format", "json"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["pools"].as_array().unwrap().len(), 1, "{command}");
        assert_eq!(report["pools"][0]["name"], "cache");
        assert!(!server.done(&[command, "cache"]).contains("db"), "{command}");
        let (code, said) = server.refused(&[command, "other"]);
        assert!(code != 0 && said.contains("other"), "{code}: {said}");
    }
    assert_eq!(server.done(&["remove", "db"]), "removed pool db\n");
}

#[test]
fn what_is_refused_says_why_with_the_exit_code_of_its_kind() {
    let server = Server::start("[pool]\nbudget = \"64M\"\n");
    let (code, error) = server.refused(&["create", "db", "--size", "1G"]);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("budget of 64 MiB"), "{error}");
    assert_eq!(server.refused(&["remove", "db"]).0, 2);
    assert_eq!(server.refused(&["create", "a b", "--size", "8M"]).0, 2);
    let (code, error) =
        server.refused(&["create", "db", "--size", "8M", "--owner", "no-such-user"]);
    assert_eq!((code, error.contains("use the numeric id")), (2, true), "{error}");
    let mut second = Command::new(PROGRAM);
    let output = second.args(["pool", "serve", "--socket"]).arg(server.socket()).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("already listening at"));
    let output = Command::new(PROGRAM).args(["pool", "list", "--socket", "/nowhere"]).output();
    assert_eq!(output.unwrap().status.code(), Some(3));
}

/// Promise (The pool): `check --pool` reports what a pool has ready, and what would make it sufficient.
#[test]
fn check_says_what_a_pool_has_ready() {
    let server = Server::start("");
    server.done(&["create", "db", "--size", "64M"]);
    let config = server.dir.path().join("check.toml");
    fs::write(&config, format!("[pool]\nsocket = {:?}\n", server.socket())).unwrap();
    let check = |pool: &str, request: &str| {
        let mut command = Command::new(PROGRAM);
        command.args(["check", "--fail-on", "never", "--pool", pool, "--for", request]);
        let output = command.arg("--config").arg(&config).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, said) = check("db", "64M,lock");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("yes: 64 MiB locked from pool db, ready now"), "{said}");
    let (code, said) = check("db", "65M");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("yes: 65 MiB in "), "{said}");
    assert!(said.contains("pool db: 65 MiB needed, 64 MiB available"), "{said}");
    assert!(said.contains("memwright pool grow db 1M"), "{said}");
    assert_eq!(check("other", "1M").0, Some(2));
}

/// Promise (The pool): A pool that cannot be populated is removed, and refusals have the exit code of their kind.
#[test]
fn a_pool_that_cannot_be_populated_is_removed() {
    let server = Server::start("");
    let offered = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if !offered.is_ok_and(|text| text.contains("[never]")) {
        return mw_test::skip("shmem_enabled is not never");
    }
    let (code, error) = server.refused(&["create", "db", "--size", "8M", "--huge", "thp"]);
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("shmem_enabled is never"), "{error}");
    assert!(server.done(&["list"]).starts_with("no pool"));
}

#[test]
fn configured_pools_are_there_and_mistakes_are_named() {
    let server =
        Server::start("[[pool.create]]\nname = \"db\"\nsize = \"16M\"\nowner = [\"root\"]\n");
    let is_ready = || server.done(&["list"]).starts_with("16 MiB of 16 MiB ready");
    mw_test::wait_until("the configured pool", LIMIT, is_ready);
    for (config, named) in [
        ("[pool]\nbudget = \"much\"\n", "line 2"),
        ("[[pool.create]]\nname = \"a b\"\nsize = \"1G\"\n", "'a b'"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("memwright.toml");
        fs::write(&file, config).unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["pool", "serve", "--socket"]).arg(dir.path().join("s"));
        let output = command.arg("--config").arg(file).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(named), "{error}");
    }
}

/// Promise (The pool): `pool list --json` and `pool stats --json` conform to their published schema.
#[test]
fn json_is_what_the_schema_says() {
    let server = Server::start("");
    server.done(&["create", "db", "--size", "8M"]);
    let report = |command| serde_json::from_str(&server.done(&[command, "--json"])).unwrap();
    assert_schema("pool-v1", &["list", "stats"].map(report));
}

#[test]
fn whatever_ends_the_server_takes_its_socket_away() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start("");
        assert!(server.socket().exists());
        kill_process(Pid::from_child(&server.child), signal).unwrap();
        assert!(server.child.wait().unwrap().success(), "{signal:?}");
        assert!(!server.socket().exists(), "{signal:?} leaves it behind");
    }
}

/// Promise (The pool): A directory in which other users could replace the socket is reported.
#[test]
fn a_folder_that_others_may_write_to_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("shared");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mut serve = Command::new(PROGRAM);
    serve.args(["pool", "serve", "--budget", "64M", "--socket"]).arg(folder.join("pool.sock"));
    let mut child = serve.env_remove("NOTIFY_SOCKET").stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = lines.any(|line| line.unwrap().contains("other users can replace the socket"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said);
}

/// In a mount namespace whose /run is empty.
///
/// Promise (The pool): The server's directory is its own.
#[test]
fn a_server_shares_no_directory_with_the_recorder() {
    let script = r#"
        set -e
        mount -t tmpfs run /run
        mkdir /run/memwright
        answers() { for i in $(seq 300); do "$0" pool list "$@" && return; sleep 0.1; done; exit 1; }
        "$0" pool serve --budget 64M & server=$!
        answers
        test -z "$(ls /run/memwright)"
        test "$(stat -c %a /run/memwright-pool)" = 755
        kill $server; wait $server
        test ! -e /run/memwright-pool/pool.sock
    "#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
    unshare.args(["--mount-proc", "bash", "-c", script, PROGRAM]).env_remove("NOTIFY_SOCKET");
    let output = unshare.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
