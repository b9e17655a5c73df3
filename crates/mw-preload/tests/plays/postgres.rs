//! PostgreSQL: filled by pgbench, killed while that runs, recovered, and every page looked at.

use super::stage::{Service, Stage, unprivileged, wait_until};
use crate::common::{run, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where Debian has PostgreSQL's programs.
pub(crate) fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists())
}

/// What has to hold whenever it was killed: pgbench adds the same to three sums.
const BALANCED: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(tbalance) FROM \
     pgbench_tellers) AND (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM \
     pgbench_branches) AND (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT \
     coalesce(sum(delta), 0) FROM pgbench_history)";

const INDEXES: &str = "SELECT c.relname, bt_index_check(c.oid, true) FROM pg_index i JOIN pg_class c ON c.oid = \
     i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'btree' AND c.relname ~ \
     '^pgbench' ORDER BY 1";

struct Cluster<'a> {
    stage: &'a Stage,
    bin: PathBuf,
    data: PathBuf,
    memory: &'a str,
}

/// A server, and the segment of shared memory that one leaves which is killed.
struct Server {
    service: Service,
    _segments: Segments,
}

/// Removes System V segments that nobody is attached to and that a process made which has ended.
struct Segments(u32);

impl Drop for Segments {
    fn drop(&mut self) {
        let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, id, _, _, maker, _, attached, ..] = fields.as_slice()
                && *maker == self.0.to_string()
                && *attached == "0"
            {
                let _ = Command::new("ipcrm").args(["-m", id]).status();
            }
        }
    }
}

impl Cluster<'_> {
    fn command(&self, name: &str) -> Command {
        let mut command = self.stage.plain(self.bin.join(name));
        unprivileged(&mut command);
        command
    }

    fn client(&self, name: &str) -> Command {
        let mut command = self.command(name);
        command.arg("-h").arg(self.stage.dir()).args(["-U", "postgres"]);
        command
    }

    fn ask(&self, sql: &str) -> String {
        let output = self.client("psql").args(["-At", "-c", sql, "postgres"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// Starts it and waits for its first answer.
    fn start(&self) -> Server {
        let mut command = self.stage.played(self.bin.join("postgres"));
        unprivileged(&mut command);
        command.arg("-D").arg(&self.data).arg("-k").arg(self.stage.dir());
        let buffers = format!("shared_buffers={}MB", self.stage.sized(256, |mib| mib));
        let memory = format!("shared_memory_type={}", self.memory);
        for setting in
            [&buffers, &memory, "listen_addresses=", "huge_pages=off", "max_wal_size=4GB"]
        {
            command.args(["-c", setting]);
        }
        let service = Service::start(&mut command);
        let segments = Segments(service.id());
        wait_until("PostgreSQL", || self.ask("SELECT 1") == "1\n");
        Server { service, _segments: segments }
    }

    /// How many transactions pgbench says were done, and of how many.
    fn transactions(&self, each: usize) -> String {
        let mut pgbench = self.client("pgbench");
        let each = each.to_string();
        let said = text(run(pgbench.args(["-n", "-c", "4", "-j", "2", "-t", &each, "postgres"])));
        let line = said.lines().find(|line| line.starts_with("number of transactions actually"));
        line.unwrap_or(&said).to_owned()
    }

    /// Kills everything while transactions are on their way.
    fn kill_at_work(&self, server: Server) {
        let mut pgbench = self.client("pgbench");
        pgbench.args(["-n", "-c", "4", "-j", "2", "-T", "60", "postgres"]);
        let pgbench = Service::start(pgbench.stdout(Stdio::null()).stderr(Stdio::null()));
        std::thread::sleep(Duration::from_millis(500));
        server.service.kill();
        self.stage.say("pgbench succeeded", pgbench.ended().success());
    }
}

pub(crate) fn play(stage: &Stage, memory: &str) -> Option<()> {
    let bin = programs()?;
    stage.version(bin.join("postgres"), "--version");
    let cluster = Cluster { stage, bin, data: stage.path("data"), memory };
    let mut initdb = cluster.command("initdb");
    run(initdb.args(["-k", "-N", "-A", "trust", "-U", "postgres", "-D"]).arg(&cluster.data));
    stage.warm_up();
    let server = stage.timed("start to first query", || cluster.start());
    stage.say("memory", cluster.ask("SHOW shared_memory_type"));
    stage.timed("fill (pgbench -i)", || fill(&cluster));
    let each = stage.sized(100, |_| 2500);
    stage.say("transactions", stage.timed("pgbench", || cluster.transactions(each)));
    cluster.kill_at_work(server);
    let server = stage.timed("recovery to first query", || cluster.start());
    look(&cluster);
    server.service.signal(rustix::process::Signal::INT);
    stage.say("ended", stage.timed("stop", || server.service.ended()));
    checksums(&cluster);
    Some(())
}

fn fill(cluster: &Cluster<'_>) {
    // 15 MB each.
    let scale = cluster.stage.sized(2, |mib| mib / 64).to_string();
    run(cluster.client("pgbench").args(["-q", "-i", "-s", &scale, "postgres"]));
}

/// Looks at everything after recovery.
fn look(cluster: &Cluster<'_>) {
    let stage = cluster.stage;
    stage.say("extension", cluster.ask("CREATE EXTENSION amcheck"));
    stage.say("balanced", cluster.ask(BALANCED));
    stage.say("accounts", cluster.ask("SELECT count(*), min(aid), max(aid) FROM pgbench_accounts"));
    let heap = "SELECT count(*) FROM verify_heapam('pgbench_accounts')";
    stage.timed("amcheck", || {
        stage.say("indexes", cluster.ask(INDEXES));
        stage.say("wrong in the table", cluster.ask(heap));
    });
    let parallel = "SET max_parallel_workers_per_gather = 4; SET parallel_setup_cost = 0; SELECT \
                    count(*) FROM pgbench_accounts";
    stage.say("by several", cluster.ask(parallel));
}

/// What is on the disk in the end.
fn checksums(cluster: &Cluster<'_>) {
    let of = |name: &str, wanted: &str, data: &Path| {
        let output = cluster.command(name).arg("-D").arg(data).output().unwrap();
        let code = output.status;
        let said = text(output);
        let line = said.lines().find(|line| line.starts_with(wanted)).unwrap_or(&said);
        cluster.stage.say(name, format!("{line}, {code}"));
    };
    of("pg_checksums", "Bad checksums", &cluster.data);
    of("pg_controldata", "Database cluster state", &cluster.data);
}
