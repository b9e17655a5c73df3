//! `/proc/spl/kstat/zfs/arcstats`: the page cache of ZFS on Linux (ARC), any version. Nothing is allocated.

use crate::error::{ParseError, Problem};
use crate::scan;

/// The ARC, in bytes. The kernel counts it as memory in use, not as page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arcstats {
    /// Everything that it holds, its own headers included.
    pub size_bytes: u64,
    /// The size that it aims at now.
    pub target_bytes: Option<u64>,
    /// The size that it does not shrink below.
    pub min_bytes: Option<u64>,
    /// `zfs_arc_max`, or the module's choice.
    pub max_bytes: Option<u64>,
    /// Metadata (`arc_meta_used`); OpenZFS 2.2 and later balance it without a limit.
    pub metadata_bytes: Option<u64>,
    pub metadata_limit_bytes: Option<u64>,
    /// Headers of blocks that are on the devices of the second-level cache alone (`l2_hdr_size`): they stay as long as the
    /// blocks do.
    pub second_level_bytes: Option<u64>,
}

impl Arcstats {
    /// Reads the rows `name type data` that are known.
    ///
    /// # Errors
    /// When a line is cut, a known row has no number, or there is no row `size`.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut size = None;
        let mut arc = Self::default();
        let mut last = 1;
        for line in scan::lines(text) {
            line.whole()?;
            last = line.number;
            let mut fields = line.fields();
            let slot = match fields.next() {
                Some(b"size") => &mut size,
                Some(b"c") => &mut arc.target_bytes,
                Some(b"c_min") => &mut arc.min_bytes,
                Some(b"c_max") => &mut arc.max_bytes,
                Some(b"arc_meta_used") => &mut arc.metadata_bytes,
                Some(b"arc_meta_limit") => &mut arc.metadata_limit_bytes,
                Some(b"l2_hdr_size") => &mut arc.second_level_bytes,
                _ => continue,
            };
            let mut data = fields.skip(1);
            *slot = Some(line.next_u64(&mut data)?);
        }
        let size_bytes = size.ok_or(ParseError::new(last, Problem::Expected("size")))?;
        Ok(Self { size_bytes, ..arc })
    }

    /// Memory that it releases when memory is short: what is above its least size, but for the headers of the second-level
    /// cache.
    #[must_use]
    pub fn releasable_bytes(&self) -> u64 {
        let kept = self.min_bytes.unwrap_or(0).max(self.second_level_bytes.unwrap_or(0));
        self.size_bytes.saturating_sub(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"13 1 0x01 3 816 7000 9000
name                            type data
hits                            4    12
c                               4    400
c_min                           4    100
c_max                           4    500
size                            4    450
";

    #[test]
    fn reads() {
        let arc = Arcstats::parse(TEXT).unwrap();
        assert_eq!((arc.size_bytes, arc.target_bytes, arc.max_bytes), (450, Some(400), Some(500)));
        assert_eq!((arc.releasable_bytes(), arc.metadata_bytes), (350, None));
        let headers = [TEXT, b"l2_hdr_size 4 150\n"].concat();
        assert_eq!(Arcstats::parse(&headers).unwrap().releasable_bytes(), 300);
        let problem = |text: &[u8]| Arcstats::parse(text).unwrap_err().problem;
        assert_eq!(problem(b"name type data\n"), Problem::Expected("size"));
        assert_eq!(problem(b"size 4 x\n"), Problem::NotANumber);
        assert_eq!(problem(b"size 4 4"), Problem::Truncated);
    }
}
