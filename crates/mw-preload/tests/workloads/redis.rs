//! Redis: filled, saved by a fork, and restarted from the saved data.

use super::harness::{Harness, Service, wait_until};
use crate::common::{program, text};
use std::process::Stdio;

const BYTES_PER_KEY: usize = 512;

pub(crate) fn run_workload(harness: &Harness) -> Option<()> {
    let server = program(&["redis-server"])?;
    harness.version(&server, "--version");
    let socket = harness.path("redis.sock");
    let start = || {
        let mut command = harness.command(&server);
        command.args(["--port", "0", "--save", "", "--enable-debug-command", "yes"]);
        command.arg("--unixsocket").arg(&socket).arg("--dir").arg(harness.dir());
        Service::start(command.stdout(Stdio::null()))
    };
    let query = |args: &[&str]| {
        text(harness.plain_command("redis-cli").arg("-s").arg(&socket).args(args).output().unwrap())
    };
    let wait_for_reply = || wait_until("Redis", || query(&["ping"]).trim() == "PONG");
    harness.touch_memory();
    let service = start();
    wait_for_reply();
    let keys = harness.scaled(200_000, |mib| (mib << 20) / BYTES_PER_KEY / 2).to_string();
    let filled = harness.time("fill", || query(&["debug", "populate", &keys, "key", "400"]));
    harness.record("filled", filled);
    for args in [&["dbsize"][..], &["get", "key:77"], &["strlen", "key:5"]] {
        harness.record(args[0], query(args));
    }
    harness.record("save", query(&["bgsave"]));
    harness.time("save by fork", || {
        wait_until("the save", || query(&["info", "persistence"]).contains("bgsave_in_progress:0"));
    });
    harness.record("saved", query(&["info", "persistence"]).contains("last_bgsave_status:ok"));
    let digest = query(&["debug", "digest"]);
    query(&["shutdown", "nosave"]);
    harness.record("ended", service.wait());
    let service = harness.time("start to first reply, with the saved data", || {
        let service = start();
        wait_for_reply();
        service
    });
    harness.record("the same data is loaded", query(&["debug", "digest"]) == digest);
    harness.record("emptied", harness.time("empty", || query(&["flushall", "sync"])));
    query(&["shutdown", "nosave"]);
    harness.record("ended", service.wait());
    Some(())
}
