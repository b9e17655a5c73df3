//! The conditions of lab/preflight.

use anyhow::Context;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The machine that this runs on, among kernels.
pub(super) const HOST: &str = "host";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    /// Common to all.
    machine: toml::Table,
    condition: BTreeMap<String, ConditionEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionEntry {
    how: String,
    #[serde(default = "base_pages")]
    kinds: Vec<String>,
    #[serde(default)]
    kernels: Vec<String>,
    #[serde(default)]
    on_host: bool,
    #[serde(default)]
    machine: toml::Table,
}

fn base_pages() -> Vec<String> {
    vec!["-".to_owned()]
}

/// Choice of the sizes of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeChoice {
    pub(crate) seed: u32,
    /// The sizes at which the answer changes are found to one part in so many.
    pub(crate) edge_parts: u32,
}

impl Default for SizeChoice {
    fn default() -> Self {
        Self { seed: 1, edge_parts: 100 }
    }
}

#[derive(Debug, Clone)]
pub(super) struct PreflightCondition {
    pub(super) name: String,
    pub(super) how: String,
    /// Suffix of the size in a request; `-` for nothing.
    kinds: Vec<String>,
    /// Of guests: all, where there is none.
    kernels: Vec<String>,
    /// True if it can be made on a machine that others use.
    on_host: bool,
    /// As in a case of the lab.
    machine: toml::Table,
}

/// Those that are named; all, where none is.
pub(super) fn chosen(names: &[String]) -> anyhow::Result<Vec<PreflightCondition>> {
    let all = all()?;
    if let Some(name) = names.iter().find(|name| all.iter().all(|known| known.name != **name)) {
        anyhow::bail!("there is no condition {name} (lab/preflight/conditions.toml)");
    }
    let is_chosen = |name: &String| names.is_empty() || names.contains(name);
    Ok(all.into_iter().filter(|condition| is_chosen(&condition.name)).collect())
}

pub(super) fn all() -> anyhow::Result<Vec<PreflightCondition>> {
    let text = fs::read_to_string(folder().join("conditions.toml"))?;
    let catalogue: Catalogue = toml::from_str(&text).context("conditions.toml")?;
    let of = |(name, entry): (String, ConditionEntry)| {
        let mut machine = catalogue.machine.clone();
        machine.extend(entry.machine);
        let ConditionEntry { how, kinds, kernels, on_host, .. } = entry;
        PreflightCondition { name, how, kinds, kernels, on_host, machine }
    };
    Ok(catalogue.condition.into_iter().map(of).collect())
}

pub(super) fn folder() -> PathBuf {
    crate::workspace::root().join("lab/preflight")
}

impl PreflightCondition {
    pub(super) fn runs_on(&self, kernel: &str) -> bool {
        match kernel {
            HOST => self.on_host,
            kernel => self.kernels.is_empty() || self.kernels.iter().any(|known| known == kernel),
        }
    }

    /// Writes the scripts, and what they are to make and ask.
    pub(super) fn write_scripts(&self, to: &Path, choice: SizeChoice) -> anyhow::Result<()> {
        for entry in folder().read_dir()? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        let (name, kinds) = (&self.name, self.kinds.join(" "));
        let SizeChoice { seed, edge_parts } = choice;
        let settings =
            format!("CONDITION={name}\nKINDS='{kinds}'\nSEED={seed}\nEDGE_PARTS={edge_parts}\n");
        Ok(fs::write(to.join("settings"), settings)?)
    }

    /// Writes a case of the lab that makes the condition and asks.
    pub(super) fn write_case(
        &self,
        case: &Path,
        kernel: &str,
        choice: SizeChoice,
    ) -> anyhow::Result<()> {
        self.write_scripts(case, choice)?;
        let mut machine = self.machine.clone();
        machine.insert("kernel".to_owned(), kernel.into());
        let mut variant = toml::Table::new();
        variant.insert("how".to_owned(), self.how.clone().into());
        variant.insert("machine".to_owned(), machine.into());
        let mut text = toml::Table::new();
        text.insert("description".to_owned(), "preflight".into());
        text.insert("expect".to_owned(), toml::toml! { no_finding = true }.into());
        text.insert(
            "variant".to_owned(),
            toml::Table::from_iter([(self.name.clone(), variant.into())]).into(),
        );
        let text = toml::to_string(&text)?;
        Ok(fs::write(case.join("case.toml"), text)?)
    }
}
