//! Programs that are built with a sanitizer, and the symbols that the library imports: none that a
//! sanitizer, an allocator or a profiler may interpose.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{HERE, calls, library, preload, program, run, text};
use std::path::Path;
use std::process::Command;

/// The symbols of the C library and the dynamic linker that the library imports, and why.
const IMPORTED: [(&str, &str); 30] = [
    ("_ITM_deregisterTMCloneTable", "weak, in the start-up code of each shared library"),
    ("_ITM_registerTMCloneTable", "likewise"),
    ("__gmon_start__", "likewise"),
    ("__cxa_finalize", "likewise"),
    ("__cxa_thread_atexit_impl", "weak, for the standard library's thread-local storage: not used"),
    ("__errno_location", "the errno of the program"),
    ("__tls_get_addr", "the dynamic linker"),
    ("_exit", "ends the process of the dry run"),
    ("abort", "a panic"),
    ("dlsym", "resolves the original functions when the library is loaded"),
    ("getauxval", "AT_SECURE, when the library is loaded"),
    ("getenv", "when the library is loaded"),
    ("getpid", "a number that the C library does not change"),
    ("gettid", "likewise, in messages of the standard library"),
    ("sysconf", "the number of CPUs if the affinity is unknown"),
    ("sched_getaffinity", "likewise"),
    ("pthread_setcancelstate", "for the calling thread, before an operation"),
    ("stderr", "to recognize the stream that is closed, for --stats"),
    // Messages of a panic, which ends the process.
    ("__xpg_strerror_r", "a panic"),
    ("close", "a panic; available_parallelism with more CPUs than a mask has"),
    ("dl_iterate_phdr", "a panic"),
    ("fcntl", "a panic"),
    ("free", "a panic: the library has its own allocator"),
    ("malloc", "a panic"),
    ("realloc", "a panic"),
    ("getcwd", "a panic"),
    ("realpath", "a panic"),
    ("lseek64", "a panic"),
    ("readlink", "a panic"),
    ("pthread_", "keys of the standard library's thread-local storage: not used"),
];

/// Call by which the standard library opens a file, in a panic.
const OPENS: [&str; 4] = ["open64", "stat64", "fstat64", "statx"];

#[test]
fn it_imports_nothing_that_others_may_interpose() {
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
    assert_eq!(
        unexpected, [""; 0],
        "add each to IMPORTED with a reason, or make a direct system call"
    );
    let needed = text(run(Command::new("readelf").args(["-d", "--wide"]).arg(library())));
    assert!(!needed.contains("libgcc_s"), "libgcc_s would be loaded into each program");
}

/// Asserts that a program built with a sanitizer behaves the same without and with the library.
fn check(compiler: &Path, sanitizer: &str) {
    let what = format!("{} -fsanitize={sanitizer}", compiler.display());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("program");
    let mut cc = Command::new(compiler);
    cc.args(["-g", "-O1", "-Wall", "-pthread", &format!("-fsanitize={sanitizer}")]);
    run(cc.arg(Path::new(HERE).join("tests/c/sanitized.c")).arg("-o").arg(&file));
    let plain = run(&mut Command::new(&file));
    let mut command = Command::new(&file);
    preload(&mut command).env("MEMWRIGHT_STATS", "1");
    if let Some(runtime) = preload_first(&file) {
        command.env("LD_PRELOAD", format!("{}:{}", runtime, library().display()));
    }
    let with = run(&mut command);
    assert_eq!(text(with.clone()), text(plain), "{what}");
    let stderr = String::from_utf8_lossy(&with.stderr);
    let other = stderr.lines().filter(|line| !line.starts_with("memwright[")).count();
    assert_eq!(other, 0, "{what}: {stderr}");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(calls(&with.stderr) > 0, "{what}: {stderr}");
    }
}

/// The library of a sanitizer that must be preloaded before any other.
fn preload_first(file: &Path) -> Option<String> {
    let needed = text(run(Command::new("readelf").args(["-d", "--wide"]).arg(file)));
    let names = needed.lines().filter_map(|line| line.split_once('[')?.1.strip_suffix(']'));
    names
        .into_iter()
        .find(|name| name.starts_with("libasan") || name.starts_with("libtsan"))
        .map(str::to_owned)
}

/// Promise (Under unmodified programs): Programs built with a sanitizer (thread, address, undefined, leak; gcc and
/// clang) behave the same and report nothing; the library calls nothing that a sanitizer, an allocator or a profiler
/// may interpose.
#[test]
fn gcc_programs_with_a_sanitizer_behave_the_same() {
    for sanitizer in ["thread", "address", "undefined", "leak"] {
        check(Path::new("cc"), sanitizer);
    }
}

#[test]
fn clang_programs_with_a_sanitizer_behave_the_same() {
    let Some(clang) = program(&["clang", "clang-14", "clang-16", "clang-19"]) else {
        mw_test::skip("no clang");
        return;
    };
    for sanitizer in ["thread", "address", "undefined", "leak"] {
        check(&clang, sanitizer);
    }
}
