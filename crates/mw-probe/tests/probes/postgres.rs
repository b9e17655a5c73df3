//! A PostgreSQL cluster with every way to log in that the probe knows.

use crate::real::{Server, command, done, folder, port, program};
use crate::{answers, fails, fails_as, spec, start, taken, view};
use mw_model::{FailureKind, ServiceView};
use mw_probe::Prober;
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
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
        let (kind, said) = fails_as(&prober);
        assert_eq!(kind, FailureKind::Authentication, "{said}");
        assert!(said.contains("SQLSTATE 28"), "{said}");
        assert!(said.starts_with("the server refused: "), "{said}");
        assert!(!format!("{said} {prober:?}").contains("s3cret"), "{said} {prober:?}");
    }
    let prober_without = start(&format!("postgres://scram@127.0.0.1:{port}/postgres"), 10_000);
    let (kind, said) = fails_as(&prober_without);
    assert!(said.starts_with("the server asks for a password"), "{said}");
    assert_eq!(kind, FailureKind::Authentication);
    let said = fails(&start(&format!("postgres:///none?socket={folder}/.s.PGSQL.{port}"), 10_000));
    assert_eq!(said, "the server refused: database \"none\" does not exist (SQLSTATE 3D000)");

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

/// Promise (The recorder): A service's own view names who blocks whom, and holds no query unless that is configured.
#[test]
fn a_locked_table_is_seen_with_who_locks_it() {
    let (server, port) = server();
    let folder = server.folder.path().display().to_string();
    let prober = server.probe(&format!("postgres:///postgres?socket={folder}/.s.PGSQL.{port}"));
    let psql = |statement: &str| {
        let mut psql = Command::new("psql");
        psql.args(["-h", &folder, "-p", &port.to_string(), "-U", "postgres", "-c", statement]);
        psql
    };
    done(&mut psql("CREATE TABLE orders (secret text)"));
    let mut locks = psql("LOCK TABLE orders; SELECT pg_sleep(1000)");
    let mut locks = locks.env("PGAPPNAME", "locker").stdout(Stdio::null()).spawn().unwrap();
    let seen = view(&prober, |view| view.sessions.iter().any(|one| one.who.ends_with("locker")));
    let locker = &seen.sessions[0];
    assert_eq!((locker.state.as_str(), &locker.query), ("active", &None));
    let mut waits = psql("SELECT * FROM orders").stdout(Stdio::null()).spawn().unwrap();
    let seen = view(&prober, |view| view.sessions.iter().any(|one| !one.blocked_by.is_empty()));
    let waiting = seen.sessions.iter().find(|one| !one.blocked_by.is_empty()).unwrap();
    assert_eq!(waiting.blocked_by, [locker.session]);
    let in_what = waiting.waits_in.as_deref().unwrap();
    assert_eq!(in_what, "Lock: relation (AccessShareLock on orders)");
    assert!(waiting.for_ms.is_some() && !format!("{seen:?}").contains("SELECT"), "{seen:?}");
    let mut with_queries = spec(&prober.spec().target.to_string(), 10_000);
    with_queries.details.queries = true;
    let with_queries = Prober::start(with_queries).unwrap();
    let is_query = |view: &ServiceView| {
        view.sessions.iter().any(|one| one.query.as_deref() == Some("SELECT * FROM orders"))
    };
    view(&with_queries, is_query);
    for client in [&mut locks, &mut waits] {
        client.kill().unwrap();
        client.wait().unwrap();
    }
}
