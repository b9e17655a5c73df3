//! Processes of a test: this program again, as a server, as another user or in another namespace.
//!
//! Not in `common`, which the tests of other crates include too. Each role is an ignored test of the same
//! program, which reads what it needs from its environment.

#![allow(dead_code, reason = "each test uses a part of it")]

use crate::common::eventually;
use mw_pool::{Client, Level, PoolServerConfig, Server};
use signal_hook::consts::SIGTERM;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The directory in which the server's socket is.
const DIR: &str = "MW_POOL_DIR";

/// A child process, killed when it is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This program.
pub(crate) fn this_program() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

/// Has a command that starts this program play a role in a directory.
pub(crate) fn role(mut command: Command, role: &str, dir: &Path) -> Command {
    command.args(["--exact", role, "--ignored", "--nocapture"]).env(DIR, dir);
    command
}

/// The directory of a process with a role.
pub(crate) fn dir() -> PathBuf {
    PathBuf::from(std::env::var_os(DIR).unwrap())
}

pub(crate) fn socket(dir: &Path) -> PathBuf {
    dir.join("pool.sock")
}

/// A client of the server in a directory, once that answers.
pub(crate) fn client(dir: &Path) -> Client {
    let client = Client::new(socket(dir));
    eventually("the server answers", || client.server().is_ok());
    client
}

/// Serves in a directory until SIGTERM; `started` is called first. `MW_POOL_LOG` prints its log.
pub(crate) fn serve(dir: &Path, budget_bytes: u64, started: impl FnOnce()) {
    let (stop, stopped) = UnixStream::pair().unwrap();
    signal_hook::low_level::pipe::register(SIGTERM, stop).unwrap();
    let config = PoolServerConfig {
        socket: socket(dir),
        budget_bytes,
        pools: Vec::new(),
        preflight: Box::new(|_, _| Ok(())),
        log: Box::new(|level: Level, line: &str| {
            if std::env::var_os("MW_POOL_LOG").is_some() {
                eprintln!("{level:?}: {line}");
            }
        }),
    };
    let mut server = Server::start(config).unwrap();
    started();
    server.run(stopped.as_fd(), &mut || ()).unwrap();
}
