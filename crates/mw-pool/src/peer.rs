//! Who is at the other end, what that user may do, and how often.

use crate::spec::{Owners, Spec};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

/// Requests a second that a user may make for long, and at once.
const RATE_PER_S: f64 = 500.0;
const BURST: f64 = 1000.0;
/// Users whose requests are counted at the same time.
const MAX_USERS: usize = 1024;

/// A client, as the kernel says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) user: u32,
    /// 0: it has no number in this process's PID namespace.
    pub(crate) process: u32,
    pub(crate) groups: Vec<u32>,
    /// Root, and who runs the server.
    pub(crate) admin: bool,
}

impl Peer {
    pub(crate) fn of(socket: &impl AsFd) -> io::Result<Self> {
        let peer = mw_sys::peer_credentials(socket.as_fd())?;
        // A process in too many groups has its own only.
        let mut groups = mw_sys::peer_groups(socket.as_fd()).unwrap_or_default();
        groups.push(peer.group);
        let admin = peer.user == 0 || peer.user == rustix::process::geteuid().as_raw();
        let process = peer.process.unwrap_or(0);
        Ok(Self { user: peer.user, process, groups, admin })
    }

    /// Whether a pool's memory may be this peer's.
    pub(crate) fn may_use(&self, spec: &Spec) -> bool {
        let Owners { users, groups } = &spec.owners;
        self.admin
            || users.contains(&self.user)
            || groups.iter().any(|group| self.groups.contains(group))
    }
}

/// How many requests each user may still make.
#[derive(Debug, Default)]
pub(crate) struct Rates(BTreeMap<u32, (f64, Instant)>);

impl Rates {
    /// Whether this user may make one more now.
    pub(crate) fn allow(&mut self, user: u32, now: Instant) -> bool {
        let refilled = |(left, at): &(f64, Instant)| {
            (left + now.saturating_duration_since(*at).as_secs_f64() * RATE_PER_S).min(BURST)
        };
        if self.0.len() >= MAX_USERS {
            self.0.retain(|_, entry| refilled(entry) < BURST);
        }
        // One person may be many users (subuid(5)): the one with the most left is forgotten, so
        // that none of them keeps another user from being served.
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
    fn a_flood_is_stopped_and_others_are_not() {
        let mut rates = Rates::default();
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
    fn many_users_keep_nobody_out() {
        let mut rates = Rates::default();
        let now = Instant::now();
        for user in 1..=u32::try_from(MAX_USERS).unwrap() {
            while rates.allow(user, now) {}
        }
        assert!(rates.allow(0, now), "root is locked out");
        assert_eq!(rates.0.len(), MAX_USERS);
    }
}
