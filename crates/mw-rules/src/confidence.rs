//! The confidence of a cause, from its score: the share of causes with that score that were right in the blind trials.
//!
//! The map is monotone, so that it changes no order. It is fitted to eval/results/truth/fit.jsonl, and to nothing else, by
//! `cargo xtask trials --calibrate`, which writes the table below (eval/src/trials/calibrate.rs says how).

use crate::registry::find;
use crate::suspect::{Score, ScoredSuspect, Suspect};
use mw_model::Cause;

/// Scores and the share of causes with this score that were right, both in percent and rising; linear in between.
// BEGIN of what `cargo xtask trials --calibrate` writes.
pub const CONFIDENCE_BY_SCORE: &[(u8, u8)] =
    &[(0, 0), (51, 31), (62, 36), (72, 41), (77, 73), (82, 83), (88, 87), (92, 96), (96, 97)];
// END

/// The share of causes that are right, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConfidencePercent(u8);

/// The confidence that a score deserves.
fn of(score: Score) -> ConfidencePercent {
    ConfidencePercent(share_right(CONFIDENCE_BY_SCORE, score.0))
}

/// The cause that a suspect is, with the confidence that its score deserves.
pub(crate) fn cause(scored: ScoredSuspect) -> Cause {
    let ScoredSuspect { suspect: Suspect { finding, explains_percent, .. }, score } = scored;
    let is_outside_memory = find(&finding.rule).is_some_and(|rule| !rule.is_of_memory());
    Cause {
        finding,
        is_outside_memory,
        confidence_percent: of(score).0,
        score_percent: Some(score.0),
        explains_percent,
    }
}

/// Share of causes with this score that were right, in percent.
fn share_right(table: &[(u8, u8)], score: u8) -> u8 {
    let above = table.iter().find(|(from, _)| *from >= score);
    let below = table.iter().rev().find(|(from, _)| *from <= score);
    let (Some((x0, y0)), Some((x1, y1))) = (below.or(above), above.or(below)) else {
        return score;
    };
    let [x0, y0, x1, y1] = [x0, y0, x1, y1].map(|percent| f64::from(*percent));
    let way = if x1 > x0 { (f64::from(score) - x0) / (x1 - x0) } else { 0.0 };
    (y0 + (y1 - y0) * way).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Area, Finding, Severity};

    #[test]
    fn the_share_is_linear_between_the_points_of_the_table() {
        let table = [(20, 10), (60, 50), (80, 90)];
        let of = |score| share_right(&table, score);
        assert_eq!([of(20), of(40), of(60), of(75), of(80)], [10, 30, 50, 80, 90]);
        assert_eq!([of(0), of(100)], [10, 90]);
        assert_eq!(share_right(&[], 70), 70);
    }

    #[test]
    fn the_table_rises_and_nothing_is_certain() {
        let rises = |pair: &[(u8, u8)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        assert!(CONFIDENCE_BY_SCORE.windows(2).all(rises), "{CONFIDENCE_BY_SCORE:?}");
        assert!((0..=97).all(|score| share_right(CONFIDENCE_BY_SCORE, score) < 100));
    }

    #[test]
    fn a_cause_keeps_its_score_beside_its_confidence() {
        let finding = Finding::new(Severity::Warning, Area::Service, "x".to_owned());
        let cause = cause(Suspect::new(finding, 80).by_strength());
        assert_eq!(cause.score_percent, Some(80));
        assert_eq!(cause.confidence_percent, share_right(CONFIDENCE_BY_SCORE, 80));
    }
}
