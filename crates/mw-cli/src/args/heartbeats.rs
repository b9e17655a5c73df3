//! Arguments of `heartbeats`.

use super::{FormatArgs, TextOrJson, TimeArg};
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(Debug, Clone, ClapArgs)]
pub struct HeartbeatsArgs {
    /// Log to read; - is standard input. Without it, the journal of this machine (journalctl)
    #[arg(long, value_name = "FILE")]
    pub log: Vec<PathBuf>,
    /// Only lines from this time on: 10:19, '2026-11-22 10:19:30', RFC 3339 or '2 h ago' [default: a day ago]
    #[arg(long, value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// Only lines until this time [default: now]
    #[arg(long, value_name = "TIME")]
    pub until: Option<TimeArg>,
    /// Look for another line too, with * for what varies
    #[arg(long, value_name = "NAME=LINE")]
    pub pattern: Vec<String>,
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}
