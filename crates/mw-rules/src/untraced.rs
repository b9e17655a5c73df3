//! What tells how a request's time was spent where nothing was traced: then the states and clocks of tasks say that a task
//! ran in the kernel, and not in what, and that it waited for a CPU, and not who had it.

use crate::share::percent;
use mw_critical_path::PathPart;
use mw_critical_path::kernel::{self, FunctionSet};
use mw_model::Incident;

/// The functions of a task that takes page faults, or populates or unmaps memory.
const POPULATION: &[FunctionSet] = &[kernel::PAGE_FAULT, kernel::POPULATE, kernel::UNMAP];

/// True if most of the kernel's samples of the part's process are of page faults, or of populating or unmapping memory.
pub(crate) fn populates(incident: &Incident, part: &PathPart) -> bool {
    const LEAST_SAMPLES: u64 = 20;
    const LEAST_PERCENT: f64 = 50.0;
    let Some(profile) = incident.profile.as_ref() else { return false };
    let is_it = |name: &str| kernel::is_of(POPULATION, name);
    let (mut all, mut below) = (0_u64, 0_u64);
    for stack in profile.stacks.iter().filter(|stack| stack.pid == part.task.process) {
        all = all.saturating_add(stack.samples);
        if profile.names(stack).any(is_it) {
            below = below.saturating_add(stack.samples);
        }
    }
    all >= LEAST_SAMPLES && percent(below, all) >= LEAST_PERCENT
}

/// True if other processes used the CPUs while the request's tasks waited so long for one: otherwise the virtual machine may
/// not have run at all.
pub(crate) fn others_ran(incident: &Incident, part: &PathPart, waited_us: u64) -> bool {
    const LEAST_PERCENT: f64 = 80.0;
    let others = incident.tasks.iter().filter(|task| task.pid != part.task.process);
    let used_ms = others.map(|task| task.user_ms.saturating_add(task.system_ms)).sum::<u64>();
    percent(used_ms, waited_us / 1000) >= LEAST_PERCENT
}
