//! Runs of one case on one kernel, combined into one.

use std::collections::{BTreeMap, BTreeSet};

use crate::Outcome;
use crate::judge::MeasurementSeries;
use crate::judge::transcript::RunPhase;
use crate::report::figures::short;
use crate::runner::CaseRun;

/// All runs of one variant on one kernel.
pub(super) struct Rounds<'a> {
    pub(super) runs: Vec<&'a CaseRun>,
}

impl<'a> Rounds<'a> {
    /// The runs, grouped by variant and kernel in the order of their first run.
    pub(super) fn group(runs: &[&'a CaseRun]) -> Vec<Rounds<'a>> {
        let mut groups: Vec<Rounds<'a>> = Vec::new();
        for run in runs {
            let same = |group: &&mut Rounds<'a>| {
                let first = group.first();
                first.full_name() == run.full_name() && first.kernel == run.kernel
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.runs.push(run),
                None => groups.push(Rounds { runs: vec![run] }),
            }
        }
        groups
    }

    /// A group has at least one run.
    pub(super) fn first(&self) -> &'a CaseRun {
        self.runs[0]
    }

    pub(super) fn outcome(&self) -> String {
        let first = self.first();
        if let [_] = self.runs.as_slice() {
            return match &first.outcome {
                Outcome::Passed if first.tries > 1 => format!("passed, try {}", first.tries),
                Outcome::Passed => "passed".to_owned(),
                Outcome::Failed(why) => format!("**failed**: {why}"),
                Outcome::Skipped(why) => format!("skipped: {why}"),
            };
        }
        let passed = self.runs.iter().filter(|run| run.outcome == Outcome::Passed).count();
        let mut line = format!("passed {passed} of {}", self.runs.len());
        let repeated = self.runs.iter().filter(|run| run.tries > 1).count();
        if repeated > 0 {
            line += &format!(", {repeated} of them when repeated");
        }
        let other = self.runs.iter().filter(|run| run.outcome != Outcome::Passed);
        other.fold(line, |line, run| format!("{line}; **{}**", run.outcome))
    }

    /// The median time of a run.
    pub(super) fn wall_s(&self) -> f64 {
        median(self.runs.iter().map(|run| run.wall_s).collect()).unwrap_or_default()
    }

    /// Each measurement with the medians of all runs.
    pub(super) fn measured(&self) -> Vec<MeasurementSeries> {
        let mut names: Vec<&MeasurementSeries> = Vec::new();
        for series in self.runs.iter().flat_map(|run| &run.measured) {
            if !names.iter().any(|known| known.name == series.name) {
                names.push(series);
            }
        }
        names.into_iter().map(|first| self.combined(first)).collect()
    }

    fn all(&self, name: &str) -> Vec<&'a MeasurementSeries> {
        let all = self.runs.iter().flat_map(|run| &run.measured);
        all.filter(|series| series.name == name).collect()
    }

    fn combined(&self, first: &MeasurementSeries) -> MeasurementSeries {
        let rounds = self.all(&first.name);
        let phases: BTreeSet<RunPhase> =
            rounds.iter().flat_map(|round| round.values.keys().copied()).collect();
        let in_phase =
            |phase| rounds.iter().filter_map(|round| round.values.get(&phase).copied()).collect();
        let values: BTreeMap<RunPhase, f64> = phases
            .into_iter()
            .filter_map(|phase| Some((phase, median(in_phase(phase))?)))
            .collect();
        MeasurementSeries { values, ..first.clone() }
    }

    /// The least and the largest multiple of the first value while the condition is in force; empty for
    /// a single run.
    pub(super) fn spread(&self, name: &str) -> String {
        let factor = |round: &&MeasurementSeries| {
            let before = round.values.get(&RunPhase::Before).filter(|before| **before > 0.0)?;
            Some(round.values.get(&RunPhase::During)? / before)
        };
        let mut factors: Vec<f64> = self.all(name).iter().filter_map(factor).collect();
        factors.sort_by(f64::total_cmp);
        match factors.as_slice() {
            [least, .., most] => format!(" (x{} to x{})", short(*least), short(*most)),
            _ => String::new(),
        }
    }
}

/// The lower of the two middle values of an even number.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}
