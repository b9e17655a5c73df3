//! What the results amount to.

use super::request::{AnswerVerdict, RequestRecord};

/// Of some requests, how many were answered how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AnswerCounts {
    /// Asked, and taken or refused.
    pub(super) requests: usize,
    pub(super) right: usize,
    pub(super) wrong_yes: usize,
    pub(super) wrong_slowly: usize,
    pub(super) wrong_no: usize,
    pub(super) unknown: usize,
    pub(super) void: usize,
    /// With a stated range, and a time.
    pub(super) timed: usize,
    pub(super) in_range: usize,
}

impl AnswerCounts {
    pub(super) fn of<'a>(records: impl IntoIterator<Item = &'a RequestRecord>) -> Self {
        let mut counts = Self::default();
        for record in records {
            counts.add(record);
        }
        counts
    }

    pub(super) fn wrong(&self) -> usize {
        self.wrong_yes + self.wrong_slowly + self.wrong_no
    }

    fn add(&mut self, record: &RequestRecord) {
        let count = match record.verdict() {
            AnswerVerdict::Right => &mut self.right,
            AnswerVerdict::WrongYes => &mut self.wrong_yes,
            AnswerVerdict::WrongSlowly => &mut self.wrong_slowly,
            AnswerVerdict::WrongNo => &mut self.wrong_no,
            AnswerVerdict::Unknown => &mut self.unknown,
            AnswerVerdict::Void => {
                self.void += 1;
                return;
            }
        };
        *count += 1;
        self.requests += 1;
        if let Some(inside) = record.is_in_range() {
            self.timed += 1;
            self.in_range += usize::from(inside);
        }
    }
}

/// The median of longest over shortest of the stated ranges.
pub(super) fn median_width(records: &[RequestRecord]) -> Option<f64> {
    let timed = records.iter().filter(|record| record.is_in_range().is_some());
    let mut widths: Vec<f64> = timed
        .filter_map(|record| record.range_ms)
        .filter(|(low, _)| *low > 0.0)
        .map(|(low, high)| high / low)
        .collect();
    widths.sort_by(f64::total_cmp);
    widths.get(widths.len() / 2).copied()
}

pub(super) fn percent(part: usize, of: usize) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.1}%", part as f64 * 100.0 / of as f64) }
}
