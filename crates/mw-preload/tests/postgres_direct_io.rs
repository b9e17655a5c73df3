//! PostgreSQL creates a large table and an index under `--direct-io`: it is as whole as without, also
//! after a crash, and the page cache is left to others.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{run, text};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long it may take to start, or to recover, on a machine that is busy.
const START: Duration = Duration::from_secs(120);

/// Debian's first user without a name: PostgreSQL refuses to be root.
const NOBODY: u32 = 65534;

/// A cluster, with its server while that runs.
struct Cluster {
    bin: PathBuf,
    dir: tempfile::TempDir,
    with: bool,
    server: Option<Child>,
}

impl Cluster {
    fn new(bin: &Path, with: bool) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        if geteuid().is_root() {
            let owner = Some(rustix::fs::Uid::from_raw(NOBODY));
            rustix::fs::chown(dir.path(), owner, None).unwrap();
        }
        // The library may lie where others may not look.
        fs::copy(common::library(), dir.path().join("library.so")).unwrap();
        let cluster = Self { bin: bin.to_owned(), dir, with, server: None };
        let mut initdb = cluster.command("initdb");
        let data = cluster.data();
        run(initdb.args(["-N", "-k", "-A", "trust", "-U", "postgres", "-D"]).arg(data));
        cluster
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.env("LC_ALL", "C").current_dir("/");
        command
    }

    fn start(&mut self) {
        let mut server = self.command("postgres");
        server.arg("-D").arg(self.data()).arg("-k").arg(self.dir.path());
        for setting in [
            "listen_addresses=",
            "shared_buffers=16MB",
            "huge_pages=off",
            "recovery_init_sync_method=syncfs",
        ] {
            server.args(["-c", setting]);
        }
        if self.with {
            server.env("LD_PRELOAD", self.dir.path().join("library.so"));
            server.env("MEMWRIGHT_DIRECT_IO", "65536");
        }
        let log = self.dir.path().join("log");
        server.stderr(fs::File::options().create(true).append(true).open(&log).unwrap());
        self.server = Some(server.spawn().unwrap());
        let start = Instant::now();
        while self.ask("SELECT 1") != "1\n" {
            let said = || fs::read_to_string(&log).unwrap();
            assert!(start.elapsed() < START, "PostgreSQL does not answer: {}", said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn ask(&self, sql: &str) -> String {
        let mut psql = self.command("psql");
        let psql = psql.arg("-h").arg(self.dir.path()).args(["-U", "postgres", "-At", "-c", sql]);
        text(psql.output().unwrap())
    }

    fn end(&mut self, signal: Signal) {
        let Some(mut server) = self.server.take() else { return };
        kill_process(Pid::from_child(&server), signal).unwrap();
        server.wait().unwrap();
    }

    /// MiB of the database's files that are in the page cache.
    fn cached(&self) -> Option<u64> {
        let files = fs::read_dir(self.data().join("base/5")).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let output = Command::new("fincore").args(["-b", "-n", "-o", "RES"]).args(paths).output();
        let said = text(output.ok()?);
        Some(said.split_whitespace().flat_map(str::parse::<u64>).sum::<u64>() >> 20)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = kill_process(Pid::from_child(&server), Signal::QUIT);
            let _ = server.wait();
        }
    }
}

/// What it answers, before a crash and after, and how much is cached when the table is there.
fn create(bin: &Path, with: bool) -> (String, Option<u64>) {
    let mut cluster = Cluster::new(bin, with);
    cluster.start();
    let mut answers = cluster.ask(
        "CREATE TABLE t AS SELECT n, repeat(md5(n::text), 8) AS m FROM generate_series(1, 150000) n",
    );
    answers += &cluster.ask("CHECKPOINT");
    let cached = cluster.cached();
    answers += &cluster.ask("CREATE INDEX i ON t (m)");
    answers += &cluster.ask("UPDATE t SET n = -n WHERE n % 7 = 0");
    cluster.end(Signal::QUIT);
    cluster.start();
    answers += &cluster.ask("SELECT count(*), sum(n), md5(string_agg(m, '' ORDER BY m)) FROM t");
    answers += &cluster.ask("CREATE EXTENSION IF NOT EXISTS amcheck");
    answers += &cluster.ask("SELECT 'index', bt_index_check('i', true)");
    cluster.end(Signal::INT);
    let mut checksums = cluster.command("pg_checksums");
    let said = text(run(checksums.arg("--check").arg("-D").arg(cluster.data())));
    answers += said.lines().find(|line| line.starts_with("Bad checksums")).unwrap();
    (answers, cached)
}

#[test]
fn postgres_creates_a_large_table_and_leaves_the_page_cache() {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bin =
        versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists());
    let Some(bin) = bin else {
        mw_test::skip("PostgreSQL is not installed: not found in /usr/lib/postgresql");
        return;
    };
    let (plain, plain_cached) = create(&bin, false);
    let (with, cached) = create(&bin, true);
    assert_eq!(plain, with);
    assert!(plain.ends_with("Bad checksums:  0") && plain.contains("150000|"), "{plain}");
    eprintln!("MiB cached of the table: {plain_cached:?} without, {cached:?} with");
    let (Some(plain), Some(with)) = (plain_cached, cached) else {
        return mw_test::skip("what is cached cannot be counted");
    };
    assert!(plain > 40 && with < plain / 2, "{plain} MiB without, {with} with");
}
