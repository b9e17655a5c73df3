//! The figures by which the diagnosis is judged, from the results: pure functions.

use super::judge::{
    CulpritVerdict, LIKELY_PERCENT, PlayVerdict, RecordedDiagnosis, culprit_verdict,
};
use super::results::TrialRecord;
use std::collections::BTreeMap;

/// A figure, and what was promised.
pub(super) struct GoalFigure {
    pub(super) what: &'static str,
    pub(super) goal: &'static str,
    pub(super) count: usize,
    pub(super) of: usize,
    pub(super) is_met: bool,
}

/// Confidences from `from` to `to`, and what became of causes that were that sure.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Bin {
    pub(super) from: u8,
    pub(super) to: u8,
    pub(super) causes: usize,
    pub(super) right: usize,
    pub(super) partly: usize,
    confidence_sum: usize,
}

impl Bin {
    pub(super) fn confidence(&self) -> f64 {
        self.confidence_sum as f64 / self.causes.max(1) as f64
    }

    pub(super) fn right_percent(&self) -> f64 {
        percent(self.right, self.causes)
    }
}

pub(super) fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// True if a play counts: it stalled or failed, as its client saw it.
pub(super) fn counts(record: &TrialRecord) -> bool {
    use PlayVerdict::{Missed, Partly, Right, Unknown, Wrong};
    matches!(record.judged.verdict, Right | Partly | Wrong | Unknown | Missed)
}

fn first_confidence(record: &TrialRecord) -> Option<u8> {
    Some(record.judged.seen.as_ref()?.causes.first()?.confidence_percent)
}

/// True if nothing that was injected has to do with memory.
fn is_free_of_memory(record: &TrialRecord) -> bool {
    !record.play.conditions().any(|condition| condition.is_memory)
}

pub(super) fn figures(records: &[TrialRecord]) -> Vec<GoalFigure> {
    let counted: Vec<&TrialRecord> = records.iter().filter(|record| counts(record)).collect();
    let number =
        |is: &dyn Fn(&TrialRecord) -> bool| counted.iter().filter(|record| is(record)).count();
    let has = |verdict| number(&|record| record.judged.verdict == verdict);
    let figure = |what, goal, count, of, is_met: fn(f64) -> bool| GoalFigure {
        what,
        goal,
        count,
        of,
        is_met: is_met(percent(count, of)),
    };
    let sure =
        |record: &TrialRecord| first_confidence(record).is_some_and(|sure| sure >= LIKELY_PERCENT);
    let wrong_and_sure =
        number(&|record| record.judged.verdict == PlayVerdict::Wrong && sure(record));
    let blames = |record: &TrialRecord| {
        record.judged.seen.as_ref().is_some_and(RecordedDiagnosis::blames_memory)
    };
    let sums: Vec<bool> =
        counted.iter().filter_map(|record| record.judged.seen.as_ref()?.adds_up()).collect();
    let culprits: Vec<(CulpritVerdict, bool)> = counted
        .iter()
        .filter_map(|record| {
            let said = record.judged.seen.as_ref()?.culprit.as_ref()?;
            Some((culprit_verdict(&record.play, &record.judged)?, said.is_likely()))
        })
        .collect();
    let all = counted.len();
    vec![
        figure("first cause right", "at least 92%", has(PlayVerdict::Right), all, |p| p >= 92.0),
        figure("first cause partly right", "", has(PlayVerdict::Partly), all, |_| true),
        figure("first cause wrong", "", has(PlayVerdict::Wrong), all, |_| true),
        figure(
            "wrong, with a confidence of at least 70%",
            "at most 1%",
            wrong_and_sure,
            all,
            |p| p <= 1.0,
        ),
        figure("cause unknown", "at most 10%", has(PlayVerdict::Unknown), all, |p| p <= 10.0),
        figure("stall not reported", "", has(PlayVerdict::Missed), all, |_| true),
        figure(
            "stall without a memory condition blamed on memory",
            "at most 1%",
            number(&|record| is_free_of_memory(record) && blames(record)),
            number(&is_free_of_memory),
            |p| p <= 1.0,
        ),
        figure(
            "critical path within 5% of the request",
            "at least 95%",
            sums.iter().filter(|sum| **sum).count(),
            sums.len(),
            |p| p >= 95.0,
        ),
        figure(
            "culprit right, where there is one",
            "at least 90%",
            culprits.iter().filter(|(verdict, _)| *verdict == CulpritVerdict::Right).count(),
            culprits.len(),
            |p| p >= 90.0,
        ),
        figure(
            "a bystander blamed for 70% of the stall",
            "none",
            culprits.iter().filter(|one| **one == (CulpritVerdict::Bystander, true)).count(),
            culprits.len(),
            |p| p == 0.0,
        ),
    ]
}

/// Share of causes that are right, by confidence.
pub(super) fn reliability(records: &[TrialRecord]) -> Vec<Bin> {
    const WIDTH: u8 = 10;
    let mut bins: Vec<Bin> = (0..100 / WIDTH)
        .map(|number| Bin {
            from: number * WIDTH,
            to: number * WIDTH + WIDTH - 1,
            ..Bin::default()
        })
        .collect();
    for record in records.iter().filter(|record| counts(record)) {
        let Some(sure) = first_confidence(record) else { continue };
        let last = bins.len() - 1;
        let bin = &mut bins[usize::from(sure / WIDTH).min(last)];
        bin.causes += 1;
        bin.confidence_sum += usize::from(sure);
        bin.right += usize::from(record.judged.verdict == PlayVerdict::Right);
        bin.partly += usize::from(record.judged.verdict == PlayVerdict::Partly);
    }
    bins.retain(|bin| bin.causes > 0);
    if let Some(last) = bins.last_mut().filter(|bin| bin.to == 99) {
        last.to = 100;
    }
    bins
}

/// The cause that was named first, as a column of the confusion matrix.
pub(super) fn named(record: &TrialRecord) -> String {
    match &record.judged.seen {
        None => "no incident".to_owned(),
        Some(seen) => match (seen.causes.first(), seen.failure) {
            (Some(cause), _) => cause.rule.clone(),
            (None, Some(_)) => "failure".to_owned(),
            (None, None) => "unknown".to_owned(),
        },
    }
}

/// Plays by what was injected and what was named.
pub(super) fn confusion(records: &[TrialRecord]) -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut matrix: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for record in records.iter().filter(|record| counts(record)) {
        let names: Vec<&str> = record.play.conditions().map(|condition| condition.name).collect();
        *matrix.entry(names.join(" + ")).or_default().entry(named(record)).or_default() += 1;
    }
    matrix
}

/// Plays and right ones by a property of the play.
pub(super) fn by(
    records: &[TrialRecord],
    property: impl Fn(&TrialRecord) -> String,
) -> BTreeMap<String, (usize, usize)> {
    let mut table: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for record in records.iter().filter(|record| counts(record)) {
        let (plays, right) = table.entry(property(record)).or_default();
        *plays += 1;
        *right += usize::from(record.judged.verdict == PlayVerdict::Right);
    }
    table
}

/// Wrong ones, the surest first.
pub(super) fn mistakes(records: &[TrialRecord]) -> Vec<&TrialRecord> {
    let is_wrong = |record: &&TrialRecord| record.judged.verdict == PlayVerdict::Wrong;
    let mut wrong: Vec<&TrialRecord> = records.iter().filter(is_wrong).collect();
    wrong.sort_by_key(|record| std::cmp::Reverse(first_confidence(record)));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials::boot::{Boot, TrialHost};
    use crate::trials::judge::{NamedCause, PlayJudgement};
    use crate::trials::play::{self, Injection};

    fn record(
        condition: &str,
        verdict: PlayVerdict,
        rule: &str,
        confidence_percent: u8,
    ) -> TrialRecord {
        let mut play = play::draw(TrialHost::Guest, 1, 0, &[]).unwrap();
        play.conditions = vec![Injection { name: condition.to_owned(), arguments: Vec::new() }];
        let said =
            NamedCause { rule: rule.to_owned(), confidence_percent, ..NamedCause::default() };
        let causes = if rule.is_empty() { Vec::new() } else { vec![said] };
        let seen = RecordedDiagnosis {
            causes,
            worst_ms: 1000.0,
            path_ms: Some(1000.0),
            ..RecordedDiagnosis::default()
        };
        let judged =
            PlayJudgement { verdict, why: None, stall_ms: 1000.0, failures: 0, seen: Some(seen) };
        TrialRecord {
            play,
            boot: Boot::of(TrialHost::Guest, 1, 0),
            release: String::new(),
            judged,
            start_ms: None,
            host_waited_percent: None,
        }
    }

    fn some() -> Vec<TrialRecord> {
        vec![
            record("stop", PlayVerdict::Right, "stopped-process", 95),
            record("stop", PlayVerdict::Wrong, "swap-thrash", 72),
            record("flood", PlayVerdict::Wrong, "swap-thrash", 60),
            record("flood", PlayVerdict::Unknown, "", 0),
            record("flood", PlayVerdict::Void, "swap-thrash", 60),
        ]
    }

    #[test]
    fn figures_count_what_stalled() {
        let figures = figures(&some());
        let of = |what: &str| {
            let figure = figures.iter().find(|figure| figure.what == what).unwrap();
            (figure.count, figure.of, figure.is_met)
        };
        assert_eq!(of("first cause right"), (1, 4, false));
        assert_eq!(of("wrong, with a confidence of at least 70%"), (1, 4, false));
        assert_eq!(of("cause unknown"), (1, 4, false));
        assert_eq!(of("stall without a memory condition blamed on memory"), (1, 2, false));
        assert_eq!(of("critical path within 5% of the request"), (4, 4, true));
    }

    #[test]
    fn reliability_compares_confidence_with_rightness() {
        let bins = reliability(&some());
        let seen: Vec<_> =
            bins.iter().map(|bin| (bin.from, bin.to, bin.causes, bin.right)).collect();
        assert_eq!(seen, [(60, 69, 1, 0), (70, 79, 1, 0), (90, 100, 1, 1)]);
        assert_eq!((bins[1].confidence(), bins[2].right_percent()), (72.0, 100.0));
    }

    #[test]
    fn mistakes_and_confusions_are_listed() {
        let records = some();
        let wrong: Vec<_> = mistakes(&records).iter().map(|r| first_confidence(r)).collect();
        assert_eq!(wrong, [Some(72), Some(60)]);
        let matrix = confusion(&records);
        assert_eq!(matrix["flood"]["unknown"], 1);
        assert_eq!(matrix["stop"]["stopped-process"], 1);
    }
}
