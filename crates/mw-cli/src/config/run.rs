//! The part of the configuration that concerns `run`.

use crate::args::{HugePolicy, Prefault, RunArgs, direct_io, threshold};
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct RunConfig {
    library: Option<PathBuf>,
    lock: bool,
    #[serde(deserialize_with = "prefault")]
    prefault: Option<Prefault>,
    huge: Option<HugePolicy>,
    #[serde(deserialize_with = "direct_io_size")]
    direct_io: Option<u64>,
    direct_io_reads: bool,
    #[serde(deserialize_with = "pool_name")]
    pool: Option<mw_pool::PoolName>,
    pool_strict: bool,
    #[serde(deserialize_with = "size")]
    threshold: Option<u64>,
    stats: bool,
}

impl RunConfig {
    /// The arguments, and what is configured where they say nothing.
    pub(crate) fn complete(&self, args: &RunArgs) -> RunArgs {
        RunArgs {
            lock: args.lock || self.lock,
            prefault: args.prefault.or(self.prefault),
            huge: args.huge.or(self.huge),
            direct_io: args.direct_io.or(self.direct_io),
            direct_io_reads: args.direct_io_reads || self.direct_io_reads,
            pool: args.pool.clone().or_else(|| self.pool.clone()),
            pool_strict: args.pool_strict || self.pool_strict,
            threshold: args.threshold.or(self.threshold),
            stats: args.stats || self.stats,
            library: args.library.clone().or_else(|| self.library.clone()),
            explain: args.explain,
            command: args.command.clone(),
        }
    }
}

/// `true`, `false`, or when.
fn prefault<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Prefault>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum PrefaultTime {
        Background,
        Now,
    }
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "true, false, \"background\" or \"now\"")]
    enum PrefaultValue {
        Is(bool),
        When(PrefaultTime),
    }
    Ok(match PrefaultValue::deserialize(from)? {
        PrefaultValue::Is(false) => None,
        PrefaultValue::Is(true) | PrefaultValue::When(PrefaultTime::Background) => {
            Some(Prefault::Background)
        }
        PrefaultValue::When(PrefaultTime::Now) => Some(Prefault::Now),
    })
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    super::value::as_argument(from, threshold)
}

fn direct_io_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    super::value::as_argument(from, direct_io)
}

fn pool_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<mw_pool::PoolName>, D::Error> {
    super::value::as_argument(from, str::parse::<mw_pool::PoolName>)
}
