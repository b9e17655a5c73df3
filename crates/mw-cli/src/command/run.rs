//! `memwright run`: a command whose large memory is populated, locked and freed in parallel.

mod elf;
mod explain;
mod library;
mod program;

use crate::args::{HugePolicy, RunArgs};
use crate::config::Config;
use crate::{Exit, Failure};
use elf::Kind;
use library::Library;
use mw_pool::Client;
use program::Program;
use rustix::thread::{SecureComputingMode, secure_computing_mode};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Variables that the library reads (mw-preload/src/settings.rs).
const THRESHOLD: &str = "MEMWRIGHT_THRESHOLD";
const PREFAULT: &str = "MEMWRIGHT_PREFAULT";
const LOCK: &str = "MEMWRIGHT_LOCK";
const HUGE: &str = "MEMWRIGHT_HUGE";
const DIRECT_IO: &str = "MEMWRIGHT_DIRECT_IO";
const DIRECT_IO_READS: &str = "MEMWRIGHT_DIRECT_IO_READS";
const POOL: &str = "MEMWRIGHT_POOL";
const POOL_SOCKET: &str = "MEMWRIGHT_POOL_SOCKET";
const POOL_STRICT: &str = "MEMWRIGHT_POOL_STRICT";
const STATS: &str = "MEMWRIGHT_STATS";
const SECCOMP: &str = "MEMWRIGHT_SECCOMP";
const PRELOAD: &str = "LD_PRELOAD";

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
    let library = library.map_err(|error| Failure::new(Exit::CouldNotLook, error))?;
    let socket = config.pool().socket();
    if let Some(pool) = args.pool.as_ref().filter(|_| args.pool_strict) {
        Client::new(&socket).pool(pool).map_err(super::pool::failure)?;
    }
    let mut command = Command::new(name);
    command.args(rest);
    match fits(&program, &library) {
        Ok(()) => prepare(&mut command, &args, &library, &socket),
        // The dynamic linker would complain of each program that is started.
        Err(why) => crate::terminal::say(&format!(
            "memwright: {} runs as without: {why}",
            program.path.display()
        )),
    }
    if args.huge == Some(HugePolicy::Never) {
        let disabled = rustix::thread::disable_transparent_huge_pages(true);
        disabled.map_err(|error| {
            let what = "prctl(PR_SET_THP_DISABLE)";
            Failure::new(Exit::CouldNotLook, format!("{what}: {error}; leave out --huge never"))
        })?;
    }
    let error = command.exec();
    Err(Failure::new(Exit::Usage, format!("{}: {error}", program.path.display())))
}

/// Whether the library can be loaded into the program.
fn fits(program: &Program, library: &Library) -> Result<(), String> {
    match &program.kind {
        Kind::Dynamic(machine) if *machine != library.machine => {
            Err(format!("it is made for another processor than {}", library.path.display()))
        }
        _ => Ok(()),
    }
}

/// The environment that has the library loaded and says what it is to do.
fn prepare(command: &mut Command, args: &RunArgs, library: &Library, socket: &Path) {
    command.env(PRELOAD, preload(&library.path, std::env::var_os(PRELOAD)));
    let mut set = |name: &str, value: Option<OsString>| {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    };
    let on = |wanted: bool| wanted.then(|| OsString::from("1"));
    let size = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string().into());
    set(THRESHOLD, size(args.threshold));
    set(PREFAULT, on(args.prefault));
    set(LOCK, on(args.lock));
    set(DIRECT_IO, size(args.direct_io));
    set(DIRECT_IO_READS, on(args.direct_io_reads));
    // The command has this process's number: it says so too if nothing was done.
    set(STATS, args.stats.then(|| std::process::id().to_string().into()));
    set(POOL, args.pool.as_ref().map(|pool| pool.to_string().into()));
    set(POOL_SOCKET, args.pool.as_ref().map(|_| socket.into()));
    set(POOL_STRICT, on(args.pool_strict));
    set(
        HUGE,
        match args.huge {
            Some(HugePolicy::Auto) => Some("auto".into()),
            Some(HugePolicy::Always) => Some("always".into()),
            Some(HugePolicy::Never) | None => None,
        },
    );
    set(SECCOMP, (is_filtered() && filter_allows(&library.path)).then(|| "tried".into()));
}

/// The library before whatever was to be loaded already, once.
fn preload(library: &Path, before: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    let Some(before) = before.filter(|before| !before.is_empty()) else { return all };
    let named = before.as_encoded_bytes().split(|byte| matches!(byte, b':' | b' '));
    if named.into_iter().any(|name| name == library.as_os_str().as_encoded_bytes()) {
        return before;
    }
    all.push(":");
    all.push(before);
    all
}

/// Whether a filter of system calls is installed.
fn is_filtered() -> bool {
    secure_computing_mode().is_ok_and(|mode| mode != SecureComputingMode::Disabled)
}

/// Whether it lets the library work: tried by a process of our own, which it may end.
fn filter_allows(library: &Path) -> bool {
    let Ok(own) = std::env::current_exe() else { return false };
    let mut trial = Command::new(own);
    trial.env(PRELOAD, library).env(SECCOMP, "try").stdin(Stdio::null());
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
        ] {
            assert_eq!(preload(library, before.map(OsString::from)), after, "{before:?}");
        }
    }
}
