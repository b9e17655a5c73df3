//! Programs that people run, with the library and without: they start, work, are killed, recover and
//! end the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
mod plays;

use plays::{PLAYS, Scale, Stage};

/// Plays a program without the library and with it, in each way that the table has.
fn same_with_and_without(name: &str) {
    let play = PLAYS.iter().find(|play| play.name == name).unwrap();
    let of = |with| {
        let stage = Stage::new(Scale::Small, with);
        (play.play)(&stage).map(|()| stage.outcome())
    };
    let Some(plain) = of(None) else {
        eprintln!("skipped: {name}: the program, or the privilege to play it, is not there");
        return;
    };
    assert_eq!(plain.calls, 0);
    for way in play.ways {
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
