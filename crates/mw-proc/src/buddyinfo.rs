//! `/proc/buddyinfo` of kernels 2.6 to 6.18: free blocks by zone and order.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};
use crate::zoneinfo::{MAX_ZONES, ZoneName, zone_head};

/// The most orders of a zone (the kernel has 11 on most machines, 14 on some).
pub const MAX_ORDERS: usize = 32;

/// The free blocks of all zones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Buddyinfo {
    /// In the kernel's order; unpopulated zones are not listed.
    pub zones: Vec<BuddyZone>,
}

/// The free blocks of one zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BuddyZone {
    /// The node.
    pub node: u32,
    /// The zone's name.
    pub name: ZoneName,
    /// How many orders the kernel printed.
    pub orders: usize,
    /// Free blocks of 2^order pages, by order; the first [`BuddyZone::orders`] count.
    pub free_blocks: [u64; MAX_ORDERS],
}

impl BuddyZone {
    /// Free blocks of 2^order pages, by order.
    #[must_use]
    pub fn blocks(&self) -> &[u64] {
        self.free_blocks.get(..self.orders).unwrap_or_default()
    }
}

impl Buddyinfo {
    /// Reads the file into this one's memory; nothing is left in it after an error.
    ///
    /// # Errors
    /// When a number is none, or a line has other columns than the first.
    pub fn parse_into(&mut self, text: &[u8]) -> Result<(), ParseError> {
        self.zones.clear();
        let result = self.read(text);
        if result.is_err() {
            self.zones.clear();
        }
        result
    }

    fn read(&mut self, text: &[u8]) -> Result<(), ParseError> {
        for line in scan::lines(text) {
            let zone = read_zone(&line)?;
            let orders = self.zones.first().map_or(zone.orders, |first| first.orders);
            line.at(check_columns(orders, zone.orders))?;
            if self.zones.len() >= MAX_ZONES {
                return Err(line.error(Problem::TooMany("zones")));
            }
            self.zones.push(zone);
        }
        if self.zones.is_empty() { Err(ParseError::new(1, Problem::Empty)) } else { Ok(()) }
    }
}

fn read_zone(line: &Line<'_>) -> Result<BuddyZone, ParseError> {
    line.whole()?;
    let (node, name, rest) = line.at(zone_head(line.text))?;
    let mut zone = BuddyZone { node, name, ..BuddyZone::default() };
    for field in scan::fields(rest) {
        let slot = zone.free_blocks.get_mut(zone.orders);
        *line.at(slot.ok_or(Problem::TooMany("orders")))? = line.at(scan::parse_u64(field))?;
        zone.orders = zone.orders.saturating_add(1);
    }
    Ok(zone)
}

/// Every zone has the orders of the first, and there is at least one.
pub(crate) fn check_columns(first: usize, found: usize) -> Result<(), Problem> {
    if found == 0 || found < first {
        Err(Problem::Truncated)
    } else if found > first {
        Err(Problem::Expected("the columns of the first line"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V6_18: &[u8] = include_bytes!("../tests/data/buddyinfo");

    #[test]
    fn reads() {
        let mut info = Buddyinfo::default();
        info.parse_into(V6_18).unwrap();
        assert_eq!(info.zones.len(), 3);
        let normal = &info.zones[2];
        assert_eq!((normal.node, normal.name.as_str(), normal.orders), (0, "Normal", 11));
        assert_eq!(normal.blocks(), [4687, 4424, 2999, 1954, 1241, 870, 573, 294, 193, 76, 1956]);
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        let mut info = Buddyinfo { zones: vec![BuddyZone::default()] };
        assert_eq!(info.parse_into(text), Err(ParseError::new(line, problem)));
        assert_eq!(info.zones, []);
    }

    #[test]
    fn wrong() {
        refuse(b"", 1, Problem::Empty);
        refuse(b"Node 0, zone DMA 1 2 3\nNode 0, zone DMA32 1 2\n", 2, Problem::Truncated);
        refuse(b"Node 0, zone DMA 1 2 3\nNode 0, zone DMA32 1 2 3", 2, Problem::Truncated);
        refuse(b"Node 0, zone DMA\n", 1, Problem::Truncated);
        refuse(
            b"Node 0, zone DMA 1\nNode 0, zone DMA32 1 2\n",
            2,
            Problem::Expected("the columns of the first line"),
        );
        refuse(b"Node 0, zone DMA -1\n", 1, Problem::NotANumber);
        refuse(b"Zone DMA 1\n", 1, Problem::Expected("Node"));
        let mut wide = b"Node 0, zone DMA".to_vec();
        wide.extend(b" 1".repeat(MAX_ORDERS + 1));
        wide.push(b'\n');
        refuse(&wide, 1, Problem::TooMany("orders"));
        refuse(
            &b"Node 0, zone DMA 1\n".repeat(MAX_ZONES + 1),
            MAX_ZONES + 1,
            Problem::TooMany("zones"),
        );
    }
}
