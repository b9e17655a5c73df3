//! `/sys/block/zramN/mm_stat` (4.1 and later): what a zram device stores and what it takes for it. Nothing
//! is allocated.

use crate::error::{ParseError, Problem};
use crate::scan;

/// The memory of a zram device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MmStat {
    /// Bytes stored, uncompressed; pages of one repeated word included.
    pub stored_bytes: u64,
    /// The same, compressed.
    pub compressed_bytes: u64,
    /// Bytes that the device takes, with the gaps of its allocator.
    pub used_bytes: u64,
    /// The most that it may take; 0 is no limit.
    pub limit_bytes: u64,
    /// Pages of one repeated word, which take no memory.
    pub same_pages: u64,
    /// Pages that did not compress and are stored as they are (4.19 and later).
    pub huge_pages: Option<u64>,
}

impl MmStat {
    /// Reads `orig_data_size compr_data_size mem_used_total mem_limit mem_used_max same_pages pages_compacted
    /// huge_pages huge_pages_since`.
    ///
    /// # Errors
    /// When one of the first six is no number or is missing, or the text ends within the line.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let line = scan::lines(text).next().ok_or(ParseError::new(1, Problem::Empty))?;
        line.whole()?;
        let mut fields = line.fields();
        let mut next = || line.next_u64(&mut fields);
        let (stored_bytes, compressed_bytes, used_bytes) = (next()?, next()?, next()?);
        let (limit_bytes, _used_max, same_pages) = (next()?, next()?, next()?);
        let huge_pages = fields.nth(1).map(|field| line.at(scan::parse_u64(field))).transpose()?;
        Ok(Self { stored_bytes, compressed_bytes, used_bytes, limit_bytes, same_pages, huge_pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        let text =
            b"209715200 52428800 53000000  1048576 53000001      100        3      200      201\n";
        let stat = MmStat::parse(text).unwrap();
        assert_eq!((stat.stored_bytes, stat.compressed_bytes), (209_715_200, 52_428_800));
        assert_eq!((stat.used_bytes, stat.limit_bytes), (53_000_000, 1_048_576));
        assert_eq!((stat.same_pages, stat.huge_pages), (100, Some(200)));
        let old = MmStat::parse(b"1 2 3 4 5 6 7\n").unwrap();
        assert_eq!((old.same_pages, old.huge_pages), (6, None));
    }

    #[test]
    fn wrong() {
        let problem = |text: &[u8]| MmStat::parse(text).unwrap_err().problem;
        assert_eq!(problem(b""), Problem::Empty);
        assert_eq!(problem(b"1 2 3 4 5 6 7 8 9"), Problem::Truncated);
        assert_eq!(problem(b"1 2 3 4 5\n"), Problem::Expected("a number"));
        assert_eq!(problem(b"1 2 x 4 5 6 7\n"), Problem::NotANumber);
    }
}
