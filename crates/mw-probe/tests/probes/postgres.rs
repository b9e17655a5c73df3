//! A PostgreSQL cluster with every way to log in that the probe knows.

use crate::real::{Server, command, done, folder, port, program};
use crate::{answers, fails, spec, start, taken};
use mw_probe::Prober;
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const USERS: &str = "
    CREATE ROLE plain LOGIN PASSWORD 's3cret plain';
    CREATE ROLE scram LOGIN PASSWORD 's3cret/scram';
    SET password_encryption = md5;
    CREATE ROLE md5 LOGIN PASSWORD 's3cret';
";
const HBA: &str = "
    local all postgres trust
    local all all peer
    host all plain all password
    host all scram all scram-sha-256
    host all md5 all md5
";

fn bin() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bins = versions.map(|version| version.path().join("bin").display().to_string());
    let bins: Vec<String> = bins.chain(["/usr/lib/postgresql/15/bin".to_owned()]).collect();
    program(&bins.iter().map(String::as_str).collect::<Vec<_>>(), "postgresql")
}

fn server() -> (Server, u16) {
    let (bin, folder, port) = (bin(), folder("postgres"), port());
    let data = folder.path().join("data");
    let mut initdb = command("postgres", &bin.join("initdb"));
    done(initdb.args(["-N", "-A", "trust", "-U", "postgres", "-D"]).arg(&data));
    let mut single = command("postgres", &bin.join("postgres"));
    let users = folder.path().join("users.sql");
    // In single-user mode a line is a command.
    fs::write(&users, USERS.replace("    ", "")).unwrap();
    single.arg("--single").arg("-D").arg(&data).arg("postgres");
    done(single.stdin(fs::File::open(&users).unwrap()));
    fs::write(data.join("pg_hba.conf"), HBA).unwrap();
    let mut postgres = command("postgres", &bin.join("postgres"));
    postgres.arg("-D").arg(&data).arg("-k").arg(folder.path()).args(["-p", &port.to_string()]);
    for setting in ["listen_addresses=127.0.0.1", "fsync=off", "log_connections=on"] {
        postgres.args(["-c", setting]);
    }
    // SIGQUIT is an immediate end.
    (Server::start(&mut postgres, folder, Signal::QUIT), port)
}

#[test]
fn a_postgres_server_answers_stalls_and_recovers() {
    let (server, port) = server();
    let folder = server.folder.path().display();
    let socket = format!("postgres:///postgres?socket={folder}/.s.PGSQL.{port}");
    let prober = server.probe(&socket);
    assert_eq!(prober.spec().target.to_string(), socket);

    for login in ["plain:s3cret%20plain", "scram:s3cret%2Fscram", "md5:s3cret"] {
        answers(&start(&format!("postgres://{login}@127.0.0.1:{port}/postgres"), 10_000));
    }
    for login in ["plain:s3cret", "scram:s3cret", "md5:s3cret%20", "nobody:s3cret"] {
        let prober = start(&format!("postgresql://{login}@127.0.0.1:{port}/postgres"), 10_000);
        let said = fails(&prober);
        assert!(said.starts_with("the server refused: "), "{said}");
        assert!(!format!("{said} {prober:?}").contains("s3cret"), "{said} {prober:?}");
    }
    let said = fails(&start(&format!("postgres://scram@127.0.0.1:{port}/postgres"), 10_000));
    assert!(said.starts_with("the server asks for a password"), "{said}");
    let said = fails(&start(&format!("postgres:///none?socket={folder}/.s.PGSQL.{port}"), 10_000));
    assert_eq!(said, "the server refused: database \"none\" does not exist");

    // It logs in once, and again when its session was ended meanwhile, which is no failure.
    let logins = || server.log().matches("connection authorized: user=postgres").count();
    let before = logins();
    for _ in 0..10 {
        answers(&prober);
    }
    assert_eq!(logins(), before);
    drop(prober);
    let mut slow = spec(&socket, 10_000);
    slow.interval = Duration::from_millis(400);
    let slow = Prober::start(slow).unwrap();
    answers(&slow);
    let before = logins();
    assert!(server.signal_children("postgres: postgres postgres", Signal::TERM) > 0);
    answers(&slow);
    assert_eq!(taken(&slow).failures, 0, "{:?}", slow.last_failure());
    assert_eq!(logins(), before + 1);

    server.stall(&server.probe(&socket));
}
