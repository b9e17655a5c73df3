//! Nodes and zones: what is used, watermarks, free blocks of every order.

use super::Pen;
use super::parts::{unusable_role, zone_role};
use super::row::Row;
use crate::face::Role;
use crate::moment::{NodeRow, ZoneRow};
use crate::short;
use mw_model::{Reading, format_bytes};

const ORDER_COLUMN: usize = 6;

impl Pen<'_> {
    pub(super) fn nodes(&self, width: usize, room: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        for node in &self.moment().nodes {
            if !rows.is_empty() {
                rows.push(Row::new());
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
            rows.push(Row::from_text("no NUMA nodes found", Role::Faint));
        }
        self.scrolled(rows, room)
    }

    fn node(&self, node: &NodeRow, width: usize) -> Vec<Row> {
        let memory = &node.memory;
        let mut title = Row::from_text(&format!("node {} ", node.id), Role::Strong);
        let text = format!(" {}", short::bytes(memory.total));
        let room = width.saturating_sub(title.width() + text.len());
        title.append(self.memory_bar(memory, room)).put(&text, Role::Plain);
        let mut legend = Row::from_text("       ", Role::Plain);
        legend.append(self.memory_legend(memory));
        if let Some(cpus) = node.cpus {
            legend.put(&format!("cpus {cpus}"), Role::Faint);
        }
        let mut rows = vec![title, legend];
        let mut further = Row::from_text("       ", Role::Plain);
        for (name, bytes) in memory.further.iter().filter(|(_, bytes)| *bytes > 0) {
            further.put(&format!("{name} {}  ", short::bytes(*bytes)), Role::Faint);
        }
        rows.push(further);
        rows
    }

    /// A zone in two or three lines.
    fn zone_in_full(&self, zone: &ZoneRow, width: usize) -> Vec<Row> {
        let mut row = Row::new();
        row.put(" ", Role::Plain).left(&zone.name, 10, Role::Strong);
        row.right(&short::bytes(zone.free), 6, zone_role(zone));
        row.put(&format!(" of {:<6}", short::bytes(zone.managed)), Role::Faint);
        let marks = [zone.min, zone.low, zone.high].map(short::bytes);
        let marks = format!(" min {} low {} high {}", marks[0], marks[1], marks[2]);
        let gauge = width.saturating_sub(row.width() + marks.len()).clamp(8, 40);
        row.append(self.watermarks(zone, gauge));
        row.put(&marks, Role::Faint);
        let mut rows = vec![row];
        if !zone.blocks.is_empty() {
            rows.extend(self.blocks(zone, width));
        }
        rows
    }

    /// Free blocks of every order, and what share of them serves no huge page.
    fn blocks(&self, zone: &ZoneRow, width: usize) -> Vec<Row> {
        let huge = self.moment().huge_order;
        let mut sizes = Row::from_text("   blocks   ", Role::Faint);
        let mut counts = Row::from_text("            ", Role::Faint);
        counts.append(Row::new());
        for (order, blocks) in zone.blocks.iter().enumerate() {
            if sizes.width() + ORDER_COLUMN > width {
                break;
            }
            let serves = order >= huge;
            let size = self.moment().page_bytes.saturating_mul(1 << order.min(40));
            let size = format_bytes(size).replace(" ", "").replace("iB", "");
            sizes.right(&size, ORDER_COLUMN, if serves { Role::Good } else { Role::Faint });
            let role = match (*blocks, serves) {
                (0, _) => Role::Faint,
                (_, true) => Role::Good,
                (_, false) => Role::Plain,
            };
            counts.right(&short::count(*blocks as f64), ORDER_COLUMN, role);
        }
        let mut heat = Row::from_text("   ", Role::Plain);
        heat.append(self.orders(zone));
        if let Some(milli) = zone.unusable_milli {
            let percent = short::percent(f64::from(milli) / 10.0);
            let size = format_bytes(self.moment().huge_bytes);
            heat.put("  ", Role::Plain).put(&percent, unusable_role(milli));
            heat.put(&format!(" of it is in blocks below {size}"), Role::Faint);
        }
        vec![heat, sizes, counts]
    }

    /// The part of rows that was scrolled to.
    pub(super) fn scrolled(&self, rows: Vec<Row>, room: usize) -> Vec<Row> {
        let last = rows.len().saturating_sub(room);
        rows.into_iter().skip(self.top.scroll.min(last)).take(room).collect()
    }
}
