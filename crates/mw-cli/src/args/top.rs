//! Arguments of `top`.

use super::TimeArg;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, ClapArgs)]
pub struct TopArgs {
    /// Show a recording of watch instead of this machine
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    /// Time in the recording to start at: 10:19, '2026-11-22 10:19:30', RFC 3339 or '2 h ago'
    /// [default: its last incident, or its end]
    #[arg(long, value_name = "TIME", requires = "recording")]
    pub at: Option<TimeArg>,
    /// Refresh interval, 100ms to 1m; also the pace at which a recording plays
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

fn interval(text: &str) -> Result<Duration, String> {
    let interval = super::duration(text)?;
    if (SHORTEST..=LONGEST).contains(&interval) {
        return Ok(interval);
    }
    Err(format!("interval '{text}' is out of range (use 100ms to 1m)"))
}
