//! A MariaDB server.

use crate::real::{Server, command, done, folder, port, program};
use crate::{answers, fails, fails_as, start, view};
use mw_model::{FailureKind, ServiceView};
use rustix::process::Signal;
use std::fs;
use std::process::Command;

const USERS: &str = "
CREATE USER probe@'%' IDENTIFIED BY 's3cret:1';
CREATE USER open@'%';
CREATE USER modern@'%' IDENTIFIED VIA ed25519 USING PASSWORD('s3cret');
";

fn server() -> (Server, u16) {
    let install = program(&["/usr/bin/mariadb-install-db"], "mariadb-server");
    let mariadb = program(&["/usr/sbin/mariadbd"], "mariadb-server");
    let (folder, port) = (folder("mysql"), port());
    let data = format!("--datadir={}", folder.path().join("data").display());
    // The files that it makes are not larger than they need to be.
    let small = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M"];
    let mut make = command("mysql", &install);
    make.args(["--no-defaults", &data, "--auth-root-authentication-method=normal"]);
    done(make.arg("--skip-test-db").args(small));
    let users = folder.path().join("users.sql");
    fs::write(&users, USERS).unwrap();
    let mut server = command("mysql", &mariadb);
    server.args(["--no-defaults", &data, "--bind-address=127.0.0.1", "--general-log"]).args(small);
    server.arg("--plugin-load-add=auth_ed25519").arg(format!("--port={port}"));
    for (option, file) in [
        ("--socket", "socket"),
        ("--pid-file", "pid"),
        ("--general-log-file", "queries"),
        ("--init-file", "users.sql"),
    ] {
        server.arg(format!("{option}={}", folder.path().join(file).display()));
    }
    (Server::start(&mut server, folder, Signal::TERM), port)
}

#[test]
fn a_mariadb_server_answers_stalls_and_recovers() {
    let (server, port) = server();
    let folder = server.folder.path().display();
    let prober = server.probe(&format!("mysql://probe:s3cret%3A1@127.0.0.1:{port}"));
    assert_eq!(prober.spec().target.to_string(), format!("mysql://probe@127.0.0.1:{port}"));

    answers(&start(&format!("mysql://open@127.0.0.1:{port}/information_schema"), 10_000));
    answers(&start(&format!("mysql:///mysql?socket={folder}/socket"), 10_000));
    for (login, expected) in [
        ("probe:s3cret", "Access denied for user 'probe'"),
        ("nobody:s3cret", "Access denied for user 'nobody'"),
        ("modern:s3cret", "the account logs in with client_ed25519"),
    ] {
        let prober = start(&format!("mysql://{login}@127.0.0.1:{port}"), 10_000);
        let (kind, said) = fails_as(&prober);
        assert!(said.contains(expected), "{said}");
        assert_eq!(kind, FailureKind::Authentication);
        assert!(!format!("{said} {prober:?}").contains("s3cret"), "{said} {prober:?}");
    }
    let said = fails(&start(&format!("mysql://open@127.0.0.1:{port}/none"), 10_000));
    assert!(said.starts_with("the server refused: ") && said.contains("(error 1"), "{said}");

    let logins = || {
        let queries = fs::read_to_string(server.folder.path().join("queries")).unwrap();
        queries.matches("Connect\tprobe@").count()
    };
    let before = logins();
    assert!(before > 0);
    for _ in 0..10 {
        answers(&prober);
    }
    assert_eq!(logins(), before);

    a_row_lock_is_seen(&format!("{folder}/socket"));
    server.stall(&prober);
}

fn a_row_lock_is_seen(socket: &str) {
    let mariadb = |statement: &str| {
        let mut mariadb = Command::new("mariadb");
        mariadb.args(["--no-defaults", "-S", socket, "-u", "root", "-e", statement]);
        mariadb
    };
    done(&mut mariadb(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id int PRIMARY KEY, n int) ENGINE=InnoDB; \
         INSERT INTO shop.t VALUES (1, 1)",
    ));
    let prober = start(&format!("mysql:///?socket={socket}"), 10_000);
    let update = "UPDATE shop.t SET n = n + 1 WHERE id = 1";
    let mut locks = mariadb(&format!("BEGIN; {update}; SELECT SLEEP(1000)")).spawn().unwrap();
    let sleeps = |view: &ServiceView| {
        view.sessions.iter().any(|one| one.waits_in.as_deref() == Some("User sleep"))
    };
    let seen = view(&prober, sleeps);
    let locker = seen.sessions.iter().find(|one| one.waits_in.as_deref() == Some("User sleep"));
    let mut waits = mariadb(update).spawn().unwrap();
    let seen = view(&prober, |view| view.sessions.iter().any(|one| !one.blocked_by.is_empty()));
    let waiting = seen.sessions.iter().find(|one| !one.blocked_by.is_empty()).unwrap();
    assert_eq!(waiting.blocked_by, [locker.unwrap().session], "{seen:?}");
    assert!(!format!("{seen:?}").contains("UPDATE"), "{seen:?}");
    for client in [&mut locks, &mut waits] {
        client.kill().unwrap();
        client.wait().unwrap();
    }
}
