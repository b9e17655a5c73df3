//! The forecast beside a recording, `FILE-forecast`: how supplies decline, as JSON, for those who have no time to read a
//! week of sizes. It is replaced as a whole.

use crate::format::beside;
use mw_model::{SupplyTrend, bounded_json};
use mw_sys::guarded;
use std::io::{self, Write};
use std::path::Path;

/// More is none of ours.
const MAX_BYTES: u64 = 1 << 20;

/// Memory limit.
const MAX_SUPPLIES_BYTES: usize = 8 << 20;

/// As the recording.
const MODE: u32 = 0o640;

/// Keeps how supplies decline beside a recording.
///
/// # Errors
/// It cannot be written.
pub fn keep_supplies(recording: &Path, supplies: &[SupplyTrend]) -> io::Result<()> {
    let json = serde_json::to_vec(supplies)?;
    let place = guarded::entry(&beside(recording, "-forecast"))?;
    let mut new = place.create(MODE)?;
    new.file().write_all(&json)?;
    new.persist()
}

/// Declines of supplies, as they were kept last.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn supplies(recording: &Path) -> io::Result<Vec<SupplyTrend>> {
    let json = guarded::read(&beside(recording, "-forecast"), MAX_BYTES)?;
    bounded_json::from_slice(&json, MAX_SUPPLIES_BYTES).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Decline, Supply};

    #[test]
    fn a_forecast_comes_back_and_damage_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recording.db");
        assert!(supplies(&path).is_err());
        let decline =
            Decline { since_unix_ms: 1, high: 3e9, per_s: 1e3, least_per_s: 0.0, most_per_s: 2e3 };
        let kept = vec![SupplyTrend {
            supply: Supply::HugePages,
            page_bytes: Some(2 << 20),
            node: Some(1),
            bytes: 7,
            until_unix_ms: 9,
            line: Some(decline),
            decay: None,
            is_memory_in_use: true,
        }];
        for kept in [&[][..], &kept] {
            keep_supplies(&path, kept).unwrap();
            assert_eq!(supplies(&path).unwrap(), kept);
        }
        std::fs::write(beside(&path, "-forecast"), "[{}").unwrap();
        assert!(supplies(&path).is_err());
    }
}
