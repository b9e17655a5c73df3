//! `memwright pool serve`: keeps pools until it is told to end.

use crate::args::PoolServeArgs;
use crate::config::Config;
use crate::journal_log::JournalLog;
use crate::{Exit, Failure};
use mw_collect::Source;
use mw_model::{Answer, Request};
use mw_pool::{Level, NumaPolicy, PoolSpec, Server, StartError};
use mw_render::preflight_words::describe;
use mw_sys::{Capability, has_capability};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::fs::{DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &PoolServeArgs, socket: PathBuf, config: &Config) -> Result<Exit, Failure> {
    // Readable from the signal on, so that one that comes before the server waits is not missed.
    let (signalled, stop) = UnixStream::pair().map_err(signals)?;
    for signal in [SIGINT, SIGTERM] {
        let signalled = signalled.try_clone().map_err(signals)?;
        pipe::register(signal, signalled).map_err(signals)?;
    }
    let usage = |why| Failure::new(Exit::Usage, format!("[[pool.create]]: {why}"));
    let pools = config.pool().create().map_err(usage)?;
    let pools: Result<Vec<PoolSpec>, String> = pools.iter().map(super::spec::spec).collect();
    let budget_bytes = match args.budget.or(config.pool().budget) {
        Some(budget) => budget,
        None => usual_budget()?,
    };
    let log = JournalLog::to_stderr();
    if let Some(folder) = socket.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        prepare_folder(folder, &log)?;
    }
    let mut server = Server::start(mw_pool::PoolServerConfig {
        socket,
        budget_bytes,
        pools: pools.map_err(usage)?,
        preflight: Box::new(preflight),
        log: Box::new(move |level, line| match level {
            Level::Notice => log.notice(line),
            Level::Warning => log.warning(line),
            Level::Error => log.error(line),
        }),
    })
    .map_err(failure)?;
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    let feed = &mut || drop(sd_notify::notify(&[NotifyState::Watchdog]));
    server
        .run(stop.as_fd(), feed)
        .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("poll: {error}")))?;
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    Ok(Exit::Fine)
}

fn signals(error: std::io::Error) -> Failure {
    Failure::new(Exit::CouldNotCheck, format!("signals: {error}"))
}

/// Makes the socket's directory where it is missing, and says so where others could put a socket of
/// theirs in the server's place.
fn prepare_folder(folder: &Path, log: &JournalLog) -> Result<(), Failure> {
    // Nobody but root can make one where sockets usually are.
    let made = DirBuilder::new().mode(0o755).create(folder);
    if let Err(error) = made.or_else(|error| match error.kind() {
        ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    }) {
        let exit = match error.kind() {
            ErrorKind::PermissionDenied => Exit::PermissionDenied,
            _ => Exit::CouldNotCheck,
        };
        let line = format!("{}: {error}; choose --socket", folder.display());
        return Err(Failure::new(exit, line));
    }
    let about = std::fs::metadata(folder).ok();
    let is_safe = |about: &Metadata| {
        let of_others = about.uid() != 0 && about.uid() != rustix::process::geteuid().as_raw();
        let for_others = about.mode() & 0o022 != 0 && about.mode() & 0o1000 == 0;
        !of_others && !for_others
    };
    if !about.is_some_and(|about| is_safe(&about)) {
        let line = "other users can replace the socket in this directory; make root or this user its only writer";
        log.warning(&format!("{}: {line}", folder.display()));
    }
    Ok(())
}

/// Half of the machine: the other half is everybody else's.
fn usual_budget() -> Result<u64, Failure> {
    let text = mw_sys::kernel_file::read("/proc/meminfo").ok();
    let meminfo = text.and_then(|text| mw_proc::meminfo::Meminfo::parse(&text).ok());
    let total = meminfo.and_then(|info| info.mem_total_bytes);
    let missing =
        || Failure::new(Exit::CouldNotCheck, "/proc/meminfo has no MemTotal; set --budget");
    total.map(|total| total / 2).ok_or_else(missing)
}

/// Result of `check --for`, without a measurement: the client of the server waits for it.
fn preflight(spec: &PoolSpec, bytes: u64) -> Result<(), String> {
    let source = Source::live().map_err(|error| error.to_string())?;
    let request = Request {
        size_bytes: bytes,
        lock: !spec.pages.is_hugetlb() && has_capability(Capability::IpcLock),
        page: spec.pages,
        node: match &spec.nodes {
            NumaPolicy::Bind(nodes) if nodes.len() == 1 => nodes.first().copied(),
            _ => None,
        },
    };
    let window = mw_collect::window(&source);
    let assessment =
        mw_rules::preflight::assess(&window, &request).map_err(|missing| missing.to_string())?;
    if assessment.answer() != Answer::No {
        return Ok(());
    }
    let preflight = describe(&assessment);
    let lift = preflight.obstacles.iter().find(|obstacle| obstacle.blocks);
    let lift = lift.map(|obstacle| format!("; {}", obstacle.lift)).unwrap_or_default();
    Err(format!("{}{lift}", preflight.summary))
}

fn failure(error: StartError) -> Failure {
    Failure::from_error(&error)
}
