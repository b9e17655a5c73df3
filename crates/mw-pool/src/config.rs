//! What a server is started with, and why it may not start.

use crate::spec::PoolSpec;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The importance of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Normal but significant.
    Notice,
    /// The server works with a limitation.
    Warning,
    /// Something failed.
    Error,
}

/// Called before memory is allocated, with the pool and the bytes by which it is to grow. The error
/// says why the machine has no room for them.
pub type PreflightFn = Box<dyn Fn(&PoolSpec, u64) -> Result<(), String>>;

/// Called with each line of the log.
pub type LogFn = Box<dyn Fn(Level, &str)>;

/// The configuration of a server.
pub struct PoolServerConfig {
    /// The path of the socket, whose directory must exist.
    pub socket: PathBuf,
    /// The limit on the size of all pools together.
    pub budget_bytes: u64,
    /// Pools to create if they do not exist.
    pub pools: Vec<PoolSpec>,
    /// Called before memory is allocated.
    pub preflight: PreflightFn,
    /// Called with each line of the log.
    pub log: LogFn,
}

impl fmt::Debug for PoolServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolServerConfig").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// The reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another server listens at the socket.
    #[error("a server is already listening at {0}")]
    Running(PathBuf),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The call or the path.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

pub(crate) fn system(what: impl fmt::Display) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::System { what: what.to_string(), source }
}
