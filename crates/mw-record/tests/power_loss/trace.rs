//! What a process did to files, as strace tells.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Calls that change files, and those that make it lasting.
const CALLS: &str = "trace=openat,write,pwrite64,ftruncate,fsync,fdatasync,unlink,rename";

/// The most of a call's bytes that strace gives: SQLite writes pages.
const MAX_BYTES: &str = "70000";

/// One thing that was done.
#[derive(Debug)]
pub(crate) enum Call {
    Created(PathBuf),
    Wrote { path: PathBuf, at: u64, bytes: Vec<u8> },
    Cut { path: PathBuf, bytes: u64 },
    Synced(PathBuf),
    Removed(PathBuf),
    Said(String),
}

/// A call, and when it returned.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) at_s: f64,
    pub(crate) call: Call,
}

/// Runs a program to its end and tells what it did.
pub(crate) fn of(mut program: Command) -> Vec<Event> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-ttt", "-y", "-xx", "-s", MAX_BYTES, "-e", CALLS, "-o"]).arg(&out);
    strace.arg(program.get_program()).args(program.get_args());
    strace.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let status = strace.stdout(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("strace: {error}: apt-get install strace"));
    assert!(status.success(), "{:?}: {status}", program.stdout(Stdio::null()));
    events(&std::fs::read_to_string(&out).unwrap())
}

fn events(text: &str) -> Vec<Event> {
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut known = Vec::new();
    let mut events = Vec::new();
    for line in text.lines() {
        let (thread, rest) = line.split_once(' ').unwrap();
        let (at, rest) = rest.trim_start().split_once(' ').unwrap();
        let whole = if let Some(part) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, part);
            continue;
        } else if let Some((_, end)) = rest.split_once(" resumed>") {
            let Some(part) = begun.remove(thread) else { continue };
            format!("{part}{end}")
        } else {
            rest.to_owned()
        };
        if let Some(call) = call(&whole, &mut known) {
            events.push(Event { at_s: at.parse().unwrap(), call });
        }
    }
    events
}

/// `name(arguments) = result`; what failed did nothing.
fn call(line: &str, known: &mut Vec<PathBuf>) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    if result.starts_with('-') {
        return None;
    }
    let arguments: Vec<&str> =
        arguments.trim_end().trim_end_matches(')').split(", ").map(str::trim).collect();
    let number = |at: usize| arguments.get(at)?.parse::<u64>().ok();
    let descriptor = || Some(PathBuf::from(String::from_utf8(hex(arguments.first()?)).ok()?));
    match name {
        "openat" if line.contains("O_CREAT") => {
            // A name below the directory of the descriptor.
            let path = descriptor()?.join(String::from_utf8(hex(arguments.get(1)?)).ok()?);
            (!known.contains(&path)).then(|| {
                known.push(path.clone());
                Call::Created(path)
            })
        }
        "write" if arguments.first()?.starts_with("1<") => {
            Some(Call::Said(String::from_utf8(hex(arguments.get(1)?)).ok()?))
        }
        "pwrite64" => {
            let bytes = hex(arguments.get(1)?);
            assert_eq!(Some(bytes.len() as u64), number(2), "{name} is cut short");
            Some(Call::Wrote { path: descriptor()?, at: number(3)?, bytes })
        }
        "ftruncate" => Some(Call::Cut { path: descriptor()?, bytes: number(1)? }),
        "fsync" if descriptor()?.to_string_lossy().ends_with("-wal") => {
            panic!("the file system commits its journal for each row: {line}")
        }
        "fsync" | "fdatasync" => Some(Call::Synced(descriptor()?)),
        "unlink" => {
            let path = PathBuf::from(String::from_utf8(hex(arguments.first()?)).ok()?);
            known.retain(|known| *known != path);
            Some(Call::Removed(path))
        }
        "rename" => panic!("no recorder renames what is whole: {line}"),
        _ => None,
    }
}

/// The bytes of `"\x41…"` or `5<\x41…>`.
fn hex(text: &str) -> Vec<u8> {
    let pairs = text.split("\\x").skip(1);
    pairs.map(|pair| u8::from_str_radix(&pair[..2], 16).unwrap()).collect()
}
