//! # kernel-limit
//!
//! The kernel refuses requests at a limit of its own, while memory is free.
//!
//! ## What it finds
//! At least 95% of a limit of the whole machine in use: buffers of TCP and UDP sockets (`net.ipv4.tcp_mem`,
//! `net.ipv4.udp_mem`), open files (`fs.file-max`), tasks (`kernel.threads-max`, `kernel.pid_max`), requests of
//! asynchronous I/O (`fs.aio-max-nr`), TCP connections that no process has any more (`net.ipv4.tcp_max_orphans`), tracked
//! connections (`net.netfilter.nf_conntrack_max`), System V semaphores and their sets (`kernel.sem`), message queues
//! (`kernel.msgmni`), pseudoterminals (`kernel.pty.max`); or of the keys of one user and their bytes
//! (`kernel.keys.maxkeys`, `kernel.keys.maxbytes`, of root `root_maxkeys` and `root_maxbytes`). Before Linux 4.7, of the
//! numbers of memory cgroups, of which there are 65535. Or of the tasks of a cgroup of either version (`pids.max`,
//! `TasksMax=` of systemd); of the tasks of a user, at the limit of the user's process with most threads (`RLIMIT_NPROC`,
//! `ulimit -u`) unless that is below 256, which is set to forbid forking; of the timers and queued signals of a user
//! (`RLIMIT_SIGPENDING`, `ulimit -i`), with the same exception; or of the addresses for vmalloc (`VmallocTotal`), which
//! are few on 32-bit machines. Or a limit of a container of OpenVZ or Virtuozzo at which requests were refused
//! (`failcnt` of /proc/user_beancounters); where less than 95% of it is held by now, it is a note.
//!
//! As a note, a person (a user with a number of 1000 or above) who may have fewer tasks than the machine has CPUs: a program
//! that starts a thread for each CPU, as compilers and servers do, is refused the last of them.
//!
//! Or a process at its limit of open files (`RLIMIT_NOFILE`, `ulimit -n`): fewer than five descriptors are free. A limit
//! below 512 is set on purpose, and so is one that is smaller than what is open. At most 128 processes are looked at, those
//! with the largest tables of descriptors, of each user in turn.
//!
//! Or a process that has used 95% of its limit of address space (`RLIMIT_AS`, `ulimit -v`) or of private writable memory
//! (`RLIMIT_DATA`, `ulimit -d`): of the 64 processes with most memory.
//!
//! Watches and instances of inotify (`fs.inotify.max_user_watches`) are counted by user in no file of the kernel. They would
//! have to be added up over the descriptors of all processes, at some 5 µs each; `memwright explain --log` knows the words
//! of programs that are refused one. The kernel does not report the use of
//! `fs.epoll.max_user_watches`, `fs.pipe-user-pages-soft`, `fs.mqueue.queues_max`, `RLIMIT_MSGQUEUE`,
//! `user.max_*_namespaces` and `net.core.optmem_max`.
//!
//! ## Why it hurts
//! Programs see ENOMEM, ENOBUFS, ENOSPC, EMFILE, ENFILE, EAGAIN or EDQUOT, or connections stall and are dropped, and
//! people look for memory that is not missing.
//!
//! ## What it looks like
//! "TCP: out of memory -- consider tuning tcp_mem", "TCP: too many orphaned sockets" ("Out of socket memory" before Linux
//! 3.3), "nf_conntrack: table full, dropping packet" or "VFS: file-max limit reached" in the kernel log; fork fails with
//! "Resource temporarily unavailable"; a database or Apache does not start with "No space left on device" while no disk is
//! full, because sets of semaphores were left by processes that were killed; accept fails with "Too many open files", and
//! clients wait; a container does not start because its memory cgroup cannot be created.
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
//! tell any more how many are in use (commit 73f576c04b94; `mem_cgroup_css_offline()`). The same is so where a distribution has
//! this change in an older kernel: then more than 65535 may be counted, and nothing is reported.
//!
//! A fork fails once the tasks of its real user, in all containers together, exceed the soft limit of the task that forks
//! (kernel/fork.c, `copy_process()`), unless it is root. `VmallocUsed` has all areas before Linux 4.4, nothing from 4.4 to 5.2,
//! and since 5.3 the pages of vmalloc without mappings of devices (mm/vmalloc.c, `vmalloc_nr_pages()`).
//!
//! A process opens one file at a time, and databases close those that they use least before the limit (PostgreSQL keeps ten
//! descriptors free), so that a share of the limit means nothing. The kernel returns EMFILE where no number below the soft
//! limit is free (fs/file.c, `alloc_fd()`). `FDSize` of /proc/PID/status tells which processes may have that many. Linux 6.2
//! has the number of open files in the size of /proc/PID/fd, for every user; before, root counts the entries, of processes
//! with limits of up to 2048 alone.
//!
//! `SigQ` of /proc/PID/status has what the user has queued and the limit of the process. Containers are refused a
//! pseudoterminal `kernel.pty.reserve` before the limit (fs/devpts/inode.c, `devpts_new_index()`).
//!
//! Semaphores and message queues are those of the caller's IPC namespace, as their limits are (ipc/sem.c, `newary()`;
//! ipc/util.c, `ipc_addid()`). There are at most 32768 sets and queues, unless `ipcmni_extend` is among the boot parameters
//! (Linux 5.2). Segments of shared memory are the rule `shm-limit`'s, mappings `map-count-limit`'s.
//!
//! ## References
//! Linux, Documentation/networking/ip-sysctl.rst, tcp_mem; Documentation/admin-guide/sysctl/fs.rst, file-nr and aio-nr;
//! Documentation/admin-guide/sysctl/kernel.rst, threads-max, sem, msgmni.

use crate::share::{LIMIT_PERCENT, percent};
use crate::{
    cgroup_counts, container_counters, ipc_ids, mapped_limits, open_files, user_signals,
    user_tasks, vmalloc_space,
};
use mw_model::{
    Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Subject, Sysctl, Window,
    format_bytes,
};
use mw_proc::key_users::KeyUser;
use mw_proc::sysvipc_sem::Semaphores;

/// Something that is limited, and how much of it is in use.
struct LimitedUse {
    what: String,
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
    /// True if each of them has an identifier of System V, which limits how far the limit can be raised.
    is_of_ids: bool,
}

/// The step for most things that are limited.
const FIND_HOLDER: &str = "find the program that holds them";

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let of_machine =
        [tcp, udp, orphans, tracked, files, threads, pids, aio, terminals, semaphores, queues];
    let uses: Vec<LimitedUse> =
        of_machine.into_iter().chain([keys, key_bytes]).filter_map(|of| of(snapshot)).collect();
    let numbers = cgroup_counts::numbers(snapshot);
    let mut others = cgroup_counts::tasks(snapshot);
    others.extend(user_tasks::at_limits(snapshot));
    others.extend(open_files::at_limits(snapshot));
    others.extend(user_signals::at_limits(snapshot));
    others.extend(mapped_limits::at_limits(snapshot));
    others.extend(vmalloc_space::at_its_end(snapshot));
    others.extend(container_counters::refused(snapshot));
    others.extend(user_tasks::below_cpus(snapshot));
    if uses.is_empty() && numbers.is_none() && others.is_empty() {
        return Err(Missing::absent("/proc/sys/fs/file-nr", "no limit of the kernel was read"));
    }
    let reached = uses.iter().filter(|of| percent(of.used, of.limit) >= LIMIT_PERCENT);
    Ok(reached.map(|of| finding(of, snapshot)).chain(numbers.flatten()).chain(others).collect())
}

fn tcp(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "buffers of TCP sockets".to_owned(),
        used: snapshot.sockets.value()?.tcp_pages,
        source: "/proc/net/sockstat",
        limit: value(snapshot, "net.ipv4.tcp_mem", 2)?,
        setting: "net.ipv4.tcp_mem",
        place: 2,
        effect: "Connections stall or are dropped although memory is free.",
        unit_bytes: Some(snapshot.origin.page_bytes),
        first: FIND_HOLDER,
        is_of_ids: false,
    })
}

fn udp(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "buffers of UDP sockets".to_owned(),
        used: snapshot.sockets.value()?.udp_pages?,
        source: "/proc/net/sockstat",
        limit: value(snapshot, "net.ipv4.udp_mem", 2)?,
        setting: "net.ipv4.udp_mem",
        place: 2,
        effect: "Datagrams are dropped although memory is free.",
        unit_bytes: Some(snapshot.origin.page_bytes),
        first: FIND_HOLDER,
        is_of_ids: false,
    })
}

fn orphans(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "orphaned TCP connections".to_owned(),
        used: snapshot.sockets.value()?.tcp_orphans?,
        source: "/proc/net/sockstat",
        limit: value(snapshot, "net.ipv4.tcp_max_orphans", 0)?,
        setting: "net.ipv4.tcp_max_orphans",
        place: 0,
        effect: "Connections that their program has closed are reset before their data are delivered, although memory is \
                 free.",
        unit_bytes: None,
        first: "find the program that closes connections whose peers do not answer",
        is_of_ids: false,
    })
}

fn tracked(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "tracked connections".to_owned(),
        used: value(snapshot, "net.netfilter.nf_conntrack_count", 0)?,
        source: "/proc/sys/net/netfilter/nf_conntrack_count",
        limit: value(snapshot, "net.netfilter.nf_conntrack_max", 0)?,
        setting: "net.netfilter.nf_conntrack_max",
        place: 0,
        effect: "Packets of new connections are dropped although memory is free.",
        unit_bytes: None,
        first: "find what opens the connections (conntrack -L)",
        is_of_ids: false,
    })
}

/// `fs.file-nr` is the number of open files, 0, and the limit.
fn files(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "open files".to_owned(),
        used: value(snapshot, "fs.file-nr", 0)?,
        source: "/proc/sys/fs/file-nr",
        limit: value(snapshot, "fs.file-nr", 2)?,
        setting: "fs.file-max",
        place: 0,
        effect: "open(2), socket(2) and accept(2) fail with ENFILE, except for root.",
        unit_bytes: None,
        first: FIND_HOLDER,
        is_of_ids: false,
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
        what: "tasks".to_owned(),
        used: *snapshot.tasks.value()?,
        source: "/proc/loadavg",
        limit: value(snapshot, setting, 0)?,
        setting,
        place: 0,
        effect: "fork(2) and the creation of threads fail with EAGAIN although memory is free.",
        unit_bytes: None,
        first: FIND_HOLDER,
        is_of_ids: false,
    })
}

fn aio(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "requests of asynchronous I/O".to_owned(),
        used: value(snapshot, "fs.aio-nr", 0)?,
        source: "/proc/sys/fs/aio-nr",
        limit: value(snapshot, "fs.aio-max-nr", 0)?,
        setting: "fs.aio-max-nr",
        place: 0,
        effect: "io_setup(2) fails with EAGAIN.",
        unit_bytes: None,
        first: FIND_HOLDER,
        is_of_ids: false,
    })
}

fn terminals(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "pseudoterminals".to_owned(),
        used: value(snapshot, "kernel.pty.nr", 0)?,
        source: "/proc/sys/kernel/pty/nr",
        limit: value(snapshot, "kernel.pty.max", 0)?,
        setting: "kernel.pty.max",
        place: 0,
        effect: "posix_openpt(3) fails with ENOSPC: no terminal is opened, and no login by ssh has one.",
        unit_bytes: None,
        first: FIND_HOLDER,
        is_of_ids: false,
    })
}

/// Sets of semaphores or all of them, whichever are closer to their limit: `kernel.sem` has both (SEMMNI, SEMMNS).
fn semaphores(snapshot: &Snapshot) -> Option<LimitedUse> {
    let Semaphores { sets, semaphores } = *snapshot.semaphores.value()?;
    let of = |what: &str, used, place| {
        Some(LimitedUse {
            what: what.to_owned(),
            used,
            source: "/proc/sysvipc/sem",
            limit: value(snapshot, "kernel.sem", place)?,
            setting: "kernel.sem",
            place,
            effect: "semget(2) fails with ENOSPC although no disk is full.",
            unit_bytes: None,
            first: "remove those that a program left (ipcs -s, ipcrm -s)",
            is_of_ids: place == 3,
        })
    };
    let share = |of: &LimitedUse| percent(of.used, of.limit);
    let both = [of("semaphores", semaphores, 1), of("sets of semaphores", sets, 3)];
    both.into_iter().flatten().max_by(|a, b| share(a).total_cmp(&share(b)))
}

fn queues(snapshot: &Snapshot) -> Option<LimitedUse> {
    Some(LimitedUse {
        what: "message queues".to_owned(),
        used: *snapshot.message_queues.value()?,
        source: "/proc/sysvipc/msg",
        limit: value(snapshot, "kernel.msgmni", 0)?,
        setting: "kernel.msgmni",
        place: 0,
        effect: "msgget(2) fails with ENOSPC although no disk is full.",
        unit_bytes: None,
        first: "remove those that a program left (ipcs -q, ipcrm -q)",
        is_of_ids: true,
    })
}

/// The keys of the user that is closest to the quota; root has one of its own (`proc_key_users_show()`).
fn keys(snapshot: &Snapshot) -> Option<LimitedUse> {
    let user = fullest(snapshot, |user| (user.keys, user.max_keys))?;
    let setting = ["kernel.keys.maxkeys", "kernel.keys.root_maxkeys"];
    Some(of_keys(user.uid, "keys", (user.keys, user.max_keys), setting, None))
}

/// Bytes of keys of the user that is closest to that quota.
fn key_bytes(snapshot: &Snapshot) -> Option<LimitedUse> {
    let user = fullest(snapshot, |user| (user.bytes, user.max_bytes))?;
    let setting = ["kernel.keys.maxbytes", "kernel.keys.root_maxbytes"];
    Some(of_keys(user.uid, "bytes of keys", (user.bytes, user.max_bytes), setting, Some(1)))
}

fn fullest(snapshot: &Snapshot, of: impl Fn(&KeyUser) -> (u64, u64)) -> Option<KeyUser> {
    let share = |user: &KeyUser| {
        let (used, limit) = of(user);
        percent(used, limit)
    };
    let users = snapshot.keys.value()?.iter();
    users.max_by(|a, b| share(a).total_cmp(&share(b))).copied()
}

/// `setting` is that of users and that of root.
fn of_keys(
    uid: u32,
    what: &str,
    (used, limit): (u64, u64),
    [of_users, of_root]: [&'static str; 2],
    unit_bytes: Option<u64>,
) -> LimitedUse {
    LimitedUse {
        what: format!("{what} of user {uid}"),
        used,
        source: "/proc/key-users",
        limit,
        setting: if uid == 0 { of_root } else { of_users },
        place: 0,
        effect: "add_key(2) fails with EDQUOT, and with it the start of containers.",
        unit_bytes,
        first: FIND_HOLDER,
        is_of_ids: false,
    }
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
    let raised =
        if of.is_of_ids { ipc_ids::raised(of.limit) } else { Some(of.limit.saturating_mul(2)) };
    let Some(raised) = raised else {
        return Remedy::named(
            format!("{}, or allow a larger {} at boot", of.first, of.setting),
            vec![ipc_ids::extending()],
        );
    };
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
