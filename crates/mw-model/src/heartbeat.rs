//! What cluster software reports of late heartbeats.

use serde::{Deserialize, Serialize};

/// Meaning of a line of cluster software.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum HeartbeatKind {
    /// This machine was late.
    #[default]
    Late,
    /// Another one was not heard: it was late, or the network lost it.
    Unheard,
}

/// Lines of one software that follow each other closely: one report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct HeartbeatReport {
    /// Time of the first line, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The software.
    pub software: String,
    /// Kind: this machine was late, or another one was not heard.
    pub says: HeartbeatKind,
    /// The first line.
    pub line: String,
    /// Number of lines.
    pub times: usize,
    /// Time of the last of them.
    pub last_unix_ms: u64,
    /// Time at which the delay began, by the first line; the time of that line, if it does not report the delay.
    pub since_unix_ms: u64,
}
