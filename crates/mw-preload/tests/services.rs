//! Well-known programs with and without the library: they start, work, are killed, recover and end the
//! same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "../../mw-pool/tests/common/mod.rs"]
mod pools;
mod workloads;

use mw_pool::{Owners, PoolSpec};
use pools::{Running, spec};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use workloads::{Harness, NOBODY, Outcome, Scale, WORKLOADS, Workload};

fn workload(name: &str) -> &'static Workload {
    WORKLOADS.iter().find(|workload| workload.name == name).unwrap()
}

/// The outcome of a workload without the library, which is run once; none where its program is not installed.
fn plain_outcome(workload: &Workload) -> Option<Outcome> {
    static OUTCOMES: Mutex<BTreeMap<&str, Option<Outcome>>> = Mutex::new(BTreeMap::new());
    let run = || {
        let harness = Harness::new(Scale::Small, None);
        (workload.run)(&harness).map(|()| harness.outcome())
    };
    OUTCOMES.lock().unwrap().entry(workload.name).or_insert_with(run).clone()
}

/// Runs a workload without and with the library: with the last variant of the table, or with all of them in
/// a full run.
fn same_with_and_without(name: &str) {
    let workload = workload(name);
    let Some(plain) = plain_outcome(workload) else {
        mw_test::skip(format!("{name} is not installed, or cannot be run without root"));
        return;
    };
    assert_eq!(plain.calls, 0);
    for variant in workload.variants.iter().rev().take(mw_test::rounds(1, usize::MAX)) {
        let harness = Harness::new(Scale::Small, Some(variant.options));
        (workload.run)(&harness).unwrap();
        let with = harness.outcome();
        let options: Vec<&str> = variant.options.iter().map(|option| option.text).collect();
        assert_eq!(plain.results, with.results, "{name} with {options:?}");
        // With one CPU nothing is done in parallel.
        if variant.has_calls && std::thread::available_parallelism().unwrap().get() > 1 {
            assert!(with.calls > 0, "{name} with {options:?}: {with:?}");
        }
    }
}

/// Promise (Under unmodified programs): PostgreSQL (both kinds of shared memory) and MariaDB recover from kill -9 as
/// they do without the library: every row, index and checksum; Redis, a JVM, QEMU, stress-ng and fio on ext4, xfs and
/// tmpfs have the same results.
#[test]
fn postgres_recovers_with_intact_tables_and_indexes() {
    same_with_and_without("PostgreSQL, mmap");
    same_with_and_without("PostgreSQL, sysv");
}

/// Promise (The pool): A PostgreSQL whose shared memory (mmap or System V) comes from a pool recovers from kill -9 in
/// the same memory, with intact tables and indexes, and all memory returns to the pool.
#[test]
fn postgres_recovers_in_memory_of_a_pool_and_returns_all_of_it() {
    const POOL: &str = "db";
    let server = Running::new(1 << 30);
    let owners = Owners { users: vec![NOBODY], groups: Vec::new() };
    // The pool has no room for two: the second server gets the memory of the first.
    server.client.create(&PoolSpec { owners, ..spec(POOL, 320) }).unwrap();
    server.whole(POOL);
    fs::set_permissions(server.socket.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    for (name, leases) in [("PostgreSQL, mmap", 2), ("PostgreSQL, sysv", 4)] {
        let Some(plain) = plain_outcome(workload(name)) else {
            mw_test::skip("PostgreSQL is not installed");
            return;
        };
        let pooled = Harness::new(Scale::Small, Some(&[])).pooled(POOL, &server.socket);
        (workload(name).run)(&pooled).unwrap();
        assert_eq!(plain.results, pooled.outcome().results);
        server.whole(POOL);
        let state = server.client.pool(&POOL.parse().unwrap()).unwrap();
        assert_eq!(state.leases_total, leases, "{name}");
    }
}

#[test]
fn mariadb_recovers_with_an_intact_table() {
    same_with_and_without("MariaDB");
}

#[test]
fn redis_saves_by_fork_and_restarts() {
    same_with_and_without("Redis");
}

#[test]
fn jvm_touches_its_heap() {
    same_with_and_without("JVM, serial collector");
    same_with_and_without("JVM, G1");
}

#[test]
fn qemu_populates_its_memory() {
    same_with_and_without("QEMU, ram");
    same_with_and_without("QEMU, memfd");
}

#[test]
fn stress_ng_verifies_what_it_wrote() {
    same_with_and_without("stress-ng");
}

#[test]
fn fio_verifies_what_it_wrote() {
    for name in ["fio, ext4", "fio, xfs", "fio, tmpfs"] {
        same_with_and_without(name);
    }
}
