//! Free blocks per order over time, zone by zone.

use super::safe::shown;
use super::series::{SampledRows, SeriesConversion};
use mw_model::{Column, Metric, Table, format_bytes};
use mw_proc::zoneinfo::ZoneName;
use serde::Serialize;
use std::collections::BTreeMap;

/// Points in time that a map has; a screen has not many more.
pub(super) const MOST_COLUMNS: usize = 480;
/// Zones that are drawn: those with the most free memory.
const MOST_ZONES: usize = 8;
/// Columns that are read: 64 nodes with four zones of 16 orders.
const MOST_READ: usize = 4096;
/// Orders that a zone may have; kernels have 11 to 14.
const MOST_ORDERS: u32 = 32;

/// The free blocks of every zone.
#[derive(Debug, Default, Serialize)]
pub(super) struct Heat {
    pub(super) zones: Vec<HeatZone>,
    /// Zones in which nothing changed.
    #[serde(skip)]
    pub(super) unchanged: Vec<String>,
    /// Zones left out because there are too many.
    #[serde(skip)]
    pub(super) left_out: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct HeatZone {
    pub(super) name: String,
    orders: Vec<OrderRow>,
}

/// One row of a map: the fewest free blocks within each point in time.
#[derive(Debug, Serialize)]
struct OrderRow {
    order: u32,
    /// Size of a block, where the size of a page is known.
    size: String,
    free: Vec<Option<f64>>,
}

/// An order, and how many of its blocks were free at each point in time.
type OrderHistory = (u32, Vec<Option<f64>>);

impl Heat {
    /// The maps of all zones that changed.
    pub(super) fn new(table: &Table, rows: &SampledRows, page_bytes: u64) -> Self {
        let mut found: BTreeMap<(u32, ZoneName), Vec<OrderHistory>> = BTreeMap::new();
        let columns = table.columns.iter().filter_map(|column| Some((column, place(column)?)));
        for (column, (node, zone, order)) in columns.take(MOST_READ) {
            if let Some(line) = rows.line(&column.name, SeriesConversion::Lowest, 1.0) {
                found.entry((node, zone)).or_default().push((order, line));
            }
        }
        let mut heat = Self::default();
        let mut fullest: Vec<u64> = found.values().map(|orders| most_free(orders)).collect();
        fullest.sort_unstable_by_key(|pages| std::cmp::Reverse(*pages));
        let least = fullest.get(MOST_ZONES - 1).copied().unwrap_or(0);
        for ((node, zone), mut orders) in found {
            let name = format!("node {node} zone {}", shown(zone.as_str()));
            orders.sort_by_key(|(order, _)| *order);
            if orders.iter().all(|(_, line)| is_constant(line)) {
                heat.unchanged.push(name);
            } else if most_free(&orders) < least || heat.zones.len() == MOST_ZONES {
                heat.left_out += 1;
            } else {
                let orders = orders.into_iter().map(|(order, free)| OrderRow {
                    order,
                    size: block_size(order, page_bytes),
                    free,
                });
                heat.zones.push(HeatZone { name, orders: orders.collect() });
            }
        }
        heat
    }
}

/// Node, zone and order of free blocks.
fn place(column: &Column) -> Option<(u32, ZoneName, u32)> {
    let Metric::FreeBlocks(id, order) = column.metric() else { return None };
    let order = u32::try_from(order).ok().filter(|order| *order < MOST_ORDERS)?;
    Some((id.node, id.zone, order))
}

/// Pages in free blocks at the fullest, for an order among zones.
fn most_free(orders: &[OrderHistory]) -> u64 {
    let pages = |(order, line): &OrderHistory| {
        line.iter().flatten().copied().fold(0.0, f64::max) * f64::from(*order).exp2()
    };
    orders.iter().map(pages).sum::<f64>() as u64
}

fn is_constant(line: &[Option<f64>]) -> bool {
    let mut values = line.iter().flatten();
    let first = values.next();
    values.all(|value| Some(value) == first)
}

fn block_size(order: u32, page_bytes: u64) -> String {
    match page_bytes.checked_shl(order).filter(|bytes| *bytes > 0) {
        Some(bytes) => format_bytes(bytes),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::series::MOST_POINTS;
    use mw_model::Incident;

    #[test]
    fn a_map_has_the_zones_that_change() {
        let mut table = Table::new(["buddy.0.DMA.0", "buddy.0.Normal.9", "buddy.1.Normal.9"]);
        table.push(0, &[3, 10, 7]);
        table.push(100, &[3, 0, 2000]);
        let incident = Incident { table, ..Incident::default() };
        let heat = Heat::new(&incident.table, &SampledRows::new(&incident, MOST_POINTS), 4096);
        assert_eq!(heat.unchanged, ["node 0 zone DMA"]);
        let names: Vec<&str> = heat.zones.iter().map(|zone| zone.name.as_str()).collect();
        assert_eq!(names, ["node 0 zone Normal", "node 1 zone Normal"]);
        let order = &heat.zones[0].orders[0];
        assert_eq!((order.order, order.size.as_str()), (9, "2 MiB"));
        assert_eq!(order.free, [Some(10.0), Some(0.0)]);
    }

    #[test]
    fn odd_names_are_no_zones() {
        for name in ["buddy", "buddy.0.Normal", "buddy.x.Normal.1", "buddy.0.Normal.99"] {
            let column = Column { name: name.to_owned(), values: Vec::new() };
            assert_eq!(place(&column), None, "{name}");
        }
    }
}
