//! The part of the configuration that concerns `run`.

use crate::args::{HugePolicy, RunArgs, threshold};
use serde::{Deserialize, Deserializer, de};
use std::path::PathBuf;

/// The table `[run]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Run {
    library: Option<PathBuf>,
    lock: bool,
    prefault: bool,
    huge: Option<HugePolicy>,
    #[serde(deserialize_with = "size")]
    threshold: Option<u64>,
    stats: bool,
}

impl Run {
    /// The arguments, and what is configured where they say nothing.
    pub(crate) fn complete(&self, args: &RunArgs) -> RunArgs {
        RunArgs {
            lock: args.lock || self.lock,
            prefault: args.prefault || self.prefault,
            huge: args.huge.or(self.huge),
            threshold: args.threshold.or(self.threshold),
            stats: args.stats || self.stats,
            library: args.library.clone().or_else(|| self.library.clone()),
            explain: args.explain,
            command: args.command.clone(),
        }
    }
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    threshold(&text).map(Some).map_err(de::Error::custom)
}
