//! A Redis server with a password.

use crate::real::{Server, command, done, folder, port, program};
use crate::{answers, fails_as, spec, start, taken, view};
use mw_model::FailureKind;
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
        let (kind, said) = fails_as(&start(&format!("redis://{wrong}127.0.0.1:{port}"), 5_000));
        assert!(said.contains(expected), "{said}");
        assert_eq!(kind, FailureKind::Authentication);
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

    for setting in [["maxmemory", "1000000"], ["slowlog-log-slower-than", "0"]] {
        client(&["config", "set", setting[0], setting[1]]);
    }
    let refused = client(&["set", "s3cret-key", "s3cret-value"]);
    assert!(refused.starts_with("OOM"), "{refused}");
    let seen = view(&prober, |view| !view.events.is_empty());
    let value = |name: &str| seen.values.iter().find(|value| value.name == name).unwrap();
    assert_eq!(value("maxmemory").value, "1000000");
    assert!(value("used_memory").value.parse::<u64>().unwrap() > 0);
    assert!(seen.events.iter().all(|event| !event.text.contains(' ')), "{seen:?}");
    assert!(seen.took_ms > 0.0 && !format!("{seen:?}").contains("s3cret"), "{seen:?}");

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
