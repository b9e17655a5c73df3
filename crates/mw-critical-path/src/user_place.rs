//! Where a task was in its program: functions of the user stacks that were recorded of it.

use crate::path::{CriticalPath, TimeKind, TimeShare};
use crate::trace::{EventKind, Nanos, StackId, Tid, Trace, UserStackId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Stacks that are named of one part: those that it spent most time in.
const MAX_STACKS: usize = 8;

/// Place of a task in its program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserPlace {
    /// Functions of the program, innermost first.
    pub functions: Vec<String>,
    /// Reason why there are none, or none further out.
    pub missing: Option<String>,
    /// The stacks that were recorded there, each with its share: the functions are not known yet.
    #[serde(skip)]
    pub stacks: Vec<(UserStackId, u64)>,
}

impl UserPlace {
    /// True if nothing is known of it.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.missing.is_none()
    }
}

/// The user stacks of the tasks of a path.
#[derive(Debug)]
pub(crate) struct RecordedPlaces<'a> {
    path: &'a CriticalPath,
    /// By task, in the order of time.
    by_task: BTreeMap<Tid, Vec<RecordedPlace>>,
}

#[derive(Debug, Clone, Copy)]
struct RecordedPlace {
    at: Nanos,
    is_sample: bool,
    stack: StackId,
    user_stack: UserStackId,
}

impl<'a> RecordedPlaces<'a> {
    pub(crate) fn new(path: &'a CriticalPath, trace: &Trace) -> Self {
        let tasks: BTreeSet<Tid> = path.hops.iter().map(|hop| hop.task).collect();
        let mut by_task: BTreeMap<Tid, Vec<RecordedPlace>> = BTreeMap::new();
        for event in &trace.events {
            let (task, is_sample, stack) = match event.kind {
                EventKind::SwitchOut { task, stack, .. } => (task, false, stack),
                EventKind::Sample { task, stack } => (task, true, stack),
                _ => continue,
            };
            // A switch without a user stack ends the place that was known before it.
            let is_known = !is_sample || event.user_stack != UserStackId::default();
            if is_known && tasks.contains(&task) {
                let place =
                    RecordedPlace { at: event.at, is_sample, stack, user_stack: event.user_stack };
                by_task.entry(task).or_default().push(place);
            }
        }
        by_task.values_mut().for_each(|places| places.sort_by_key(|place| place.at));
        Self { path, by_task }
    }

    /// Places of the task of a share. A wait began where the task left the CPU; a task that ran was where it was sampled.
    pub(crate) fn of_share(&self, share: &TimeShare) -> UserPlace {
        let Some(hop) = self.path.hops.get(share.hop) else { return UserPlace::default() };
        let places = self.by_task.get(&hop.task).map_or(&[][..], Vec::as_slice);
        let of_hop = self.path.parts.iter().filter(|part| part.hop == share.hop);
        let parts: Vec<_> = of_hop.clone().filter(|part| part.kind == share.kind).collect();
        let mut times: BTreeMap<UserStackId, u64> = BTreeMap::new();
        if matches!(share.kind, TimeKind::Runnable(_)) {
            // It had no CPU: where it was does not matter.
        } else if matches!(share.kind, TimeKind::Running(_)) {
            let stacks: BTreeSet<StackId> = parts.iter().map(|part| part.stack).collect();
            // A piece of the path is not where its sample is: each sample stands for an equal share of an interval.
            let from = of_hop.clone().map(|part| part.from).min().unwrap_or(0);
            let to = of_hop.map(|part| part.to).max().unwrap_or(0);
            let is_of_share = |place: &&RecordedPlace| {
                place.is_sample && stacks.contains(&place.stack) && (from..=to).contains(&place.at)
            };
            for place in places.iter().filter(is_of_share) {
                *times.entry(place.user_stack).or_default() += 1;
            }
        } else {
            let left: Vec<&RecordedPlace> =
                places.iter().filter(|place| !place.is_sample).collect();
            for part in parts {
                let earlier = left.partition_point(|place| place.at <= part.from);
                let Some(last) = earlier.checked_sub(1).and_then(|last| left.get(last)) else {
                    continue;
                };
                *times.entry(last.user_stack).or_default() += part.duration();
            }
            times.remove(&UserStackId::default());
        }
        place(times)
    }

    /// Places in which a task waited at this kernel stack.
    pub(crate) fn of_waiter(&self, task: Tid, stack: StackId) -> UserPlace {
        let mut times: BTreeMap<UserStackId, u64> = BTreeMap::new();
        let places = self.by_task.get(&task).into_iter().flatten();
        for place in places.filter(|place| !place.is_sample && place.stack == stack) {
            *times.entry(place.user_stack).or_default() += 1;
        }
        times.remove(&UserStackId::default());
        place(times)
    }
}

fn place(times: BTreeMap<UserStackId, u64>) -> UserPlace {
    let mut stacks: Vec<(UserStackId, u64)> = times.into_iter().collect();
    stacks.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    stacks.truncate(MAX_STACKS);
    UserPlace { stacks, ..UserPlace::default() }
}

#[cfg(test)]
#[path = "user_place_tests.rs"]
mod tests;
