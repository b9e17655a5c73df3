//! Programs in C, which do the same with the library as without.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Compiled, calls, library, preload, run, same, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Names of the situations in tests/c/situations.c, and whether the library helps in them.
const SITUATIONS: [(&str, bool); 16] = [
    ("kinds", true),
    ("shapes", true),
    ("all", true),
    ("memlock", true),
    ("address-space", false),
    ("processes", false),
    ("forks", true),
    ("threads", true),
    ("signals", true),
    ("ended", false),
    ("cancelled", true),
    ("seccomp", false),
    ("root", false),
    ("no-descriptors", false),
    ("descriptors", true),
    ("dl", true),
];

#[test]
fn programs_do_the_same_in_every_situation() {
    let program = Compiled::new("situations.c");
    for (name, helps) in SITUATIONS {
        let plain = program.command(&[name]).output().unwrap();
        let mut command = program.command(&[name]);
        let with = preload(&mut command).env("MEMWRIGHT_STATS", "1").output().unwrap();
        let said = String::from_utf8_lossy(&with.stderr);
        assert_eq!(plain.status, with.status, "{name}: {said}");
        assert!(plain.status.success(), "{name}: {}", String::from_utf8_lossy(&plain.stderr));
        same(name, &text(plain), &String::from_utf8_lossy(&with.stdout));
        let own = said.lines().filter(|line| !line.starts_with("memwright[")).count();
        assert_eq!(own, 0, "{name}: {said}");
        // On one processor there is nobody to help, and as who is not root little is locked.
        if helps && std::thread::available_parallelism().unwrap().get() > 1 {
            assert!(calls(&with.stderr) > 0, "{name}: {said}");
        }
    }
}

#[test]
fn an_allocator_of_the_programs_own_may_call() {
    let program = Compiled::new("allocator.c");
    let plain = text(run(&mut program.command(&[])));
    let mut command = program.command(&[]);
    let with = run(preload(&mut command).env("MEMWRIGHT_STATS", "1"));
    assert!(calls(&with.stderr) > 0);
    assert_eq!(plain, "reentered 0, locked 0, threads 1\n");
    same("allocator", &plain, &text(with));
}

#[test]
fn what_lock_alone_has_locked_is_not_refused() {
    let program = Compiled::new("locks.c");
    let plain = text(run(&mut program.command(&[])));
    for variable in ["MEMWRIGHT_LOCK", "MEMWRIGHT_PREFAULT"] {
        let mut command = program.command(&[]);
        let with = run(preload(&mut command).env(variable, "1"));
        assert_eq!(String::from_utf8_lossy(&with.stderr), "");
        same(variable, &plain, &text(with));
    }
}

#[test]
fn a_fork_while_memory_is_locked_waits_for_no_thread_of_the_parent() {
    let program = Compiled::new("locks_forks.c");
    let mut command = program.command(&[]);
    let with = run(preload(&mut command).env("MEMWRIGHT_LOCK", "1"));
    assert_eq!(text(with), "children that are slow: 0, wrong: 0\n");
}

#[test]
fn who_handles_its_own_page_faults_hears_the_same() {
    let program = Compiled::new("faults.c");
    for way in ["number", "device"] {
        let plain = program.command(&[way]).output().unwrap();
        assert!(plain.status.success(), "{way}: {plain:?}");
        let mut command = program.command(&[way]);
        let with = run(preload(&mut command).env("MEMWRIGHT_PREFAULT", "1"));
        same(way, &text(plain), &text(with));
    }
}

/// Between two system calls of ours a fork could have kept what was moved away to be emptied.
#[test]
fn a_fork_while_memory_is_unmapped_has_none_of_it() {
    let program = Compiled::new("forks.c");
    let mut command = program.command(&["2000"]);
    let with = run(preload(&mut command).env("MEMWRIGHT_STATS", "1"));
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(calls(&with.stderr) > 100, "{with:?}");
    }
    assert_eq!(text(with), "children that have more: 0\n");
}

/// Sequences that are played at a time.
const PIECE: u64 = 1000;

/// Half of them with a limit of locked memory. `MW_SEQUENCES=1000000` takes over an hour; each has its
/// number for a seed, and `MW_SEQUENCES_FROM` is the first. What differs is played once more, and that is
/// said: of some ten thousand the kernel itself does one not the same twice, as where it reclaims.
#[test]
fn random_calls_have_the_same_results() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let (first, count) = (number("MW_SEQUENCES_FROM"), number("MW_SEQUENCES").unwrap_or(2000));
    let program = Compiled::new("sequences.c");
    let first = first.unwrap_or(0);
    for from in (first..first + count / 2).step_by(PIECE as usize) {
        for limits in ["limited", "free"] {
            let arguments = [from.to_string(), PIECE.to_string(), limits.to_owned()];
            let arguments = arguments.each_ref().map(String::as_str);
            let play = || {
                let plain = text(run(&mut program.command(&arguments)));
                let mut with = program.command(&arguments);
                let with = run(preload(&mut with).env("MEMWRIGHT_STATS", "1"));
                if std::thread::available_parallelism().unwrap().get() > 1 {
                    assert!(calls(&with.stderr) > 100, "{}", String::from_utf8_lossy(&with.stderr));
                }
                (plain, text(with))
            };
            let (mut plain, mut with) = play();
            if plain != with {
                eprintln!("{limits} from {from}: they differ; once more");
                (plain, with) = play();
            }
            same(&format!("{limits} from {from}"), &plain, &with);
        }
    }
}

#[test]
fn it_is_loaded_by_old_c_libraries_and_exports_what_it_stands_in_for_alone() {
    let dump = |args: &[&str]| text(run(Command::new("readelf").args(args).arg(library())));
    let versions = dump(&["--version-info", "--wide"]);
    let glibc = versions.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_2."));
    let newest = glibc.filter_map(|minor| minor.split('.').next()?.parse::<u32>().ok()).max();
    // RHEL 9, Debian 12 and Ubuntu 22.04 have it. Rust's standard library, built against a newer
    // one, needs it for thread-local storage and dlsym.
    assert!(newest.unwrap() <= 34, "GLIBC_2.{newest:?}");
    let symbols = dump(&["--dyn-syms", "--wide"]);
    let mut exported: Vec<&str> = symbols
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|line| line.len() == 8 && line[4] == "GLOBAL" && line[6] != "UND")
        .map(|line| line[7])
        .collect();
    exported.sort_unstable();
    let mut expected = vec![
        "ioctl", "madvise", "msync", "mlock", "mlock2", "mlockall", "mmap", "mmap64", "mremap",
        "munmap", "prctl", "shmat", "shmctl", "shmdt", "shmget", "syscall",
    ];
    expected.extend(["_Exit", "_exit", "copy_file_range", "fclose", "sendfile", "sendfile64"]);
    expected.extend(["write", "pwrite", "pwrite64", "read", "pread", "pread64"]);
    expected.extend(["writev", "pwritev", "pwritev64", "pwritev2", "pwritev64v2"]);
    expected.extend(["readv", "preadv", "preadv64", "preadv2", "preadv64v2"]);
    expected.sort_unstable();
    assert_eq!(exported, expected);
}

/// Profilers and handlers of crashes unwind through it, and threads wait in it.
#[test]
fn calls_by_number_are_unwound() {
    let dump = |args: &[&str]| text(run(Command::new("readelf").args(args).arg(library())));
    let symbols = dump(&["--dyn-syms", "--wide"]);
    let symbol = symbols.lines().find(|line| line.ends_with(" syscall")).unwrap();
    let begin = symbol.split_whitespace().nth(1).unwrap();
    let frames = dump(&["--debug-dump=frames", "--wide"]);
    assert!(frames.contains(&format!(" pc={begin}..")), "{symbol}");
}

#[test]
fn options_populate_and_lock_what_is_mapped() {
    let program = Compiled::new("options.c");
    let of = |variables: &[(&str, &str)]| {
        let mut command = program.command(&[]);
        preload(&mut command).envs(variables.iter().copied());
        text(run(&mut command))
    };
    let all = "private 16384 of 16384, shared 16384, sysv 16384, reserved 0";
    let plain = "private 0 of 16384, shared 0, sysv 0, reserved 0";
    assert_eq!(of(&[]).trim(), format!("{plain}, locked 0, huge 0"));
    let prefault = of(&[("MEMWRIGHT_PREFAULT", "1")]);
    assert_eq!(prefault.trim(), format!("{all}, locked 0, huge 0"));
    let huge = of(&[("MEMWRIGHT_HUGE", "always")]);
    assert!(huge.trim().ends_with("huge 1"), "{huge}");
    // Without the privilege, and with a limit, it is left.
    let lock = of(&[("MEMWRIGHT_LOCK", "1")]);
    let locked = format!("{all}, locked 16384, huge 0");
    assert!(lock.trim() == locked || lock.contains("locked 0"), "{lock}");
}

#[test]
fn the_statistics_go_where_standard_error_was_or_nowhere() {
    let program = Compiled::new("closed.c");
    let mut command = program.command(&["file"]);
    let output = run(preload(&mut command).env("MEMWRIGHT_STATS", "1"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(text(output), "the file has 0 bytes\n");
}

/// Runs a command where /etc/ld.so.preload names the library, in a namespace that ends with it.
const WITH_ETC: &str = r#"
set -e
cp -a /etc etc
echo "$1" > etc/ld.so.preload
mount --bind etc /etc
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"#;

#[test]
fn for_the_whole_machine_it_is_loaded_and_programs_with_privileges_are_left_alone() {
    if !rustix::process::geteuid().is_root() {
        mw_test::skip("needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (file, own) = (dir.path().join("library.so"), dir.path().join("privileged"));
    fs::copy(library(), &file).unwrap();
    let program = Compiled::new("privileged.c");
    fs::copy(program.path(), &own).unwrap();
    let of = |mode| {
        fs::set_permissions(&own, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", WITH_ETC, "sh"]).arg(&file).arg(&own);
        command.current_dir(dir.path()).env("MEMWRIGHT_STATS", "1");
        let output = run(command.env("MEMWRIGHT_THRESHOLD", "1048576"));
        fs::remove_dir_all(dir.path().join("etc")).unwrap();
        output
    };
    let (plain, privileged) = (of(0o755), of(0o4755));
    assert_eq!(text(plain.clone()), "user 65534, populated 4096\n");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert_eq!(calls(&plain.stderr), 1, "{plain:?}");
    }
    let said = text(privileged.clone());
    if said.starts_with("user 65534,") {
        mw_test::skip(format!(
            "programs have no privileges of their own in {}",
            dir.path().display()
        ));
        return;
    }
    assert_eq!(said, "user 0, populated 4096\n");
    assert_eq!(String::from_utf8_lossy(&privileged.stderr), "");
}

#[test]
fn the_filter_of_system_calls_is_tried() {
    let trial = |value: &str| {
        let mut command = Command::new("true");
        command.env("LD_PRELOAD", library()).env("MEMWRIGHT_SECCOMP", value).status().unwrap()
    };
    assert!(trial("try").success() && trial("0").success());
}
