//! Arguments of `watch`, `incidents` and `report`.

use super::watch_settings::watch_settings;
use super::{FormatArgs, TextOrJson, TimeArg, duration};
use clap::{Args as ClapArgs, ValueEnum};
use mw_model::parse_size;
use mw_probe::{Details, Target};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

macro_rules! define_options {
    ($($(#[$help:meta])* $name:ident: $type:ty, $value:literal, $parse:path, $read:literal;)*) => {
        /// The options of the table of settings.
        #[derive(Debug, Clone, Default, ClapArgs)]
        pub struct WatchSettings {
            $(
                $(#[$help])*
                #[arg(long, value_name = $value, value_parser = $parse)]
                pub $name: Option<$type>,
            )*
        }

        impl WatchSettings {
            /// The identifiers of its options.
            const NAMES: &[&str] = &[$(stringify!($name)),*];
        }
    };
}

watch_settings!(define_options);

/// Arguments of `watch`.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct WatchArgs {
    /// Have the running recorder collect evidence now, and print the incident
    #[arg(
        long,
        conflicts_with_all = ["probes", "services", "no_canary", "no_profile", "no_user_stacks"],
        conflicts_with_all = WatchSettings::NAMES.iter().copied(),
    )]
    pub now: bool,
    /// Check the options and the configuration, and exit: with 0 if 'watch' accepts them, otherwise with 2
    #[arg(long, conflicts_with = "now")]
    pub check_config: bool,
    /// Probe a service: [NAME=]URL, where URL is postgres://…, mysql://…, redis://HOST:PORT,
    /// http://…, tcp://HOST:PORT, unix:PATH or exec:COMMAND; may be repeated
    #[arg(long = "probe", value_name = "[NAME=]URL")]
    pub probes: Vec<ProbeArg>,
    /// Unit or cgroup of a probe's service, if its connection does not reveal it; may be repeated
    #[arg(long = "service", value_name = "PROBE=UNIT")]
    pub services: Vec<ServiceArg>,
    #[command(flatten)]
    pub settings: WatchSettings,
    /// Run no canary
    #[arg(long, conflicts_with_all = ["canary_interval", "canary_limit", "token_timeout"])]
    pub no_canary: bool,
    /// Do not profile the kernel
    #[arg(long)]
    pub no_profile: bool,
    /// Leave the functions of programs out of incidents: record no user stacks
    #[arg(long)]
    pub no_user_stacks: bool,
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    /// Serve metrics for Prometheus at this address, for example 127.0.0.1:9818, or on the socket
    /// of memwright.socket: systemd; metrics.md of the documentation lists them
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<Listen>,
    /// TLS and passwords of --listen, in the format of Prometheus' exporters
    #[arg(long = "web.config.file", value_name = "FILE")]
    pub web_config: Option<PathBuf>,
}

/// Address of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub enum Listen {
    Address(SocketAddr),
    /// On the socket that systemd passes.
    Systemd,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "systemd" {
            return Ok(Self::Systemd);
        }
        // As other exporters have it: all addresses.
        let with_host =
            text.strip_prefix(':').map_or(text.to_owned(), |port| format!("[::]:{port}"));
        with_host.parse().map(Self::Address).map_err(|_| {
            let text = mw_model::visible::line(text);
            format!("invalid address '{text}' (use for example 127.0.0.1:9818, [::1]:9818, :9818 or systemd)")
        })
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Systemd => f.write_str("the socket of systemd"),
        }
    }
}

/// A service with its name.
#[derive(Debug, Clone)]
pub struct ProbeArg {
    /// Its name, if given.
    pub name: Option<String>,
    /// Its address.
    pub target: Target,
    /// Its own limit, from the configuration.
    pub limit: Option<Duration>,
    /// Further settings of it in the configuration.
    pub details: Details,
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
        Ok(Self { name, target, limit: None, details: Details::default() })
    }
}

/// The service of a probe.
#[derive(Debug, Clone)]
pub struct ServiceArg {
    pub probe: String,
    pub service: ServiceName,
}

impl FromStr for ServiceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (probe, service) =
            text.split_once('=').ok_or("use PROBE=UNIT, for example db=postgresql.service")?;
        Ok(Self { probe: probe.to_owned(), service: service.to_owned().try_into()? })
    }
}

/// A systemd unit, or the path of a cgroup from the root of its hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct ServiceName(String);

impl TryFrom<String> for ServiceName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        const MAX_BYTES: usize = 1024;
        let is_path = text.starts_with('/') && text.len() > 1;
        let is_unit = !text.is_empty() && !text.contains('/');
        let leaves = text.split('/').any(|part| part == "..");
        if text.len() > MAX_BYTES
            || text.chars().any(char::is_control)
            || leaves
            || !(is_path || is_unit)
        {
            return Err(format!(
                "invalid service '{}' (use a systemd unit, or a cgroup path that begins with /)",
                mw_model::visible::line(&text)
            ));
        }
        Ok(Self(text))
    }
}

impl From<ServiceName> for String {
    fn from(name: ServiceName) -> Self {
        name.0
    }
}

/// Names of probes are parts of metric names.
pub(crate) fn is_name(name: &str) -> bool {
    const MAX_BYTES: usize = 32;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=MAX_BYTES).contains(&name.len()) && name.chars().all(plain)
}

/// Arguments of `incidents`.
#[derive(Debug, Clone, ClapArgs)]
pub struct IncidentsArgs {
    /// Show this incident, as report does: its number, last, or worst (the slowest answer)
    #[arg(
        value_name = "ID",
        value_parser = incident_id,
        conflicts_with_all = ["all", "since", "cause", "probe"]
    )]
    pub id: Option<IncidentId>,
    /// List every incident; without it, similar ones (same cause, subject and probe) are one entry
    #[arg(long)]
    pub all: bool,
    /// Only incidents that lasted beyond this time
    #[arg(long, value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// Only incidents with this cause: a rule such as cgroup-limit, or unknown
    #[arg(long, value_name = "RULE")]
    pub cause: Option<String>,
    /// Only incidents of this probe
    #[arg(long, value_name = "NAME")]
    pub probe: Option<String>,
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}

/// Arguments of `report`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReportArgs {
    /// The incident, as numbered by incidents, or last, or worst (the slowest answer)
    #[arg(value_name = "ID", value_parser = incident_id)]
    pub id: IncidentId,
    /// Write a self-contained HTML page to this file; - is standard output
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
    /// Log in which cluster software reports late heartbeats [default: the journal and the logs of the configuration
    /// file, for an incident of this machine]
    #[arg(long, value_name = "FILE")]
    pub log: Vec<PathBuf>,
}

/// An incident of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncidentId {
    /// The one of this number.
    Number(u64),
    /// The latest.
    Last,
    /// The one with the slowest answer.
    Worst,
}

/// Parses an incident number, `last` or `worst`.
pub(super) fn incident_id(text: &str) -> Result<IncidentId, String> {
    match text {
        "last" => Ok(IncidentId::Last),
        "worst" => Ok(IncidentId::Worst),
        number => number
            .parse()
            .map(IncidentId::Number)
            .map_err(|_| format!("invalid incident '{text}' (use its number, last or worst)")),
    }
}

/// Output formats of `report`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// HTML page
    Html,
    /// For people
    Text,
    /// For programs: everything recorded
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_units_or_groups() {
        let service: ServiceArg = "db=postgresql@15-main.service".parse().unwrap();
        assert_eq!(service.probe, "db");
        assert_eq!(String::from(service.service), "postgresql@15-main.service");
        assert!("db=/system.slice/x=y".parse::<ServiceArg>().is_ok());
        for wrong in ["db", "db=", "db=/", "db=a/b", "db=/../a", "db=a\nb"] {
            assert!(wrong.parse::<ServiceArg>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_to_listen_on_has_a_port() {
        let parse = |text: &str| text.parse::<Listen>();
        assert_eq!(parse("127.0.0.1:9818").unwrap().to_string(), "127.0.0.1:9818");
        assert_eq!(parse(":9818").unwrap().to_string(), "[::]:9818");
        assert_eq!(parse("systemd"), Ok(Listen::Systemd));
        for wrong in ["", "9818", "127.0.0.1", "127.0.0.1:98180", "localhost"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_probe_may_have_a_name() {
        let probe: ProbeArg = "db=tcp://localhost:5432".parse().unwrap();
        assert_eq!(probe.name.as_deref(), Some("db"));
        let probe: ProbeArg = "exec:env A=b true".parse().unwrap();
        assert_eq!(probe.name, None);
    }
}
