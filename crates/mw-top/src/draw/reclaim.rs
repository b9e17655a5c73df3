//! Pressure, reclaim, compaction and swap: every number with its last minutes.

use super::Pen;
use super::parts::pressure;
use super::row::TextRow;
use crate::face::TextRole;
use crate::measure::{MEASURES, Measure, MeasureUnit};
use crate::short;

/// Columns of name, number, highest number and unit.
const NUMBERS: usize = 15 + 7 + 7 + 10;

/// The minimum width of a curve, and the maximum if the text fits.
const CURVE: (usize, usize) = (12, 60);

const WORDS: usize = 40;

impl Pen<'_> {
    pub(super) fn reclaim(&self, width: usize, room: usize) -> Vec<TextRow> {
        let free = width.saturating_sub(NUMBERS + 1);
        let words = free >= CURVE.0 + WORDS;
        let curve = if words { (free - WORDS).clamp(CURVE.0, CURVE.1) } else { free };
        let mut heading = TextRow::new();
        heading.left("", 15, TextRole::Plain).right("now", 7, TextRole::Faint);
        heading.right("peak", 7, TextRole::Faint).fill_to(NUMBERS);
        heading.put(&self.cut("last 2 min", curve), TextRole::Faint);
        let mut rows = vec![heading];
        for measure in &MEASURES {
            let mut row = self.measure(measure, curve);
            if words {
                row.fill_to(NUMBERS + curve + 1);
                let left = width.saturating_sub(row.width());
                row.put(&self.cut(measure.says, left), TextRole::Faint);
            }
            rows.push(row);
        }
        rows.push(self.limits());
        self.scrolled(rows, room)
    }

    fn measure(&self, measure: &Measure, curve: usize) -> TextRow {
        let series = measure.series;
        let mut row = TextRow::new();
        row.left(measure.label, 15, TextRole::Plain);
        let mut pressures = self.moment().pressure.iter();
        let (now, role) = match pressures.find(|of| of.name == measure.label) {
            Some(of) => pressure(series, of.some),
            None => self.value(series),
        };
        let (peak, peak_role) = self.peak(series);
        row.right(&now, 7, role).right(&peak, 7, peak_role).put(" ", TextRole::Plain);
        row.left(unit(measure.unit), 9, TextRole::Faint).fill_to(NUMBERS);
        row.append(self.curve(series, curve));
        row
    }

    fn limits(&self) -> TextRow {
        let text = match self.moment().dirty_limits {
            Some((limit, background)) => format!(
                "dirty pages: background writeback from {}, writers throttled from {}",
                short::bytes(background),
                short::bytes(limit)
            ),
            None => "dirty limits: not reported by this kernel (nr_dirty_threshold)".to_owned(),
        };
        TextRow::from_text(&text, TextRole::Faint)
    }
}

fn unit(unit: MeasureUnit) -> &'static str {
    match unit {
        MeasureUnit::Percent => "",
        MeasureUnit::Pages => "pages/s",
        MeasureUnit::Events => "/s",
        MeasureUnit::Bytes => "",
    }
}
