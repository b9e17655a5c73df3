//! `memwright run`: a command whose large memory is populated, locked and freed in parallel.

mod elf;
mod explain;
mod library;
mod needed;
mod program;

use crate::args::{HugePolicy, RunArgs};
use crate::config::Config;
use crate::{Exit, Failure};
use elf::Kind;
use library::Library;
use mw_iotune::environment;
use mw_pool::Client;
use program::Program;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const PRELOAD: &str = "LD_PRELOAD";

/// Room for /proc/self/status, so that it is read at once.
const STATUS_BYTES: usize = 8192;

pub(crate) fn run(args: &RunArgs, config: &Config) -> Result<Exit, Failure> {
    let args = config.run().complete(args);
    let Some((name, rest)) = args.command.split_first() else {
        return Err(Failure::new(Exit::Usage, "no command is given; write it behind --"));
    };
    let program = Program::find(name)?;
    let library = Library::find(args.library.as_deref());
    if args.explain {
        crate::terminal::print(&explain::text(&args, &program, &library));
        return Ok(Exit::Fine);
    }
    let library = library.map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
    let socket = config.pool().socket();
    if let Some(pool) = args.pool.as_ref().filter(|_| args.pool_strict) {
        Client::new(&socket).pool(pool).map_err(super::pool::failure)?;
    }
    let mut command = Command::new(name);
    command.args(rest);
    match fits(&program, &library) {
        Ok(()) => prepare(&mut command, &args, &library, &socket),
        // The dynamic linker would complain of each program that is started.
        Err(why) => {
            let program = program.path.display();
            crate::terminal::tell(format_args!("memwright: {program} runs as without: {why}"));
        }
    }
    if args.huge == Some(HugePolicy::Never) {
        let disabled = rustix::thread::disable_transparent_huge_pages(true);
        disabled.map_err(|error| {
            let what = "prctl(PR_SET_THP_DISABLE)";
            Failure::new(Exit::CouldNotCheck, format!("{what}: {error}; leave out --huge never"))
        })?;
    }
    let error = command.exec();
    Err(Failure::new(Exit::from_exec_error(&error), format!("{}: {error}", program.path.display())))
}

/// Whether the library can be loaded into the program.
fn fits(program: &Program, library: &Library) -> Result<(), String> {
    match &program.kind {
        Kind::Dynamic(machine) if *machine != library.machine => {
            Err(format!("it is made for another processor than {}", library.path.display()))
        }
        Kind::Dynamic(_) => {
            let runs = program.interpreter.as_ref().unwrap_or(&program.path);
            match needed::first(runs).filter(|_| !is_preloaded_first(std::env::var_os(PRELOAD))) {
                Some(first) => Err(format!(
                    "it is made with AddressSanitizer, which has no library loaded before its own; \
                     to run it with both, start memwright with {PRELOAD}={first}"
                )),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Whether what is to be loaded already begins with a library that must be first.
fn is_preloaded_first(before: Option<OsString>) -> bool {
    let before = before.unwrap_or_default();
    let first = before.as_encoded_bytes().split(|byte| matches!(byte, b':' | b' ')).next();
    first.is_some_and(needed::is_first)
}

/// The environment that has the library loaded and says what it is to do.
fn prepare(command: &mut Command, args: &RunArgs, library: &Library, socket: &Path) {
    command.env(PRELOAD, preload(&library.path, std::env::var_os(PRELOAD)));
    let mut set = |name: &CStr, value: Option<OsString>| {
        let name = OsStr::from_bytes(name.to_bytes());
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    };
    let on = |wanted: bool| wanted.then(|| OsString::from("1"));
    let size = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string().into());
    set(environment::THRESHOLD, size(args.threshold));
    set(environment::PREFAULT, on(args.prefault));
    set(environment::LOCK, on(args.lock));
    set(environment::DIRECT_IO, size(args.direct_io));
    set(environment::DIRECT_IO_READS, on(args.direct_io_reads));
    // The command has this process's number: it speaks for all that it starts, and says so too if
    // nothing was done.
    set(environment::STATS, args.stats.then(|| std::process::id().to_string().into()));
    set(
        environment::STATS_SEGMENT,
        args.stats.then(|| "0".repeat(environment::STATS_SEGMENT_DIGITS).into()),
    );
    set(environment::POOL, args.pool.as_ref().map(|pool| pool.to_string().into()));
    set(environment::POOL_SOCKET, args.pool.as_ref().map(|_| socket.into()));
    set(environment::POOL_STRICT, on(args.pool_strict));
    set(
        environment::HUGE,
        match args.huge {
            Some(HugePolicy::Auto) => Some("auto".into()),
            Some(HugePolicy::Always) => Some("always".into()),
            Some(HugePolicy::Never) | None => None,
        },
    );
    let filters = filters();
    let tried = filters > 0 && filter_allows(&library.path);
    if args.stats && filters > 0 && !tried {
        // The library itself could end the command by saying so.
        crate::terminal::tell(
            "memwright: nothing will be done: a seccomp filter does not let the library work",
        );
    }
    set(environment::SECCOMP, tried.then(|| filters.to_string().into()));
}

/// The library before whatever was to be loaded already, once, but behind what must be first.
fn preload(library: &Path, before: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    let Some(before) = before.filter(|before| !before.is_empty()) else { return all };
    let named = before.as_encoded_bytes().split(|byte| matches!(byte, b':' | b' '));
    if named.into_iter().any(|name| name == library.as_os_str().as_encoded_bytes()) {
        return before;
    }
    if is_preloaded_first(Some(before.clone())) {
        let bytes = before.as_encoded_bytes();
        let end = bytes.iter().position(|byte| matches!(byte, b':' | b' ')).unwrap_or(bytes.len());
        let (first, rest) = bytes.split_at(end);
        let own = library.as_os_str().as_encoded_bytes();
        return OsString::from_vec([first, b":", own, rest].concat());
    }
    all.push(":");
    all.push(before);
    all
}

/// How many filters of system calls are installed, for this process and so for the command. The library
/// goes by the same line of the same file.
fn filters() -> u32 {
    let mut status = String::with_capacity(STATUS_BYTES);
    let read =
        File::open("/proc/self/status").and_then(|mut file| file.read_to_string(&mut status));
    if read.is_err() {
        return 0;
    }
    let number = |name| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse::<u32>().ok()
    };
    match number("Seccomp:") {
        None | Some(0) => 0,
        Some(_) => number("Seccomp_filters:").unwrap_or(1).max(1),
    }
}

/// Whether it lets the library work: tried by a process of our own, which it may end.
fn filter_allows(library: &Path) -> bool {
    let Ok(own) = std::env::current_exe() else { return false };
    let mut trial = Command::new(own);
    let variable = OsStr::from_bytes(environment::SECCOMP.to_bytes());
    trial.env(PRELOAD, library).env(variable, "try").stdin(Stdio::null());
    trial.stdout(Stdio::null()).stderr(Stdio::null());
    trial.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_to_be_loaded_stays_and_nothing_is_loaded_twice() {
        let library = Path::new("/lib/a.so");
        for (before, after) in [
            (None, "/lib/a.so"),
            (Some(""), "/lib/a.so"),
            (Some("/lib/b.so"), "/lib/a.so:/lib/b.so"),
            (Some("/lib/b.so:/lib/a.so"), "/lib/b.so:/lib/a.so"),
            (Some("/lib/b.so /lib/a.so"), "/lib/b.so /lib/a.so"),
            (Some("/lib/a.so.1"), "/lib/a.so:/lib/a.so.1"),
            (Some("libasan.so.8"), "libasan.so.8:/lib/a.so"),
            (Some("/x/libasan.so.8 /lib/b.so"), "/x/libasan.so.8:/lib/a.so /lib/b.so"),
        ] {
            assert_eq!(preload(library, before.map(OsString::from)), after, "{before:?}");
        }
    }
}
