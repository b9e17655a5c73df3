//! How the recorder watches a case, and which cause it must name: `[watch]` in `case.toml`.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchSpec {
    /// As `memwright watch --probe` takes them; without any, canary and pressure are the triggers.
    #[serde(default)]
    pub probes: Vec<String>,
    /// Of the probes.
    #[serde(default = "default_limit")]
    pub limit: String,
    /// One of these rules must be the first cause of the longest stall.
    #[serde(default)]
    pub cause: Vec<String>,
    /// Instead: the recorder sees no stall, or none that it puts down to memory.
    #[serde(default)]
    pub quiet: bool,
    /// Instead: the recorder records no incident and sends no notification.
    #[serde(default)]
    pub silent: bool,
    /// One of these kernel functions must be among the three that grew most during that stall.
    #[serde(default)]
    pub functions: Vec<String>,
}

pub(crate) fn default_limit() -> String {
    "500ms".to_owned()
}

impl WatchSpec {
    pub(crate) fn check(&self) -> Result<(), String> {
        let names = !self.cause.is_empty() || !self.functions.is_empty();
        for (word, is_set) in [("quiet", self.quiet), ("silent", self.silent)] {
            if is_set && names {
                return Err(format!("[watch]: `{word}` has no `cause` and no `functions`"));
            }
        }
        if self.quiet && self.silent {
            return Err("[watch]: `quiet` or `silent`, not both".to_owned());
        }
        if !self.quiet && !self.silent && self.cause.is_empty() {
            return Err("[watch]: `cause` is empty".to_owned());
        }
        let words = self.probes.iter().chain([&self.limit]);
        match words.into_iter().find(|word| word.contains(['\'', '\n'])) {
            Some(word) => Err(format!("[watch]: quote or line end in {word:?}")),
            None => Ok(()),
        }
    }
}
