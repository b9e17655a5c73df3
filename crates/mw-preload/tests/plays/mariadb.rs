//! MariaDB: filled, killed while it inserts, recovered, and every page of the table looked at.

use super::stage::{Service, Stage, wait_until};
use crate::common::{program, run};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the files of a new server need, small.
const FILES: [&str; 2] = ["--no-defaults", "--innodb-log-file-size=64M"];

const TABLE: &str = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, k INT, pad \
                     VARCHAR(200), KEY (k)) ENGINE=InnoDB";

struct Server<'a> {
    stage: &'a Stage,
    data: String,
    socket: String,
}

impl Server<'_> {
    fn client(&self, sql: &str) -> Command {
        let mut command = self.stage.plain("mariadb");
        command.args(["--no-defaults", "-u", "root", "-N", "-e", sql]).arg(&self.socket);
        command
    }

    fn ask(&self, sql: &str) -> String {
        let output = self.client(sql).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// Starts it and waits for its first answer.
    fn start(&self) -> Service {
        let mut command = self.stage.played("mariadbd");
        command.args(FILES).arg(&self.data).arg(&self.socket);
        command.args(["--user=root", "--skip-networking", "--memlock"]);
        command.arg(format!("--pid-file={}", self.stage.path("pid").display()));
        command.arg(format!("--innodb-buffer-pool-size={}M", self.stage.sized(512, |mib| mib)));
        let service = Service::start(&mut command);
        wait_until("MariaDB", || self.ask("SELECT 1") == "1\n");
        service
    }
}

pub(crate) fn play(stage: &Stage) -> Option<()> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let (install, mariadbd) = (program(&["mariadb-install-db"])?, program(&["mariadbd"])?);
    stage.version(mariadbd, "--version");
    let data = format!("--datadir={}", stage.path("data").display());
    let socket = format!("--socket={}", stage.path("socket").display());
    let server = Server { stage, data, socket };
    let mut make = stage.plain(install);
    make.args(FILES).arg(&server.data).args(["--user=root", "--skip-test-db"]);
    run(make.arg("--auth-root-authentication-method=normal"));
    stage.warm_up();
    let service = stage.timed("start to first query", || server.start());
    stage.say("table", server.ask(TABLE));
    let rows = stage.sized(100_000, |mib| mib * 250);
    let fill = format!(
        "USE d; INSERT INTO t SELECT seq, seq*7919 % 100003, repeat(md5(seq), 5) FROM seq_1_to_{rows}"
    );
    stage.say("filled", stage.timed("fill", || server.ask(&fill)));
    stage.say("sum", server.ask("SELECT count(*), sum(k) FROM d.t"));
    kill_at_work(&server, service);
    let service = stage.timed("recovery to first query", || server.start());
    let checked = stage.timed("check table", || server.ask("CHECK TABLE d.t EXTENDED"));
    stage.say("checked", checked);
    stage.say("sum", server.ask("SELECT count(*), sum(k) FROM d.t; CHECKSUM TABLE d.t"));
    service.signal(Signal::TERM);
    stage.say("ended", stage.timed("stop", || service.ended()));
    Some(())
}

/// Kills it in the middle of a transaction, which is undone.
fn kill_at_work(server: &Server<'_>, service: Service) {
    let update = "BEGIN; UPDATE d.t SET k = k + 1; SELECT sleep(60)";
    let client = server.client(update).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    service.kill();
    server.stage.say("the update succeeded", client.wait_with_output().unwrap().status.success());
}
