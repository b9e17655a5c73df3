//! Programs whose large shared memory comes from a pool: they do the same as with memory of their own,
//! and it comes back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "../../mw-pool/tests/common/mod.rs"]
mod pools;

use common::{Compiled, preload, run, same, text};
use mw_pool::protocol::Refusal;
use mw_pool::{Attach, Error};
use pools::{MIB, Running};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const POOL: &str = "db";
/// What the program asks for, but for a page.
const SIZE: &str = "40";

/// A server with a pool of 48 MiB.
fn server() -> Running {
    let server = Running::new(1 << 30);
    server.pool(POOL, 48);
    server
}

/// Runs a program with the pool.
fn run_pooled(server: &Running, command: &mut Command) -> Output {
    from_pool(command, POOL).env("MEMWRIGHT_POOL_SOCKET", &server.socket).output().unwrap()
}

fn from_pool<'a>(command: &'a mut Command, pool: &str) -> &'a mut Command {
    preload(command).env("MEMWRIGHT_POOL", pool).env("MEMWRIGHT_STATS", "1")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_sees_no_difference_and_what_it_had_comes_back() {
    let (server, program) = (server(), Compiled::new("shared.c"));
    let plain = text(run(&mut program.command(&[SIZE])));
    for _ in 0..3 {
        let with = run_pooled(&server, &mut program.command(&[SIZE]));
        assert!(said(&with).contains("from the pool 2"), "{}", said(&with));
        assert_eq!(text(with), plain);
        server.whole(POOL);
    }
}

#[test]
fn a_child_without_descriptors_keeps_it_and_its_end_gives_it_back() {
    let (server, program) = (server(), Compiled::new("shared.c"));
    let left = run_pooled(&server, &mut program.command(&[SIZE, "hold"]));
    assert!(said(&left).is_empty() || said(&left).contains("from the pool 1"), "{}", said(&left));
    let child = Pid::from_raw(text(left).trim().parse().unwrap()).unwrap();
    let all = Attach::new(POOL.parse().unwrap(), 48 * MIB);
    let wanted = all.clone().wait(Duration::from_millis(500));
    assert!(server.client.attach(&wanted).is_err(), "somebody else's memory is handed out");
    // The program finds no room, and has memory of its own.
    let other = run_pooled(&server, &mut program.command(&[SIZE]));
    assert!(said(&other).starts_with("memwright: pool db: "), "{}", said(&other));
    assert_eq!(text(other), text(run(&mut program.command(&[SIZE]))));
    kill_process(child, Signal::KILL).unwrap();
    drop(server.client.attach(&all.wait(Duration::from_secs(60))).unwrap());
}

#[test]
fn what_a_living_program_has_is_not_waited_for() {
    let (server, program) = (server(), Compiled::new("shared.c"));
    let mut command = program.command(&[SIZE, "stay"]);
    from_pool(&mut command, POOL).env("MEMWRIGHT_POOL_SOCKET", &server.socket);
    let mut living = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(living.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "here\n");
    let all = Attach::new(POOL.parse().unwrap(), 48 * MIB).wait(Duration::from_secs(60));
    match server.client.attach(&all) {
        Err(Error::Refused(Refusal::Full, _)) => {}
        other => panic!("{other:?}"),
    }
    let bytes = server.client.pool(&POOL.parse().unwrap()).unwrap().bytes;
    assert!(bytes.leased > 40 * MIB && bytes.draining == 0, "{bytes:?}");
    kill_process(Pid::from_child(&living), Signal::TERM).unwrap();
    living.wait().unwrap();
    drop(server.client.attach(&all).unwrap());
}

/// A System V segment's key, removed with whatever it names.
struct Key(String);

impl Key {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{:#x}", 0x6d00_0000 + std::process::id() % 0xffff * 16 + number))
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let _ = Command::new("ipcrm").args(["-M", &self.0]).output();
    }
}

#[test]
fn a_segment_is_the_kernels_in_all_but_its_memory() {
    let (server, program) = (server(), Compiled::new("segment.c"));
    let plain = text(run(&mut program.command(&[SIZE])));
    let with = run_pooled(&server, &mut program.command(&[SIZE]));
    assert!(said(&with).contains("from the pool"), "{}", said(&with));
    same("segment", &plain, &text(with));
    server.whole(POOL);
}

#[test]
fn a_segment_outlives_who_made_it_and_ends_with_its_removal() {
    let (server, program) = (server(), Compiled::new("segment.c"));
    let ways = ["make", "use", "use", "remove"];
    let key = Key::new();
    let play = |run: &dyn Fn(&mut Command) -> Output| -> String {
        ways.map(|way| text(run(&mut program.command(&[SIZE, way, &key.0])))).concat()
    };
    let plain = play(&run);
    let with = play(&|command| {
        let output = run_pooled(&server, command);
        let leases = server.client.leases().unwrap();
        assert!(matches!(leases.as_slice(), [lease] if lease.segment.is_some()), "{leases:?}");
        output
    });
    same("segments", &plain, &with);
    assert!(with.contains("as it was left 1"), "{with}");
    server.whole(POOL);
}

#[test]
fn a_segment_whose_memory_is_lost_is_not_attached() {
    let program = Compiled::new("segment.c");
    let key = Key::new();
    run_pooled(&server(), &mut program.command(&[SIZE, "make", &key.0]));
    let other = server();
    // It was made just now, and is waited for.
    let used = run_pooled(&other, &mut program.command(&[SIZE, "use", &key.0]));
    assert_eq!(text(used), "not attached: Permission denied\n");
    let plain = run_pooled(&other, &mut program.command(&[SIZE]));
    assert!(said(&plain).contains("from the pool"), "{}", said(&plain));
}

/// Programs, each with what it says where its call is refused.
const PROGRAMS: [(&str, &str); 2] = [
    ("shared.c", "mmap: Cannot allocate memory\n"),
    ("segment.c", "shmget: Cannot allocate memory\n"),
];

#[test]
fn without_a_server_or_room_it_is_had_the_ordinary_way_with_one_line() {
    let server = server();
    let nowhere = server.socket.with_file_name("nowhere");
    for (source, refused) in PROGRAMS {
        let program = Compiled::new(source);
        for (pool, socket, size, why) in [
            (POOL, &nowhere, SIZE, "no pool server answers"),
            ("other", &server.socket, SIZE, "no pool 'other'"),
            (POOL, &server.socket, "90", "memwright: pool db: "),
            ("no/name", &server.socket, SIZE, "invalid name"),
        ] {
            let of = |strict: &str| {
                let mut command = program.command(&[size]);
                let command = from_pool(&mut command, pool).env("MEMWRIGHT_POOL_SOCKET", socket);
                command.env("MEMWRIGHT_POOL_STRICT", strict).output().unwrap()
            };
            let with = of("0");
            assert!(said(&with).contains(why), "{}", said(&with));
            let notices =
                said(&with).lines().filter(|line| line.starts_with("memwright: ")).count();
            assert_eq!(notices, 1, "{}", said(&with));
            same(source, &text(run(&mut program.command(&[size]))), &text(with));
            let strict = of("1");
            assert!(said(&strict).contains("--pool-strict"), "{}", said(&strict));
            assert_eq!(text(strict), refused);
        }
    }
}
