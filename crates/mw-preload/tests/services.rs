//! Programs that people run, with the library and without: they start, work, are killed, recover and
//! end the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
mod plays;
#[path = "../../mw-pool/tests/common/mod.rs"]
mod pools;

use mw_pool::{Owners, Spec};
use plays::{NOBODY, PLAYS, Play, Scale, Stage};
use pools::{Running, spec};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

fn play(name: &str) -> &'static Play {
    PLAYS.iter().find(|play| play.name == name).unwrap()
}

/// Runs a program without the library and with it: with the last option set of the table, with all of
/// them in a full run.
fn same_with_and_without(name: &str) {
    let play = play(name);
    let of = |with| {
        let stage = Stage::new(Scale::Small, with);
        (play.play)(&stage).map(|()| stage.outcome())
    };
    let Some(plain) = of(None) else {
        mw_test::skip(format!("{name} is not installed, or cannot be run without root"));
        return;
    };
    assert_eq!(plain.calls, 0);
    for way in play.ways.iter().rev().take(mw_test::rounds(1, usize::MAX)) {
        let with = of(Some(way.options)).unwrap();
        let options: Vec<&str> = way.options.iter().map(|option| option.text).collect();
        assert_eq!(plain.said, with.said, "{name} with {options:?}");
        // On one processor there is nobody to help.
        if way.helps && std::thread::available_parallelism().unwrap().get() > 1 {
            assert!(with.calls > 0, "{name} with {options:?}: {with:?}");
        }
    }
}

#[test]
fn postgres_recovers_with_sound_tables_and_indexes() {
    same_with_and_without("PostgreSQL, mmap");
    same_with_and_without("PostgreSQL, sysv");
}

#[test]
fn postgres_recovers_in_the_same_memory_of_a_pool_and_all_of_it_comes_back() {
    const POOL: &str = "db";
    let server = Running::new(1 << 30);
    let owners = Owners { users: vec![NOBODY], groups: Vec::new() };
    // There is no room for two: the second has what the first has left.
    server.client.create(&Spec { owners, ..spec(POOL, 320) }).unwrap();
    server.whole(POOL);
    fs::set_permissions(server.socket.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    for (name, leases) in [("PostgreSQL, mmap", 2), ("PostgreSQL, sysv", 4)] {
        let play = play(name).play;
        let plain = Stage::new(Scale::Small, None);
        let Some(()) = play(&plain) else {
            mw_test::skip("PostgreSQL is not installed");
            return;
        };
        let pooled = Stage::new(Scale::Small, Some(&[])).pooled(POOL, &server.socket);
        play(&pooled).unwrap();
        assert_eq!(plain.outcome().said, pooled.outcome().said);
        server.whole(POOL);
        let state = server.client.pool(&POOL.parse().unwrap()).unwrap();
        assert_eq!(state.leases_total, leases, "{name}");
    }
}

#[test]
fn mariadb_recovers_with_a_sound_table() {
    same_with_and_without("MariaDB");
}

#[test]
fn redis_saves_by_fork_and_comes_back() {
    same_with_and_without("Redis");
}

#[test]
fn a_java_virtual_machine_touches_its_heap() {
    same_with_and_without("JVM, serial collector");
    same_with_and_without("JVM, G1");
}

#[test]
fn qemu_populates_its_memory() {
    same_with_and_without("QEMU, ram");
    same_with_and_without("QEMU, memfd");
}

#[test]
fn stress_ng_finds_what_it_wrote() {
    same_with_and_without("stress-ng");
}

#[test]
fn fio_reads_what_it_wrote() {
    for name in ["fio, ext4", "fio, xfs", "fio, tmpfs"] {
        same_with_and_without(name);
    }
}
