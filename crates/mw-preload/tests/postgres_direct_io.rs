//! PostgreSQL creates a large table and an index under `--direct-io`: they are consistent, also after a
//! crash, and do not fill the page cache.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{run, text};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Time limit of its start or recovery on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Debian's user nobody: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;

/// A cluster, and its server while it runs.
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
        // Other users may not have access to the directory of the library.
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
        while self.query("SELECT 1") != "1\n" {
            let errors = || fs::read_to_string(&log).unwrap();
            assert!(start.elapsed() < START_TIMEOUT, "PostgreSQL does not reply: {}", errors());
            // It offers no event for its readiness.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn query(&self, sql: &str) -> String {
        let mut psql = self.command("psql");
        let psql = psql.arg("-h").arg(self.dir.path()).args(["-U", "postgres", "-At", "-c", sql]);
        text(psql.output().unwrap())
    }

    fn stop(&mut self, signal: Signal) {
        let Some(mut server) = self.server.take() else { return };
        kill_process(Pid::from_child(&server), signal).unwrap();
        server.wait().unwrap();
    }

    /// MiB of the database's files in the page cache; none without fincore(1).
    fn cached_mib(&self) -> Option<u64> {
        let files = fs::read_dir(self.data().join("base/5")).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let output = Command::new("fincore").args(["-b", "-n", "-o", "RES"]).args(paths).output();
        let printed = text(output.ok()?);
        Some(printed.split_whitespace().flat_map(str::parse::<u64>).sum::<u64>() >> 20)
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

/// Returns the replies before and after a crash, and how many MiB are cached when the table exists.
fn create_table(bin: &Path, with: bool) -> (String, Option<u64>) {
    let mut cluster = Cluster::new(bin, with);
    cluster.start();
    let mut replies = cluster.query(
        "CREATE TABLE t AS SELECT n, repeat(md5(n::text), 8) AS m FROM generate_series(1, 150000) n",
    );
    replies += &cluster.query("CHECKPOINT");
    let cached = cluster.cached_mib();
    replies += &cluster.query("CREATE INDEX i ON t (m)");
    replies += &cluster.query("UPDATE t SET n = -n WHERE n % 7 = 0");
    cluster.stop(Signal::QUIT);
    cluster.start();
    replies += &cluster.query("SELECT count(*), sum(n), md5(string_agg(m, '' ORDER BY m)) FROM t");
    replies += &cluster.query("CREATE EXTENSION IF NOT EXISTS amcheck");
    replies += &cluster.query("SELECT 'index', bt_index_check('i', true)");
    cluster.stop(Signal::INT);
    let mut checksums = cluster.command("pg_checksums");
    let printed = text(run(checksums.arg("--check").arg("-D").arg(cluster.data())));
    replies += printed.lines().find(|line| line.starts_with("Bad checksums")).unwrap();
    (replies, cached)
}

/// Promise (Under unmodified programs): A PostgreSQL that creates a large table and an index under `--direct-io` is
/// consistent after a crash and does not fill the page cache.
#[test]
fn postgres_creates_a_large_table_outside_the_page_cache() {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bin =
        versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists());
    let Some(bin) = bin else {
        mw_test::skip("PostgreSQL is not installed: not found in /usr/lib/postgresql");
        return;
    };
    let (plain, plain_cached) = create_table(&bin, false);
    let (with, cached) = create_table(&bin, true);
    assert_eq!(plain, with);
    assert!(plain.ends_with("Bad checksums:  0") && plain.contains("150000|"), "{plain}");
    eprintln!("MiB cached of the table: {plain_cached:?} without, {cached:?} with");
    let (Some(plain), Some(with)) = (plain_cached, cached) else {
        return mw_test::skip("what is cached cannot be counted");
    };
    assert!(plain > 40 && with < plain / 2, "{plain} MiB without, {with} with");
}
