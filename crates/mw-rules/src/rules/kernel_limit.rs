//! # kernel-limit
//!
//! The kernel refuses requests at a limit of its own, while memory is free.
//!
//! ## What it finds
//! At least 95% of a limit of the whole machine in use: buffers of TCP and UDP sockets (`net.ipv4.tcp_mem`,
//! `net.ipv4.udp_mem`), open files (`fs.file-max`), tasks (`kernel.threads-max`, `kernel.pid_max`), requests of
//! asynchronous I/O (`fs.aio-max-nr`), TCP connections that no process has any more (`net.ipv4.tcp_max_orphans`), tracked
//! connections (`net.netfilter.nf_conntrack_max`); or of the keys of one user (`kernel.keys.maxkeys`). Before Linux 4.7, of the numbers of memory
//! cgroups, of which there are 65535. Or of the tasks of a cgroup (`pids.max` of version 2, `TasksMax=` of systemd), of
//! those that cgroup-limit looks at.
//!
//! ## Why it hurts
//! Programs see ENOMEM, ENOBUFS, ENFILE, EAGAIN or EDQUOT, or connections stall and are dropped, and people look for
//! memory that is not missing.
//!
//! ## What it looks like
//! "TCP: out of memory -- consider tuning tcp_mem", "TCP: too many orphaned sockets" ("Out of socket memory" before
//! Linux 3.3), "nf_conntrack: table full, dropping packet" or "VFS: file-max limit reached" in the kernel log; fork fails with
//! "Resource temporarily unavailable"; a container does not start because its memory cgroup cannot be created.
//!
//! ## How to fix it
//! Find the program that holds them (`ss -tm`, `ls /proc/PID/fd`), or raise the limit: the finding has the command.
//!
//! ## Threshold
//! 95%, a warning: the next burst is refused. TCP stops growing buffers from the middle value of `tcp_mem` on, and drops
//! beyond the third (net/ipv4/tcp.c, `tcp_out_of_memory()`); the counters are updated in batches for each CPU. An orphan is
//! reset once there are more than the limit (`tcp_too_many_orphans()`), one whose peer does not answer from a quarter of it on.
//!
//! A memory cgroup has a number of 16 bits, which swap entries refer to. Up to Linux 4.6 a deleted cgroup keeps its number
//! while memory is charged to it, such as kernel objects, and /proc/cgroups counts it. Linux 4.7 releases the number when the
//! cgroup is deleted and nothing of it is swapped out (mm/memcontrol.c, `mem_cgroup_id_put()`), so that the count does not
//! tell any more how many are in use. The same is so where a distribution has this change in an older kernel: then more than
//! 65535 may be counted, and nothing is reported.
//!
//! ## References
//! Linux, Documentation/networking/ip-sysctl.rst, tcp_mem; Documentation/admin-guide/sysctl/fs.rst, file-nr and aio-nr;
//! Documentation/admin-guide/sysctl/kernel.rst, threads-max.

use crate::cgroup_counts;
use crate::share::{LIMIT_PERCENT, percent};
use mw_model::{
    Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Subject, Sysctl, Window,
    format_bytes,
};

/// Something that is limited, and how much of it is in use.
struct LimitedUse {
    what: &'static str,
    used: u64,
    source: &'static str,
    limit: u64,
    /// The setting, by its dotted name.
    setting: &'static str,
    /// The place of the limit in it, where it has several values.
    place: usize,
    effect: &'static str,
    /// Bytes of one, where it is memory.
    unit_bytes: Option<u64>,
    /// The step to take before the limit is raised.
    first: &'static str,
}

/// The step for most things that are limited.
const FIND_HOLDER: &str = "find the program that holds them";

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let uses: Vec<LimitedUse> = [tcp, udp, orphans, tracked, files, threads, pids, aio, keys]
        .into_iter()
        .filter_map(|of| of(snapshot))
        .collect();
    let numbers = cgroup_counts::numbers(snapshot);
    let tasks = cgroup_counts::tasks(snapshot);
    if uses.is_empty() && numbers.is_none() && tasks.is_empty() {
        return Err(Missing::absent("/proc/sys/fs/file-nr", "no limit of the kernel was read"));
    }
    let reached = uses.iter().filter(|of| percent(of.used, of.limit) >= LIMIT_PERCENT);
    Ok(reached.map(|of| finding(of, snapshot)).chain(numbers.flatten()).chain(tasks).collect())
}

fn tcp(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "buffers of TCP sockets",
        used: snapshot.sockets.value()?.tcp_pages,
        source: "/proc/net/sockstat",
        limit: value(snapshot, "net.ipv4.tcp_mem", 2)?,
        setting: "net.ipv4.tcp_mem",
        place: 2,
        effect: "Connections stall or are dropped although memory is free.",
        unit_bytes: Some(snapshot.origin.page_bytes),
        first: FIND_HOLDER,
    })
}

fn udp(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "buffers of UDP sockets",
        used: snapshot.sockets.value()?.udp_pages?,
        source: "/proc/net/sockstat",
        limit: value(snapshot, "net.ipv4.udp_mem", 2)?,
        setting: "net.ipv4.udp_mem",
        place: 2,
        effect: "Datagrams are dropped although memory is free.",
        unit_bytes: Some(snapshot.origin.page_bytes),
        first: FIND_HOLDER,
    })
}

fn orphans(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "orphaned TCP connections",
        used: snapshot.sockets.value()?.tcp_orphans?,
        source: "/proc/net/sockstat",
        limit: value(snapshot, "net.ipv4.tcp_max_orphans", 0)?,
        setting: "net.ipv4.tcp_max_orphans",
        place: 0,
        effect: "Connections that their program has closed are reset before their data are delivered, although memory is \
                 free.",
        unit_bytes: None,
        first: "find the program that closes connections whose peers do not answer",
    })
}

fn tracked(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "tracked connections",
        used: value(snapshot, "net.netfilter.nf_conntrack_count", 0)?,
        source: "/proc/sys/net/netfilter/nf_conntrack_count",
        limit: value(snapshot, "net.netfilter.nf_conntrack_max", 0)?,
        setting: "net.netfilter.nf_conntrack_max",
        place: 0,
        effect: "Packets of new connections are dropped although memory is free.",
        unit_bytes: None,
        first: "find what opens the connections (conntrack -L)",
    })
}

/// `fs.file-nr` is the number of open files, 0, and the limit.
fn files(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "open files",
        used: value(snapshot, "fs.file-nr", 0)?,
        source: "/proc/sys/fs/file-nr",
        limit: value(snapshot, "fs.file-nr", 2)?,
        setting: "fs.file-max",
        place: 0,
        effect: "open(2), socket(2) and accept(2) fail with ENFILE, except for root.",
        unit_bytes: None,
        first: FIND_HOLDER,
    })
}

fn threads(snapshot: &Snapshot) -> Option<LimitedUse> {
    of_tasks(snapshot, "kernel.threads-max")
}

fn pids(snapshot: &Snapshot) -> Option<LimitedUse> {
    of_tasks(snapshot, "kernel.pid_max")
}

fn of_tasks(snapshot: &Snapshot, setting: &'static str) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "tasks",
        used: *snapshot.tasks.value()?,
        source: "/proc/loadavg",
        limit: value(snapshot, setting, 0)?,
        setting,
        place: 0,
        effect: "fork(2) and the creation of threads fail with EAGAIN although memory is free.",
        unit_bytes: None,
        first: FIND_HOLDER,
    })
}

fn aio(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "requests of asynchronous I/O",
        used: value(snapshot, "fs.aio-nr", 0)?,
        source: "/proc/sys/fs/aio-nr",
        limit: value(snapshot, "fs.aio-max-nr", 0)?,
        setting: "fs.aio-max-nr",
        place: 0,
        effect: "io_setup(2) fails with EAGAIN.",
        unit_bytes: None,
        first: FIND_HOLDER,
    })
}

/// The keys of the user that is closest to the quota.
fn keys(snapshot: &Snapshot) -> Option<LimitedUse> {
    // Root has a quota of its own.
    let users = snapshot.keys.value()?.iter().filter(|user| user.uid != 0);
    let fullest =
        users.max_by(|a, b| percent(a.keys, a.max_keys).total_cmp(&percent(b.keys, b.max_keys)))?;
    Some(LimitedUse {
        what: "keys of one user",
        used: fullest.keys,
        source: "/proc/key-users",
        limit: fullest.max_keys,
        setting: "kernel.keys.maxkeys",
        place: 0,
        effect: "add_key(2) fails with EDQUOT, and with it the start of containers.",
        unit_bytes: None,
        first: FIND_HOLDER,
    })
}

/// The value at a place of a setting.
fn value(snapshot: &Snapshot, setting: &str, place: usize) -> Option<u64> {
    let values = mw_proc::number::parse_list_u64(snapshot.sysctl.text(setting).ok()?.as_bytes());
    values.ok()?.get(place).copied()
}

fn finding(of: &LimitedUse, snapshot: &Snapshot) -> Finding {
    let share = percent(of.used, of.limit);
    let amount = |count: u64| match of.unit_bytes {
        Some(bytes) => format_bytes(count.saturating_mul(bytes)),
        None => count.to_string(),
    };
    let headline = format!(
        "{} are at the limit {}: {} of {} ({share:.0}%)",
        of.what,
        of.setting,
        amount(of.used),
        amount(of.limit)
    );
    Finding::new(Severity::Warning, Subject::Sysctl(of.setting.to_owned()), headline)
        .with_evidence("in use", Quantity::Count(of.used), of.source)
        .with_evidence(of.setting, Quantity::Count(of.limit), Sysctl::path(of.setting))
        .with_impact(of.effect)
        .with_remedy(remedy(of, snapshot))
}

/// Twice the limit: half of it is free then.
fn remedy(of: &LimitedUse, snapshot: &Snapshot) -> Remedy {
    let raised = of.limit.saturating_mul(2);
    let values = snapshot.sysctl.text(of.setting).unwrap_or_default();
    let mut values: Vec<String> = values.split_whitespace().map(str::to_owned).collect();
    match values.get_mut(of.place) {
        Some(value) => *value = raised.to_string(),
        None => values = vec![raised.to_string()],
    }
    let share = percent(of.used, raised);
    let summary = format!("{}, or raise {} ({share:.0}% are in use then)", of.first, of.setting);
    let command = format!("sysctl -w {}=\"{}\"", of.setting, values.join(" "));
    Remedy::named(summary, vec![Step::manual(command)])
}
