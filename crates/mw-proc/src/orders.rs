//! The table of zones by orders that buddyinfo and both extfrag files print:
//! `Node 0, zone   Normal      4      1     ...`.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};
use crate::zoneinfo::{MAX_ZONES, ZoneName, zone_head};

/// The most orders of a zone (the kernel has 11 on most machines, 14 on some).
pub const MAX_ORDERS: usize = 32;

/// A value for every order of one zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneOrders<T> {
    pub node: u32,
    pub name: ZoneName,
    /// Number of orders that the kernel printed.
    pub orders: usize,
    values: [T; MAX_ORDERS],
}

impl<T> ZoneOrders<T> {
    #[must_use]
    pub fn values(&self) -> &[T] {
        self.values.get(..self.orders).unwrap_or_default()
    }
}

impl<T: Copy + Default> ZoneOrders<T> {
    /// A zone without orders yet: for recordings and tests.
    #[must_use]
    pub fn new(node: u32, name: ZoneName) -> Self {
        Self { node, name, ..Self::default() }
    }

    /// Sets the value of an order, those below it included in what there is; an order beyond
    /// [`MAX_ORDERS`] changes nothing.
    pub fn set(&mut self, order: usize, value: T) {
        if let Some(slot) = self.values.get_mut(order) {
            *slot = value;
            self.orders = self.orders.max(order.saturating_add(1));
        }
    }
}

/// Reads a table into `zones`, whose memory is used again; nothing is left in it after an error.
pub(crate) fn parse_into<T: Copy + Default>(
    zones: &mut Vec<ZoneOrders<T>>,
    text: &[u8],
    value: impl Fn(&[u8]) -> Result<T, Problem>,
) -> Result<(), ParseError> {
    zones.clear();
    let result = read(zones, text, value);
    if result.is_err() {
        zones.clear();
    }
    result
}

fn read<T: Copy + Default>(
    zones: &mut Vec<ZoneOrders<T>>,
    text: &[u8],
    value: impl Fn(&[u8]) -> Result<T, Problem>,
) -> Result<(), ParseError> {
    for line in scan::lines(text) {
        let zone = read_zone(&line, &value)?;
        let orders = zones.first().map_or(zone.orders, |first| first.orders);
        line.at(check_columns(orders, zone.orders))?;
        if zones.len() >= MAX_ZONES {
            return Err(line.error(Problem::TooMany("zones")));
        }
        zones.push(zone);
    }
    if zones.is_empty() { Err(ParseError::new(1, Problem::Empty)) } else { Ok(()) }
}

fn read_zone<T: Copy + Default>(
    line: &Line<'_>,
    value: impl Fn(&[u8]) -> Result<T, Problem>,
) -> Result<ZoneOrders<T>, ParseError> {
    line.whole()?;
    let (node, name, rest) = line.at(zone_head(line.text))?;
    let mut zone = ZoneOrders { node, name, ..ZoneOrders::default() };
    for field in scan::fields(rest) {
        let slot = zone.values.get_mut(zone.orders);
        *line.at(slot.ok_or(Problem::TooMany("orders")))? = line.at(value(field))?;
        zone.orders = zone.orders.saturating_add(1);
    }
    Ok(zone)
}

/// Every zone has the orders of the first, and there is at least one.
fn check_columns(first: usize, found: usize) -> Result<(), Problem> {
    if found == 0 || found < first {
        Err(Problem::Truncated)
    } else if found > first {
        Err(Problem::Expected("the columns of the first line"))
    } else {
        Ok(())
    }
}
