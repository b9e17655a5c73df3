//! Bars and curves.

use super::Pen;
use super::row::{Row, cut};
use crate::face::Role;
use crate::measure::{Measure, Series, Unit};
use crate::moment::{MemoryBar, ZoneRow};
use crate::short;

/// Meaning of the parts of the bar of memory.
const PARTS: [(&str, Role); 4] =
    [("used", Role::Accent), ("dirty", Role::Warn), ("cache", Role::Good), ("free", Role::Faint)];

impl Pen<'_> {
    /// Text that fits.
    pub(super) fn cut(&self, text: &str, width: usize) -> String {
        cut(text, width, self.face.glyphs.more)
    }

    /// The last minutes of a number.
    pub(super) fn curve(&self, series: Series, width: usize) -> Row {
        let measure = series.measure();
        let cells = self.screen.trail.cells(series, width);
        let highest = cells.iter().flatten().copied().fold(self.least_full(series), f64::max);
        let heights = self.face.glyphs.heights;
        let mut row = Row::new();
        for cell in cells {
            let Some(value) = cell else {
                row.put(" ", Role::Plain);
                continue;
            };
            let level = match value {
                value if value <= 0.0 => 0,
                value => 1 + (value / highest * (heights.len() - 2) as f64).round() as usize,
            };
            let glyph = heights.get(level.min(heights.len() - 1)).copied().unwrap_or(' ');
            let role = if level == 0 { Role::Faint } else { eye(measure, value) };
            row.put(&glyph.to_string(), role);
        }
        row
    }

    /// The minimum full scale of a curve, so that small values look small.
    fn least_full(&self, series: Series) -> f64 {
        let moment = self.moment();
        let bytes = match series {
            Series::Available => moment.memory.value().map(|memory| memory.total),
            _ => moment.dirty_limits.map(|(limit, _)| limit),
        };
        match series.measure().unit {
            Unit::Percent => 10.0,
            Unit::Pages => 1000.0,
            Unit::Events => 10.0,
            Unit::Bytes => bytes.unwrap_or(0).max(1) as f64,
        }
    }

    /// Use of memory, as a bar of `width` columns.
    pub(super) fn memory_bar(&self, memory: &MemoryBar, width: usize) -> Row {
        let parts = [memory.used, memory.dirty, memory.cache, memory.free];
        let mut row = Row::new();
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
    pub(super) fn memory_legend(&self, memory: &MemoryBar) -> Row {
        let parts = [memory.used, memory.dirty, memory.cache, memory.free];
        let mut row = Row::new();
        for ((bytes, glyph), (name, role)) in parts.iter().zip(self.face.glyphs.memory).zip(PARTS) {
            row.put(&format!("{glyph} "), role).put(name, Role::Plain).put(" ", Role::Plain);
            row.put(&short::bytes(*bytes), Role::Strong).put("  ", Role::Plain);
        }
        row
    }

    /// A gauge of free memory with the watermarks as letters: m, l and h.
    pub(super) fn watermarks(&self, zone: &ZoneRow, width: usize) -> Row {
        let inner = width.saturating_sub(2);
        let scale = zone.high.max(1).saturating_mul(2);
        let place = |bytes: u64| {
            let share = bytes.min(scale) as f64 / scale as f64;
            (share * inner as f64).round() as usize
        };
        let role = zone_role(zone);
        let glyphs = self.face.glyphs;
        let filled = place(zone.free);
        let mut cells: Vec<(char, Role)> = (0..inner)
            .map(|at| if at < filled { (glyphs.full, role) } else { (glyphs.empty, Role::Faint) })
            .collect();
        for (mark, bytes) in [('h', zone.high), ('l', zone.low), ('m', zone.min)] {
            if let Some(cell) = cells.get_mut(place(bytes).min(inner.saturating_sub(1))) {
                *cell = (mark, Role::Strong);
            }
        }
        let beyond = zone.free > scale;
        let mut row = Row::from_text("[", Role::Faint);
        for (glyph, role) in cells {
            row.put(&glyph.to_string(), role);
        }
        row.put(if beyond { ">" } else { "]" }, if beyond { role } else { Role::Faint });
        row
    }

    /// Free memory of a zone, by order; blocks right of the fence serve a huge page.
    pub(super) fn orders(&self, zone: &ZoneRow) -> Row {
        let huge = self.moment().huge_order;
        let parts: Vec<f64> = zone
            .blocks
            .iter()
            .enumerate()
            .map(|(order, blocks)| *blocks as f64 * 2_f64.powi(order as i32))
            .collect();
        let all: f64 = parts.iter().sum();
        let heights = self.face.glyphs.heights;
        let mut row = Row::new();
        for (order, part) in parts.iter().enumerate() {
            if order == huge {
                row.put(&self.face.glyphs.fence.to_string(), Role::Faint);
            }
            // A third of all free memory in one order is full height: it is spread over eleven.
            let share = if all > 0.0 { (part / all * 3.0).min(1.0) } else { 0.0 };
            let level = if *part > 0.0 {
                1 + (share * (heights.len() - 2) as f64).round() as usize
            } else {
                0
            };
            let role = match (level, order >= huge) {
                (0, _) => Role::Faint,
                (_, true) => Role::Good,
                (_, false) => Role::Warn,
            };
            row.put(&heights.get(level).copied().unwrap_or(' ').to_string(), role);
        }
        row
    }

    /// A number of the trail: now, and what it came to at worst.
    pub(super) fn value(&self, series: Series) -> (String, Role) {
        written(series, self.screen.trail.last(series))
    }

    /// The highest number of the trail.
    pub(super) fn peak(&self, series: Series) -> (String, Role) {
        written(series, self.screen.trail.peak(series))
    }
}

fn written(series: Series, value: Option<f64>) -> (String, Role) {
    let measure = series.measure();
    let Some(value) = value else { return ("-".to_owned(), Role::Faint) };
    let text = match measure.unit {
        Unit::Percent => short::percent(value),
        Unit::Pages | Unit::Events => short::count(value),
        Unit::Bytes => short::bytes(value as u64),
    };
    let role = if value <= 0.0 { Role::Faint } else { eye(measure, value) };
    (text, role)
}

/// Threshold at which a number is highlighted.
fn eye(measure: &Measure, value: f64) -> Role {
    let (warn, bad) = measure.eye;
    if value >= bad {
        Role::Bad
    } else if value >= warn {
        Role::Warn
    } else {
        Role::Plain
    }
}

/// Pressure in percent, and how much it catches the eye.
pub(super) fn pressure(series: Series, percent: Option<f64>) -> (String, Role) {
    written(series, percent)
}

/// The colour of a zone's free memory: kswapd works below low, programs wait below min.
pub(super) fn zone_role(zone: &ZoneRow) -> Role {
    if zone.free < zone.min {
        Role::Bad
    } else if zone.free < zone.low {
        Role::Warn
    } else {
        Role::Good
    }
}

/// The colour of a fragmentation index, in thousandths.
pub(super) fn unusable_role(milli: u32) -> Role {
    match milli {
        0..300 => Role::Plain,
        300..700 => Role::Warn,
        _ => Role::Bad,
    }
}
