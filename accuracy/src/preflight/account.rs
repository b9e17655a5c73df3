//! What `memwright explain --all-memory` says in a condition.

use super::request::GuestBoot;
use serde::{Deserialize, Serialize};

/// Name in `explain` of the memory that no counter has.
const NOBODY: &str = "unaccounted for";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ConditionAccount {
    pub(super) condition: String,
    /// The kernel, as in `uname -r`.
    pub(super) release: String,
    pub(super) total_bytes: u64,
    /// Memory that no counter has, or is counted twice.
    pub(super) unknown_bytes: u64,
    /// The first line.
    pub(super) summary: String,
}

#[derive(Deserialize)]
struct AccountOutput {
    summary: String,
    total_bytes: u64,
    overcounted_bytes: u64,
    parts: Vec<AccountPart>,
}

#[derive(Deserialize)]
struct AccountPart {
    name: String,
    bytes: u64,
}

impl ConditionAccount {
    pub(super) fn read(text: &[u8], of: &GuestBoot<'_>) -> anyhow::Result<Self> {
        let said: AccountOutput = serde_json::from_slice(text)?;
        let nobody: u64 =
            said.parts.iter().filter(|part| part.name == NOBODY).map(|part| part.bytes).sum();
        Ok(Self {
            condition: of.condition.to_owned(),
            release: of.release.to_owned(),
            total_bytes: said.total_bytes,
            unknown_bytes: nobody.max(said.overcounted_bytes),
            summary: said.summary,
        })
    }

    pub(super) fn unknown_share(&self) -> f64 {
        self.unknown_bytes as f64 / self.total_bytes.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_accounts_for_is_found() {
        let text =
            br#"{"summary": "1 GiB: ...", "total_bytes": 1000, "overcounted_bytes": 0, "parts":
            [{"name": "free", "bytes": 990}, {"name": "unaccounted for", "bytes": 10}]}"#;
        let of = GuestBoot { condition: "pipes", release: "6.12", seed: 1 };
        assert_eq!(ConditionAccount::read(text, &of).unwrap().unknown_share(), 0.01);
    }
}
