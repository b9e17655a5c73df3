//! Arguments of `trends`.

use super::{FormatArgs, TextOrJson, TimeArg};
use clap::Args as ClapArgs;
use mw_model::Request;
use std::path::PathBuf;

#[derive(Debug, Clone, ClapArgs)]
pub struct TrendsArgs {
    /// Judge growth from this time on: 10:19, '2026-11-22 10:19:30', RFC 3339 or '2 h ago'
    /// [default: seven days before the end of the recording]
    #[arg(long, value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// Judge growth until this time [default: the end of the recording]
    #[arg(long, value_name = "TIME")]
    pub until: Option<TimeArg>,
    /// Forecast when this request can no longer be served: SIZE[,huge=2M|1G|thp][,node=N]
    #[arg(long = "for", value_name = "REQUEST")]
    pub request: Option<Request>,
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}
