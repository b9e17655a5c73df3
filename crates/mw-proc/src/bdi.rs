//! `/sys/kernel/debug/bdi/MAJOR:MINOR/stats` (debugfs): what waits to be written
//! to a device. kB there, bytes here.

use crate::error::{ParseError, Problem};
use crate::scan;

/// The writeback state of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BdiStats {
    /// `BdiWriteback`: being written now.
    pub writeback_bytes: Option<u64>,
    /// `BdiReclaimable`: dirty, not being written yet.
    pub reclaimable_bytes: Option<u64>,
    /// `BdiDirtyThresh`: the device's share of the limit at which writers are throttled.
    pub dirty_thresh_bytes: Option<u64>,
    /// `BdiDirtied`: dirtied since boot.
    pub dirtied_bytes: Option<u64>,
    /// `BdiWritten`: written since boot.
    pub written_bytes: Option<u64>,
    /// `BdiWriteBandwidth`: the kernel's estimate of the device's speed.
    pub write_bandwidth_bytes_per_s: Option<u64>,
}

impl BdiStats {
    /// Reads the file.
    ///
    /// # Errors
    /// When a known line lacks its number or unit, or no line is known.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut stats = Self::default();
        let mut known = false;
        let mut last = 1;
        for line in scan::lines(text) {
            last = line.number;
            let Some((key, value)) = line.key_value() else { continue };
            if key == b"BdiWriteBandwidth" {
                let speed = line.at(scan::parse_scaled(value, b"kBps", "kBps"))?;
                stats.write_bandwidth_bytes_per_s = Some(speed);
            } else if let Some(slot) = stats.size(key) {
                *slot = Some(line.at(scan::parse_kb(value))?);
            } else {
                continue;
            }
            known = true;
        }
        if known {
            Ok(stats)
        } else {
            Err(ParseError::new(last, Problem::Expected("BdiWriteback")))
        }
    }

    fn size(&mut self, key: &[u8]) -> Option<&mut Option<u64>> {
        Some(match key {
            b"BdiWriteback" => &mut self.writeback_bytes,
            b"BdiReclaimable" => &mut self.reclaimable_bytes,
            b"BdiDirtyThresh" => &mut self.dirty_thresh_bytes,
            b"BdiDirtied" => &mut self.dirtied_bytes,
            b"BdiWritten" => &mut self.written_bytes,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"BdiWriteback:               12 kB
BdiReclaimable:          41336 kB
BdiDirtyThresh:         602424 kB
DirtyThresh:           4860720 kB
BackgroundThresh:      2427392 kB
BdiDirtied:             383020 kB
BdiWritten:             293268 kB
BdiWriteBandwidth:       16192 kBps
b_dirty:                 31590
state:                       5
";

    #[test]
    fn reads() {
        let stats = BdiStats::parse(TEXT).unwrap();
        assert_eq!(stats.writeback_bytes, Some(12 << 10));
        assert_eq!(stats.reclaimable_bytes, Some(41336 << 10));
        assert_eq!(stats.dirty_thresh_bytes, Some(602_424 << 10));
        assert_eq!(stats.dirtied_bytes, Some(383_020 << 10));
        assert_eq!(stats.written_bytes, Some(293_268 << 10));
        assert_eq!(stats.write_bandwidth_bytes_per_s, Some(16192 << 10));
        let older = BdiStats::parse(b"BdiWriteback:            0 kB\n").unwrap();
        assert_eq!(older.write_bandwidth_bytes_per_s, None);
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(BdiStats::parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        refuse(b"", 1, Problem::Expected("BdiWriteback"));
        refuse(b"b_io: 1\nDirtyThresh: 1 kB\n", 2, Problem::Expected("BdiWriteback"));
        refuse(b"BdiWriteback: x kB\n", 1, Problem::NotANumber);
        refuse(b"BdiWriteBandwidth: 1 kB\n", 1, Problem::Expected("kBps"));
        refuse(b"BdiWriteback: 12", 1, Problem::Truncated);
    }
}
