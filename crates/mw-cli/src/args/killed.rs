//! Arguments of `killed`.

use super::{FormatArgs, TextOrJson, TimeArg};
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(Debug, Clone, ClapArgs)]
pub struct KilledArgs {
    /// The process, its unit or its container: a number, a name, or a part of the path of its cgroup; all if omitted
    #[arg(value_name = "PID|NAME")]
    pub process: Option<String>,
    /// Only kills from this time on: 10:19, '2026-11-22 10:19:30', RFC 3339 or '2 h ago' [default: a day ago]
    #[arg(long, value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}
