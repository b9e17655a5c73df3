//! What an evaluation has measured, as docs/evaluations/NAME.json keeps it.

use mw_lab::judge::transcript::RunPhase;
use mw_lab::{Case, CaseRun, Outcome};
use mw_render::plot::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All rounds of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    /// The release of the guests' kernel.
    pub(super) kernel: String,
    /// Description of the guests, in words.
    pub(super) machine: String,
    /// Quantities that were measured, in the order in which they were printed first.
    pub(super) quantities: Vec<Quantity>,
    /// The options, in the order of their names.
    pub(super) tried: Vec<Tried>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Quantity {
    pub(super) name: String,
    pub(super) unit: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Tried {
    pub(super) option: String,
    pub(super) rounds: Vec<Round>,
}

/// Result of an option in one round.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) values: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
}

impl Results {
    pub(super) fn new(case: &Case, kernel: &str) -> Results {
        let option = |name: &str| Tried { option: name.to_owned(), rounds: Vec::new() };
        let machine = case.variants.first().map(|variant| {
            let machine = &variant.machine;
            let and = |count: usize, what: &str| match count {
                0 => String::new(),
                1 => format!(", 1 {what}"),
                _ => format!(", {count} {what}s"),
            };
            format!(
                "{} MiB of memory{}{}{}",
                machine.memory_bytes >> 20,
                and(machine.nodes as usize, "node"),
                and(machine.cpus as usize, "CPU"),
                and(machine.disks.len(), "disk")
            )
        });
        Results {
            kernel: kernel.to_owned(),
            machine: machine.unwrap_or_default(),
            quantities: Vec::new(),
            tried: case.variants.iter().map(|variant| option(&variant.name)).collect(),
        }
    }

    /// Result of a run; quantities that are new are noted.
    pub(super) fn round(&mut self, play: &CaseRun) -> Round {
        let mut values = BTreeMap::new();
        for one in &play.measured {
            let Some(value) = one.values.get(&RunPhase::During) else { continue };
            values.insert(one.name.clone(), *value);
            if self.quantities.iter().all(|known| known.name != one.name) {
                self.quantities.push(Quantity { name: one.name.clone(), unit: one.unit.clone() });
            }
        }
        match &play.outcome {
            Outcome::Passed => Round { values, failed: None },
            other => Round { values: BTreeMap::new(), failed: Some(other.to_string()) },
        }
    }

    /// Keeps a round of an option.
    pub(super) fn add(&mut self, option: &str, round: Round) {
        let tried = self.tried.iter_mut().find(|tried| tried.option == option);
        tried.into_iter().for_each(|tried| tried.rounds.push(round.clone()));
    }

    /// The middle of the sums of `quantities` in the rounds of `option` that have them all.
    pub(super) fn spread(&self, option: &str, quantities: &[String]) -> Option<Spread> {
        let tried = self.tried.iter().find(|tried| tried.option == option)?;
        let sum = |round: &Round| -> Option<f64> {
            quantities.iter().map(|name| round.values.get(name)).sum()
        };
        Spread::from_samples(&tried.rounds.iter().filter_map(sum).collect::<Vec<_>>())
    }

    /// The most rounds of any option.
    pub(super) fn rounds(&self) -> usize {
        self.tried.iter().map(|tried| tried.rounds.len()).max().unwrap_or(0)
    }

    /// The unit of a quantity.
    pub(super) fn unit(&self, quantity: &str) -> Option<&str> {
        let mut known = self.quantities.iter();
        known.find(|known| known.name == quantity).map(|known| known.unit.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_between_the_ends() {
        let middle =
            |values: &[f64]| Spread::from_samples(values).map(|m| (m.min, m.median, m.max));
        assert_eq!(middle(&[]), None);
        assert_eq!(middle(&[2.0]), Some((2.0, 2.0, 2.0)));
        assert_eq!(middle(&[9.0, 1.0, 2.0]), Some((1.0, 2.0, 9.0)));
        assert_eq!(middle(&[4.0, 1.0, 2.0, 9.0]), Some((1.0, 3.0, 9.0)));
    }
}
