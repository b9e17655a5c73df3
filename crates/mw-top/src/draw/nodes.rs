//! Nodes and zones: what is used, watermarks, free blocks of every order.

use super::Pen;
use super::parts::{unusable_role, zone_role};
use super::row::TextRow;
use crate::face::TextRole;
use crate::moment::{NodeRow, ZoneRow};
use crate::short;
use mw_model::{Reading, format_bytes};

const ORDER_COLUMN: usize = 6;

impl Pen<'_> {
    pub(super) fn nodes(&self, width: usize, room: usize) -> Vec<TextRow> {
        let mut rows = Vec::new();
        for node in &self.moment().nodes {
            if !rows.is_empty() {
                rows.push(TextRow::new());
            }
            rows.extend(self.node(node, width));
            match &self.moment().zones {
                Reading::Value(zones) => {
                    let own = zones.iter().filter(|zone| zone.node == node.id);
                    rows.extend(own.flat_map(|zone| self.zone_in_full(zone, width)));
                }
                Reading::Missing(missing) => rows.push(self.unseen("zones", missing, width)),
            }
        }
        if rows.is_empty() {
            rows.push(TextRow::from_text("no NUMA nodes found", TextRole::Faint));
        }
        self.scrolled(rows, room)
    }

    fn node(&self, node: &NodeRow, width: usize) -> Vec<TextRow> {
        let memory = &node.memory;
        let mut title = TextRow::from_text(&format!("node {} ", node.id), TextRole::Strong);
        let text = format!(" {}", short::bytes(memory.total));
        let room = width.saturating_sub(title.width() + text.len());
        title.append(self.memory_bar(memory, room)).put(&text, TextRole::Plain);
        let mut legend = TextRow::from_text("       ", TextRole::Plain);
        legend.append(self.memory_legend(memory));
        if let Some(cpus) = node.cpus {
            legend.put(&format!("cpus {cpus}"), TextRole::Faint);
        }
        let mut rows = vec![title, legend];
        let mut further = TextRow::from_text("       ", TextRole::Plain);
        for (name, bytes) in memory.further.iter().filter(|(_, bytes)| *bytes > 0) {
            further.put(&format!("{name} {}  ", short::bytes(*bytes)), TextRole::Faint);
        }
        rows.push(further);
        rows
    }

    /// A zone in two or three lines.
    fn zone_in_full(&self, zone: &ZoneRow, width: usize) -> Vec<TextRow> {
        let mut row = TextRow::new();
        row.put(" ", TextRole::Plain).left(&zone.name, 10, TextRole::Strong);
        row.right(&short::bytes(zone.free), 6, zone_role(zone));
        row.put(&format!(" of {:<6}", short::bytes(zone.managed)), TextRole::Faint);
        let marks = [zone.min, zone.low, zone.high].map(short::bytes);
        let marks = format!(" min {} low {} high {}", marks[0], marks[1], marks[2]);
        let gauge = width.saturating_sub(row.width() + marks.len()).clamp(8, 40);
        row.append(self.watermarks(zone, gauge));
        row.put(&marks, TextRole::Faint);
        let mut rows = vec![row];
        if !zone.blocks.is_empty() {
            rows.extend(self.blocks(zone, width));
        }
        rows
    }

    /// Free blocks of every order, and what share of them serves no huge page.
    fn blocks(&self, zone: &ZoneRow, width: usize) -> Vec<TextRow> {
        let huge = self.moment().huge_order;
        let mut sizes = TextRow::from_text("   blocks   ", TextRole::Faint);
        let mut counts = TextRow::from_text("            ", TextRole::Faint);
        counts.append(TextRow::new());
        for (order, blocks) in zone.blocks.iter().enumerate() {
            if sizes.width() + ORDER_COLUMN > width {
                break;
            }
            let serves = order >= huge;
            let size = self.moment().page_bytes.saturating_mul(1 << order.min(40));
            let size = format_bytes(size).replace(" ", "").replace("iB", "");
            sizes.right(&size, ORDER_COLUMN, if serves { TextRole::Good } else { TextRole::Faint });
            let role = match (*blocks, serves) {
                (0, _) => TextRole::Faint,
                (_, true) => TextRole::Good,
                (_, false) => TextRole::Plain,
            };
            counts.right(&short::count(*blocks as f64), ORDER_COLUMN, role);
        }
        let mut heat = TextRow::from_text("   ", TextRole::Plain);
        heat.append(self.orders(zone));
        if let Some(milli) = zone.unusable_milli {
            let percent = short::percent(f64::from(milli) / 10.0);
            let size = format_bytes(self.moment().huge_bytes);
            heat.put("  ", TextRole::Plain).put(&percent, unusable_role(milli));
            heat.put(&format!(" of it is in blocks below {size}"), TextRole::Faint);
        }
        vec![heat, sizes, counts]
    }

    /// The part of rows that was scrolled to.
    pub(super) fn scrolled(&self, rows: Vec<TextRow>, room: usize) -> Vec<TextRow> {
        let last = rows.len().saturating_sub(room);
        rows.into_iter().skip(self.top.scroll.min(last)).take(room).collect()
    }
}
