//! Programs whose large shared memory comes from a pool: they behave the same as without, and the memory
//! returns to the pool.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "../../mw-pool/tests/common/mod.rs"]
mod pools;

use common::{Compiled, assert_same, preload, run, text};
use mw_pool::protocol::Refusal;
use mw_pool::{Attach, Error};
use pools::{MIB, Running};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const POOL: &str = "db";
/// The requested size in MiB; the program adds a page.
const SIZE: &str = "40";

/// A server with a pool of 48 MiB.
fn server() -> Running {
    let server = Running::new(1 << 30);
    server.pool(POOL, 48);
    server
}

fn run_pooled(server: &Running, command: &mut Command) -> Output {
    from_pool(command, POOL).env("MEMWRIGHT_POOL_SOCKET", &server.socket).output().unwrap()
}

fn from_pool<'a>(command: &'a mut Command, pool: &str) -> &'a mut Command {
    preload(command).env("MEMWRIGHT_POOL", pool).env("MEMWRIGHT_STATS", "1")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Promise (The pool): Under `run --pool` a program sees no difference, and its memory returns to the pool; without a
/// server, a pool or room, memory comes from the kernel with one line of notice, or is refused with `--pool-strict`.
#[test]
fn a_program_sees_no_difference_and_its_memory_returns() {
    let (server, program) = (server(), Compiled::new("shared.c"));
    let plain = text(run(&mut program.command(&[SIZE])));
    for _ in 0..3 {
        let with = run_pooled(&server, &mut program.command(&[SIZE]));
        assert!(stderr(&with).contains("from the pool 2"), "{}", stderr(&with));
        assert_eq!(text(with), plain);
        server.whole(POOL);
    }
}

#[test]
fn a_child_without_descriptors_keeps_the_memory_until_it_ends() {
    let (server, program) = (server(), Compiled::new("shared.c"));
    let left = run_pooled(&server, &mut program.command(&[SIZE, "hold"]));
    assert!(
        stderr(&left).is_empty() || stderr(&left).contains("from the pool 1"),
        "{}",
        stderr(&left)
    );
    let child = Pid::from_raw(text(left).trim().parse().unwrap()).unwrap();
    let all = Attach::new(POOL.parse().unwrap(), 48 * MIB);
    let wanted = all.clone().wait(Duration::from_millis(500));
    assert!(server.client.attach(&wanted).is_err(), "memory in use is leased again");
    // The pool has no room, so that the program gets memory from the kernel.
    let other = run_pooled(&server, &mut program.command(&[SIZE]));
    assert!(stderr(&other).starts_with("memwright: pool db: "), "{}", stderr(&other));
    assert_eq!(text(other), text(run(&mut program.command(&[SIZE]))));
    kill_process(child, Signal::KILL).unwrap();
    drop(server.client.attach(&all.wait(Duration::from_secs(60))).unwrap());
}

#[test]
fn memory_of_a_running_program_is_not_waited_for() {
    let (server, program) = (server(), Compiled::new("shared.c"));
    let mut command = program.command(&[SIZE, "stay"]);
    from_pool(&mut command, POOL).env("MEMWRIGHT_POOL_SOCKET", &server.socket);
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "here\n");
    let all = Attach::new(POOL.parse().unwrap(), 48 * MIB).wait(Duration::from_secs(60));
    match server.client.attach(&all) {
        Err(Error::Refused(Refusal::Full, _)) => {}
        other => panic!("{other:?}"),
    }
    let bytes = server.client.pool(&POOL.parse().unwrap()).unwrap().bytes;
    assert!(bytes.leased > 40 * MIB && bytes.draining == 0, "{bytes:?}");
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    running.wait().unwrap();
    drop(server.client.attach(&all).unwrap());
}

/// A System V key; its segment is removed when it is dropped.
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

/// Promise (The pool): A System V segment of a pool is the kernel's own except for its memory, outlives its creator,
/// and returns its memory when it is removed.
#[test]
fn a_segment_is_the_kernels_own_except_for_its_memory() {
    let (server, program) = (server(), Compiled::new("segment.c"));
    let plain = text(run(&mut program.command(&[SIZE])));
    let with = run_pooled(&server, &mut program.command(&[SIZE]));
    assert!(stderr(&with).contains("from the pool"), "{}", stderr(&with));
    assert_same("segment", &plain, &text(with));
    server.whole(POOL);
}

#[test]
fn a_segment_outlives_its_creator_until_it_is_removed() {
    let (server, program) = (server(), Compiled::new("segment.c"));
    let steps = ["create", "attach", "attach", "remove"];
    let key = Key::new();
    let run_all = |run: &dyn Fn(&mut Command) -> Output| -> String {
        steps.map(|step| text(run(&mut program.command(&[SIZE, step, &key.0])))).concat()
    };
    let plain = run_all(&run);
    let with = run_all(&|command| {
        let output = run_pooled(&server, command);
        let leases = server.client.leases().unwrap();
        assert!(matches!(leases.as_slice(), [lease] if lease.segment.is_some()), "{leases:?}");
        output
    });
    assert_same("segments", &plain, &with);
    assert!(with.contains("as it was left 1"), "{with}");
    server.whole(POOL);
}

#[test]
fn attaching_a_segment_without_memory_fails() {
    let program = Compiled::new("segment.c");
    let key = Key::new();
    run_pooled(&server(), &mut program.command(&[SIZE, "create", &key.0]));
    let other = server();
    // It was created just now, so that attaching waits for its lease.
    let used = run_pooled(&other, &mut program.command(&[SIZE, "attach", &key.0]));
    assert_eq!(text(used), "not attached: Permission denied\n");
    let plain = run_pooled(&other, &mut program.command(&[SIZE]));
    assert!(stderr(&plain).contains("from the pool"), "{}", stderr(&plain));
}

/// Programs, and their output if the call fails.
const PROGRAMS: [(&str, &str); 2] = [
    ("shared.c", "mmap: Cannot allocate memory\n"),
    ("segment.c", "shmget: Cannot allocate memory\n"),
];

#[test]
fn without_a_server_or_room_memory_comes_from_the_kernel_with_one_notice() {
    let server = server();
    let nowhere = server.socket.with_file_name("nowhere");
    for (source, failed) in PROGRAMS {
        let program = Compiled::new(source);
        for (pool, socket, size, reason) in [
            (POOL, &nowhere, SIZE, "no pool server answers"),
            ("other", &server.socket, SIZE, "no pool 'other'"),
            (POOL, &server.socket, "90", "memwright: pool db: "),
            ("no/name", &server.socket, SIZE, "invalid name"),
        ] {
            let run_with = |strict: &str| {
                let mut command = program.command(&[size]);
                let command = from_pool(&mut command, pool).env("MEMWRIGHT_POOL_SOCKET", socket);
                command.env("MEMWRIGHT_POOL_STRICT", strict).output().unwrap()
            };
            let with = run_with("0");
            assert!(stderr(&with).contains(reason), "{}", stderr(&with));
            let notices =
                stderr(&with).lines().filter(|line| line.starts_with("memwright: ")).count();
            assert_eq!(notices, 1, "{}", stderr(&with));
            assert_same(source, &text(run(&mut program.command(&[size]))), &text(with));
            let strict = run_with("1");
            assert!(stderr(&strict).contains("--pool-strict"), "{}", stderr(&strict));
            assert_eq!(text(strict), failed);
        }
    }
}
