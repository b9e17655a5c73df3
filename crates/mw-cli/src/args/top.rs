//! Arguments of `top`.

use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `top`.
#[derive(Debug, Clone, ClapArgs)]
pub struct TopArgs {
    /// Look at a recording, written by watch, instead of this machine
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    /// Where in the recording to begin: 10:19, 2026-11-22 10:19:30 or 2026-11-22T10:19:30Z
    /// [default: its last incident, or else its end]
    #[arg(long, value_name = "TIME", requires = "recording")]
    pub at: Option<String>,
    /// How often to look, 100ms to 1m; also how often a recording that runs goes on
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

fn interval(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|d| Duration::try_from(d).ok());
    parsed
        .filter(|interval| (SHORTEST..=LONGEST).contains(interval))
        .ok_or_else(|| "write a time from 100ms to 1m, such as 500ms or 2s".to_owned())
}
