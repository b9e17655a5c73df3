//! Bars and curves.

use super::Pen;
use super::row::{TextRow, cut};
use crate::face::TextRole;
use crate::measure::{Curve, Measure, MeasureUnit};
use crate::moment::{MemoryBar, ZoneRow};
use crate::short;

/// Meaning of the parts of the bar of memory.
const PARTS: [(&str, TextRole); 4] = [
    ("used", TextRole::Accent),
    ("dirty", TextRole::Warn),
    ("cache", TextRole::Good),
    ("free", TextRole::Faint),
];

impl Pen<'_> {
    /// Text that fits.
    pub(super) fn cut(&self, text: &str, width: usize) -> String {
        cut(text, width, self.face.glyphs.more)
    }

    /// The last minutes of a number.
    pub(super) fn curve(&self, series: Curve, width: usize) -> TextRow {
        let measure = series.measure();
        let cells = self.screen.trail.cells(series, width);
        let highest = cells.iter().flatten().copied().fold(self.least_full(series), f64::max);
        let heights = self.face.glyphs.heights;
        let mut row = TextRow::new();
        for cell in cells {
            let Some(value) = cell else {
                row.put(" ", TextRole::Plain);
                continue;
            };
            let level = match value {
                value if value <= 0.0 => 0,
                value => 1 + (value / highest * (heights.len() - 2) as f64).round() as usize,
            };
            let glyph = heights.get(level.min(heights.len() - 1)).copied().unwrap_or(' ');
            let role = if level == 0 { TextRole::Faint } else { eye(measure, value) };
            row.put(&glyph.to_string(), role);
        }
        row
    }

    /// The minimum full scale of a curve, so that small values look small.
    fn least_full(&self, series: Curve) -> f64 {
        let moment = self.moment();
        let bytes = match series {
            Curve::Available => moment.memory.value().map(|memory| memory.total),
            _ => moment.dirty_limits.map(|(limit, _)| limit),
        };
        match series.measure().unit {
            MeasureUnit::Percent => 10.0,
            MeasureUnit::Pages => 1000.0,
            MeasureUnit::Events => 10.0,
            MeasureUnit::Bytes => bytes.unwrap_or(0).max(1) as f64,
        }
    }

    /// Use of memory, as a bar of `width` columns.
    pub(super) fn memory_bar(&self, memory: &MemoryBar, width: usize) -> TextRow {
        let parts = [memory.used, memory.dirty, memory.cache, memory.free];
        let mut row = TextRow::new();
        let mut taken_bytes = 0_u64;
        for ((bytes, glyph), (_, role)) in parts.iter().zip(self.face.glyphs.memory).zip(PARTS) {
            taken_bytes = taken_bytes.saturating_add(*bytes);
            let share = taken_bytes as f64 / memory.total.max(1) as f64;
            let end = ((share * width as f64).round() as usize).min(width);
            let cells = end.saturating_sub(row.width());
            row.put(&glyph.to_string().repeat(cells), role);
        }
        row
    }

    /// Parts of the bar, with their sizes.
    pub(super) fn memory_legend(&self, memory: &MemoryBar) -> TextRow {
        let parts = [memory.used, memory.dirty, memory.cache, memory.free];
        let mut row = TextRow::new();
        for ((bytes, glyph), (name, role)) in parts.iter().zip(self.face.glyphs.memory).zip(PARTS) {
            row.put(&format!("{glyph} "), role)
                .put(name, TextRole::Plain)
                .put(" ", TextRole::Plain);
            row.put(&short::bytes(*bytes), TextRole::Strong).put("  ", TextRole::Plain);
        }
        row
    }

    /// A gauge of free memory with the watermarks as letters: m, l and h.
    pub(super) fn watermarks(&self, zone: &ZoneRow, width: usize) -> TextRow {
        let inner = width.saturating_sub(2);
        let scale = zone.high.max(1).saturating_mul(2);
        let place = |bytes: u64| {
            let share = bytes.min(scale) as f64 / scale as f64;
            (share * inner as f64).round() as usize
        };
        let role = zone_role(zone);
        let glyphs = self.face.glyphs;
        let filled = place(zone.free);
        let mut cells: Vec<(char, TextRole)> =
            (0..inner)
                .map(|at| {
                    if at < filled { (glyphs.full, role) } else { (glyphs.empty, TextRole::Faint) }
                })
                .collect();
        for (mark, bytes) in [('h', zone.high), ('l', zone.low), ('m', zone.min)] {
            if let Some(cell) = cells.get_mut(place(bytes).min(inner.saturating_sub(1))) {
                *cell = (mark, TextRole::Strong);
            }
        }
        let beyond = zone.free > scale;
        let mut row = TextRow::from_text("[", TextRole::Faint);
        for (glyph, role) in cells {
            row.put(&glyph.to_string(), role);
        }
        row.put(if beyond { ">" } else { "]" }, if beyond { role } else { TextRole::Faint });
        row
    }

    /// Free memory of a zone, by order; blocks right of the fence serve a huge page.
    pub(super) fn orders(&self, zone: &ZoneRow) -> TextRow {
        let huge = self.moment().huge_order;
        let parts: Vec<f64> = zone
            .blocks
            .iter()
            .enumerate()
            .map(|(order, blocks)| *blocks as f64 * 2_f64.powi(order as i32))
            .collect();
        let all: f64 = parts.iter().sum();
        let heights = self.face.glyphs.heights;
        let mut row = TextRow::new();
        for (order, part) in parts.iter().enumerate() {
            if order == huge {
                row.put(&self.face.glyphs.fence.to_string(), TextRole::Faint);
            }
            // A third of all free memory in one order is full height: it is spread over eleven.
            let share = if all > 0.0 { (part / all * 3.0).min(1.0) } else { 0.0 };
            let level = if *part > 0.0 {
                1 + (share * (heights.len() - 2) as f64).round() as usize
            } else {
                0
            };
            let role = match (level, order >= huge) {
                (0, _) => TextRole::Faint,
                (_, true) => TextRole::Good,
                (_, false) => TextRole::Warn,
            };
            row.put(&heights.get(level).copied().unwrap_or(' ').to_string(), role);
        }
        row
    }

    /// A number of the trail: now, and what it came to at worst.
    pub(super) fn value(&self, series: Curve) -> (String, TextRole) {
        written(series, self.screen.trail.last(series))
    }

    /// The highest number of the trail.
    pub(super) fn peak(&self, series: Curve) -> (String, TextRole) {
        written(series, self.screen.trail.peak(series))
    }
}

fn written(series: Curve, value: Option<f64>) -> (String, TextRole) {
    let measure = series.measure();
    let Some(value) = value else { return ("-".to_owned(), TextRole::Faint) };
    let text = match measure.unit {
        MeasureUnit::Percent => short::percent(value),
        MeasureUnit::Pages | MeasureUnit::Events => short::count(value),
        MeasureUnit::Bytes => short::bytes(value as u64),
    };
    let role = if value <= 0.0 { TextRole::Faint } else { eye(measure, value) };
    (text, role)
}

/// Threshold at which a number is highlighted.
fn eye(measure: &Measure, value: f64) -> TextRole {
    let (warn, bad) = measure.eye;
    if value >= bad {
        TextRole::Bad
    } else if value >= warn {
        TextRole::Warn
    } else {
        TextRole::Plain
    }
}

/// Pressure in percent, and how much it catches the eye.
pub(super) fn pressure(series: Curve, percent: Option<f64>) -> (String, TextRole) {
    written(series, percent)
}

/// The colour of a zone's free memory: kswapd works below low, programs wait below min.
pub(super) fn zone_role(zone: &ZoneRow) -> TextRole {
    if zone.free < zone.min {
        TextRole::Bad
    } else if zone.free < zone.low {
        TextRole::Warn
    } else {
        TextRole::Good
    }
}

/// The colour of a fragmentation index, in thousandths.
pub(super) fn unusable_role(milli: u32) -> TextRole {
    match milli {
        0..300 => TextRole::Plain,
        300..700 => TextRole::Warn,
        _ => TextRole::Bad,
    }
}
