//! Readings of the connections of a service while its stall lasts: when the next one is due, and what all of them say.

use mw_model::ServiceConnection;
use std::time::{Duration, Instant};

/// The shortest time between two readings, and the part of the time since the first one: the last that finds a connection
/// waiting covers most of its wait.
const LEAST_REST: Duration = Duration::from_millis(500);
const PART_TO_REST: u32 = 2;

/// The shortest time between two readings as a multiple of how long the last one took: no more than one hundredth of a CPU.
const COST_TO_REST: u32 = 100;

/// The most readings of a stall: it has lasted for minutes then.
const MAX_READINGS: u32 = 16;

/// The most connections that are kept of a stall.
const MAX_KEPT: usize = 64;

/// Schedule of the readings of a stall.
#[derive(Debug)]
pub(crate) struct ConnectionReadings {
    began: Instant,
    next: Instant,
    left: u32,
}

impl ConnectionReadings {
    /// The first is due at once.
    pub(crate) fn begin(now: Instant) -> Self {
        Self { began: now, next: now, left: MAX_READINGS }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.left > 0 && now >= self.next
    }

    /// A reading was made that began at this time.
    pub(crate) fn note(&mut self, began: Instant, now: Instant) {
        let (cost, lasted) = (now.duration_since(began), now.duration_since(self.began));
        let rest = LEAST_REST.max(lasted / PART_TO_REST).max(cost * COST_TO_REST);
        self.left = self.left.saturating_sub(1);
        self.next = now + rest;
    }
}

/// Adds the connections that a reading found waiting to those of the readings before.
pub(crate) fn merge_reading(
    known: &mut Vec<ServiceConnection>,
    read: Vec<ServiceConnection>,
    read_unix_ms: u64,
) {
    let mut merged: Vec<ServiceConnection> = Vec::new();
    for connection in read {
        let is_known = |known: &ServiceConnection| {
            known.ended_by_unix_ms.is_none() && known.is_same(&connection)
        };
        let place = known.iter().position(is_known);
        let before = place.map(|place| known.swap_remove(place));
        let first_read_unix_ms =
            before.map_or(connection.first_read_unix_ms, |before| before.first_read_unix_ms);
        merged.push(ServiceConnection { first_read_unix_ms, ..connection });
    }
    for other in known.iter_mut() {
        other.ended_by_unix_ms.get_or_insert(read_unix_ms);
    }
    merged.append(known);
    merged.truncate(MAX_KEPT);
    *known = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(port: u16, at_unix_ms: u64) -> ServiceConnection {
        ServiceConnection {
            peer: Some(([10, 0, 0, 5], port).into()),
            first_read_unix_ms: at_unix_ms,
            read_unix_ms: at_unix_ms,
            ..ServiceConnection::default()
        }
    }

    #[test]
    fn readings_become_rare() {
        let began = Instant::now();
        let mut readings = ConnectionReadings::begin(began);
        let mut made = Vec::new();
        for ms in (0..600_000).step_by(100) {
            let now = began + Duration::from_millis(ms);
            if readings.is_due(now) {
                readings.note(now, now);
                made.push(ms);
            }
        }
        assert_eq!(made.get(..6), Some(&[0, 500, 1000, 1500, 2300, 3500][..]));
        assert_eq!(made.len(), MAX_READINGS as usize);
        let mut dear = ConnectionReadings::begin(began);
        dear.note(began, began + Duration::from_millis(20));
        assert!(!dear.is_due(began + Duration::from_secs(2)));
        assert!(dear.is_due(began + Duration::from_millis(2020)));
    }

    #[test]
    fn a_wait_goes_on_until_a_reading_does_not_find_it() {
        let mut known = Vec::new();
        merge_reading(&mut known, vec![read(1, 100), read(2, 100)], 100);
        merge_reading(&mut known, vec![read(1, 200)], 200);
        let [waits, answered] = known.as_slice() else { panic!("{known:?}") };
        assert_eq!((waits.first_read_unix_ms, waits.read_unix_ms), (100, 200));
        assert_eq!((waits.ended_by_unix_ms, answered.ended_by_unix_ms), (None, Some(200)));
        assert_eq!((answered.peer, answered.read_unix_ms), (read(2, 0).peer, 100));
        merge_reading(&mut known, vec![read(2, 300)], 300);
        assert_eq!(known.len(), 3, "what waits again waits anew: {known:?}");
        assert_eq!((known[0].first_read_unix_ms, known[0].ended_by_unix_ms), (300, None));
        assert_eq!(known[2].ended_by_unix_ms, Some(200));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut known = Vec::new();
        for port in 0..1000 {
            merge_reading(&mut known, vec![read(port, port.into())], port.into());
        }
        assert_eq!(known.len(), MAX_KEPT);
        assert_eq!(known[0].ended_by_unix_ms, None, "what waits is kept");
    }
}
