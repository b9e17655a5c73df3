//! How sure a cause of a score may say it is: an isotonic regression over the first causes of the fit seeds. Pure,
//! but for the table that it writes into mw-rules.

use super::figures;
use super::judge::PlayVerdict;
use super::results::TrialRecord;
use crate::workspace::{read, root};
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

const SOURCE: &str = "crates/mw-rules/src/confidence.rs";
const BEGIN: &str = "// BEGIN of what `cargo xtask trials --calibrate` writes.\n";
const END: &str = "// END\n";

/// Each pool counts so many causes more, which were right as often as their score says: a few plays do not move the
/// confidence far, and nothing becomes certain.
pub(super) const PRIOR_CAUSES: f64 = 4.0;

/// Nothing is said to be surer.
const MOST_PERCENT: u8 = 99;

/// Causes with neighbouring scores.
#[derive(Debug, Clone, Copy)]
struct ScorePool {
    causes: f64,
    right: f64,
    score_sum: f64,
}

impl ScorePool {
    fn score(&self) -> f64 {
        self.score_sum / self.causes
    }

    fn share_right(&self) -> f64 {
        self.right / self.causes
    }

    fn share_with_prior(&self) -> f64 {
        let prior = PRIOR_CAUSES * self.score() / 100.0;
        (self.right + prior) / (self.causes + PRIOR_CAUSES)
    }

    fn with(self, other: Self) -> Self {
        Self {
            causes: self.causes + other.causes,
            right: self.right + other.right,
            score_sum: self.score_sum + other.score_sum,
        }
    }
}

/// Writes the table of mw-rules.
pub(super) fn write(fit: &[TrialRecord]) -> anyhow::Result<()> {
    let causes = causes(fit);
    let table = table(&causes);
    let text = read(&root().join(SOURCE))?;
    let (before, rest) = text.split_once(BEGIN).context("no BEGIN")?;
    let (_, after) = rest.split_once(END).context("no END")?;
    let line = format!("pub const CONFIDENCE_BY_SCORE: &[(u8, u8)] = &{table:?};\n");
    let path = root().join(SOURCE);
    fs::write(&path, [before, BEGIN, &line, END, after].concat())?;
    let status = Command::new("rustfmt").args(["--edition", "2024"]).arg(&path).status()?;
    anyhow::ensure!(status.success(), "rustfmt: {status}");
    println!("fitted {SOURCE} on {} causes: {table:?}", causes.len());
    Ok(())
}

/// Score of the first cause, and whether it was right, of every play that counts.
pub(super) fn causes(records: &[TrialRecord]) -> Vec<(u8, bool)> {
    let counted = records.iter().filter(|record| figures::counts(record));
    let cause = |record: &TrialRecord| {
        let score = record.judged.seen.as_ref()?.causes.first()?.score();
        Some((score, record.judged.verdict == PlayVerdict::Right))
    };
    counted.filter_map(cause).collect()
}

/// Scores and shares in percent, both rising.
pub(super) fn table(causes: &[(u8, bool)]) -> Vec<(u8, u8)> {
    let mut by_score: BTreeMap<u8, ScorePool> = BTreeMap::new();
    for (score, is_right) in causes {
        let one = ScorePool {
            causes: 1.0,
            right: if *is_right { 1.0 } else { 0.0 },
            score_sum: f64::from(*score),
        };
        by_score.entry(*score).and_modify(|pool| *pool = pool.with(one)).or_insert(one);
    }
    let pools = pooled(by_score.into_values(), ScorePool::share_right);
    // The prior may change their order again.
    let pools = pooled(pools, ScorePool::share_with_prior);
    let percent = |pool: &ScorePool| {
        let share = (pool.share_with_prior() * 100.0).round() as u8;
        (pool.score().round() as u8, share.min(MOST_PERCENT))
    };
    let points: Vec<(u8, u8)> = pools.iter().map(percent).filter(|(score, _)| *score > 0).collect();
    let rest = if points.is_empty() { vec![(100, 100)] } else { points };
    [vec![(0, 0)], rest].concat()
}

/// Neighbours whose shares do not rise become one pool.
fn pooled(
    pools: impl IntoIterator<Item = ScorePool>,
    share: fn(&ScorePool) -> f64,
) -> Vec<ScorePool> {
    let mut rising: Vec<ScorePool> = Vec::new();
    for mut pool in pools {
        while let Some(last) = rising.pop_if(|last| share(last) >= share(&pool)) {
            pool = last.with(pool);
        }
        rising.push(pool);
    }
    rising
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials::{page, results};

    /// So many causes with a score, of which so many were right.
    fn causes_with(score: u8, causes: usize, right: usize) -> Vec<(u8, bool)> {
        (0..causes).map(|number| (score, number < right)).collect()
    }

    #[test]
    fn without_plays_the_score_is_the_confidence() {
        assert_eq!(table(&[]), [(0, 0), (100, 100)]);
    }

    #[test]
    fn many_plays_say_what_share_was_right() {
        let causes = [causes_with(60, 1000, 300), causes_with(90, 1000, 700)].concat();
        assert_eq!(table(&causes), [(0, 0), (60, 30), (90, 70)]);
    }

    #[test]
    fn a_few_plays_do_not_move_it_far_and_none_makes_it_certain() {
        assert_eq!(table(&causes_with(60, 1, 0)), [(0, 0), (60, 48)]);
        assert_eq!(table(&causes_with(97, 5000, 5000)), [(0, 0), (97, 99)]);
        assert_eq!(table(&causes_with(90, 6, 6)), [(0, 0), (90, 96)]);
    }

    #[test]
    fn neighbours_that_do_not_rise_are_pooled() {
        let causes =
            [causes_with(50, 500, 400), causes_with(70, 500, 200), causes_with(90, 500, 450)]
                .concat();
        assert_eq!(table(&causes), [(0, 0), (60, 60), (90, 90)]);
        let same = [causes_with(92, 300, 300), causes_with(96, 100, 100)].concat();
        assert_eq!(table(&same).len(), 2, "equal shares are one pool");
    }

    #[test]
    fn the_table_rises_whatever_the_plays_were() {
        // A step of 7 visits every residue of 101: scores and outcomes without an order.
        let causes: Vec<(u8, bool)> =
            (0..400_u32).map(|n| ((n * 7 % 101) as u8, n * n % 5 < 2)).collect();
        for count in 0..causes.len() {
            let table = table(&causes[..count]);
            let rises = |pair: &[(u8, u8)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
            assert!(table.windows(2).all(rises), "{table:?}");
        }
    }

    /// Promise (The recorder): The confidence of a cause is what the runs of the fit seeds say of its score, and
    /// never 100%.
    #[test]
    fn the_recorder_says_what_the_fit_seeds_say() {
        let fit = results::read(&root().join(page::FIT)).unwrap();
        let wanted = table(&causes(&fit));
        assert_eq!(mw_rules::CONFIDENCE_BY_SCORE, wanted, "run 'cargo xtask trials --calibrate'");
    }
}
