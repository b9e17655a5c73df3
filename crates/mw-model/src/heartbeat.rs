//! What cluster software reports of late heartbeats.

use serde::{Deserialize, Serialize};

/// What a line of cluster software says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HeartbeatKind {
    /// This machine was late.
    #[default]
    Late,
    /// Another one was not heard: it was late, or the network lost it.
    Unheard,
}

/// Lines of one software that follow each other closely: one report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HeartbeatReport {
    /// When the first line was written, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The software.
    pub software: String,
    /// Whether this machine was late, or another one was not heard.
    pub says: HeartbeatKind,
    /// The first line.
    pub line: String,
    /// How many lines there are.
    pub times: usize,
    /// When the last of them was written.
    pub last_unix_ms: u64,
    /// When the delay began, by what the first line says of it; when that was written, where it says nothing.
    pub since_unix_ms: u64,
}
