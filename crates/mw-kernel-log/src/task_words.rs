//! Blocked tasks and CPUs, in words.

use crate::cause::{JudgedReport, LogCause};
use crate::page::Page;
use crate::report::KernelReport;
use crate::waits::{self, BlockedOn};
use mw_memory::format_count;

/// Tasks that are named.
const MAX_NAMED: usize = 4;

/// Functions of a trace that are shown.
const MAX_FUNCTIONS: usize = 4;

/// File systems, whose functions begin with their names.
const FILE_SYSTEMS: &[&str] = &[
    "bcachefs", "btrfs", "ceph", "cifs", "ext4", "f2fs", "fuse", "gfs2", "jfs", "nfs", "ntfs3",
    "ocfs2", "ubifs", "xfs", "zfs",
];

/// The file system that a task is in.
fn file_system(report: &KernelReport) -> Option<&'static str> {
    let functions = report.trace.iter();
    let mut prefixes = functions.filter_map(|function| function.split_once('_')).map(|(of, _)| of);
    prefixes.find_map(|prefix| FILE_SYSTEMS.iter().find(|name| **name == prefix).copied())
}

/// The task of a group that says most of the cause: it waits for a device, not for another task.
pub(crate) fn most_telling<'a, 'b>(group: &'b [JudgedReport<'a>]) -> Option<&'b JudgedReport<'a>> {
    group.iter().min_by_key(|judged| {
        let has_device = name(judged.report).is_some_and(|name| waits::device_of(name).is_some());
        (wait_of(judged), !has_device)
    })
}

fn wait_of(judged: &JudgedReport<'_>) -> BlockedOn {
    match judged.cause {
        LogCause::Blocked(wait) => wait,
        _ => BlockedOn::Unknown,
    }
}

fn name(report: &KernelReport) -> Option<&str> {
    report.requester.name.as_deref()
}

pub(crate) fn hung_headline(judged: &JudgedReport<'_>) -> String {
    let report = judged.report;
    let task = name(report).unwrap_or("a task");
    let seconds = report.requester.blocked_s.unwrap_or_default();
    format!("{task} was blocked for more than {seconds} s: it waited for {}", waited_for(judged))
}

fn waited_for(judged: &JudgedReport<'_>) -> String {
    let device = name(judged.report).and_then(waits::device_of);
    match (wait_of(judged), device) {
        (BlockedOn::Device, Some(device)) => format!("I/O of the device {device}"),
        (BlockedOn::Device, None) => match file_system(judged.report) {
            Some(name) => format!("I/O of {name}"),
            None => "I/O of a block device".to_owned(),
        },
        (BlockedOn::NetworkFileSystem, _) => "the server of a network file system".to_owned(),
        (BlockedOn::Fuse, _) => "the program that serves a FUSE file system".to_owned(),
        (BlockedOn::Reclaim, _) => "memory to be reclaimed".to_owned(),
        (BlockedOn::DirtyThrottling, _) => "dirty pages to be written".to_owned(),
        (BlockedOn::Journal, Some(device)) => format!("the journal on the device {device}"),
        (BlockedOn::Journal, None) => "the journal of a file system".to_owned(),
        (BlockedOn::Lock, _) => "a lock that another task held".to_owned(),
        (BlockedOn::OwnLock, _) => {
            "the network configuration, whose lock it held itself".to_owned()
        }
        (BlockedOn::Rcu, _) => "an RCU grace period".to_owned(),
        (BlockedOn::ThreadStart, _) => "the driver that made it and has not started it".to_owned(),
        (BlockedOn::Unknown, Some(device)) => format!("the device {device}, as its name says"),
        (BlockedOn::Unknown, None) => "something that the call trace does not show".to_owned(),
    }
}

pub(crate) fn hung_rows(judged: &JudgedReport<'_>, group: &[JudgedReport<'_>], page: &mut Page) {
    let functions = waits::waiting_functions(judged.report);
    let functions: Vec<&str> = functions.take(MAX_FUNCTIONS).collect();
    if !functions.is_empty() {
        page.row(
            "reason",
            format!("it waited for {}: {}", waited_for(judged), functions.join(" < ")),
        );
    }
    if let Some(owner) = group.iter().find_map(|judged| judged.report.requester.lock_owner.as_ref())
    {
        page.row("lock", format!("likely owned by {owner}"));
    }
    page.row("blocked", tasks(group));
    page.row("remedy", hung_remedy(judged) + &served_here(group).unwrap_or_default());
    page.row("killed", "no process: a blocked task is reported, not killed");
}

/// Devices whose server is a program, which may run on this machine.
const SERVED_DEVICES: &[&str] = &["rbd", "nbd"];

/// Tasks that wait for reclaim beside others that wait for such a device: reclaim may write to the device, whose server then
/// waits for it (prctl(2), `PR_SET_IO_FLUSHER`).
fn served_here(group: &[JudgedReport<'_>]) -> Option<String> {
    let device = |judged: &JudgedReport<'_>| {
        let device = name(judged.report).and_then(waits::device_of)?;
        let number = SERVED_DEVICES.iter().find_map(|kind| device.strip_prefix(kind))?;
        number.starts_with(|first: char| first.is_ascii_digit()).then(|| device.to_owned())
    };
    let device = group.iter().find_map(device)?;
    let is_reclaim = |judged: &JudgedReport<'_>| wait_of(judged) == BlockedOn::Reclaim;
    group.iter().any(is_reclaim).then(|| {
        format!(
            "; if a program of this machine serves {device}, reclaim waits for it, and it for reclaim: serve {device} from \
             another machine, keep more memory free (vm.min_free_kbytes), or update server and kernel (PR_SET_IO_FLUSHER, \
             Linux 5.6)"
        )
    })
}

fn hung_remedy(judged: &JudgedReport<'_>) -> String {
    let remedy = match wait_of(judged) {
        BlockedOn::OwnLock => return own_lock_remedy(judged.report),
        BlockedOn::Device | BlockedOn::Journal => {
            "check the storage below: its errors in this log, iostat -x, the backend of a network device"
        }
        BlockedOn::NetworkFileSystem => "check the file server and the network to it",
        BlockedOn::Fuse => "look at the program that serves the file system",
        BlockedOn::Reclaim => {
            "reclaim was too slow: memwright check, and watch for the cause of the stall"
        }
        BlockedOn::DirtyThrottling => {
            "the device writes slower than programs: memwright explain dirty-throttle"
        }
        BlockedOn::Lock | BlockedOn::Rcu => {
            "find the holder: SysRq w lists all blocked tasks with their traces"
        }
        BlockedOn::ThreadStart => {
            "none needed: a kernel thread that nobody uses; newer kernels may not make it"
        }
        BlockedOn::Unknown => "SysRq w on the machine lists all blocked tasks with their traces",
    };
    remedy.to_owned()
}

/// The driver that asks for the lock once more, and what avoids that where it resumes a device.
fn own_lock_remedy(report: &KernelReport) -> String {
    let driver = report.modules.first().map_or_else(String::new, |module| format!(" {module}"));
    let resumes = report.has_trace("rpm_resume") || report.has_trace("__pm_runtime_resume");
    let meanwhile = if resumes {
        "; until then no runtime power management for the device (on in its power/control in /sys)"
    } else {
        ""
    };
    format!(
        "a deadlock in the kernel's driver{driver}: restart, and look for a newer kernel{meanwhile}"
    )
}

/// `fio (22470) for a journal, …`.
fn tasks(group: &[JudgedReport<'_>]) -> String {
    let mut names: Vec<String> = Vec::new();
    for judged in group {
        let report = judged.report;
        let pid = report.requester.pid.map_or(String::new(), |pid| format!(" ({pid})"));
        let text =
            format!("{}{pid} waited for {}", name(report).unwrap_or("a task"), waited_for(judged));
        if !names.contains(&text) && names.len() <= MAX_NAMED {
            names.push(text);
        }
    }
    let more = group.len().saturating_sub(names.len());
    names.truncate(MAX_NAMED);
    if more > 0 {
        names.push(format!("{} more", format_count(more, "report")));
    }
    names.join(", ")
}

pub(crate) fn lockup_headline(judged: &JudgedReport<'_>) -> String {
    let report = judged.report;
    let cpu = report.requester.cpu.map_or("a CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let task = name(report).map_or(String::new(), |name| format!(" in {name}"));
    let time = report.requester.blocked_s.map_or(String::new(), |s| format!(" for {s} s"));
    let work = match wait_of(judged) {
        BlockedOn::Reclaim => "it was reclaiming memory",
        _ => "the log does not say that memory was the cause",
    };
    format!("{cpu} did not schedule{time}{task}: {work}")
}

pub(crate) fn lockup_rows(judged: &JudgedReport<'_>, page: &mut Page) {
    let report = judged.report;
    let functions: Vec<&str> = report.trace.iter().take(5).map(String::as_str).collect();
    if !functions.is_empty() {
        page.row("trace", functions.join(" < "));
    }
    let kind = if report.remarks.is_hard_lockup {
        "interrupts were off on this CPU (hard lockup)"
    } else {
        "the kernel ran on this CPU without scheduling (soft lockup)"
    };
    page.row("reason", format!("{kind}; in a virtual machine the host may not have run the CPU"));
    let remedy = match wait_of(judged) {
        BlockedOn::Reclaim => "find what uses the memory: memwright check",
        _ => {
            "where the trace is the same each time, a defect of this kernel or driver: try a newer one, or the one before its \
             last update"
        }
    };
    page.row("remedy", remedy);
    page.row("killed", "no process");
}
