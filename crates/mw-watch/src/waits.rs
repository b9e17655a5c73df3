//! The thread that sums up what the cgroups of the services waited, a second at a time.

use crate::priority::yield_to_others;
use crate::progress::Beat;
use crate::services::Services;
use mw_collect::{GroupSample, GroupSampler};
use mw_model::{BlameParty, GroupWait};
use mw_rules::divide_waits;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// From one sample to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Services whose waits are summed up.
const MAX_VICTIMS: usize = 64;

/// The sums, shared with who reads them.
#[derive(Debug, Default)]
pub(crate) struct WaitSums {
    state: Mutex<WaitState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WaitState {
    /// By the path of the service's cgroup.
    sums: BTreeMap<String, Vec<GroupWait>>,
    is_stopped: bool,
}

impl WaitSums {
    /// Samples until the recorder stops.
    pub(crate) fn run(&self, mut sampler: GroupSampler, services: &Services, beat: &Beat) {
        yield_to_others();
        let mut before: Option<GroupSample> = None;
        while self.rest() {
            beat.step();
            let groups = services.groups();
            if groups.is_empty() {
                // There is nothing to read yet.
                beat.rest();
                continue;
            }
            let paths: Vec<String> = groups.iter().cloned().collect();
            let now = sampler.sample_services(&paths);
            if let Some(before) = &before {
                let uses = sampler.difference(before, &[], &now);
                for group in groups {
                    let waits = divide_waits(&group, &uses);
                    self.state().add(group, &waits);
                }
            }
            before = Some(now);
            beat.rest();
        }
    }

    pub(crate) fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }

    /// The sums by service, resource and origin, since the recorder was started.
    pub(crate) fn sums(&self) -> Vec<(BlameParty, Vec<GroupWait>)> {
        let state = self.state();
        let sums = state.sums.iter();
        sums.map(|(path, waits)| (BlameParty::of_cgroup(path), waits.clone())).collect()
    }

    fn rest(&self) -> bool {
        let waits = |state: &mut WaitState| !state.is_stopped;
        drop(self.changed.wait_timeout_while(self.state(), INTERVAL, waits));
        !self.state().is_stopped
    }

    fn state(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitState {
    fn add(&mut self, group: String, waits: &[GroupWait]) {
        if self.sums.len() >= MAX_VICTIMS && !self.sums.contains_key(&group) {
            return;
        }
        let sums = self.sums.entry(group).or_default();
        for wait in waits {
            let is_same =
                |sum: &&mut GroupWait| sum.resource == wait.resource && sum.origin == wait.origin;
            match sums.iter_mut().find(is_same) {
                Some(sum) => sum.waited_us = sum.waited_us.saturating_add(wait.waited_us),
                None => sums.push(*wait),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Resource, WaitOrigin};

    #[test]
    fn waits_add_up_and_services_are_bounded() {
        let wait = |waited_us| GroupWait {
            resource: Resource::Cpu,
            origin: WaitOrigin::Neighbour,
            waited_us,
        };
        let sums = WaitSums::default();
        sums.state().add("/a.service".to_owned(), &[wait(3)]);
        sums.state().add("/a.service".to_owned(), &[wait(4)]);
        for n in 0..2 * MAX_VICTIMS {
            sums.state().add(format!("/b{n}"), &[wait(1)]);
        }
        let sums = sums.sums();
        assert_eq!(sums.len(), MAX_VICTIMS);
        assert_eq!(
            (sums[0].0.to_string(), &sums[0].1[..]),
            ("a.service".to_owned(), &[wait(7)][..])
        );
    }
}
