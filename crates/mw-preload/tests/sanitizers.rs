//! Programs that are made with a sanitizer, and which names of others the library calls: what a
//! sanitizer, an allocator or a profiler may stand in for is none of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{HERE, calls, library, preload, program, run, text};
use std::path::Path;
use std::process::Command;

/// Names that the library has of the C library and of the dynamic linker, and why.
const IMPORTED: [(&str, &str); 30] = [
    ("_ITM_deregisterTMCloneTable", "weak, of each shared library's own start-up code"),
    ("_ITM_registerTMCloneTable", "likewise"),
    ("__gmon_start__", "likewise"),
    ("__cxa_finalize", "likewise"),
    ("__cxa_thread_atexit_impl", "weak, of the standard library's thread-local storage: not used"),
    ("__errno_location", "where the program expects errors"),
    ("__tls_get_addr", "the dynamic linker's"),
    ("_exit", "ends the trial of a filter, which is no program's process"),
    ("abort", "ends a process that is broken"),
    ("dlsym", "finds the functions that transfers are passed on to, when the library is loaded"),
    ("getauxval", "what the kernel told the program at its start"),
    ("getenv", "when the library is loaded"),
    ("getpid", "a number of the kernel's"),
    ("gettid", "likewise, of the standard library's messages"),
    ("sysconf", "the number of processors where the kernel does not say which"),
    ("sched_getaffinity", "likewise"),
    ("pthread_setcancelstate", "of the caller, before anything is done for it"),
    ("stderr", "which stream is closed, for --stats"),
    // The standard library's messages of a panic, which ends the process.
    ("__xpg_strerror_r", "a panic"),
    ("close", "a panic; available_parallelism where there are more processors than a mask has"),
    ("dl_iterate_phdr", "a panic"),
    ("fcntl", "a panic"),
    ("free", "a panic: the library's memory is its own"),
    ("malloc", "a panic"),
    ("realloc", "a panic"),
    ("getcwd", "a panic"),
    ("realpath", "a panic"),
    ("lseek64", "a panic"),
    ("readlink", "a panic"),
    ("pthread_", "keys of the standard library's thread-local storage: not used"),
];

/// Of the standard library's way to open a file, in a panic.
const OPENS: [&str; 4] = ["open64", "stat64", "fstat64", "statx"];

#[test]
fn it_calls_nothing_that_others_may_stand_in_for() {
    let symbols = text(run(Command::new("nm").args(["-D", "--undefined-only"]).arg(library())));
    let names = symbols.lines().filter_map(|line| line.split_whitespace().last());
    let unexpected: Vec<_> = names
        .map(|name| name.split('@').next().unwrap())
        .filter(|name| !OPENS.contains(name))
        .filter(|name| {
            let is =
                |known: &str| *name == known || known.ends_with('_') && name.starts_with(known);
            !IMPORTED.iter().any(|(known, _)| is(known))
        })
        .collect();
    assert_eq!(unexpected, [""; 0], "say in IMPORTED why each is called, or call the kernel");
    let needed = text(run(Command::new("readelf").args(["-d", "--wide"]).arg(library())));
    assert!(!needed.contains("libgcc_s"), "it would be loaded into each program");
}

/// What a program does that a compiler made with a sanitizer, plain and with the library.
fn check(compiler: &Path, sanitizer: &str) {
    let what = format!("{} -fsanitize={sanitizer}", compiler.display());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("it");
    let mut cc = Command::new(compiler);
    cc.args(["-g", "-O1", "-Wall", "-pthread", &format!("-fsanitize={sanitizer}")]);
    run(cc.arg(Path::new(HERE).join("tests/c/sanitized.c")).arg("-o").arg(&file));
    let plain = run(&mut Command::new(&file));
    let mut command = Command::new(&file);
    preload(&mut command).env("MEMWRIGHT_STATS", "1");
    if let Some(runtime) = first(&file) {
        command.env("LD_PRELOAD", format!("{}:{}", runtime, library().display()));
    }
    let with = run(&mut command);
    assert_eq!(text(with.clone()), text(plain), "{what}");
    let said = String::from_utf8_lossy(&with.stderr);
    let own = said.lines().filter(|line| !line.starts_with("memwright[")).count();
    assert_eq!(own, 0, "{what}: {said}");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(calls(&with.stderr) > 0, "{what}: {said}");
    }
}

/// The sanitizer's library, where it is one that has to be loaded first.
fn first(file: &Path) -> Option<String> {
    let needed = text(run(Command::new("readelf").args(["-d", "--wide"]).arg(file)));
    let names = needed.lines().filter_map(|line| line.split_once('[')?.1.strip_suffix(']'));
    names
        .into_iter()
        .find(|name| name.starts_with("libasan") || name.starts_with("libtsan"))
        .map(str::to_owned)
}

#[test]
fn programs_of_gcc_with_a_sanitizer_do_the_same() {
    for sanitizer in ["thread", "address", "undefined", "leak"] {
        check(Path::new("cc"), sanitizer);
    }
}

#[test]
fn programs_of_clang_with_a_sanitizer_do_the_same() {
    let Some(clang) = program(&["clang", "clang-14", "clang-16", "clang-19"]) else {
        mw_test::skip("no clang");
        return;
    };
    for sanitizer in ["thread", "address", "undefined", "leak"] {
        check(&clang, sanitizer);
    }
}
