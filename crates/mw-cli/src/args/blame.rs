//! Arguments of `blame`.

use super::{FormatArgs, TextOrJson, TimeArg};
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(Debug, Clone, ClapArgs)]
pub struct BlameArgs {
    /// Only stalls that ended at this time or later: 10:19, '2026-11-22 10:19:30', RFC 3339 or '2 h ago' [default: a day
    /// before the end of the recording]
    #[arg(long, value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}
