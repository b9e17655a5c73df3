//! Thinning: one row for those of a longer step.

use crate::codec::RowBlock;
use mw_model::{Aggregation, NO_VALUE};

fn join(aggregation: Aggregation, before: u64, value: u64) -> u64 {
    match aggregation {
        _ if before == NO_VALUE => value,
        Aggregation::Last => value,
        _ if value == NO_VALUE => before,
        Aggregation::Max => before.max(value),
        Aggregation::Sum => before.saturating_add(value).min(NO_VALUE - 1),
    }
}

/// One row for each run of rows whose times fall into the same step; it has the time of the last.
pub(crate) fn thin(block: &RowBlock, aggregations: &[Aggregation], step_ms: u64) -> RowBlock {
    let starts = starts(&block.at_unix_ms, step_ms.max(1));
    let series = |values: &[u64], aggregation: Aggregation| {
        let ends = starts.iter().skip(1).copied().chain([values.len()]);
        let run = |(start, end): (&usize, usize)| {
            let run = values.get(*start..end).unwrap_or_default();
            run.iter().copied().reduce(|a, b| join(aggregation, a, b)).unwrap_or(NO_VALUE)
        };
        starts.iter().zip(ends).map(run).collect()
    };
    let aggregations = aggregations.iter().copied().chain(std::iter::repeat(Aggregation::Last));
    RowBlock {
        at_unix_ms: series(&block.at_unix_ms, Aggregation::Last),
        columns: block
            .columns
            .iter()
            .zip(aggregations)
            .map(|(c, aggregation)| series(c, aggregation))
            .collect(),
    }
}

/// Beginnings of the runs of the same step.
fn starts(at_unix_ms: &[u64], step_ms: u64) -> Vec<usize> {
    let step = |at: usize| at_unix_ms.get(at).map(|ms| ms / step_ms);
    (0..at_unix_ms.len()).filter(|at| *at == 0 || step(*at) != step(at - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Metric;

    #[test]
    fn counters_keep_their_value_maxima_the_largest_and_events_their_sum() {
        let names =
            ["vmstat.pgscan_direct", "probe.db.worst_us", "probe.db.answers", "canary.late_us"];
        let aggregations = names.map(|name| Metric::from_name(name).aggregation());
        let block = RowBlock {
            at_unix_ms: vec![10_000, 15_000, 19_999, 20_000],
            columns: vec![
                vec![1, 2, 3, 4],
                vec![7, 900, NO_VALUE, 5],
                vec![1, 1, 1, 1],
                vec![NO_VALUE, NO_VALUE, NO_VALUE, 3],
            ],
        };
        let thinned = thin(&block, &aggregations, 10_000);
        assert_eq!(thinned.at_unix_ms, [19_999, 20_000]);
        assert_eq!(thinned.columns, [vec![3, 4], vec![900, 5], vec![3, 1], vec![NO_VALUE, 3]]);
        assert_eq!(thin(&thinned, &aggregations, 10_000), thinned);
    }

    #[test]
    fn a_clock_that_goes_back_begins_a_new_row() {
        let block =
            RowBlock { at_unix_ms: vec![60_000, 1_000, 60_001], columns: vec![vec![1, 2, 3]] };
        assert_eq!(thin(&block, &[Aggregation::Last], 10_000), block);
    }

    #[test]
    fn nothing_stays_nothing() {
        assert_eq!(thin(&RowBlock::with_columns(2), &[], 10_000), RowBlock::with_columns(2));
    }
}
