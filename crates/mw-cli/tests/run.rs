//! `memwright run`: which library it finds, what it passes on, what it explains.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "common/library.rs"]
mod library;

use library::library;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn memwright(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.arg("run").args(args);
    command
}

fn with_library(args: &[&str]) -> Command {
    let mut command = memwright(&["--library"]);
    command.arg(library()).args(args);
    command
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A program that cannot be run, or not here: its first bytes are another's.
fn altered(dir: &Path, name: &str, alter: impl Fn(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = fs::read(env!("CARGO_BIN_EXE_memwright")).unwrap();
    bytes.truncate(1 << 20);
    alter(&mut bytes);
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Promise (Under unmodified programs): The command gets its arguments, and its exit code is passed on.
#[test]
fn the_command_gets_its_arguments_and_its_exit_code_is_passed_on() {
    let output = with_library(&["--", "sh", "-c", "echo \"$0 $1\"; exit 7", "--lock", "-x"]);
    let output = { output }.output().unwrap();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(7), "--lock -x\n"));
    assert_eq!(error(&output), "");
}

#[test]
fn a_command_that_must_have_its_pool_does_not_start_without() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("memwright.toml");
    let socket = dir.path().join("pool.sock");
    fs::write(&config, format!("[pool]\nsocket = {socket:?}\n")).unwrap();
    let run = |options: &[&str]| {
        let mut command = with_library(options);
        command.arg("--config").arg(&config).args(["--", "sh", "-c", "env | grep ^MEMWRIGHT_POOL"]);
        command.output().unwrap()
    };
    let strict = run(&["--pool", "db", "--pool-strict"]);
    assert_eq!(strict.status.code(), Some(3));
    assert!(error(&strict).contains("start it with memwright pool serve"), "{}", error(&strict));
    let said = out(&run(&["--pool", "db"]));
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let at = format!("MEMWRIGHT_POOL_SOCKET={}", socket.display());
    assert_eq!(lines, ["MEMWRIGHT_POOL=db", at.as_str()]);
    assert_eq!(run(&["--pool", "a b"]).status.code(), Some(2));
}

#[test]
fn the_library_is_loaded_beside_what_was_to_be_loaded() {
    let print = "echo $LD_PRELOAD; env | grep ^MEMWRIGHT_ | sort; cat /proc/self/maps";
    let mut command = with_library(&["--prefault", "--threshold", "64M", "--huge", "auto"]);
    // A variable that is left from another run.
    command.env("MEMWRIGHT_LOCK", "1").env("LD_PRELOAD", "libc.so.6");
    let output = command.args(["--stats", "--", "sh", "-c", print]).output().unwrap();
    let text = out(&output);
    let lines: Vec<&str> = text.lines().take(5).collect();
    let library = library().canonicalize().unwrap();
    assert_eq!(lines[0], format!("{}:libc.so.6", library.display()));
    let variables: Vec<&str> =
        lines[1..].iter().copied().filter(|line| !line.starts_with("MEMWRIGHT_SEC")).collect();
    assert_eq!(variables[0], "MEMWRIGHT_HUGE=auto");
    assert_eq!(variables[1], "MEMWRIGHT_PREFAULT=1");
    let number = variables[2].strip_prefix("MEMWRIGHT_STATS=").unwrap();
    assert!(number.parse::<u32>().is_ok(), "{variables:?}");
    assert!(text.contains("MEMWRIGHT_THRESHOLD=67108864"), "{text}");
    assert!(text.matches("libmemwright_preload.so").count() > 1, "it is mapped: {text}");
}

#[test]
fn prefault_has_a_value_only_behind_an_equals_sign() {
    let value = |option: &str| {
        let mut command = with_library(&[option, "sh", "-c", "echo $MEMWRIGHT_PREFAULT"]);
        out(&command.output().unwrap()).trim().to_owned()
    };
    assert_eq!(value("--prefault"), "1");
    assert_eq!(value("--prefault=background"), "1");
    assert_eq!(value("--prefault=now"), "now");
    let wrong = with_library(&["--prefault=later", "true"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn the_configuration_says_when_memory_is_populated() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("memwright.toml");
    for (value, expected) in [("true", "1"), ("false", ""), ("\"now\"", "now")] {
        fs::write(&config, format!("[run]\nprefault = {value}\n")).unwrap();
        let mut command = with_library(&["--config"]);
        command.arg(&config).args(["sh", "-c", "echo $MEMWRIGHT_PREFAULT"]);
        assert_eq!(out(&command.output().unwrap()).trim(), expected, "{value}");
    }
}

/// Promise (Under unmodified programs): `--stats` reports what was done, or why nothing was done, also if the command
/// closes standard error before it ends.
#[test]
fn the_command_says_that_nothing_was_done_and_what_it_starts_does_not() {
    let stats = |command: &[&str]| {
        let mut with = with_library(&["--stats", "--threshold", "64M", "--"]);
        error(&with.args(command).output().unwrap())
    };
    // It closes standard error before its end.
    let said = stats(&["sort", "/dev/null"]);
    let nothing =
        "nothing was done: the command did not populate or lock 64 MiB or free 256 MiB in one call";
    assert!(said.starts_with("memwright[") && said.contains(nothing), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // A shell ends by _exit(2).
    let said = stats(&["sh", "-c", "env true; sort /dev/null; :"]);
    assert!(said.contains(nothing) && said.lines().count() == 1, "{said}");
}

/// Promise (Under unmodified programs): A command that is not found, or cannot be executed, has the exit code of
/// env(1).
#[test]
fn a_command_that_cannot_be_run_has_the_exit_code_of_env() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "no program").unwrap();
    let folder = dir.path().to_str().unwrap();
    for (command, code) in [
        ("/nonexistent", 127),
        ("no-such-command", 127),
        (text.to_str().unwrap(), 126),
        (folder, 126),
    ] {
        let output = with_library(&["--", command]).output().unwrap();
        let env = Command::new("env").arg(command).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}");
        assert_eq!(env.status.code(), Some(code), "{command}");
        let said = error(&output);
        assert!(said.contains(command) && said.lines().count() == 1, "{said}");
    }
}

/// Promise (Under unmodified programs): `--stats` writes one summary for a command and all processes that it starts.
#[test]
fn what_a_command_starts_is_summed_up_in_one_line() {
    let temporary = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = temporary.path().join("file");
    // What is on the disk when the next write comes can be verified to have left the page cache.
    let write =
        format!("dd if=/dev/zero of={} bs=1M count=24 oflag=dsync status=none", file.display());
    let script = format!("for i in 1 2 3 4; do {write}; done; true");
    let mut with = with_library(&["--stats", "--direct-io", "64k", "--", "sh", "-c"]);
    let output = with.arg(script).output().unwrap();
    let said = error(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("96.0 MiB kept out of the page cache"), "{said}");
}

#[test]
fn what_is_done_after_the_commands_end_is_said_by_the_last_process() {
    let work = "from mmap import *; mmap(-1, 64 << 20, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE)";
    let script = format!("(sleep 0.3; python3 -c '{work}') & exit 0");
    let mut with = with_library(&["--stats", "--", "sh", "-c"]);
    // The output ends with the last process that has it.
    let said = error(&with.arg(script).output().unwrap());
    let [first, last] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(first.contains("nothing was done"), "{said}");
    assert!(last.contains("1 call done in parallel"), "{said}");
}

/// Each process that is started finds the same limit.
#[test]
fn a_limit_of_locked_memory_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (program, own) = (dir.path().join("memwright"), dir.path().join("library.so"));
    fs::copy(env!("CARGO_BIN_EXE_memwright"), &program).unwrap();
    fs::copy(library(), &own).unwrap();
    let mut command = Command::new("prlimit");
    command.args(["--memlock=65536", "setpriv", "--reuid", "65534", "--regid", "65534"]);
    command.arg("--clear-groups").arg(&program).args(["run", "--lock", "--library"]).arg(&own);
    command.args(["--", "sh", "-c", "sh -c 'env true; true'; env true; true"]);
    let output = command.output().unwrap();
    let said = error(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("RLIMIT_MEMLOCK prevents --lock").count(), 1, "{said}");
}

#[test]
fn huge_never_is_passed_on_to_what_the_command_starts() {
    let print = "sh -c 'grep THP_enabled /proc/self/status'";
    let of = |args: &[&str]| {
        let output = with_library(args).args(["--", "sh", "-c", print]).output().unwrap();
        out(&output).split_whitespace().last().map(str::to_owned)
    };
    // Kernels before 5.0 do not say.
    if let Some(before) = of(&[]) {
        assert_eq!((before.as_str(), of(&["--huge", "never"]).as_deref()), ("1", Some("0")));
    }
}

/// Promise (Under unmodified programs): Without the library nothing is run, and the searched paths are printed.
#[test]
fn without_the_library_it_says_where_it_looked_and_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let touch = |mut command: Command| command.arg("--").arg("touch").arg(&mark).output().unwrap();
    let output = touch(memwright(&["--library", "/nowhere/x.so"]));
    assert_eq!(output.status.code(), Some(3));
    let said = error(&output);
    assert!(said.contains("/nowhere/x.so") && said.contains("--library"), "{said}");
    assert_eq!(said.lines().count(), 1);
    let text = dir.path().join("text.so");
    fs::write(&text, "no library").unwrap();
    let output = touch(memwright(&["--library", text.to_str().unwrap()]));
    assert_eq!(output.status.code(), Some(3));
    assert!(error(&output).contains("is no library"), "{}", error(&output));
    assert!(!mark.exists());
}

#[test]
fn the_library_is_found_beside_the_program_and_where_packages_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    let lib = dir.path().join("lib/memwright");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_memwright"), bin.join("memwright")).unwrap();
    for place in [&lib, &bin] {
        let there = place.join("libmemwright_preload.so");
        fs::copy(library(), &there).unwrap();
        let mut command = Command::new(bin.join("memwright"));
        let output = command.args(["run", "--", "sh", "-c", "echo $LD_PRELOAD"]).output().unwrap();
        let expected = there.canonicalize().unwrap();
        assert_eq!(out(&output).trim(), expected.to_str().unwrap(), "{}", error(&output));
    }
}

#[test]
fn what_is_configured_is_done_and_what_is_wrong_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("memwright.toml");
    let run = |text: String| {
        fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        command.arg("--config").arg(&file).args(["run", "--", "sh", "-c"]);
        command.arg("echo $MEMWRIGHT_THRESHOLD $MEMWRIGHT_HUGE").output().unwrap()
    };
    let library = library();
    let output = run(format!(
        "[run]\nlibrary = {:?}\nthreshold = \"1G\"\nhuge = \"always\"\n",
        library.display()
    ));
    assert_eq!(out(&output), "1073741824 always\n", "{}", error(&output));
    for wrong in ["direct-io = \"1k\"", "threshold = \"1k\"", "huge = \"maybe\"", "pool = \"a b\""]
    {
        let output = run(format!("[run]\n{wrong}\n"));
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(error(&output).contains("line 2"), "{}", error(&output));
    }
}

#[test]
fn what_cannot_be_run_is_said() {
    for (args, code) in [
        (&["--", "no-such-program-at-all"][..], 127),
        (&["--"], 2),
        (&["--threshold", "4k", "--", "true"], 2),
        (&["--pool", "a b", "--", "true"], 2),
        (&["--direct-io", "1k", "--", "true"], 2),
    ] {
        let output = with_library(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", error(&output));
        assert!(!error(&output).is_empty());
    }
}

/// Promise (Under unmodified programs): `--explain` prints what prevents an effect, and runs nothing.
#[test]
fn it_explains_and_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let explain = |program: &OsStr| {
        let mut command = with_library(&["--explain", "--lock", "--huge", "auto", "--"]);
        let output = command.arg(program).arg(&mark).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", error(&output));
        out(&output)
    };
    let text = explain(OsStr::new("touch"));
    assert!(text.lines().next().unwrap().contains("in parallel."), "{text}");
    assert!(text.contains("shmdt  freed, 128 MiB or more"), "{text}");
    assert!(text.contains("In parallel, 32 MiB or more") && text.contains("(--lock)"), "{text}");
    assert!(!mark.exists());

    // PT_INTERP is made PT_NULL: nothing loads libraries, and no program is left of it.
    let no_interpreter = |bytes: &mut Vec<u8>| {
        for header in (64..64 + 20 * 56).step_by(56) {
            if bytes[header] == 3 {
                bytes[header] = 0;
            }
        }
        bytes[16] = 2;
    };
    let program = altered(dir.path(), "static", no_interpreter);
    assert!(explain(program.as_os_str()).contains("a static program"));
    let program = altered(dir.path(), "other", |bytes| bytes[18] = 243);
    assert!(explain(program.as_os_str()).contains("another architecture"));
    let program = altered(dir.path(), "setuid", |_| ());
    rustix::fs::chown(&program, Some(rustix::fs::Uid::from_raw(65534)), None).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    assert!(explain(program.as_os_str()).contains("setuid"));
}

/// Promise (Under unmodified programs): A program built with AddressSanitizer's shared library, which must be loaded
/// first, runs as without `run`, and `--explain` states this and how to use both.
#[test]
fn a_program_with_address_sanitizer_runs_as_without_unless_its_library_is_first() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("it.c"), dir.path().join("it"));
    let text = "#include <sys/mman.h>\nint main(void) {\n\
                return mmap(0, 1 << 27, 3, 34 | MAP_POPULATE, -1, 0) == MAP_FAILED; }\n";
    fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    let made = cc.arg("-fsanitize=address").arg(&source).arg("-o").arg(&program).output().unwrap();
    assert!(made.status.success(), "{}", error(&made));
    let explained = with_library(&["--explain", "--"]).arg(&program).output().unwrap();
    assert!(out(&explained).contains("would run unchanged"), "{}", out(&explained));
    let why = out(&explained);
    let first = why.split("LD_PRELOAD=").nth(1).unwrap().lines().next().unwrap();
    let output = with_library(&["--stats", "--"]).arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", error(&output));
    assert!(error(&output).contains("AddressSanitizer"), "{}", error(&output));
    let mut command = with_library(&["--stats", "--"]);
    let output = command.arg(&program).env("LD_PRELOAD", first).output().unwrap();
    assert!(output.status.success(), "{}", error(&output));
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(error(&output).contains("1 call done in parallel"), "{}", error(&output));
    }
}

#[test]
fn direct_io_keeps_what_is_written_out_of_the_page_cache_and_says_how_much() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("file");
    let write = "open(my $to, '>', $ARGV[0]); syswrite($to, 'x' x 65536) for 1 .. 512";
    let mut command = with_library(&["--direct-io", "64k", "--stats", "--"]);
    let output = command.args(["perl", "-e", write]).arg(&file).output().unwrap();
    let said = error(&output);
    assert!(output.status.success(), "{said}");
    // What was on its way to the disk at the last look is not verified.
    let before = |what: &str| {
        let end = said.find(what)?;
        said[..end].split_whitespace().last()?.parse::<f64>().ok()
    };
    let kept_out = before(" MiB kept out of the page cache").unwrap();
    let unverified = before(" MiB more not verified").unwrap_or(0.0);
    assert!(kept_out >= 1.0 && (kept_out + unverified - 32.0).abs() < 0.2, "{said}");
    let output = with_library(&["--direct-io", "64k", "--explain", "dd"]).output().unwrap();
    assert!(out(&output).contains("Out of the page cache, 64 KiB or more"), "{}", out(&output));
}

#[test]
fn explaining_says_that_the_library_is_missing() {
    let args = ["--library", "/nowhere/x.so", "--explain", "--", "true"];
    let output = memwright(&args).output().unwrap();
    let text = out(&output);
    assert!(text.contains("would run unchanged") && text.contains("/nowhere/x.so"), "{text}");
}
