//! `/sys/kernel/debug/extfrag/{unusable_index,extfrag_index}` (2.6.35 and later, debugfs).
//!
//! The kernel computes both in thousandths and prints them with three decimals: `0.513` is 513
//! here. In `extfrag_index` -1000 says that the allocation would succeed.

use crate::error::{ParseError, Problem};
use crate::orders::{self, ZoneOrders};
use crate::scan;

/// An index of all zones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extfrag {
    /// In the kernel's order; unpopulated zones are not listed.
    pub zones: Vec<ExtfragZone>,
}

/// The index of one zone in thousandths, by order.
pub type ExtfragZone = ZoneOrders<i32>;

impl Extfrag {
    /// Reads either file into this one's memory; nothing is left in it after an error.
    ///
    /// # Errors
    /// When a number is none, or a line has other columns than the first.
    pub fn parse_into(&mut self, text: &[u8]) -> Result<(), ParseError> {
        orders::parse_into(&mut self.zones, text, parse_milli)
    }
}

/// Reads what `%d.%03d` makes of `index / 1000` and `index % 1000`.
///
/// C's remainder keeps the sign, so that an index of -12 comes as `0.-12`: it happens when a zone
/// has a single free block.
fn parse_milli(text: &[u8]) -> Result<i32, Problem> {
    let (whole, part) = scan::split_once(text, b'.').ok_or(Problem::NotANumber)?;
    // The sign takes one of the three places, or a fourth.
    if !matches!((part.len(), part.starts_with(b"-")), (3, _) | (4, true)) {
        return Err(Problem::NotANumber);
    }
    let thousandths = scan::parse_i64(part)?;
    let part = if whole.starts_with(b"-") && thousandths > 0 {
        thousandths.saturating_neg()
    } else {
        thousandths
    };
    let milli = scan::parse_i64(whole)?.saturating_mul(1000).saturating_add(part);
    i32::try_from(milli).map_err(|_| Problem::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNUSABLE: &[u8] = include_bytes!("../tests/data/unusable_index");
    const INDEX: &[u8] = include_bytes!("../tests/data/extfrag_index");

    fn zones(text: &[u8]) -> Vec<ExtfragZone> {
        let mut extfrag = Extfrag::default();
        extfrag.parse_into(text).unwrap();
        extfrag.zones
    }

    #[test]
    fn reads() {
        let normal = zones(UNUSABLE)[2];
        assert_eq!((normal.name.as_str(), normal.orders), ("Normal", 11));
        assert_eq!(normal.values(), [0, 6, 13, 18, 22, 28, 37, 47, 62, 101, 151]);
        assert_eq!(zones(INDEX)[1].values(), [-1000; 11]);
    }

    fn check(text: &[u8], expected: Result<i32, Problem>) {
        assert_eq!(parse_milli(text), expected, "{}", scan::lossy(text));
    }

    #[test]
    fn thousandths() {
        check(b"0.513", Ok(513));
        check(b"1.000", Ok(1000));
        check(b"-1.000", Ok(-1000));
        check(b"-1.234", Ok(-1234));
        check(b"0.-12", Ok(-12));
        check(b"0.-500", Ok(-500));
        check(b"0.5000", Err(Problem::NotANumber));
        check(b"0.5", Err(Problem::NotANumber));
        check(b"1", Err(Problem::NotANumber));
        check(b"9999999.000", Err(Problem::Overflow));
        check(b"9223372036854775807.000", Err(Problem::Overflow));
    }

    #[test]
    fn wrong() {
        let refuse = |text: &[u8], line, problem| {
            let mut extfrag = Extfrag::default();
            assert_eq!(extfrag.parse_into(text), Err(ParseError::new(line, problem)));
        };
        refuse(b"", 1, Problem::Empty);
        refuse(b"Node 0, zone DMA 0.000 0.0", 1, Problem::Truncated);
        refuse(b"Node 0, zone DMA 0.000 0.00\n", 1, Problem::NotANumber);
        refuse(b"Node 0, zone A 0.000 0.000\nNode 0, zone B 0.000\n", 2, Problem::Truncated);
    }
}
