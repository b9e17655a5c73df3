//! The part of the configuration that concerns `watch`.

use crate::args::{ProbeArg, duration, is_name};
use crate::{Exit, Failure};
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::time::Duration;

/// The table `[watch]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Watch {
    pub(crate) recording: Option<PathBuf>,
    #[serde(deserialize_with = "time")]
    pub(crate) limit: Option<Duration>,
    #[serde(deserialize_with = "time")]
    pub(crate) interval: Option<Duration>,
    #[serde(deserialize_with = "time")]
    pub(crate) timeout: Option<Duration>,
    #[serde(deserialize_with = "time")]
    pub(crate) token_timeout: Option<Duration>,
    pub(crate) canary: Option<bool>,
    #[serde(deserialize_with = "time")]
    pub(crate) canary_interval: Option<Duration>,
    #[serde(deserialize_with = "time")]
    pub(crate) canary_limit: Option<Duration>,
    pub(crate) profile: Option<bool>,
    #[serde(deserialize_with = "time")]
    pub(crate) keep: Option<Duration>,
    #[serde(deserialize_with = "super::size")]
    pub(crate) max_size: Option<u64>,
    probe: Vec<Probe>,
}

/// One `[[watch.probe]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Probe {
    name: Option<String>,
    target: String,
    #[serde(default, deserialize_with = "time")]
    limit: Option<Duration>,
}

impl Watch {
    /// The probes.
    pub(crate) fn probes(&self) -> Result<Vec<ProbeArg>, Failure> {
        let wrong = |what: String| Failure::new(Exit::Usage, format!("[[watch.probe]]: {what}"));
        let probe = |probe: &Probe| {
            if let Some(name) = probe.name.as_deref().filter(|name| !is_name(name)) {
                let rule = "at most 32 letters, digits, '-' and '_'";
                return Err(wrong(format!("invalid name '{name}' ({rule})")));
            }
            let target = probe.target.parse().map_err(|error| wrong(format!("{error}")))?;
            Ok(ProbeArg { name: probe.name.clone(), target, limit: probe.limit })
        };
        self.probe.iter().map(probe).collect()
    }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    super::as_argument(from, duration)
}
