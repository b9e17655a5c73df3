//! Time that incidents took; pure.

use crate::incidents::NodeIncident;

/// Begin and end of an incident within a period, in milliseconds since 1970.
pub(crate) fn within(incident: &NodeIncident, (since, until): (u64, u64)) -> (u64, u64) {
    let within = |unix_ms: u64| unix_ms.max(since).min(until);
    (within(incident.started_unix_ms), within(incident.ended_unix_ms))
}

/// Total length of spans; overlaps count once.
pub(crate) fn union(spans: &[(u64, u64)]) -> u64 {
    let mut spans = spans.to_vec();
    spans.sort_unstable();
    let (mut sum, mut until) = (0_u64, 0);
    for (start, end) in spans {
        sum = sum.saturating_add(end.saturating_sub(start.max(until)));
        until = until.max(end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_on_a_node_counts_once() {
        assert_eq!(union(&[(0, 10), (5, 20), (30, 40)]), 30);
        assert_eq!(union(&[(30, 40), (0, 100), (50, 60)]), 100);
        assert_eq!(union(&[]), 0);
        // A clock went back.
        assert_eq!(union(&[(10, 5)]), 0);
    }
}
