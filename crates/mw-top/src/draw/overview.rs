//! The most important of everything on one screen.

use super::Pen;
use super::parts::{pressure, unusable_role, zone_role};
use super::row::{TextRow, beside};
use crate::face::TextRole;
use crate::measure::Curve;
use crate::moment::{PressureRow, ZoneRow};
use crate::short;
use mw_model::{Missing, Reading, format_bytes};

/// Narrower or lower than this, shorter texts are used.
const ROOMY_WIDTH: usize = 70;
const ROOMY_LINES: usize = 16;

/// From this width on tasks and cgroups are below everything else.
const LINES_FOR_MORE: usize = 3;

const WIDEST_GAUGE: usize = 42;

const RATES: [Curve; 6] = [
    Curve::ScanKswapd,
    Curve::ScanDirect,
    Curve::Allocstall,
    Curve::CompactStall,
    Curve::SwapIn,
    Curve::Refault,
];

impl Pen<'_> {
    pub(super) fn overview(&self, width: usize, room: usize) -> Vec<TextRow> {
        if width < ROOMY_WIDTH || room < ROOMY_LINES {
            return self.dense(width, room);
        }
        let mut rows = self.memory(width);
        rows.push(TextRow::new());
        let half = width * 46 / 100;
        let left = self.pressures(half.saturating_sub(3));
        rows.extend(beside(left, half, self.rates(width.saturating_sub(half))));
        rows.push(TextRow::new());
        // Two headings and a blank line between them.
        let left = room.saturating_sub(rows.len() + 3);
        let zones = self.moment().zones.value().map_or(1, Vec::len).max(1);
        let hazards = self.hazard_count();
        let hazard_lines = hazards.min((left / 2).max(left.saturating_sub(zones)));
        let zone_lines = zones.min(left.saturating_sub(hazard_lines));
        rows.extend(self.zones(width, zone_lines));
        rows.push(TextRow::new());
        rows.push(self.hazards_heading(width));
        rows.extend(self.hazard_list(width, hazard_lines));
        rows.extend(self.what_to_do(width).into_iter().take(room.saturating_sub(rows.len())));
        let left = room.saturating_sub(rows.len() + 1);
        if left >= LINES_FOR_MORE {
            rows.push(TextRow::new());
            rows.extend(self.more(width, left));
        }
        rows
    }

    fn memory(&self, width: usize) -> Vec<TextRow> {
        let memory = match &self.moment().memory {
            Reading::Value(memory) => memory,
            Reading::Missing(missing) => {
                return vec![self.unseen("memory", missing, width), TextRow::new()];
            }
        };
        let available = memory.available.map_or_else(
            || format!(" {}", short::bytes(memory.total)),
            |bytes| {
                let [bytes, total] = [bytes, memory.total].map(short::bytes);
                format!(" {bytes} of {total} available")
            },
        );
        let mut bar = TextRow::from_text("memory ", TextRole::Strong);
        bar.append(self.memory_bar(memory, width.saturating_sub(7 + available.len())));
        bar.put(&available, TextRole::Plain);
        let mut legend = TextRow::from_text("       ", TextRole::Plain);
        legend.append(self.memory_legend(memory));
        if let Some((used, total)) = memory.swap {
            let [used, total] = [used, total].map(short::bytes);
            legend.put(&format!("swap {used}/{total}"), TextRole::Plain);
        }
        let further = memory.further.iter().filter(|(_, bytes)| *bytes > 0);
        for (name, bytes) in further {
            let text = format!("  {name} {}", short::bytes(*bytes));
            if legend.width() + text.len() <= width {
                legend.put(&text, TextRole::Faint);
            }
        }
        vec![bar, legend]
    }

    fn pressures(&self, width: usize) -> Vec<TextRow> {
        let curve = width.saturating_sub(21);
        let mut heading = TextRow::new();
        heading.left("pressure", 9, TextRole::Strong);
        if let Some(missing) = &self.moment().pressure_missing {
            heading.put(&self.cut(&missing.why, width.saturating_sub(9)), TextRole::Faint);
        } else {
            heading.right("some", 5, TextRole::Faint).right("full", 6, TextRole::Faint);
            heading.put(" last 2 min", TextRole::Faint);
        }
        let mut rows = vec![heading];
        let series = [Curve::Cpu, Curve::Memory, Curve::Io];
        for (of, series) in self.moment().pressure.iter().zip(series) {
            rows.push(self.pressure_row(of, series, curve));
        }
        let limit = self.moment().dirty_limits;
        let limit =
            limit.map_or_else(String::new, |(limit, _)| format!("/{}", short::bytes(limit)));
        for (series, beside) in
            [(Curve::Dirty, limit.as_str()), (Curve::Writeback, ""), (Curve::Available, "")]
        {
            let (text, role) = self.value(series);
            let mut row = TextRow::new();
            row.left(series.measure().label, 10, TextRole::Plain).right(&text, 5, role);
            row.left(beside, 7, TextRole::Faint);
            row.fill_to(21).append(self.curve(series, curve));
            rows.push(row);
        }
        rows
    }

    fn pressure_row(&self, of: &PressureRow, series: Curve, curve: usize) -> TextRow {
        let mut row = TextRow::new();
        row.left(of.name, 9, TextRole::Plain);
        for (percent, width) in [(of.some, 5), (of.full, 6)] {
            let (text, role) = pressure(series, percent);
            row.right(&text, width, role);
        }
        row.fill_to(21).append(self.curve(series, curve));
        row
    }

    fn rates(&self, width: usize) -> Vec<TextRow> {
        let curve = width.saturating_sub(28);
        let mut heading = TextRow::new();
        heading.left("a second", 15, TextRole::Strong);
        heading.right("now", 6, TextRole::Faint).right("peak", 6, TextRole::Faint);
        heading.put(" last 2 min", TextRole::Faint);
        let mut rows = vec![heading];
        for series in RATES {
            let mut row = TextRow::new();
            row.left(series.measure().label, 15, TextRole::Plain);
            for (text, role) in [self.value(series), self.peak(series)] {
                row.right(&text, 6, role);
            }
            row.fill_to(28).append(self.curve(series, curve));
            rows.push(row);
        }
        rows
    }

    fn zones(&self, width: usize, lines: usize) -> Vec<TextRow> {
        let huge = format_bytes(self.moment().huge_bytes).replace(['i', 'B', ' '], "");
        let gauge = width.saturating_sub(52).min(WIDEST_GAUGE);
        let mut heading = TextRow::new();
        heading.left("zone", 11, TextRole::Strong);
        heading.right("size", 6, TextRole::Faint).right("free", 6, TextRole::Faint);
        heading.put("  ", TextRole::Plain).left("min low high", gauge + 1, TextRole::Faint);
        heading.right("unusable", 8, TextRole::Faint).put("  ", TextRole::Plain);
        heading.left("4K", self.moment().huge_order, TextRole::Faint);
        heading.put(&format!("{}{huge}+", self.face.glyphs.fence), TextRole::Faint);
        let mut rows = vec![heading];
        match &self.moment().zones {
            Reading::Value(zones) => {
                let shown = largest(zones, lines);
                rows.extend(shown.into_iter().map(|zone| self.zone(zone, gauge)));
            }
            Reading::Missing(missing) => rows.push(self.unseen("zones", missing, width)),
        }
        rows
    }

    fn zone(&self, zone: &ZoneRow, gauge: usize) -> TextRow {
        let mut row = TextRow::new();
        row.left(&format!("{} {}", zone.node, zone.name), 11, TextRole::Plain);
        row.right(&short::bytes(zone.managed), 6, TextRole::Plain);
        row.right(&short::bytes(zone.free), 6, zone_role(zone)).put("  ", TextRole::Plain);
        row.append(self.watermarks(zone, gauge)).put(" ", TextRole::Plain);
        let (unusable, role) =
            zone.unusable_milli.map_or(("-".to_owned(), TextRole::Faint), |milli| {
                (short::percent(f64::from(milli) / 10.0), unusable_role(milli))
            });
        row.right(&unusable, 8, role).put("  ", TextRole::Plain);
        row.append(self.orders(zone));
        row
    }

    /// Tasks and cgroups side by side.
    fn more(&self, width: usize, lines: usize) -> Vec<TextRow> {
        let half = width / 2;
        let groups = self.group_rows(half.saturating_sub(2), lines);
        beside(groups, half, self.task_rows(width.saturating_sub(half), lines, 0))
    }

    /// Everything in a few narrow lines.
    fn dense(&self, width: usize, room: usize) -> Vec<TextRow> {
        let mut rows = Vec::new();
        if let Reading::Value(memory) = &self.moment().memory {
            let mut bar = TextRow::from_text("mem ", TextRole::Strong);
            let free = format!(" {}", short::maybe_bytes(memory.available.or(Some(memory.free))));
            bar.append(self.memory_bar(memory, width.saturating_sub(4 + free.len())));
            bar.put(&free, TextRole::Plain);
            rows.push(bar);
            if room > 6 {
                rows.push(self.memory_legend(memory));
            }
        }
        let mut line = TextRow::from_text("psi ", TextRole::Strong);
        let series = [Curve::Cpu, Curve::Memory, Curve::Io];
        for (of, series) in self.moment().pressure.iter().zip(series) {
            let (some, role) = pressure(series, of.some);
            line.put(of.name, TextRole::Faint).put(" ", TextRole::Plain).put(&some, role);
            if let Some(full) = of.full.filter(|full| *full > 0.0) {
                line.put(&format!("/{}", short::percent(full)), role);
            }
            line.put(" ", TextRole::Plain);
        }
        rows.push(line);
        let mut line = TextRow::from_text("/s  ", TextRole::Strong);
        for (name, series) in [
            ("scan", Curve::ScanKswapd),
            ("direct", Curve::ScanDirect),
            ("stalls", Curve::Allocstall),
            ("swap", Curve::SwapIn),
        ] {
            let (text, role) = self.value(series);
            line.put(name, TextRole::Faint).put(" ", TextRole::Plain).put(&text, role);
            line.put(" ", TextRole::Plain);
        }
        rows.push(line);
        if let Some(zone) = self.moment().zones.value().and_then(|zones| worst(zones)) {
            rows.push(narrow_zone(zone));
        }
        let lines = room.saturating_sub(rows.len());
        rows.extend(self.hazard_list(width, lines));
        rows.truncate(room);
        rows
    }

    /// Says why something is not there.
    pub(super) fn unseen(&self, what: &str, missing: &Missing, width: usize) -> TextRow {
        TextRow::from_text(&self.cut(&format!("{what}: {missing}"), width), TextRole::Faint)
    }
}

fn narrow_zone(zone: &ZoneRow) -> TextRow {
    let mut row = TextRow::from_text(&format!("{} {} ", zone.node, zone.name), TextRole::Strong);
    row.put("free ", TextRole::Faint).put(&short::bytes(zone.free), zone_role(zone));
    row.put(&format!(" low {}", short::bytes(zone.low)), TextRole::Faint);
    if let Some(milli) = zone.unusable_milli {
        let text = short::percent(f64::from(milli) / 10.0);
        row.put(" unusable ", TextRole::Faint).put(&text, unusable_role(milli));
    }
    row
}

/// The largest zones, in the order of the kernel.
fn largest(zones: &[ZoneRow], count: usize) -> Vec<&ZoneRow> {
    let mut sizes: Vec<u64> = zones.iter().map(|zone| zone.managed).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = sizes.get(count.saturating_sub(1)).copied().unwrap_or(0);
    zones.iter().filter(|zone| zone.managed >= least).take(count).collect()
}

/// The large zone with the largest unusable share of its free memory.
fn worst(zones: &[ZoneRow]) -> Option<&ZoneRow> {
    let largest = zones.iter().map(|zone| zone.managed).max()?;
    zones
        .iter()
        .filter(|zone| zone.managed >= largest / 4)
        .max_by_key(|zone| (zone.free < zone.low, zone.unusable_milli))
}
