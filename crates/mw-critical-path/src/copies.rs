//! Processes that were forked and mostly work on their copy of the address space: they write to pages that they share
//! with the parent, fork in turn, or end and free the copied page tables. The CPU time is a cost of the fork.

use crate::trace::{EventKind, Nanos, StackId, Tid, Trace};
use crate::wait::{self, KernelWork};
use std::collections::{BTreeMap, BTreeSet};

/// Forked processes, each with the process that forked it.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    parents: BTreeMap<Tid, Tid>,
}

impl Copies {
    /// Most live too short for a sample of their own: those of one parent and one name are judged together.
    pub(crate) fn new(trace: &Trace, samples: &BTreeMap<Tid, Vec<(Nanos, StackId)>>) -> Self {
        let forked = forked(trace);
        let mut groups: BTreeMap<(Tid, &str), (usize, usize)> = BTreeMap::new();
        for (child, parent) in &forked {
            let (copying, all) = groups.entry((*parent, trace.task_name(*child))).or_default();
            let stacks = samples.get(child).map_or(&[][..], Vec::as_slice);
            *copying += stacks.iter().filter(|(_, stack)| is_of_copy(trace, *stack)).count();
            *all += stacks.len();
        }
        let mostly: BTreeSet<(Tid, &str)> = groups
            .into_iter()
            .filter(|(_, (copying, all))| copying * 2 > *all)
            .map(|(group, _)| group)
            .collect();
        let is_one =
            |(child, parent): &(Tid, Tid)| mostly.contains(&(*parent, trace.task_name(*child)));
        Self { parents: forked.into_iter().filter(is_one).collect() }
    }

    /// True if the process of `child` is such a copy of the process of `task`.
    pub(crate) fn is_of(&self, trace: &Trace, child: Tid, task: Tid) -> bool {
        self.parents.get(&trace.process(child)) == Some(&trace.process(task))
    }
}

/// Processes with those that forked them, during the trace or before.
fn forked(trace: &Trace) -> BTreeMap<Tid, Tid> {
    let births = trace.events.iter().filter_map(|event| match event.kind {
        EventKind::Fork { parent, child } => Some((child, trace.process(parent))),
        _ => None,
    });
    let before = trace.parents.iter().map(|(child, parent)| (*child, *parent));
    before.chain(births).filter(|(child, parent)| trace.process(*child) != *parent).collect()
}

/// A process that was forked by `process`, runs the same program and lived at `at` or later: the two share pages.
pub(crate) fn sharing(trace: &Trace, process: Tid, at: Nanos) -> Option<Tid> {
    let is_same = |child: Tid| trace.task_name(child) == trace.task_name(process);
    let lived = |child: Tid| trace.lifetime(child).1.is_none_or(|ended| ended >= at);
    let mut forked = forked(trace).into_iter();
    let (child, _) =
        forked.find(|(child, parent)| *parent == process && is_same(*child) && lived(*child))?;
    Some(child)
}

/// The process that forked this one during the trace.
pub(crate) fn forked_by(trace: &Trace, process: Tid) -> Option<Tid> {
    trace.events.iter().rev().find_map(|event| match event.kind {
        EventKind::Fork { parent, child } if child == process => Some(trace.process(parent)),
        _ => None,
    })
}

fn is_of_copy(trace: &Trace, stack: StackId) -> bool {
    let functions = trace.stack(stack);
    let is_copy =
        |work| matches!(work, KernelWork::Fork | KernelWork::CopyOnWrite | KernelWork::Exit);
    !functions.is_empty() && is_copy(wait::work(functions))
}
