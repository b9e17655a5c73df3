//! Every command, where nobody reads what it prints, where that cannot be written, and when it is told
//! to end at any moment: it ends soon, says what it could not do, and leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_cli::args;
use recording::recording;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[path = "common/library.rs"]
mod library;
#[path = "common/recording.rs"]
mod recording;

/// Time that a command may go on after it was told to end: it is a debug build beside others.
const END_LIMIT: Duration = Duration::from_secs(20);

/// Time limit of a command by itself.
const RUN_LIMIT: Duration = Duration::from_secs(120);

/// Number of times that each command is told to end, each time at another moment.
fn moments() -> u32 {
    mw_test::rounds(3, 6)
}

/// Replacements of `{…}` in a command line.
const PLACES: [&str; 5] = ["{dir}", "{recording}", "{capture}", "{library}", "{socket}"];

/// End of a command by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// It ends once its work is done.
    Soon,
    /// It ends once it is told to.
    Told,
}

/// Standard output of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prints {
    /// A message: its exit code tells the rest.
    Words,
    /// A file that it was asked to make.
    Product,
    Nothing,
}

struct Case {
    line: &'static str,
    prints: Prints,
    ends: Ends,
}

impl Case {
    /// True if it changes the machine's huge pages, which others must leave alone meanwhile.
    fn reserves(&self) -> bool {
        self.line.starts_with("make-room")
    }

    /// Runs it, and checks that huge pages are as they were.
    #[track_caller]
    fn with_pages_kept<T>(&self, run: impl FnOnce() -> T) -> T {
        if !self.reserves() {
            return run();
        }
        let _alone = mw_test::huge_pages_alone();
        let pages = || fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap();
        let before = pages();
        let value = run();
        assert_eq!(pages(), before, "{}: huge pages are left", self.line);
        value
    }
}

const fn words(line: &'static str) -> Case {
    Case { line, prints: Prints::Words, ends: Ends::Soon }
}

const fn silent(line: &'static str) -> Case {
    Case { line, prints: Prints::Nothing, ends: Ends::Soon }
}

const fn endless(line: &'static str) -> Case {
    Case { line, prints: Prints::Nothing, ends: Ends::Told }
}

/// A line a command; `top` needs a terminal and is in tests/top.rs.
const CASES: &[Case] = &[
    words("--help"),
    words("--version"),
    words("check"),
    words("check --json"),
    words("doctor"),
    words("doctor --json --verbose"),
    words("check --format nagios"),
    words("check --format npd"),
    words("check --format prometheus"),
    words("check --for 64M"),
    words("check --root {capture}"),
    words("check --recording {recording}"),
    Case { prints: Prints::Product, ..words("capture -o -") },
    silent("capture -o {dir}/out/capture.tar.zst"),
    words("explain"),
    words("explain zone-reclaim"),
    words("explain --all-memory"),
    words("explain --all-memory --root {capture}"),
    words("fix --dry-run"),
    words("fix --profile hpc-node --dry-run"),
    words("undo --state-dir {dir}/out"),
    words("changes --state-dir {dir}/out"),
    words("make-room 16M,huge=2M --dry-run"),
    words("make-room 16M,huge=2M --hold 100ms --state-dir {dir}/out"),
    silent("make-room 16M,huge=2M --state-dir {dir}/out -- /bin/true"),
    // Without a Slurm there is nothing to print.
    silent("slurm health --node n1"),
    words("heartbeats --log /dev/null --recording {recording}"),
    words("fleet facts"),
    words("ship --to {dir}/out --recording {recording} --state-dir {dir}/out"),
    words("fleet drift --nodes n[1-2] --via /bin/true"),
    words("fleet report -o - --nodes n[1-2] --via /bin/true"),
    words("fleet incidents --nodes n[1-2] --via /bin/true"),
    words("fleet room 16M --nodes n[1-2] --via /bin/true"),
    words("k8s condition --node n1 --dry-run --root {capture}"),
    // Nobody answers there.
    silent("k8s condition --node n1 --api-server http://127.0.0.1:1 --token-file {dir}/none"),
    // What it prints or not, it ends with 0.
    silent("slurm prolog --make-room 16M --state-dir {dir}/out"),
    words("bench --size 64M --rounds 1"),
    words("bench --size 64M --rounds 1 --json --svg {dir}/out/bench.svg"),
    words("run --library {library} --explain -- /bin/true"),
    silent("run --library {library} -- /bin/true"),
    endless("run --library {library} -- sleep 1000"),
    words("iotune show"),
    words("iotune set /usr discovered_direct_iosz=1M"),
    silent("iotune unset /usr"),
    words("iotune save"),
    words("pool list --socket {socket}"),
    words("pool stats --socket {socket}"),
    words("pool create p --size 32M --socket {socket}"),
    words("pool grow p 64M --socket {socket}"),
    words("pool shrink p 32M --socket {socket}"),
    silent("pool release p nothing --socket {socket}"),
    words("pool remove p --socket {socket}"),
    endless("watch --recording {dir}/out/recording.db"),
    words("incidents --recording {recording}"),
    words("blame --recording {recording}"),
    words("killed --recording {recording}"),
    words("notify"),
    // It has no sizes.
    silent("trends --recording {recording}"),
    words("report last --recording {recording}"),
    silent("report last --recording {recording} -o {dir}/out/report.html"),
    words("export --recording {recording} --to {dir}/out/rows.csv"),
    words("export --recording {recording} --to {dir}/out/rows.parquet"),
    words("lab --list"),
    silent("why -- /bin/true"),
    endless("why -- sleep 1000"),
    endless("pool serve --socket {dir}/out/pool.sock"),
];

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(library::library)
}

/// A directory for one command, and what commands may look at.
struct Place {
    dir: TempDir,
    shared: PathBuf,
}

impl Place {
    fn new(shared: &Path) -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        for out in ["out", "out/run", "out/etc", "out/run/memwright", "out/etc/memwright"] {
            fs::create_dir(dir.path().join(out)).unwrap();
        }
        Self { dir, shared: shared.to_owned() }
    }

    fn command(&self, line: &str) -> Command {
        let values = [
            self.dir.path().to_owned(),
            recording().to_owned(),
            self.shared.join("capture.tar.zst"),
            library().to_owned(),
            self.shared.join("pool.sock"),
        ];
        let mut command = self.program(line);
        for word in line.split(' ') {
            let replace = |word: String, (place, value): (&&str, &PathBuf)| {
                word.replace(*place, value.to_str().unwrap())
            };
            command.arg(PLACES.iter().zip(&values).fold(word.to_owned(), replace));
        }
        command.env("TMPDIR", self.dir.path().join("tmp")).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The program, for `iotune` with a /run and an /etc of its own: the machine's stay as they are.
    fn program(&self, line: &str) -> Command {
        if !line.starts_with("iotune") {
            return Command::new(env!("CARGO_BIN_EXE_memwright"));
        }
        let mut command = Command::new("unshare");
        let script = r#"for dir in run etc; do mount --bind "$DIR/out/$dir" /$dir || exit 77; done
            exec "$PROGRAM" "$@""#;
        command.args(["--mount", "sh", "-c", script, "sh"]);
        command.env("DIR", self.dir.path()).env("PROGRAM", env!("CARGO_BIN_EXE_memwright"));
        command
    }

    /// Nothing half done is left, and nobody who was started here.
    fn assert_clean(&self, line: &str) {
        let names = |dir: &Path| -> BTreeSet<String> {
            let entries = fs::read_dir(dir).unwrap().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let tmp = names(&self.dir.path().join("tmp"));
        assert!(tmp.is_empty(), "{line}: left behind: {tmp:?}");
        let all = names(self.dir.path());
        assert_eq!(all, ["out", "tmp"].map(str::to_owned).into(), "{line}");
        let half = |name: &String| name.starts_with(".tmp") || name.ends_with(".new");
        for dir in ["out", "out/run/memwright", "out/etc/memwright"] {
            let out = names(&self.dir.path().join(dir));
            assert!(!out.iter().any(half), "{line}: left behind: {out:?}");
            assert!(!out.contains("pool.sock"), "{line}: left its socket");
        }
        let here = self.dir.path().to_str().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let left = processes
            .filter_map(|process| fs::read_link(process.path().join("cwd")).ok())
            .filter(|cwd| cwd.starts_with(here));
        assert_eq!(left.count(), 0, "{line}: a process is left");
    }
}

/// A server that commands ask; its directory has a capture too.
struct Shared {
    dir: TempDir,
    server: Child,
}

impl Shared {
    fn new() -> Self {
        mw_test::compact_memory();
        let dir = TempDir::new().unwrap();
        let memwright = || Command::new(env!("CARGO_BIN_EXE_memwright"));
        let capture = dir.path().join("capture.tar.zst");
        let captured = memwright().args(["capture", "-o"]).arg(capture).output().unwrap();
        assert!(captured.status.success(), "{captured:?}");
        let socket = dir.path().join("pool.sock");
        let mut serve = memwright();
        serve.args(["pool", "serve", "--socket"]).arg(&socket).stderr(Stdio::null());
        let server = serve.env_remove("NOTIFY_SOCKET").spawn().unwrap();
        mw_test::wait_until("an answer of the server", RUN_LIMIT, || {
            let list = memwright().args(["pool", "list", "--socket"]).arg(&socket).output();
            list.unwrap().status.success()
        });
        Self { dir, server }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.server), Signal::TERM);
        let _ = self.server.wait();
    }
}

/// Waits for a command; one that goes on for too long is killed and fails the test.
#[track_caller]
fn end(child: &mut Child, limit: Duration, line: &str) -> ExitStatus {
    if let Some(status) = mw_test::exit_within(child, limit).unwrap() {
        return status;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("{line}: still there after {limit:?}");
}

fn no_reader() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Every command in turn, as the server has it, with what `prepare` makes of its output. The exit code
/// with standard output in nowhere is what it is compared with.
fn each(prepare: impl Fn(&mut Command), judge: impl Fn(&Case, i32, i32, &str)) {
    let shared = Shared::new();
    for case in CASES.iter().filter(|case| case.ends == Ends::Soon) {
        // What creates and removes cannot be done twice: each has its turn after the other's.
        let place = Place::new(shared.dir.path());
        let usual = case.with_pages_kept(|| run(&mut place.command(case.line), case.line)).0;
        undone(case, &shared);
        let place = Place::new(shared.dir.path());
        let mut command = place.command(case.line);
        prepare(&mut command);
        let (code, said) = case.with_pages_kept(|| run(&mut command, case.line));
        assert!(!said.contains("panicked"), "{}: {said}", case.line);
        judge(case, usual, code, &said);
        place.assert_clean(case.line);
    }
}

/// Has the server as it was before a command that changed it.
fn undone(case: &Case, shared: &Shared) {
    let socket = shared.dir.path().join("pool.sock");
    let other: &[&str] = match case.line.split(' ').take(2).collect::<Vec<_>>()[..] {
        ["pool", "create"] => &["pool", "remove", "p"],
        ["pool", "grow"] => &["pool", "shrink", "p", "32M"],
        ["pool", "shrink"] => &["pool", "grow", "p", "64M"],
        ["pool", "remove"] => &["pool", "create", "p", "--size", "32M"],
        _ => return,
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    let output = command.args(other).arg("--socket").arg(socket).output().unwrap();
    assert!(output.status.success(), "{other:?}: {output:?}");
}

/// Its exit code, 128 and more for a signal, and what it said on standard error where that is kept.
fn run(command: &mut Command, line: &str) -> (i32, String) {
    let mut child = command.spawn().unwrap();
    let stderr = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        stderr.map(|mut stderr| stderr.read_to_end(&mut said));
        String::from_utf8_lossy(&said).into_owned()
    });
    let status = end(&mut child, RUN_LIMIT, line);
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
    (code, reader.join().unwrap())
}

#[test]
fn every_command_is_here() {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for case in CASES {
        let words: Vec<&str> = case.line.split(' ').collect();
        let nested = ["fleet", "k8s", "pool", "iotune", "slurm"].contains(&words[0]);
        known.insert(words[..if nested { 2 } else { 1 }].join(" "));
    }
    for command in args::command().get_subcommands().filter(|c| c.get_name() != "top") {
        let name = command.get_name();
        let mut names: Vec<String> =
            command.get_subcommands().map(|sub| format!("{name} {}", sub.get_name())).collect();
        if names.is_empty() {
            names.push(name.to_owned());
        }
        for name in names {
            assert!(known.contains(&name), "'{name}' is missing from CASES");
        }
    }
}

#[test]
fn a_closed_pipe_changes_nothing() {
    let closed = |command: &mut Command| {
        command.stdout(no_reader()).stderr(Stdio::piped());
    };
    each(closed, |case, usual, code, said| {
        assert!(!said.contains("Broken pipe"), "{}: {said}", case.line);
        let expected = if case.prints == Prints::Product { 3 } else { usual };
        assert_eq!(code, expected, "{}: {said}", case.line);
    });
}

#[test]
fn closed_standard_error_changes_nothing() {
    let closed = |command: &mut Command| {
        command.stdout(no_reader()).stderr(no_reader());
    };
    each(closed, |case, usual, code, _| {
        let expected = if case.prints == Prints::Product { 3 } else { usual };
        assert_eq!(code, expected, "{}", case.line);
    });
}

#[test]
fn a_failed_write_is_reported() {
    let full = |command: &mut Command| {
        let full = File::options().write(true).open("/dev/full").unwrap();
        command.stdout(full).stderr(Stdio::piped());
    };
    each(full, |case, usual, code, said| match case.prints {
        Prints::Nothing => assert_eq!(code, usual, "{}: {said}", case.line),
        Prints::Words | Prints::Product => {
            assert_eq!(code, 3, "{}: {said}", case.line);
            assert!(said.contains("standard output: No space left"), "{}: {said}", case.line);
        }
    });
}

/// Tells a command to end at this moment of its run, and waits.
fn tell(place: &Place, case: &Case, signal: Signal, after: Duration) {
    let line = case.line;
    let mut child = place.command(line).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    std::thread::sleep(after);
    // It may have ended meanwhile, and is not yet waited for.
    kill_process(Pid::from_child(&child), signal).unwrap();
    let limit = if case.ends == Ends::Told { END_LIMIT } else { END_LIMIT.max(after) };
    let status = end(&mut child, limit, line);
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert!(!said.contains("panicked"), "{line}: {said}");
    assert!(
        status.code().is_some_and(|code| code <= 5) || status.signal() == Some(signal.as_raw()),
        "{line}: {status}: {said}"
    );
    place.assert_clean(line);
}

/// Promise (Findings): Every command survives a closed pipe and a signal at any moment, leaves nothing behind, and
/// reports output that could not be written.
#[test]
fn a_signal_at_any_moment_leaves_nothing_behind() {
    let shared = Shared::new();
    for case in CASES.iter().filter(|case| !case.line.starts_with("pool create")) {
        let place = Place::new(shared.dir.path());
        let lasts = match case.ends {
            Ends::Told => Duration::from_secs(2),
            Ends::Soon => {
                let start = Instant::now();
                case.with_pages_kept(|| run(&mut place.command(case.line), case.line));
                start.elapsed()
            }
        };
        for moment in 0..moments() {
            let signal = if moment % 2 == 0 { Signal::TERM } else { Signal::INT };
            // The first moments of a command are when it prepares what has to be put away.
            let after = lasts * moment * moment / moments().pow(2);
            let place = Place::new(shared.dir.path());
            case.with_pages_kept(|| tell(&place, case, signal, after));
        }
    }
}

#[test]
fn a_signal_that_is_ignored_ends_nothing() {
    let shared = Shared::new();
    let place = Place::new(shared.dir.path());
    let file = place.dir.path().join("out/capture.tar.zst");
    let mut command = Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_memwright")).args(["capture", "-o"]).arg(&file);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ignores = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(blocked.trim(), 16).unwrap() & 1 != 0
    };
    mw_test::wait_until("the begin of capture", RUN_LIMIT, ignores);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert!(end(&mut child, RUN_LIMIT, "nohup memwright capture").success());
    assert!(file.is_file());
}

#[test]
fn a_device_or_pipe_is_written_to_in_place() {
    let shared = Shared::new();
    let place = Place::new(shared.dir.path());
    let link = place.dir.path().join("out/link.html");
    std::os::unix::fs::symlink("real.html", &link).unwrap();
    fs::write(place.dir.path().join("out/real.html"), "before").unwrap();
    let pipe = place.dir.path().join("out/pipe.html");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    for name in ["link", "pipe"] {
        let line = format!("report last --recording {{recording}} -o {{dir}}/out/{name}.html");
        assert_eq!(run(&mut place.command(&line), &line).0, 0);
    }
    assert!(reader.join().unwrap().contains("<html"));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&link).unwrap().contains("<html"));
    assert!(!fs::metadata(&pipe).unwrap().is_file());
}
