//! A critical path in words, for a terminal and for a browser. Names in them are as the programs chose them.

use mw_critical_path::{
    Basis, CpuHolder, MachineOperation, MachinePause, Nanos, PathPart, PathSummary, PathTask,
    RunMode, TimeKind, UnseenReason, UserPlace, Wait, WaitLink,
};
use mw_model::format_duration_ms;

/// Functions of a stack that are shown.
const MAX_FUNCTIONS: usize = 5;
/// Tasks of which the place in their program is shown, and characters of a function's name.
const MAX_PLACES: usize = 3;
const MAX_NAME: usize = 64;
/// Share of the time that a part needs for its place to be shown.
const LEAST_PLACE_PERCENT: f64 = 5.0;
/// Links of a chain that are shown.
const MAX_CHAIN: usize = 8;
/// Characters of a unit's name that are shown.
const MAX_UNIT: usize = 32;
/// Untraced time below this part of the request is not worth a remark.
const UNTRACED_PART: Nanos = 20;
/// Functions in which every task waits or is switched.
const SCHEDULER: [&str; 6] =
    ["__schedule", "schedule", "__traceiter_", "perf_trace_", "preempt_schedule", "__cond_resched"];

/// Evidence that is lost of tasks outside of the tracer's PID namespace.
const OUTSIDE: &str = "tasks outside this PID namespace are traced, but /proc does not have them: their processes and \
                       cgroups, and what they did before the trace, are not known (on the host they are)";

pub(crate) fn duration(time: Nanos) -> String {
    format_duration_ms(time as f64 / 1e6)
}

/// Share of the request of a part of it.
pub(crate) fn percent(path: &PathSummary, time: Nanos) -> f64 {
    time as f64 * 100.0 / path.total_ns.max(1) as f64
}

/// The largest part in one sentence.
pub(crate) fn answer(path: &PathSummary) -> Option<String> {
    let largest = path.parts.first()?;
    // What the threads of a virtual machine did says less than that they did.
    let pause = path.main_pause();
    let share = pause.map_or(largest.total_ns, |pause| pause.total_ns);
    let pause =
        pause.and_then(|pause| Some(format!("{}: ", paused(pause, path.pause_operation()?))));
    let pause = pause.unwrap_or_default();
    Some(format!(
        "{}; {:.0}% of it: {pause}{} {}",
        duration(path.total_ns),
        percent(path, share),
        doer(largest),
        did(largest, ""),
    ))
}

/// Chain of waits, from the request's own task to that of the largest part, and the work of that one.
pub(crate) fn chain(path: &PathSummary) -> Vec<String> {
    let Some(largest) = path.parts.first() else { return Vec::new() };
    let skipped = path.chain.len().saturating_sub(MAX_CHAIN);
    let mut lines: Vec<String> = path.chain.iter().skip(skipped).map(link).collect();
    if skipped > 0 {
        lines.insert(0, format!("({skipped} more before)"));
    }
    if let Some(last) = lines.last_mut() {
        let time = format!(" {}", duration(largest.total_ns));
        last.push_str(&format!(", which {}", did(largest, &time)));
    }
    lines
}

/// Place in the kernel of the largest part, and the event that ended it; and the places in programs.
pub(crate) fn stacks(path: &PathSummary) -> Vec<String> {
    let Some(largest) = path.parts.first() else { return Vec::new() };
    let stacks = [("in", &largest.stack), ("woken by", &largest.waker_stack)];
    let shown = stacks.into_iter().map(|(what, stack)| (what, functions(stack)));
    let of_kernel = shown
        .filter(|(_, functions)| !functions.is_empty())
        .map(|(what, functions)| format!("{what}: {}", functions.join(" < ")));
    of_kernel.chain(user_places(path)).collect()
}

/// Places in their programs of the task of the largest part in which one is known, and of those that waited for it.
fn user_places(path: &PathSummary) -> Vec<String> {
    let is_large = |part: &&PathPart| percent(path, part.total_ns) >= LEAST_PLACE_PERCENT;
    let parts = path.parts.iter().take_while(is_large);
    let of_part = parts.map(|part| (&part.task, &part.user)).find(|(_, place)| !place.is_empty());
    let of_links = path.chain.iter().rev().map(|link| (&link.waiter, &link.user));
    let mut seen: Vec<u32> = Vec::new();
    let mut lines = Vec::new();
    for (task, place) in of_part.into_iter().chain(of_links).take(MAX_PLACES) {
        if !place.is_empty() && !seen.contains(&task.tid) {
            seen.push(task.tid);
            lines.push(format!("{} {}", name(task, None), user_place(place)));
        }
    }
    lines
}

fn user_place(place: &UserPlace) -> String {
    let functions: Vec<String> =
        place.functions.iter().take(MAX_FUNCTIONS).map(|name| shortened(name)).collect();
    let work = place.run_time_work().map(|work| format!(": {}", work.label())).unwrap_or_default();
    match (&place.missing, functions.is_empty()) {
        (None, _) => format!("was in {}{work}", functions.join(" < ")),
        (Some(missing), false) => format!("was in {}{work} ({missing})", functions.join(" < ")),
        (Some(missing), true) => format!("has no user stack: {missing}"),
    }
}

/// A name of a function, whose types may be longer than a screen is wide.
fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        return name.to_owned();
    }
    name.chars().take(MAX_NAME - 1).chain(['…']).collect()
}

/// Limits of the result.
pub(crate) fn remarks(path: &PathSummary) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(sibling) = &path.sibling {
        remarks.push(format!(
            "likely, no wake-up shows it: the other threads were idle while {} of the same process waited {} {}",
            name(&sibling.task, None),
            duration(sibling.total_ns),
            for_what(sibling.wait)
        ));
    }
    remarks.extend(machine_pause(path));
    if path.basis == Basis::Polling {
        let how =
            "read from /proc many times a second, not traced: which task woke another is not known";
        remarks.push(how.to_owned());
    }
    if names_task_outside(path) {
        remarks.push(OUTSIDE.to_owned());
    }
    if path.lost > 0 {
        remarks.push(format!("{} events were lost: the parts may be wrong", path.lost));
    }
    if path.untraced_ns > path.total_ns / UNTRACED_PART {
        remarks.push(format!(
            "the first {} were not traced; waits found when tracing began are taken to have begun before",
            duration(path.untraced_ns)
        ));
    }
    remarks
}

fn paused(pause: &MachinePause, operation: MachineOperation) -> String {
    let process = name(&pause.process, None);
    match operation {
        MachineOperation::Collection => format!("{process} collected garbage"),
        MachineOperation::Safepoint => format!("{process} stopped its threads at a safepoint"),
    }
}

fn machine_pause(path: &PathSummary) -> Option<String> {
    let (pause, operation) = (path.pause.as_ref()?, path.pause_operation()?);
    let (paused, time) = (paused(pause, operation), duration(pause.total_ns));
    Some(match operation {
        MachineOperation::Collection => {
            format!("{paused}: threads of its virtual machine took {time} of it")
        }
        MachineOperation::Safepoint => format!(
            "{paused}: its VM Thread took {time} of it, to collect garbage (serial collector) or for another operation"
        ),
    })
}

/// True if a task of the chain, or of a part that is shown, is outside of the tracer's PID namespace.
fn names_task_outside(path: &PathSummary) -> bool {
    const LEAST_PERCENT: f64 = 1.0;
    let parts = path.parts.iter().filter(|part| percent(path, part.total_ns) >= LEAST_PERCENT);
    let of_parts = parts.flat_map(|part| [Some(&part.task), part.holder.as_ref()]).flatten();
    let of_chain = path.chain.iter().flat_map(|link| [&link.waiter, &link.other]);
    of_parts.chain(of_chain).any(PathTask::is_outside)
}

fn link(link: &WaitLink) -> String {
    let probably = if link.inferred { "probably " } else { "" };
    let (waiter, other) = (name(&link.waiter, None), name(&link.other, None));
    format!("{waiter} {probably}waited for {other} ({})", link.wait.label())
}

fn functions(stack: &[String]) -> Vec<&str> {
    let is_known = |function: &&str| !SCHEDULER.iter().any(|of| function.starts_with(of));
    stack.iter().map(String::as_str).filter(is_known).take(MAX_FUNCTIONS).collect()
}

/// Task of a part.
pub(crate) fn doer(part: &PathPart) -> String {
    let probably = if part.inferred { "probably " } else { "" };
    format!("{probably}{}", name(&part.task, part.work.as_deref()))
}

/// A thread: its name and number, its process where that differs, what it works on, its unit.
pub(crate) fn name(task: &PathTask, work: Option<&str>) -> String {
    let PathTask { tid, name, process, process_name, cgroup, .. } = task;
    let mut about = vec![task.number()];
    match process_name {
        _ if *process == 0 || process == tid => {}
        Some(process_name) => about.push(format!("of {process_name} {process}")),
        None => about.push(format!("of {process}")),
    }
    about.extend(work.map(str::to_owned));
    about.extend(cgroup.as_deref().and_then(unit));
    match name.as_str() {
        "" => format!("task {}", about.join(", ")),
        name => format!("{name} ({})", about.join(", ")),
    }
}

/// The systemd unit of a cgroup, or else its last component, shortened.
pub(crate) fn unit(cgroup: &str) -> Option<String> {
    let is_unit = |name: &&str| name.ends_with(".service") || name.ends_with(".scope");
    let mut components = cgroup.rsplit('/').filter(|component| !component.is_empty());
    let last = components.clone().find(is_unit).or_else(|| components.next())?;
    if last.chars().count() <= MAX_UNIT {
        return Some(last.to_owned());
    }
    Some(last.chars().take(MAX_UNIT - 1).chain(['…']).collect())
}

fn holder(part: &PathPart) -> String {
    part.holder.as_ref().map_or_else(|| "another task".to_owned(), |task| name(task, None))
}

/// Use of the time, as a row of a table has it.
pub(crate) fn kind(part: &PathPart) -> String {
    match part.kind {
        TimeKind::Running(RunMode::User) => "running in user mode".to_owned(),
        TimeKind::Running(RunMode::Kernel(work)) => {
            format!("running in the kernel: {}", work.label())
        }
        TimeKind::Running(RunMode::In(wait)) => format!("running in the kernel: {}", wait.label()),
        TimeKind::Running(RunMode::Unsampled) => "running".to_owned(),
        TimeKind::Runnable(CpuHolder::Task(_)) => {
            format!("waiting for a CPU, most used by {}", holder(part))
        }
        TimeKind::Runnable(CpuHolder::Reclaimer(_) | CpuHolder::CgroupReclaimer(_)) => {
            format!("waiting for a CPU, while {} freed memory on it", holder(part))
        }
        TimeKind::Runnable(CpuHolder::Copy(_)) => {
            format!("waiting for a CPU, while the forked {} used it", holder(part))
        }
        TimeKind::Runnable(CpuHolder::Exiting(_)) => {
            format!("waiting for a CPU, while {} ended and freed its memory", holder(part))
        }
        TimeKind::Runnable(CpuHolder::Tracer) => "waiting for a CPU that memwright used".to_owned(),
        TimeKind::Runnable(CpuHolder::Idle) => "runnable while its CPU was idle".to_owned(),
        TimeKind::Runnable(CpuHolder::Unknown) => "waiting for a CPU".to_owned(),
        TimeKind::Waiting(wait) => wait.label().to_owned(),
        TimeKind::TimedOut(Wait::Unknown) => "sleep, or a wait until a time limit".to_owned(),
        TimeKind::TimedOut(wait) => format!("{} until a time limit", wait.label()),
        TimeKind::Idle(wait) => {
            format!("idle in {}, or waiting for what is not traced", wait.label())
        }
        TimeKind::Stopped => "stopped".to_owned(),
        TimeKind::Unseen(UnseenReason::NeverRan) => "did not run".to_owned(),
        TimeKind::Unseen(UnseenReason::NotThere) => {
            "before the task was created or after it ended".to_owned()
        }
        TimeKind::Unseen(UnseenReason::Untraced) => "not traced".to_owned(),
        TimeKind::Unseen(UnseenReason::NotWoken(wait)) => {
            format!("{}, without an end", wait.label())
        }
        TimeKind::Unseen(UnseenReason::TooDeep) => "longer chains of waits".to_owned(),
    }
}

/// Use of the time, as the predicate of a sentence about its task; `time` begins with a space or is empty.
fn did(part: &PathPart, time: &str) -> String {
    match part.kind {
        TimeKind::Running(RunMode::User) => format!("ran{time} in user mode"),
        TimeKind::Running(RunMode::Kernel(work)) => {
            format!("ran{time} in the kernel: {}", work.label())
        }
        TimeKind::Running(RunMode::In(wait)) => {
            format!("ran{time} in the kernel: {}", wait.label())
        }
        TimeKind::Running(RunMode::Unsampled) => format!("ran{time}"),
        TimeKind::Runnable(CpuHolder::Task(_)) => {
            format!("waited{time} for a CPU, most used by {}", holder(part))
        }
        TimeKind::Runnable(CpuHolder::Reclaimer(_) | CpuHolder::CgroupReclaimer(_)) => {
            format!("waited{time} for a CPU, while {} freed memory on it", holder(part))
        }
        TimeKind::Runnable(CpuHolder::Copy(_)) => {
            format!("waited{time} for a CPU, while the forked {} used it", holder(part))
        }
        TimeKind::Runnable(CpuHolder::Exiting(_)) => {
            format!("waited{time} for a CPU, while {} ended and freed its memory", holder(part))
        }
        TimeKind::Runnable(CpuHolder::Tracer) => {
            format!("waited{time} for a CPU that memwright used")
        }
        TimeKind::Runnable(CpuHolder::Idle) => {
            format!("was runnable{time} while its CPU was idle (throttled by a CPU quota?)")
        }
        TimeKind::Runnable(CpuHolder::Unknown) => format!("waited{time} for a CPU"),
        TimeKind::Waiting(Wait::Sleep) => format!("slept{time} on a timer"),
        TimeKind::Waiting(Wait::CgroupFrozen) => format!("was frozen{time} by its cgroup"),
        TimeKind::Waiting(Wait::CpuQuota) => {
            format!("was throttled{time} by its cgroup's CPU quota")
        }
        TimeKind::Waiting(Wait::MemoryHigh) => {
            format!("was throttled{time} over its cgroup's memory.high")
        }
        TimeKind::Waiting(wait) => format!("waited{time} {}", for_what(wait)),
        TimeKind::TimedOut(wait) => timed_out(wait, time),
        TimeKind::Idle(wait) => {
            format!("was idle{time} ({}), or waited for what was not traced", wait.label())
        }
        TimeKind::Stopped => format!("was stopped{time} by a signal or a debugger"),
        TimeKind::Unseen(UnseenReason::NeverRan) => format!("did not run{time}"),
        TimeKind::Unseen(UnseenReason::NotThere) => format!("did not exist{time}"),
        TimeKind::Unseen(UnseenReason::Untraced) => format!("was not traced{time}"),
        TimeKind::Unseen(UnseenReason::NotWoken(wait)) => {
            format!("waited{time} {}, without an end", for_what(wait))
        }
        TimeKind::Unseen(UnseenReason::TooDeep) => {
            format!("waited{time} for a longer chain of tasks")
        }
    }
}

/// A trace does not tell whether a task had descriptors to poll, or only a time to wait for.
fn timed_out(wait: Wait, time: &str) -> String {
    match wait {
        Wait::Socket => {
            format!("waited{time} for an answer that did not come within its time limit")
        }
        Wait::Poll | Wait::Futex | Wait::Signal => format!(
            "waited{time} {} until its own time limit: a sleep, or what it waited for did not come",
            for_what(wait)
        ),
        Wait::Unknown => format!("slept or waited{time} until a timer woke it"),
        wait => format!("waited{time} {} until its own time limit", for_what(wait)),
    }
}

/// Object of the wait, to follow "waited".
fn for_what(wait: Wait) -> String {
    let within = |wait: Wait| format!("in {}", wait.label());
    match wait {
        Wait::CgroupReclaim
        | Wait::Compaction
        | Wait::DirectReclaim
        | Wait::BackgroundReclaim
        | Wait::DirtyThrottling
        | Wait::Poll
        | Wait::CgroupFrozen
        | Wait::Sleep => within(wait),
        Wait::FileRead => "for a file read from disk".to_owned(),
        Wait::FileWrite => "for a file write to disk".to_owned(),
        Wait::Socket | Wait::Pipe | Wait::Terminal => format!("on {}", wait.label()),
        wait => format!("for {}", wait.label()),
    }
}
