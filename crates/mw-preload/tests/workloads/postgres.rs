//! PostgreSQL: filled by pgbench, killed while pgbench runs, recovered, and every page checked.

use super::harness::{Harness, Service, unprivileged, wait_until};
use crate::common::{run, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The directory of PostgreSQL's programs on Debian.
pub(crate) fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists())
}

/// True whenever it was killed: pgbench adds the same amount to three sums in one transaction.
const BALANCED: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(tbalance) FROM \
     pgbench_tellers) AND (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM \
     pgbench_branches) AND (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT \
     coalesce(sum(delta), 0) FROM pgbench_history)";

const INDEXES: &str = "SELECT c.relname, bt_index_check(c.oid, true) FROM pg_index i JOIN pg_class c ON c.oid = \
     i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'btree' AND c.relname ~ \
     '^pgbench' ORDER BY 1";

struct Cluster<'a> {
    harness: &'a Harness,
    bin: PathBuf,
    data: PathBuf,
    memory: &'a str,
}

/// A server, and the shared memory segment that it leaves if it is killed.
struct Server {
    service: Service,
    _segments: Segments,
}

/// Removes the unattached System V segments that this process created.
struct Segments(u32);

impl Drop for Segments {
    fn drop(&mut self) {
        let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, id, _, _, creator, _, attached, ..] = fields.as_slice()
                && *creator == self.0.to_string()
                && *attached == "0"
            {
                let _ = Command::new("ipcrm").args(["-m", id]).status();
            }
        }
    }
}

impl Cluster<'_> {
    fn command(&self, name: &str) -> Command {
        let mut command = self.harness.plain_command(self.bin.join(name));
        unprivileged(&mut command);
        command
    }

    fn client(&self, name: &str) -> Command {
        let mut command = self.command(name);
        command.arg("-h").arg(self.harness.dir()).args(["-U", "postgres"]);
        command
    }

    fn query(&self, sql: &str) -> String {
        let output = self.client("psql").args(["-At", "-c", sql, "postgres"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// Starts it and waits for its first reply.
    fn start(&self) -> Server {
        let mut command = self.harness.command(self.bin.join("postgres"));
        unprivileged(&mut command);
        command.arg("-D").arg(&self.data).arg("-k").arg(self.harness.dir());
        let buffers = format!("shared_buffers={}MB", self.harness.scaled(256, |mib| mib));
        let memory = format!("shared_memory_type={}", self.memory);
        for setting in
            [&buffers, &memory, "listen_addresses=", "huge_pages=off", "max_wal_size=4GB"]
        {
            command.args(["-c", setting]);
        }
        let service = Service::start(&mut command);
        let segments = Segments(service.id());
        wait_until("PostgreSQL", || self.query("SELECT 1") == "1\n");
        Server { service, _segments: segments }
    }

    /// The line of pgbench that counts the transactions.
    fn transactions(&self, each: usize) -> String {
        let mut pgbench = self.client("pgbench");
        let each = each.to_string();
        let printed =
            text(run(pgbench.args(["-n", "-c", "4", "-j", "2", "-t", &each, "postgres"])));
        let line = printed.lines().find(|line| line.starts_with("number of transactions actually"));
        line.unwrap_or(&printed).to_owned()
    }

    /// Kills all processes while transactions are in progress.
    fn kill_under_load(&self, server: Server) {
        let mut pgbench = self.client("pgbench");
        pgbench.args(["-n", "-c", "4", "-j", "2", "-T", "60", "postgres"]);
        let pgbench = Service::start(pgbench.stdout(Stdio::null()).stderr(Stdio::null()));
        let transactions = || self.query("SELECT count(*) FROM pgbench_history").trim().parse();
        let before: u64 = transactions().unwrap();
        wait_until("transactions", || transactions().is_ok_and(|now: u64| now > before + 100));
        server.service.kill();
        self.harness.record("pgbench succeeded", pgbench.wait().success());
    }
}

pub(crate) fn run_workload(harness: &Harness, memory: &str) -> Option<()> {
    let bin = programs()?;
    harness.version(bin.join("postgres"), "--version");
    let cluster = Cluster { harness, bin, data: harness.path("data"), memory };
    let mut initdb = cluster.command("initdb");
    run(initdb.args(["-k", "-N", "-A", "trust", "-U", "postgres", "-D"]).arg(&cluster.data));
    harness.touch_memory();
    let server = harness.time("start to first query", || cluster.start());
    harness.record("memory", cluster.query("SHOW shared_memory_type"));
    harness.time("fill (pgbench -i)", || fill(&cluster));
    let each = harness.scaled(100, |_| 2500);
    harness.record("transactions", harness.time("pgbench", || cluster.transactions(each)));
    cluster.kill_under_load(server);
    let server = harness.time("recovery to first query", || cluster.start());
    check(&cluster);
    server.service.signal(rustix::process::Signal::INT);
    harness.record("ended", harness.time("stop", || server.service.wait()));
    checksums(&cluster);
    Some(())
}

fn fill(cluster: &Cluster<'_>) {
    // 15 MB per unit of scale.
    let scale = cluster.harness.scaled(2, |mib| mib / 64).to_string();
    run(cluster.client("pgbench").args(["-q", "-i", "-s", &scale, "postgres"]));
}

/// Checks all data after recovery.
fn check(cluster: &Cluster<'_>) {
    let harness = cluster.harness;
    harness.record("extension", cluster.query("CREATE EXTENSION amcheck"));
    harness.record("balanced", cluster.query(BALANCED));
    harness.record(
        "accounts",
        cluster.query("SELECT count(*), min(aid), max(aid) FROM pgbench_accounts"),
    );
    let heap = "SELECT count(*) FROM verify_heapam('pgbench_accounts')";
    harness.time("amcheck", || {
        harness.record("indexes", cluster.query(INDEXES));
        harness.record("errors in the table", cluster.query(heap));
    });
    let parallel = "SET max_parallel_workers_per_gather = 4; SET parallel_setup_cost = 0; SELECT \
                    count(*) FROM pgbench_accounts";
    harness.record("by parallel workers", cluster.query(parallel));
}

/// Checks the files on the disk.
fn checksums(cluster: &Cluster<'_>) {
    let of = |name: &str, wanted: &str, data: &Path| {
        let output = cluster.command(name).arg("-D").arg(data).output().unwrap();
        let code = output.status;
        let printed = text(output);
        let line = printed.lines().find(|line| line.starts_with(wanted)).unwrap_or(&printed);
        cluster.harness.record(name, format!("{line}, {code}"));
    };
    of("pg_checksums", "Bad checksums", &cluster.data);
    of("pg_controldata", "Database cluster state", &cluster.data);
}
