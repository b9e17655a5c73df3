//! Redis: filled, saved by a fork, started again from what was saved.

use super::stage::{Service, Stage, wait_until};
use crate::common::{program, text};
use std::process::Stdio;

const BYTES_PER_KEY: usize = 512;

pub(crate) fn play(stage: &Stage) -> Option<()> {
    let server = program(&["redis-server"])?;
    stage.version(&server, "--version");
    let socket = stage.path("redis.sock");
    let start = || {
        let mut command = stage.played(&server);
        command.args(["--port", "0", "--save", "", "--enable-debug-command", "yes"]);
        command.arg("--unixsocket").arg(&socket).arg("--dir").arg(stage.dir());
        Service::start(command.stdout(Stdio::null()))
    };
    let ask = |args: &[&str]| {
        text(stage.plain("redis-cli").arg("-s").arg(&socket).args(args).output().unwrap())
    };
    let answers = || wait_until("Redis", || ask(&["ping"]).trim() == "PONG");
    stage.warm_up();
    let service = start();
    answers();
    let keys = stage.sized(200_000, |mib| (mib << 20) / BYTES_PER_KEY / 2).to_string();
    let filled = stage.timed("fill", || ask(&["debug", "populate", &keys, "key", "400"]));
    stage.say("filled", filled);
    for args in [&["dbsize"][..], &["get", "key:77"], &["strlen", "key:5"]] {
        stage.say(args[0], ask(args));
    }
    stage.say("save", ask(&["bgsave"]));
    stage.timed("save by fork", || {
        wait_until("the save", || ask(&["info", "persistence"]).contains("bgsave_in_progress:0"));
    });
    stage.say("saved", ask(&["info", "persistence"]).contains("last_bgsave_status:ok"));
    let digest = ask(&["debug", "digest"]);
    ask(&["shutdown", "nosave"]);
    stage.say("ended", service.ended());
    let service = stage.timed("start to first reply, with the saved data", || {
        let service = start();
        answers();
        service
    });
    stage.say("the same is there", ask(&["debug", "digest"]) == digest);
    stage.say("emptied", stage.timed("empty", || ask(&["flushall", "sync"])));
    ask(&["shutdown", "nosave"]);
    stage.say("ended", service.ended());
    Some(())
}
