//! `/proc/buddyinfo` of kernels 2.6 to 6.18: free blocks by zone and order.

use crate::error::ParseError;
use crate::orders::{self, ZoneOrders};
use crate::scan;

/// The free blocks of all zones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Buddyinfo {
    /// In the kernel's order; unpopulated zones are not listed.
    pub zones: Vec<BuddyZone>,
}

/// The free blocks of 2^order pages of one zone, by order.
pub type BuddyZone = ZoneOrders<u64>;

impl Buddyinfo {
    /// Reads the file into this one's memory; nothing is left in it after an error.
    ///
    /// # Errors
    /// When a number is none, or a line has other columns than the first.
    pub fn parse_into(&mut self, text: &[u8]) -> Result<(), ParseError> {
        orders::parse_into(&mut self.zones, text, scan::parse_u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Problem;
    use crate::orders::MAX_ORDERS;
    use crate::zoneinfo::MAX_ZONES;

    const V6_18: &[u8] = include_bytes!("../tests/data/buddyinfo");

    #[test]
    fn reads() {
        let mut info = Buddyinfo::default();
        info.parse_into(V6_18).unwrap();
        assert_eq!(info.zones.len(), 3);
        let normal = &info.zones[2];
        assert_eq!((normal.node, normal.name.as_str(), normal.orders), (0, "Normal", 11));
        assert_eq!(normal.values(), [4687, 4424, 2999, 1954, 1241, 870, 573, 294, 193, 76, 1956]);
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
