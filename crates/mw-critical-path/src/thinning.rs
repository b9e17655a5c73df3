//! Makes room in a trace that is full. Tasks that switch thousands of times a second take most of it, and a request that
//! stalls waits for one that hardly switches: what is left is a complete record of tasks with few events, and of the others
//! what they did last.

use crate::needed::NeededEvents;
use crate::trace::{Event, EventKind, Nanos, Tid, UNKNOWN_OUTSIDE};
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// The events before some time that stay.
#[derive(Debug)]
pub struct Thinning {
    needed: NeededEvents,
    until: Nanos,
    thinned: BTreeSet<Tid>,
}

impl Thinning {
    /// Of the events before `until`, about `room` stay beside those that are needed. `thinned` are the tasks of which some
    /// had to go before.
    pub fn new<'a>(
        events: impl Iterator<Item = &'a Event> + Clone,
        until: Nanos,
        room: usize,
        thinned: BTreeSet<Tid>,
    ) -> Self {
        let mut counts: HashMap<Tid, usize> = HashMap::new();
        for event in events.clone().filter(|event| event.at < until) {
            for task in tasks(event) {
                *counts.entry(task).or_default() += 1;
            }
        }
        let mut counts: Vec<(usize, Tid)> =
            counts.into_iter().map(|(task, count)| (count, task)).collect();
        counts.sort_unstable();
        let mut thinning = Self { needed: NeededEvents::new(events, until), until, thinned };
        thinning.thinned.extend([0, UNKNOWN_OUTSIDE]);
        let mut taken = 0_usize;
        for (count, task) in counts {
            if !thinning.thinned.contains(&task) {
                taken = taken.saturating_add(count);
            }
            if taken > room {
                thinning.thinned.insert(task);
            }
        }
        thinning
    }

    pub fn keeps(&self, event: &Event) -> bool {
        let is_sample = matches!(event.kind, EventKind::Sample { .. });
        event.at >= self.until
            || (!is_sample && self.needed.has(event))
            || tasks(event).any(|task| !self.thinned.contains(&task))
    }

    /// The tasks of which not all events stay.
    pub fn into_thinned(self) -> BTreeSet<Tid> {
        self.thinned
    }
}

fn tasks(event: &Event) -> impl Iterator<Item = Tid> {
    let (first, second) = match event.kind {
        EventKind::SwitchOut { task, next: other, .. }
        | EventKind::Waking { task, by: other, .. }
        | EventKind::Fork { parent: task, child: other } => (task, Some(other)),
        EventKind::SwitchIn { task }
        | EventKind::Sample { task, .. }
        | EventKind::Found { task, .. } => (task, None),
    };
    std::iter::once(first).chain(second)
}
