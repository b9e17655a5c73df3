//! A Redis server with a password.

use crate::real::{Server, command, done, folder, port, program};
use crate::{answers, fails, spec, start, taken};
use mw_probe::Prober;
use rustix::process::Signal;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_redis_server_answers_stalls_and_recovers() {
    let redis = program(&["/usr/bin/redis-server"], "redis-server");
    let (folder, port) = (folder("redis"), port());
    let socket = folder.path().join("redis.sock");
    let mut server = command("redis", &redis);
    server.args(["--bind", "127.0.0.1", "--save", "", "--requirepass", "p:w/1", "--port"]);
    server.arg(port.to_string()).arg("--dir").arg(folder.path());
    server.arg("--unixsocket").arg(&socket).args(["--unixsocketperm", "777"]);
    let server = Server::start(&mut server, folder, Signal::TERM);
    let prober = server.probe(&format!("redis://:p%3Aw%2f1@127.0.0.1:{port}"));
    assert_eq!(prober.spec().target.to_string(), format!("redis://127.0.0.1:{port}"));
    answers(&start(&format!("redis://default:p%3Aw%2F1@/?socket={}", socket.display()), 5_000));
    for (wrong, expected) in [("", "NOAUTH"), (":no@", "WRONGPASS")] {
        let said = fails(&start(&format!("redis://{wrong}127.0.0.1:{port}"), 5_000));
        assert!(said.contains(expected), "{said}");
    }

    let client = |words: &[&str]| {
        let mut client = Command::new("redis-cli");
        client.args(["-p", &port.to_string(), "-a", "p:w/1", "--no-auth-warning"]).args(words);
        done(&mut client)
    };
    let connections = || -> u64 {
        let stats = client(&["info", "stats"]);
        let line = stats.lines().find_map(|l| l.strip_prefix("total_connections_received:"));
        line.unwrap().trim().parse().unwrap()
    };
    let before = connections();
    for _ in 0..10 {
        answers(&prober);
    }
    assert_eq!(connections(), before + 1, "the one that counts");

    // Connections that the server ends while they are idle are made anew, and nothing failed.
    drop(prober);
    let mut slow = spec(&format!("redis://:p%3Aw%2F1@127.0.0.1:{port}"), 5_000);
    slow.interval = Duration::from_millis(400);
    let slow = Prober::start(slow).unwrap();
    answers(&slow);
    assert!(client(&["client", "kill", "type", "normal"]).trim().parse::<u64>().unwrap() > 0);
    answers(&slow);
    assert_eq!(taken(&slow).failures, 0, "{:?}", slow.last_failure());

    server.stall(&server.probe(&format!("redis://:p%3Aw%2F1@127.0.0.1:{port}")));
}
