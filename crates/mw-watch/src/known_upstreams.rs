//! Whom the services ask, as their connections told at any stall so far.

use crate::task_groups::locked;
use mw_collect::service::upstreams;
use std::sync::Mutex;
use std::time::Duration;

/// Time limit of a search.
const LIMIT: Duration = Duration::from_millis(50);

/// The most pairs that are remembered.
const MAX_PAIRS: usize = 64;

/// Pairs of processes, of which the first opened a connection to the second. A proxy that connects anew for each request has
/// no connection at most times: what was found before counts as long as both processes run.
#[derive(Debug, Default)]
pub(crate) struct KnownUpstreams(Mutex<Vec<(u32, u32)>>);

impl KnownUpstreams {
    /// Adds those of these processes, and of whom they ask.
    pub(crate) fn find(&self, processes: &[u32]) {
        let found = upstreams(processes, LIMIT);
        let mut known = locked(&self.0);
        *known = together(found, &known);
    }

    pub(crate) fn pairs(&self) -> Vec<(u32, u32)> {
        locked(&self.0).clone()
    }
}

/// Those found now, and of those found before the ones whose processes run.
fn together(mut found: Vec<(u32, u32)>, known: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let runs = |pid: u32| std::fs::exists(format!("/proc/{pid}")).unwrap_or(false);
    for pair in known {
        if found.len() < MAX_PAIRS && !found.contains(pair) && runs(pair.0) && runs(pair.1) {
            found.push(*pair);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (Tracing: why): Whom a proxy asks is remembered while both run, whether or not they are connected.
    #[test]
    fn upstreams_are_remembered_while_both_run() {
        let own = std::process::id();
        let known = [(own, 1), (own, u32::MAX), (1, own)];
        assert_eq!(together(vec![(1, own), (own, 2)], &known), [(1, own), (own, 2), (own, 1)]);
    }
}
