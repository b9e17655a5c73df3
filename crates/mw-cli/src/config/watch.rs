//! The part of the configuration that concerns `watch`.

use super::value::size;
use crate::args::watch_settings::watch_settings;
use crate::args::{Listen, ProbeArg, ServiceName, WatchSettings, duration, is_name};
use crate::{Exit, Failure};
use mw_probe::Details;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::time::Duration;

macro_rules! define_keys {
    ($($(#[$help:meta])* $name:ident: $type:ty, $value:literal, $parse:path, $read:literal;)*) => {
        /// `[watch]`.
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        pub(crate) struct WatchConfig {
            pub(crate) recording: Option<PathBuf>,
            $(
                #[serde(deserialize_with = $read)]
                pub(crate) $name: Option<$type>,
            )*
            pub(crate) canary: Option<bool>,
            pub(crate) profile: Option<bool>,
            pub(crate) user_stacks: Option<bool>,
            pub(crate) listen: Option<Listen>,
            pub(crate) web_config_file: Option<PathBuf>,
            probe: Vec<ProbeConfig>,
        }

        impl WatchConfig {
            /// Each option, or else the key of its name.
            pub(crate) fn settings(&self, options: &WatchSettings) -> WatchSettings {
                WatchSettings { $($name: options.$name.or(self.$name),)* }
            }
        }
    };
}

watch_settings!(define_keys);

/// One `[[watch.probe]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ProbeConfig {
    name: Option<String>,
    target: String,
    #[serde(default, deserialize_with = "time")]
    limit: Option<Duration>,
    service: Option<ServiceName>,
    #[serde(default)]
    queries: bool,
    gc_log: Option<PathBuf>,
}

impl WatchConfig {
    pub(crate) fn probes(&self) -> Result<Vec<ProbeArg>, Failure> {
        let wrong = |what: String| Failure::new(Exit::Usage, format!("[[watch.probe]]: {what}"));
        let probe = |probe: &ProbeConfig| {
            if let Some(name) = probe.name.as_deref().filter(|name| !is_name(name)) {
                let rule = "at most 32 letters, digits, '-' and '_'";
                return Err(wrong(format!("invalid name '{name}' ({rule})")));
            }
            let target = probe.target.parse().map_err(|error| wrong(format!("{error}")))?;
            let details = Details {
                service: probe.service.clone().map(String::from),
                queries: probe.queries,
                gc_log: probe.gc_log.clone(),
            };
            Ok(ProbeArg { name: probe.name.clone(), target, limit: probe.limit, details })
        };
        self.probe.iter().map(probe).collect()
    }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    super::value::as_argument(from, duration)
}
