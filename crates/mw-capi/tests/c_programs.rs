//! C programs, compiled and linked against the installed libraries.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_test::alone;
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const WARNINGS: [&str; 5] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Shared,
    Static,
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    output
}

fn text(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap()
}

/// The directory of the libraries.
fn built() -> PathBuf {
    mw_test::built("mw-capi", "memwright", "libmemwright.so").parent().unwrap().to_owned()
}

/// A directory with the result of `make install`, with only one of the libraries.
fn installed(link: Link) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut make = Command::new("make");
    make.args(["install", "-C", HERE]);
    make.arg(format!("PREFIX={}", dir.path().display()));
    run(make.arg(format!("BUILT={}", built().display())));
    if link == Link::Static {
        for entry in fs::read_dir(dir.path().join("lib")).unwrap() {
            let path = entry.unwrap().path();
            if path.display().to_string().contains(".so") {
                fs::remove_file(path).unwrap();
            }
        }
    }
    dir
}

fn flags(prefix: &Path, link: Link) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(["--cflags", "--libs", "memwright"]);
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    if link == Link::Static {
        command.arg("--static");
    }
    text(run(&mut command)).split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program of this crate.
fn program(source: &str, prefix: &Path, link: Link) -> Command {
    let binary = prefix.join("program");
    let mut cc = Command::new("cc");
    cc.args(WARNINGS).arg(Path::new(HERE).join(source)).arg("-o").arg(&binary);
    run(cc.args(flags(prefix, link)));
    let mut program = Command::new(binary);
    if link == Link::Shared {
        program.env("LD_LIBRARY_PATH", prefix.join("lib"));
    }
    program
}

/// Promise (C interface): The example compiles without a warning and runs, with the shared and the static library.
#[test]
fn the_example_runs_with_either_library() {
    for link in [Link::Shared, Link::Static] {
        let prefix = installed(link);
        let _alone = alone();
        let example = || program("examples/segment.c", prefix.path(), link);
        let output = text(run(example().args(["64M", "anon"])));
        let lines: Vec<&str> = output.lines().collect();
        assert!(lines[0].starts_with("64 MiB of kind anon in pages "), "{output}");
        assert_eq!(lines[1], "written and verified");
        assert!(lines[2].starts_with("freed in "), "{output}");
        let failed = example().arg("1000000G").output().unwrap();
        let error = String::from_utf8(failed.stderr).unwrap();
        assert_eq!(failed.status.code(), Some(1), "{error}");
        for line in [" requested, ", "  requested ", "  available ", "  missing ", "  remedy "] {
            assert!(error.contains(line), "{error}");
        }
        let nonsense = example().args(["1M", "nonsense"]).output().unwrap();
        let error = String::from_utf8(nonsense.stderr).unwrap();
        assert_eq!(nonsense.status.code(), Some(2), "{error}");
        assert_eq!(error, "usage: segment [SIZE[K|M|G] [ism|dism|memfd|anon|hugetlb|posix]]\n");
    }
}

/// Promise (C interface): A C program that passes NULL, undefined values or impossible sizes gets a typed error, and
/// nothing is left behind.
#[test]
fn errors_are_reported_and_leave_nothing() {
    for link in [Link::Shared, Link::Static] {
        let prefix = installed(link);
        let _alone = alone();
        let output = text(run(&mut program("tests/c/errors.c", prefix.path(), link)));
        assert_eq!(output, "all errors reported, nothing left\n");
    }
}

/// Promise (C interface): The header is C11 and C++11, and declares exactly what the library exports.
#[test]
fn the_header_is_complete_and_is_c_and_cplusplus() {
    let header = Path::new(HERE).join("include/memwright.h");
    let check = |compiler: &str, options: &[&str]| {
        let mut command = Command::new(compiler);
        command.args(options).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
        run(command.arg(&header));
    };
    check("cc", &["-x", "c", "-std=c11"]);
    if Command::new("g++").arg("--version").output().is_ok() {
        check("g++", &["-x", "c++", "-std=c++11"]);
    } else {
        mw_test::skip("no g++");
    }
}

/// Names `mw_…` that are called or declared in a text.
fn functions(text: &str) -> BTreeSet<String> {
    let word = |part: &str| {
        let start = part.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        part[start.map_or(0, |at| at + 1)..].to_owned()
    };
    text.lines()
        .filter(|line| !line.trim_start().starts_with(['*', '/']))
        .flat_map(|line| line.split('(').map(word).collect::<Vec<_>>())
        .filter(|name| name.starts_with("mw_"))
        .collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_has_a_soname() {
    let prefix = installed(Link::Shared);
    let library = prefix.path().join("lib/libmemwright.so");
    let header = fs::read_to_string(prefix.path().join("include/memwright.h")).unwrap();
    let declared: BTreeSet<String> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}']) && !line.starts_with("typedef"))
        .flat_map(functions)
        .collect();
    let symbols = text(run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library)));
    let exported: BTreeSet<String> =
        symbols.lines().filter_map(|line| line.rsplit(' ').next().map(str::to_owned)).collect();
    assert_eq!(exported, declared);
    let calls = ["errors.c", "pool.c"].map(|file| {
        functions(&fs::read_to_string(Path::new(HERE).join("tests/c").join(file)).unwrap())
    });
    let called: BTreeSet<String> = calls.into_iter().flatten().collect();
    let untested: Vec<_> = declared.difference(&called).collect();
    assert!(untested.is_empty(), "tests/c does not call {untested:?}");
    let dynamic = text(run(Command::new("readelf").arg("-d").arg(&library)));
    let soname = format!("soname: [libmemwright.so.{}]", env!("CARGO_PKG_VERSION_MAJOR"));
    assert!(dynamic.contains(&soname), "{dynamic}");
}

/// Promise (C interface): The library installs as packagers expect.
#[test]
fn a_package_is_staged_below_destdir() {
    let stage = tempfile::tempdir().unwrap();
    let mut make = Command::new("make");
    make.args(["install", "-C", HERE, "PREFIX=/usr", "LIBDIR=/usr/lib64"]);
    make.arg(format!("DESTDIR={}", stage.path().display()));
    run(make.arg(format!("BUILT={}", built().display())));
    let libraries = stage.path().join("usr/lib64");
    let config = fs::read_to_string(libraries.join("pkgconfig/memwright.pc")).unwrap();
    assert!(config.starts_with("prefix=/usr\nlibdir=/usr/lib64\nincludedir=/usr/include\n"));
    assert!(config.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))), "{config}");
    assert!(!config.contains(['@']), "{config}");
    let link = fs::read_link(libraries.join("libmemwright.so")).unwrap();
    let file = fs::read_link(libraries.join(link)).unwrap();
    assert!(file.ends_with(format!("libmemwright.so.{}", env!("CARGO_PKG_VERSION"))), "{file:?}");
}

/// Starts a server with a pool of 8 MiB, which ends with this process.
fn start_server(socket: &Path) {
    let socket = socket.to_owned();
    let spec = mw_pool::PoolSpec {
        name: "db".parse().unwrap(),
        bytes: 8 << 20,
        pages: mw_pool::PageSize::Base,
        nodes: mw_pool::NumaPolicy::Default,
        owners: mw_pool::Owners::default(),
        trusting: false,
    };
    let (started, start) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let config = mw_pool::PoolServerConfig {
            socket,
            budget_bytes: 64 << 20,
            pools: vec![spec],
            preflight: Box::new(|_, _| Ok(())),
            log: Box::new(|_, _| ()),
        };
        let mut server = mw_pool::Server::start(config).unwrap();
        started.send(()).unwrap();
        let (_open, stopped) = UnixStream::pair().unwrap();
        server.run(stopped.as_fd(), &mut || ()).unwrap();
    });
    start.recv().unwrap();
}

/// Promise (The pool): A child that has closed all descriptors keeps the memory as long as it maps it.
#[test]
fn memory_of_a_pool_is_attached_detached_kept_and_refused() {
    let prefix = installed(Link::Shared);
    let _alone = alone();
    let socket = prefix.path().join("pool.sock");
    start_server(&socket);
    let mut program = program("tests/c/pool.c", prefix.path(), Link::Shared);
    assert_eq!(text(run(program.arg(&socket))), "attached, detached, kept and refused\n");
}
