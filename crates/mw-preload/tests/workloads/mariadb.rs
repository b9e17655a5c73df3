//! MariaDB: filled, killed during an update, recovered, and every page of the table checked.

use super::harness::{Harness, Service, wait_until};
use crate::common::{program, run};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The options of initialization and server, for small files.
const FILES: [&str; 2] = ["--no-defaults", "--innodb-log-file-size=64M"];

const TABLE: &str = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, k INT, pad \
                     VARCHAR(200), KEY (k)) ENGINE=InnoDB";

struct Server<'a> {
    harness: &'a Harness,
    data: String,
    socket: String,
}

impl Server<'_> {
    fn client(&self, sql: &str) -> Command {
        let mut command = self.harness.plain_command("mariadb");
        command.args(["--no-defaults", "-u", "root", "-N", "-e", sql]).arg(&self.socket);
        command
    }

    fn query(&self, sql: &str) -> String {
        let output = self.client(sql).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// Starts it and waits for its first reply.
    fn start(&self) -> Service {
        let mut command = self.harness.command("mariadbd");
        command.args(FILES).arg(&self.data).arg(&self.socket);
        command.args(["--user=root", "--skip-networking", "--memlock"]);
        command.arg(format!("--pid-file={}", self.harness.path("pid").display()));
        command.arg(format!("--innodb-buffer-pool-size={}M", self.harness.scaled(512, |mib| mib)));
        let service = Service::start(&mut command);
        wait_until("MariaDB", || self.query("SELECT 1") == "1\n");
        service
    }
}

pub(crate) fn run_workload(harness: &Harness) -> Option<()> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let (installer, mariadbd) = (program(&["mariadb-install-db"])?, program(&["mariadbd"])?);
    harness.version(mariadbd, "--version");
    let data = format!("--datadir={}", harness.path("data").display());
    let socket = format!("--socket={}", harness.path("socket").display());
    let server = Server { harness, data, socket };
    let mut install = harness.plain_command(installer);
    install.args(FILES).arg(&server.data).args(["--user=root", "--skip-test-db"]);
    run(install.arg("--auth-root-authentication-method=normal"));
    harness.touch_memory();
    let service = harness.time("start to first query", || server.start());
    harness.record("table", server.query(TABLE));
    let rows = harness.scaled(100_000, |mib| mib * 250);
    let fill = format!(
        "USE d; INSERT INTO t SELECT seq, seq*7919 % 100003, repeat(md5(seq), 5) FROM seq_1_to_{rows}"
    );
    harness.record("filled", harness.time("fill", || server.query(&fill)));
    harness.record("sum", server.query("SELECT count(*), sum(k) FROM d.t"));
    kill_under_load(&server, service);
    let service = harness.time("recovery to first query", || server.start());
    let checked = harness.time("check table", || server.query("CHECK TABLE d.t EXTENDED"));
    harness.record("checked", checked);
    harness.record("sum", server.query("SELECT count(*), sum(k) FROM d.t; CHECKSUM TABLE d.t"));
    service.signal(Signal::TERM);
    harness.record("ended", harness.time("stop", || service.wait()));
    Some(())
}

/// Kills it in the middle of a transaction, which is rolled back.
fn kill_under_load(server: &Server<'_>, service: Service) {
    let update = "BEGIN; UPDATE d.t SET k = k + 1; SELECT sleep(60)";
    let client = server.client(update).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The update is done when the transaction sleeps.
    let sleeping = "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep'";
    wait_until("the update", || server.query(sleeping) == "1\n");
    service.kill();
    server
        .harness
        .record("the update succeeded", client.wait_with_output().unwrap().status.success());
}
