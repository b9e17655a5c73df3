//! Limits the rate of each user's requests.

use std::collections::BTreeMap;
use std::time::Instant;

/// The sustained rate of a user's requests, and the most at once.
const RATE_PER_S: f64 = 500.0;
const BURST: f64 = 1000.0;
/// The most users whose requests are counted at the same time.
const MAX_USERS: usize = 1024;

/// Number of requests that each user may make now (a token bucket).
#[derive(Debug, Default)]
pub(crate) struct RateLimits(BTreeMap<u32, (f64, Instant)>);

impl RateLimits {
    /// Takes one request of this user's, if it may make one now.
    pub(crate) fn allow(&mut self, user: u32, now: Instant) -> bool {
        let refilled = |(left, at): &(f64, Instant)| {
            (left + now.saturating_duration_since(*at).as_secs_f64() * RATE_PER_S).min(BURST)
        };
        if self.0.len() >= MAX_USERS {
            self.0.retain(|_, entry| refilled(entry) < BURST);
        }
        // One person may have many user IDs (subuid(5)): the one with the most left is forgotten,
        // so that none of them keeps another user from being served.
        if self.0.len() >= MAX_USERS && !self.0.contains_key(&user) {
            let most = self.0.iter().max_by(|a, b| refilled(a.1).total_cmp(&refilled(b.1)));
            let most = most.map(|(user, _)| *user);
            most.map(|user| self.0.remove(&user));
        }
        let entry = self.0.entry(user).or_insert((BURST, now));
        let left = refilled(entry);
        let allowed = left >= 1.0;
        *entry = (if allowed { left - 1.0 } else { left }, now);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_flood_is_limited_only_for_its_user() {
        let mut rates = RateLimits::default();
        let start = Instant::now();
        let allowed = (0..10_000).filter(|_| rates.allow(1, start)).count();
        assert_eq!(allowed, 1000);
        assert!(rates.allow(2, start));
        let later = start + Duration::from_millis(100);
        assert_eq!((0..10_000).filter(|_| rates.allow(1, later)).count(), 50);
        for user in 0..10_000 {
            rates.allow(user, later);
        }
        assert!(rates.0.len() <= MAX_USERS);
    }

    #[test]
    fn many_users_lock_out_no_other_user() {
        let mut rates = RateLimits::default();
        let now = Instant::now();
        for user in 1..=u32::try_from(MAX_USERS).unwrap() {
            while rates.allow(user, now) {}
        }
        assert!(rates.allow(0, now), "root is locked out");
        assert_eq!(rates.0.len(), MAX_USERS);
    }
}
