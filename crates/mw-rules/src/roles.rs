//! The victims and culprits of a stall.

use crate::share::percent;
use crate::stall_window::{StallWindow, is_background, is_canary};
use mw_critical_path::kernel::{self, COLLAPSE, COMPACTION, FunctionSet, RECLAIM};
use mw_model::{
    BlockedTask, Cause, KernelWait, OomVictim, Role, TaskUse, TriggerKind, WaitKind, derived,
    format_bytes, format_duration_ms,
};

/// Tasks that are named.
const MAX_NAMED: usize = 5;

/// From which growth on a task is named for it.
const GROWTH_BYTES: i64 = 16 << 20;

/// From how many written bytes on.
const WRITTEN_BYTES: u64 = 16 << 20;

/// From how many bytes brought into the page cache on.
const FLOOD_BYTES: u64 = 16 << 20;

/// From which wait on a task is named for it.
const WAITED_US: u64 = 1000;

/// From which share of a CPU, or of the CPU time used, on.
const BUSY_PERCENT: f64 = 10.0;

/// A task's part in a stall, and its weight against others.
struct StallRole {
    role: Role,
    weight: f64,
}

/// The victims, the worst first: the probed service, then the tasks that waited or were blocked
/// longest.
pub(crate) fn victims(stall: &StallWindow<'_>) -> Vec<Role> {
    let mut parts = Vec::new();
    let mut pids: Vec<u32> = Vec::new();
    let long = |wait: &&KernelWait| wait.total_us >= WAITED_US || wait.kind == WaitKind::Oom;
    let waits = stall.incident.waits.iter().filter(|wait| !is_background(&wait.task));
    for wait in waits.filter(long) {
        if !pids.contains(&wait.pid) {
            pids.push(wait.pid);
            parts.push(waited(stall, wait.pid, &wait.task));
        }
    }
    for task in stall.incident.blocked.iter().filter(|task| !is_background(&task.task)) {
        let share = f64::from(task.seen) / f64::from(task.looks.max(1)) * stall.length_ms();
        add(&mut parts, task.pid, &task.task, blocked(task), share);
    }
    for victim in killed(stall) {
        let process = &victim.process;
        add(&mut parts, process.pid, &process.name, WAS_KILLED.to_owned(), f64::INFINITY);
    }
    if parts.iter().any(|part| !is_canary(&part.role.task)) {
        parts.retain(|part| !is_canary(&part.role.task));
    }
    for part in &mut parts {
        if stall.is_probed(&part.role.task) {
            // Before all others, however long they waited.
            part.weight += stall.length_ms() * 1e6;
        }
    }
    let trigger = &stall.incident.trigger;
    let known = parts.iter().any(|part| stall.is_probed(&part.role.task));
    if trigger.kind == TriggerKind::Probe && !known && !trigger.name.is_empty() {
        let why = format!("did not answer for {}", format_duration_ms(stall.length_ms()));
        add(&mut parts, pid_of_service(stall), &trigger.name, why, f64::INFINITY);
    }
    named(parts)
}

const WAS_KILLED: &str = "was killed by the OOM killer";

/// Victims of the OOM killer, of an incident that this is the subject of.
fn killed<'a>(stall: &StallWindow<'a>) -> impl Iterator<Item = &'a OomVictim> {
    let is_subject = stall.incident.trigger.kind == TriggerKind::OomKill;
    let oom = stall.incident.oom.as_ref().filter(|_| is_subject);
    oom.into_iter().flat_map(|oom| &oom.victims)
}

/// A task's waits in one line: in total, and in which way most.
fn waited(stall: &StallWindow<'_>, pid: u32, task: &str) -> StallRole {
    let timed = |wait: &&KernelWait| wait.kind != WaitKind::Swap || wait.total_us > 0;
    let own = stall.incident.waits.iter().filter(|wait| wait.pid == pid);
    let own = own.filter(|wait| wait.is_worth_telling()).filter(timed);
    let mut kinds: Vec<(WaitKind, u64, u64)> = Vec::new();
    for wait in own {
        match kinds.iter_mut().find(|(kind, ..)| *kind == wait.kind) {
            Some((_, us, count)) => {
                *us = us.saturating_add(wait.total_us);
                *count = count.saturating_add(wait.count);
            }
            None => kinds.push((wait.kind, wait.total_us, wait.count)),
        }
    }
    kinds.sort_by_key(|(_, us, _)| std::cmp::Reverse(*us));
    let line = |(kind, us, count): &(WaitKind, u64, u64)| {
        if *kind == WaitKind::Oom && *us == 0 {
            return WAS_KILLED.to_owned();
        }
        let time = format_duration_ms(*us as f64 / 1000.0);
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        format!("waited {time} in {kind}, {times}")
    };
    let why = kinds.iter().map(line).collect::<Vec<_>>().join("; ");
    let total_us = kinds.iter().map(|(_, us, _)| *us as f64).sum::<f64>();
    StallRole { role: Role { pid, task: task.to_owned(), why }, weight: total_us / 1000.0 }
}

fn blocked(task: &BlockedTask) -> String {
    let samples = format!("in {} of {} samples", task.seen, task.looks);
    match (task.state, task.stack.first()) {
        ('D', Some(function)) => format!("blocked in {function} {samples}"),
        ('D', None) => format!("blocked {samples}"),
        _ => format!("stopped by a signal or a debugger {samples}"),
    }
}

/// The process of the probed service, 0 if it is not known.
fn pid_of_service(stall: &StallWindow<'_>) -> u32 {
    let service = stall.incident.service.as_ref();
    let first = service.and_then(|service| service.processes.first()).map(|process| process.pid);
    let named = || stall.incident.tasks.iter().find(|task| stall.is_probed(&task.task));
    first.or_else(|| named().map(|task| task.pid)).unwrap_or(0)
}

/// The culprits of a cause that writes to files: who filled the page cache, and who wrote.
pub(crate) fn writers(stall: &StallWindow<'_>, _: &Cause) -> Vec<Role> {
    let mut parts = Vec::new();
    floods(stall, &mut parts);
    device_writers(stall, &mut parts);
    named(parts)
}

/// The culprits of a cause that compacts: who was in compaction, and whose memory grew.
pub(crate) fn compacting(stall: &StallWindow<'_>, _: &Cause) -> Vec<Role> {
    let mut parts = Vec::new();
    in_functions(stall, &[COMPACTION, &[COLLAPSE]].concat(), "compaction", &mut parts);
    growth(stall, &mut parts);
    named(parts)
}

/// The culprits of a shortage of memory: whose memory grew, who filled the page cache, and who
/// reclaimed.
pub(crate) fn allocating(stall: &StallWindow<'_>, _: &Cause) -> Vec<Role> {
    let mut parts = Vec::new();
    growth(stall, &mut parts);
    floods(stall, &mut parts);
    in_functions(stall, RECLAIM, "reclaim", &mut parts);
    named(parts)
}

/// The culprits of a cause that has none but what it names itself.
pub(crate) fn nobody(_: &StallWindow<'_>, _: &Cause) -> Vec<Role> {
    Vec::new()
}

/// The stopped tasks. If the service itself was stopped, its threads are victims; who stopped it is unknown.
pub(crate) fn stopped(stall: &StallWindow<'_>, _: &Cause) -> Vec<Role> {
    let mut parts = Vec::new();
    let stopped = || stall.incident.blocked.iter().filter(|task| task.state != 'D');
    let is_victim = stopped().any(|task| stall.is_probed(&task.task));
    for task in stopped().filter(|_| !is_victim) {
        add(&mut parts, task.pid, &task.task, blocked(task), f64::from(task.seen));
    }
    named(parts)
}

/// Tasks that used the CPUs.
pub(crate) fn busy(stall: &StallWindow<'_>, _: &Cause) -> Vec<Role> {
    let mut parts = Vec::new();
    let ms = |task: &TaskUse| task.user_ms.saturating_add(task.system_ms);
    let used = derived::total(stall.incident.tasks.iter().map(ms));
    for task in &stall.incident.tasks {
        let share = percent(ms(task), used);
        if share >= BUSY_PERCENT {
            let why = format!("used {share:.0}% of the CPU time");
            add(&mut parts, task.pid, &task.task, why, share);
        }
    }
    named(parts)
}

/// Tasks that wrote to devices.
pub(crate) fn wrote(stall: &StallWindow<'_>, _: &Cause) -> Vec<Role> {
    let mut parts = Vec::new();
    device_writers(stall, &mut parts);
    named(parts)
}

/// Tasks that brought pages into the page cache.
fn floods(stall: &StallWindow<'_>, parts: &mut Vec<StallRole>) {
    let page_bytes = stall.window.now.origin.page_bytes;
    for share in &stall.incident.flood {
        let bytes = share.pages.saturating_mul(page_bytes);
        if bytes < FLOOD_BYTES {
            continue;
        }
        let size = format_bytes(bytes);
        let why = format!("brought {size} of {} into the page cache", share.path);
        add(parts, share.pid, &share.task, why, bytes as f64);
    }
}

fn device_writers(stall: &StallWindow<'_>, parts: &mut Vec<StallRole>) {
    for task in &stall.incident.tasks {
        let Some(bytes) = task.written_bytes.filter(|bytes| *bytes >= WRITTEN_BYTES) else {
            continue;
        };
        let why = format!("wrote {} to devices", format_bytes(bytes));
        add(parts, task.pid, &task.task, why, bytes as f64);
    }
}

/// Tasks whose resident memory grew.
fn growth(stall: &StallWindow<'_>, parts: &mut Vec<StallRole>) {
    let grown = stall.incident.tasks.iter().filter(|t| t.resident_growth_bytes >= GROWTH_BYTES);
    for task in grown {
        let bytes = task.resident_growth_bytes.unsigned_abs();
        let why = format!("grew by {}", format_bytes(bytes));
        add(parts, task.pid, &task.task, why, bytes as f64);
    }
}

/// Tasks that were in these functions of the kernel. Kernel threads come last: they work on behalf of other
/// tasks.
fn in_functions(
    stall: &StallWindow<'_>,
    functions: &[FunctionSet],
    what: &str,
    parts: &mut Vec<StallRole>,
) {
    let Some(profile) = &stall.incident.profile else { return };
    let all = profile.stacks.iter().map(|stack| stack.samples as f64).sum::<f64>();
    let mut tasks: Vec<(u32, &str, f64)> = Vec::new();
    for stack in &profile.stacks {
        if !profile.names(stack).any(|name| kernel::is_of(functions, name)) {
            continue;
        }
        let share = stack.samples as f64 * 100.0 * f64::from(stall.cpus()) / all;
        match tasks.iter_mut().find(|(pid, task, _)| (*pid, *task) == (stack.pid, &stack.task)) {
            Some((.., sum)) => *sum += share,
            None => tasks.push((stack.pid, &stack.task, share)),
        }
    }
    for (pid, task, share) in tasks.into_iter().filter(|(.., share)| *share >= BUSY_PERCENT) {
        let kernel = is_background(task);
        let who = if kernel { "kernel thread, " } else { "" };
        let why = format!("{who}used {share:.0}% of a CPU in {what}");
        add(parts, pid, task, why, if kernel { 0.0 } else { share });
    }
}

/// Adds a part, to the line of the same task if there is one.
fn add(parts: &mut Vec<StallRole>, pid: u32, task: &str, why: String, weight: f64) {
    let same = |part: &&mut StallRole| part.role.pid == pid && part.role.task == task;
    match parts.iter_mut().find(same) {
        Some(part) => {
            part.role.why = format!("{}; {why}", part.role.why);
            part.weight = part.weight.max(weight);
        }
        None => parts.push(StallRole { role: Role { pid, task: task.to_owned(), why }, weight }),
    }
}

/// The tasks of the greatest weight, in that order: one of each name, with the number of others.
fn named(mut parts: Vec<StallRole>) -> Vec<Role> {
    parts.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let mut named: Vec<(Role, u32)> = Vec::new();
    for StallRole { role, .. } in parts {
        match named.iter_mut().find(|(known, _)| known.task == role.task) {
            Some((_, more)) => *more = more.saturating_add(1),
            None => named.push((role, 0)),
        }
    }
    let said = |(role, more): (Role, u32)| match more {
        0 => role,
        _ => Role { why: format!("{}; {more} more tasks of that name", role.why), ..role },
    };
    named.into_iter().take(MAX_NAMED).map(said).collect()
}
