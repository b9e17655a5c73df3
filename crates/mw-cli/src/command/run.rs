//! `memwright run`: a command whose large memory is populated, locked and freed in parallel.

mod elf;
mod explain;
mod library;
mod needed;
mod preload;
mod program;
mod seccomp;

use crate::args::{HugePolicy, Prefault, RunArgs};
use crate::config::Config;
use crate::{Exit, Failure};
use library::Library;
use mw_iotune::environment;
use mw_pool::Client;
use preload::{PRELOAD, fits, preload};
use program::Executable;
use seccomp::{filter_allows, filters};
use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

pub(crate) fn run(args: &RunArgs, config: &Config) -> Result<Exit, Failure> {
    let args = config.run().complete(args);
    let Some((name, rest)) = args.command.split_first() else {
        return Err(Failure::new(Exit::Usage, "no command given (use: memwright run -- COMMAND)"));
    };
    let program = Executable::find(name)?;
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
            crate::terminal::tell(format_args!(
                "memwright: {program} runs without the library: {why}"
            ));
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

/// Path of the library that commands are run with.
pub(super) fn library_path(config: &Config) -> Result<std::path::PathBuf, String> {
    let args = config.run().complete(&RunArgs::default());
    Library::find(args.library.as_deref()).map(|library| library.path)
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
    let prefault = args.prefault.map(|when| match when {
        Prefault::Background => "1".into(),
        Prefault::Now => "now".into(),
    });
    set(environment::PREFAULT, prefault);
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
