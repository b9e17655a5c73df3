//! Services that people run, with the library and without: they start, answer and stop the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{preload, program, run, text};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a service may take to start on a machine that is busy.
const START: Duration = Duration::from_secs(60);

/// Debian's first user without a name, where PostgreSQL's is not there: it refuses to be root.
const NOBODY: u32 = 65534;

/// Ends a service that a failed test leaves.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < START, "the service does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for a service that was asked to stop, and says how it ended and what it wrote.
fn ended(mut service: Service) -> Option<i32> {
    service.0.wait().unwrap().code()
}

fn redis(dir: &Path, with: bool) -> Option<(Vec<String>, Option<i32>)> {
    let server = program(&["redis-server"])?;
    let socket = dir.join("redis.sock");
    let mut command = Command::new(server);
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
    command.arg("--dir").arg(dir).stdout(Stdio::null());
    if with {
        preload(&mut command);
    }
    let service = Service(command.spawn().unwrap());
    let ask = |args: &[&str]| {
        let mut cli = Command::new("redis-cli");
        text(cli.arg("-s").arg(&socket).args(args).output().unwrap())
    };
    wait_until(|| ask(&["ping"]).trim() == "PONG");
    let mut answers = vec![ask(&["debug", "populate", "200000", "key", "200"])];
    for args in [&["dbsize"][..], &["get", "key:77"], &["strlen", "key:5"], &["flushall", "sync"]] {
        answers.push(ask(args));
    }
    answers.push(ask(&["bgsave"]));
    wait_until(|| ask(&["info", "persistence"]).contains("rdb_bgsave_in_progress:0"));
    answers.push(ask(&["lastsave"]).len().to_string());
    ask(&["shutdown", "nosave"]);
    Some((answers, ended(service)))
}

#[test]
fn redis_starts_answers_and_stops() {
    let of = |with| {
        let dir = tempfile::tempdir().unwrap();
        redis(dir.path(), with)
    };
    let (plain, with) = (of(false), of(true));
    assert_eq!(plain, with);
    if plain.is_none() {
        eprintln!("skipped: no redis-server");
    }
}

/// A command of PostgreSQL's, as who is not root.
fn postgres_command(bin: &Path, name: &str) -> Command {
    let mut command = Command::new(bin.join(name));
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.env("LC_ALL", "C").current_dir("/");
    command
}

fn postgres(bin: &Path, dir: &Path, with: bool) -> (String, Option<i32>, String) {
    let data = dir.join("data");
    let mut initdb = postgres_command(bin, "initdb");
    run(initdb.args(["-N", "-A", "trust", "-U", "postgres", "-D"]).arg(&data));
    let mut server = postgres_command(bin, "postgres");
    server.arg("-D").arg(&data).arg("-k").arg(dir).args(["-c", "listen_addresses="]);
    for setting in ["shared_buffers=256MB", "fsync=off", "huge_pages=off"] {
        server.args(["-c", setting]);
    }
    if with {
        // The library may lie where others may not look.
        let library = dir.join("library.so");
        fs::copy(common::library(), &library).unwrap();
        preload(&mut server).env("LD_PRELOAD", &library);
        server.env("MEMWRIGHT_PREFAULT", "1").env("MEMWRIGHT_STATS", "1");
    }
    let errors = fs::File::create(dir.join("log")).unwrap();
    let service = Service(server.stderr(errors).spawn().unwrap());
    let ask = |sql: &str| {
        let mut psql = postgres_command(bin, "psql");
        psql.arg("-h").arg(dir).args(["-U", "postgres", "-At", "-c", sql]).output().unwrap()
    };
    wait_until(|| ask("SELECT 1").stdout == b"1\n");
    let mut answers = String::new();
    for sql in [
        "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 200000) AS n",
        "CREATE INDEX ON t (md5)",
        "SELECT count(*), sum(n), max(md5) FROM t",
        "SET max_parallel_workers_per_gather = 4; SET parallel_setup_cost = 0; SELECT sum(n) FROM t",
        "SHOW shared_buffers",
    ] {
        answers += &text(ask(sql));
    }
    let pid = rustix::process::Pid::from_child(&service.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let code = ended(service);
    let log = fs::read_to_string(dir.join("log")).unwrap();
    assert_eq!(log.contains("mapped 1, 0.2"), with, "its shared memory: {log}");
    let mut check = postgres_command(bin, "pg_controldata");
    let state = text(run(check.arg("-D").arg(&data)));
    let state = state.lines().find(|line| line.contains("cluster state")).unwrap().to_owned();
    (answers, code, state)
}

#[test]
fn postgres_starts_answers_and_stops() {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bin =
        versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists());
    let Some(bin) = bin else {
        eprintln!("skipped: no PostgreSQL below /usr/lib/postgresql");
        return;
    };
    let of = |with| {
        let dir: TempDir = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            let owner = Some(rustix::fs::Uid::from_raw(NOBODY));
            rustix::fs::chown(dir.path(), owner, None).unwrap();
        }
        postgres(&bin, dir.path(), with)
    };
    let (plain, with) = (of(false), of(true));
    assert_eq!(plain, with);
    assert!(plain.2.ends_with("shut down"), "{plain:?}");
}
