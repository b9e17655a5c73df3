//! # cgroup-migration
//!
//! Processes were moved between cgroups, and every fork and exit on the machine waited.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. A task waited in fork(2), exit or execve(2) until a move of other tasks
//! between cgroups was over; or moved tasks itself.
//!
//! ## Why it hurts
//! A write to cgroup.procs, or to cgroup.subtree_control of a cgroup with tasks, takes cgroup_threadgroup_rwsem for
//! writing (`cgroup_attach_lock`, kernel/cgroup/cgroup.c). fork(2) takes it for reading (`cgroup_can_fork`), as do exit
//! (`exit_signals`, kernel/signal.c) and execve(2) by a thread that is not the first (`de_thread`, fs/exec.c). There is
//! one for the machine: while a move waits for a task within fork(2), such as one that its CPU quota holds back, or
//! works through the threads of a large process, nothing forks or exits. Moves that follow each other add up.
//!
//! ## What it looks like
//! Tasks in state D in `percpu_rwsem_wait` below `cgroup_can_fork` or `exit_signals`, and one in `cgroup_attach_lock`,
//! `cgroup_procs_write` or `cgroup_update_dfl_csses`. No counter shows it.
//!
//! ## How to fix it
//! Move processes less often: start them in their cgroup with clone3(2) and CLONE_INTO_CGROUP, which does not take the
//! lock for writing. In Linux 7.3 the mount option `favordynmods` of cgroup2 has a move lock the moved process alone
//! (`cgroup_enable_per_threadgroup_rwsem`); every fork and exit then costs more. In 6.12 the option only spares moves
//! the wait for an RCU grace period, during which forks do not wait.
//!
//! ## Threshold
//! The wait takes at least half of the request; without a critical path, it is scored by how often a task was found in
//! it. Read on 5.10 to 7.3. A wait for cgroup_mutex, which creating and removing cgroups takes, is another.
//!
//! ## References
//! Linux, Documentation/admin-guide/cgroup-v2.rst, "favordynmods"; include/linux/cgroup-defs.h,
//! `CGRP_ROOT_FAVOR_DYNMODS`; clone(2).

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::{FunctionSet, is_wait_for_lock_of};
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

/// Functions that take the lock for reading and sleep for nothing else.
const FORKS: FunctionSet = FunctionSet::new(&["cgroup_can_fork", "exit_signals"]);

/// The like, which waits for the other threads of the process as well.
const EXEC: FunctionSet = FunctionSet::new(&["begin_new_exec"]);

/// Functions that take it for writing.
const MOVES: FunctionSet = FunctionSet::new(&[
    "cgroup_procs_write",
    "__cgroup_procs_write",
    "cgroup_procs_write_start",
    "cgroup_attach_lock",
    "cgroup_update_dfl_csses",
    "cgroup_attach_task_all",
    "cgroup_transfer_tasks",
]);

const PER_CPU: FunctionSet = FunctionSet::new(&["percpu_rwsem_wait", "percpu_down_write"]);

const WRITES: FunctionSet = FunctionSet::new(&["percpu_down_write"]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[FORKS, EXEC, MOVES, PER_CPU];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let (seen, headline) = if let Some(seen) = StackEvidence::find(stall, forks) {
        let headline = match seen.other() {
            Some(other) => format!("{other} moved tasks between cgroups"),
            None => format!("a move between cgroups blocked {}", seen.task()),
        };
        (seen, headline)
    } else if let Some(seen) = StackEvidence::find(stall, moves) {
        let headline = format!("{} moved tasks between cgroups", seen.task());
        (seen, headline)
    } else {
        return Ok(None);
    };
    let finding = Finding::new(Severity::Warning, Area::Service, headline)
        .with_impact("Forks, exits and moves wait for each other.")
        .with_remedy(Remedy::named(
            "start processes in their cgroup instead of moving them",
            vec![Step::manual("grep cgroup2 /proc/mounts")],
        ));
    seen.cause(finding)
}

/// True for a task that waits until a move is over.
fn forks(stack: &[String]) -> bool {
    is_wait_for_lock_of(stack, FORKS) || (is_wait_for_lock_of(stack, EXEC) && PER_CPU.are_in(stack))
}

/// True for a move that waits until no task forks, or for the RCU grace period after which readers of the lock wait.
fn moves(stack: &[String]) -> bool {
    let mut callers = stack.iter().skip_while(|function| !WRITES.has(function));
    callers.nth(1).is_some_and(|caller| MOVES.has(caller))
        || (is_wait_for_lock_of(stack, MOVES) && PER_CPU.are_in(stack))
}
