//! /proc/PID/status and limits, of a bounded number of processes.

use crate::collector::open_files;
use crate::collector::process_files::{limits, reader};
use crate::source::Source;
use mw_model::mapped_limit::reached_limit;
use mw_model::{Missing, Process, Processes, is_person};
use mw_proc::cgroup::{self, Membership};
use mw_proc::pid_stat::PidStat;
use mw_proc::status::Status;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The most processes that are looked at.
pub(crate) const MAX_PROCESSES: usize = 4096;

/// Processes that are looked at between two looks at the time: waking the thread that looks costs as
/// much as two.
const BATCH: usize = 32;

/// Users whose limit of tasks is read, and the fewest tasks of such a user, where it is no person.
const MAX_USERS: usize = 8;
const MANY_TASKS: u64 = 128;

/// Processes whose memory cgroup and limits are read, and the least memory of one.
const MAX_LARGE: usize = 64;
const LARGE_BYTES: u64 = 16 << 20;

/// Time limit of all processes: a status costs 10 to 20 µs, more when the process is busy.
const BUDGET: Duration = Duration::from_millis(8);

pub(crate) fn collect(source: &Source) -> Result<Processes, Missing> {
    let mut processes = collect_first(source, &[])?;
    let largest = largest(&processes.list);
    add_memory_cgroups(source, &mut processes.list, &largest)?;
    add_mapped_limits(source, &mut processes.list, &largest)?;
    Ok(processes)
}

/// Reads some processes before all others.
pub(crate) fn collect_first(source: &Source, first: &[u32]) -> Result<Processes, Missing> {
    collect_within(source, source.budget(BUDGET), first)
}

fn collect_within(source: &Source, budget: Duration, first: &[u32]) -> Result<Processes, Missing> {
    let mut pids: Vec<u32> =
        source.list("/proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    if pids.is_empty() {
        return Err(source.not_there(Missing::absent("/proc/PID", "no process in it")));
    }
    let kernel = kernel_threads(source);
    pids.retain(|pid| !kernel.contains(pid));
    // The newest first: what has been there since boot is the least likely to be the cause.
    pids.sort_unstable_by_key(|pid| (!first.contains(pid), Reverse(*pid)));
    let deadline = Instant::now() + budget;
    let (mut seen, mut list) = (0, Vec::new());
    let mut read = reader(source, process)?;
    for batch in pids.get(..MAX_PROCESSES).unwrap_or(&pids).chunks(BATCH) {
        let answers = read(batch);
        seen += answers.iter().flatten().count();
        list.extend(answers.into_iter().flatten().flatten());
        // Only now: on a busy machine the time is up before the helper thread runs.
        if Instant::now() >= deadline {
            break;
        }
    }
    add_limits_of_users(source, &mut list)?;
    open_files::add(source, &mut list)?;
    list.sort_by_key(|process: &Process| process.status.pid);
    Ok(Processes { present: pids.len(), unseen: pids.len() - seen, list })
}

/// Reads the limits of the process with most threads of each person, and of each user with many tasks.
fn add_limits_of_users(source: &Source, list: &mut [Process]) -> Result<(), Missing> {
    // Tasks of the user, the largest process's threads and its place.
    let mut users: BTreeMap<u32, (u64, u64, usize)> = BTreeMap::new();
    for (at, status) in list.iter().map(|process| &process.status).enumerate() {
        let Some(uid) = status.uid.filter(|uid| *uid != 0) else { continue };
        let threads = status.threads.unwrap_or(1);
        let user = users.entry(uid).or_default();
        user.0 = user.0.saturating_add(threads);
        if threads > user.1 {
            (user.1, user.2) = (threads, at);
        }
    }
    let is_read =
        |(uid, (tasks, ..)): &(u32, (u64, u64, usize))| *tasks >= MANY_TASKS || is_person(*uid);
    let mut most: Vec<_> = users.into_iter().filter(is_read).map(|(_, user)| user).collect();
    most.sort_unstable_by_key(|(tasks, ..)| Reverse(*tasks));
    most.truncate(MAX_USERS);
    if most.is_empty() {
        return Ok(());
    }
    let mut read = reader(source, limits)?;
    for (.., at) in most {
        if let Some(process) = list.get_mut(at)
            && process.limits.is_none()
            && let Some(pid) = process.status.pid
        {
            process.limits = read(&[pid]).into_iter().flatten().flatten().next();
        }
    }
    Ok(())
}

/// The processes with most memory: their places in the list, and their numbers.
fn largest(list: &[Process]) -> Vec<(usize, u32)> {
    let large = list.iter().enumerate().filter_map(|(at, process)| {
        let bytes = process.status.resident_bytes()?;
        (bytes >= LARGE_BYTES).then_some((bytes, at, process.status.pid?))
    });
    let mut most: Vec<(u64, usize, u32)> = large.collect();
    most.sort_unstable_by_key(|(bytes, ..)| Reverse(*bytes));
    most.into_iter().map(|(_, at, pid)| (at, pid)).take(MAX_LARGE).collect()
}

/// Reads in which memory cgroup these processes are.
fn add_memory_cgroups(
    source: &Source,
    list: &mut [Process],
    largest: &[(usize, u32)],
) -> Result<(), Missing> {
    of_each(source, list, largest, memory_cgroup, |process, group| {
        process.memory_cgroup = Some(group);
    })
}

/// Reads the limits of these processes, and keeps those of which one is a limit of mapped memory that it has come close to.
fn add_mapped_limits(
    source: &Source,
    list: &mut [Process],
    largest: &[(usize, u32)],
) -> Result<(), Missing> {
    of_each(source, list, largest, limits, |process, limits| {
        if reached_limit(&process.status, &limits).is_some() {
            process.limits = Some(limits);
        }
    })
}

fn of_each<T: Send + 'static>(
    source: &Source,
    list: &mut [Process],
    places: &[(usize, u32)],
    read: impl Fn(&Source, u32) -> Option<T> + Send + Sync + 'static,
    mut add: impl FnMut(&mut Process, T),
) -> Result<(), Missing> {
    if places.is_empty() {
        return Ok(());
    }
    let pids: Vec<u32> = places.iter().map(|(_, pid)| *pid).collect();
    let answers = reader(source, read)?(&pids);
    for ((at, _), answer) in places.iter().zip(answers) {
        if let (Some(process), Some(answer)) = (list.get_mut(*at), answer.flatten()) {
            add(process, answer);
        }
    }
    Ok(())
}

fn memory_cgroup(source: &Source, pid: u32) -> Option<String> {
    let groups = source.parse(&format!("/proc/{pid}/cgroup"), cgroup::parse_self).ok()?;
    memory_path(&groups)
}

/// Path of the group of version 1 that has the memory controller, else of that of version 2.
pub(crate) fn memory_path(groups: &[Membership]) -> Option<String> {
    let of_memory = groups.iter().find(|group| group.has_controller("memory"));
    let group = of_memory.or_else(|| groups.iter().find(|group| group.is_unified()))?;
    Some(group.path.clone())
}

/// Start times of processes, in ticks since boot; `None` for one that has gone or did not answer in time.
pub(crate) fn started_ticks(source: &Source, pids: &[u32]) -> Vec<Option<u64>> {
    let started = |source: &Source, pid| {
        let stat = source.parse(&format!("/proc/{pid}/stat"), PidStat::parse).ok()?;
        Some(stat.started_ticks)
    };
    let Ok(mut read) = reader(source, started) else { return Vec::new() };
    read(pids).into_iter().map(Option::flatten).collect()
}

/// File in which the kernel lists the children of kthreadd, its own threads, if it was built to.
const KERNEL_THREADS: &str = "/proc/2/task/2/children";

/// The kernel's own threads, in one read: on a large server most of /proc are these.
fn kernel_threads(source: &Source) -> BTreeSet<u32> {
    // In a container process 2 is another, which has a program.
    let is_kthreadd = source.leads_nowhere("/proc/2/exe");
    let list = source.read(KERNEL_THREADS).ok().filter(|_| is_kthreadd).unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// All processes but the kernel's own threads and this one.
///
/// # Errors
/// /proc cannot be read.
pub(crate) fn other_programs(source: &Source) -> Result<Vec<u32>, Missing> {
    let kernel = kernel_threads(source);
    let numbers = source.list("/proc")?.into_iter().filter_map(|name| name.parse().ok());
    Ok(numbers.filter(|pid| !kernel.contains(pid) && *pid != std::process::id()).collect())
}

/// One process that has memory; kernel threads have none, and a process may be gone.
fn process(source: &Source, pid: u32) -> Option<Process> {
    if source.leads_nowhere(&format!("/proc/{pid}/exe")) {
        return None;
    }
    let status = source.parse(&format!("/proc/{pid}/status"), Status::parse).ok()?;
    status.vm_rss_bytes?;
    let locks = status.vm_lck_bytes.max(status.vm_pin_bytes).is_some_and(|bytes| bytes > 0);
    let limits = locks.then(|| limits(source, pid)).flatten();
    Some(Process { status, limits, ..Process::default() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_limits_of_a_user_with_many_tasks_are_those_of_the_largest_process() {
        let root = tempfile::tempdir().unwrap();
        let limit = "Limit Soft Limit Hard Limit Units\nMax processes             1024                 1024 processes\n";
        for (pid, uid, threads) in [(7, 1000, 20), (8, 1000, 200), (9, 0, 500), (10, 33, 4)] {
            let dir = root.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&dir).unwrap();
            let status = format!(
                "Name:\ta\nPid:\t{pid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nVmRSS:\t40 kB\nThreads:\t{threads}\n"
            );
            std::fs::write(dir.join("status"), status).unwrap();
            std::fs::write(dir.join("limits"), limit).unwrap();
        }
        let found = collect(&Source::tree(root.path()).unwrap()).unwrap();
        let limited = found.list.iter().filter(|process| process.limits.is_some());
        let pids: Vec<u32> = limited.filter_map(|process| process.status.pid).collect();
        assert_eq!(pids, [8]);
    }

    #[test]
    fn kernel_threads_are_left_out() {
        let source = Source::live().unwrap();
        let threads = kernel_threads(&source);
        assert!(!threads.contains(&std::process::id()));
        // A container has none, nor a kernel that was not built to say it.
        let names = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
        if names == "kthreadd\n" && Path::new(KERNEL_THREADS).exists() {
            assert!(threads.len() > 3, "{threads:?}");
            let programs =
                threads.iter().filter(|pid| Path::new(&format!("/proc/{pid}/exe")).exists());
            assert_eq!(programs.count(), 0);
        }
        let seen = collect_within(&source, Duration::from_secs(60), &[]).unwrap();
        assert!(seen.list.iter().any(|process| process.status.pid == Some(std::process::id())));
    }
}
