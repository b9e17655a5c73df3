//! Arguments of `watch`, `incidents` and `report`.

use super::{FormatArgs, TextOrJson, duration};
use clap::{Args as ClapArgs, ValueEnum};
use mw_probe::Target;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Arguments of `watch`.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct WatchArgs {
    /// Watch a service: [NAME=]URL, where the URL is postgres://…, mysql://…, redis://HOST:PORT,
    /// http://…, tcp://HOST:PORT, unix:PATH or exec:COMMAND; once for each service
    #[arg(long = "probe", value_name = "[NAME=]URL")]
    pub probes: Vec<ProbeArg>,
    /// A service that takes longer to answer stalls [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub limit: Option<Duration>,
    /// How often each service is asked [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub interval: Option<Duration>,
    /// When an answer is no longer waited for [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Token time-out of a heartbeat that this machine must keep, such as a cluster's: a stall from a
    /// quarter of it on
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub token_timeout: Option<Duration>,
    /// How often fresh memory is touched to see how long it takes [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub canary_interval: Option<Duration>,
    /// Fresh memory that takes longer is a stall [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub canary_limit: Option<Duration>,
    /// Touch no memory
    #[arg(long, conflicts_with_all = ["canary_interval", "canary_limit", "token_timeout"])]
    pub no_canary: bool,
    /// Do not sample what the kernel does
    #[arg(long)]
    pub no_profile: bool,
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    /// How long what was recorded is kept [default: 60d]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub keep: Option<Duration>,
    /// How large the recording may become [default: 200M]
    #[arg(long, value_name = "SIZE", value_parser = mw_model::parse_size)]
    pub max_size: Option<u64>,
}

/// A service, and what it is called.
#[derive(Debug, Clone)]
pub struct ProbeArg {
    /// Its name, where it was given one.
    pub name: Option<String>,
    /// Where it is.
    pub target: Target,
    /// Its own limit, which the configuration may have.
    pub limit: Option<Duration>,
}

impl FromStr for ProbeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = text.split_once('=').filter(|(name, _)| is_name(name));
        let (name, target) = match named {
            Some((name, target)) => (Some(name.to_owned()), target),
            None => (None, text),
        };
        let target: Target = target.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { name, target, limit: None })
    }
}

/// Names of probes stand in names of columns.
pub(crate) fn is_name(name: &str) -> bool {
    const MAX_BYTES: usize = 32;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=MAX_BYTES).contains(&name.len()) && name.chars().all(plain)
}

/// Arguments of `incidents`.
#[derive(Debug, Clone, ClapArgs)]
pub struct IncidentsArgs {
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    /// How to print it.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}

/// Arguments of `report`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReportArgs {
    /// The incident, as numbered by incidents; last is the latest, worst the longest
    #[arg(value_name = "ID", value_parser = incident_id)]
    pub id: IncidentId,
    /// Write an HTML page that opens without a network to this file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Output format [default: html with --output, text without]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
}

/// An incident of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncidentId {
    /// The one of this number.
    Number(u64),
    /// The latest.
    Last,
    /// The longest.
    Worst,
}

/// Reads which incident is meant.
pub(super) fn incident_id(text: &str) -> Result<IncidentId, String> {
    match text {
        "last" => Ok(IncidentId::Last),
        "worst" => Ok(IncidentId::Worst),
        number => number
            .parse()
            .map(IncidentId::Number)
            .map_err(|_| format!("'{text}' is no incident; write its number, last, or worst")),
    }
}

/// Output formats of `report`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A page for a browser
    Html,
    /// For a terminal
    Text,
    /// Everything that was recorded of it
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_may_have_a_name() {
        let probe: ProbeArg = "db=tcp://localhost:5432".parse().unwrap();
        assert_eq!(probe.name.as_deref(), Some("db"));
        let probe: ProbeArg = "exec:env A=b true".parse().unwrap();
        assert_eq!(probe.name, None);
    }
}
