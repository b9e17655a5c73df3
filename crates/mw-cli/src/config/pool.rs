//! The part of the configuration that concerns `pool`.

use crate::args::PoolCreateArgs;
use crate::args::{huge, nodes};
use mw_model::parse_size;
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct PoolConfig {
    socket: Option<PathBuf>,
    #[serde(deserialize_with = "super::value::size")]
    pub(crate) budget: Option<u64>,
    create: Vec<Create>,
}

/// One `[[pool.create]]`: what `pool create` would be told.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Create {
    name: String,
    size: String,
    huge: Option<String>,
    node: Option<String>,
    #[serde(default)]
    owner: Vec<String>,
    #[serde(default)]
    group: Vec<String>,
    #[serde(default)]
    trusting: bool,
}

impl PoolConfig {
    /// Path of the server's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| PathBuf::from(mw_pool::SOCKET))
    }

    /// The pools that a server is to have.
    pub(crate) fn create(&self) -> Result<Vec<PoolCreateArgs>, String> {
        let read = |create: &Create| {
            Ok(PoolCreateArgs {
                name: create.name.parse().map_err(|error| format!("{error}"))?,
                size: parse_size(&create.size).map_err(|error| error.to_string())?,
                huge: create.huge.as_deref().map(huge).transpose()?,
                node: create.node.as_deref().map(nodes).transpose()?,
                owner: create.owner.clone(),
                group: create.group.clone(),
                trusting: create.trusting,
                no_wait: true,
            })
        };
        self.create.iter().map(read).collect()
    }
}
