//! Arguments that select a recording instead of this machine.

use super::TimeArg;
use clap::Args as ClapArgs;
use std::path::{Path, PathBuf};

/// Arguments that select a recording instead of this machine.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReplayArgs {
    /// Check a recording of 'memwright watch' instead of this machine
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    recording: Option<PathBuf>,
    /// Time in the recording: 10:19, '2026-11-22 10:19:30', RFC 3339 or '2 h ago' [default:
    /// its end]
    #[arg(long, value_name = "TIME", requires = "recording")]
    pub at: Option<TimeArg>,
}

impl ReplayArgs {
    pub fn file(&self) -> Option<&Path> {
        self.recording.as_deref()
    }
}
