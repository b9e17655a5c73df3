//! The processes of a running program: by number, unit or cgroup.

use crate::args::WhyArgs;
use crate::{Exit, Failure};
use mw_critical_path::PathSummary;
use mw_sys::kernel_file;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Processes that are looked at.
const MAX_PROCESSES: usize = 1 << 16;
/// Descriptors of one process that are looked at.
const MAX_DESCRIPTORS: usize = 4096;
/// Mount points of cgroup hierarchies.
const CGROUPS: &str = "/sys/fs/cgroup";
/// `st` of /proc/net/tcp (include/net/tcp_states.h).
const LISTEN: &str = "0A";

/// The processes of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProgramProcesses {
    /// For people.
    pub(super) name: String,
    pub(super) pids: Vec<u32>,
    /// It has a socket at which others ask it.
    pub(super) listen: bool,
}

impl ProgramProcesses {
    /// Those that the arguments name; `None` where they name a command.
    ///
    /// # Errors
    /// There are none.
    pub(super) fn of(args: &WhyArgs) -> Result<Option<Self>, Failure> {
        let (name, pids) = match (args.pid, &args.unit, &args.cgroup) {
            (Some(pid), _, _) => of_pid(pid)?,
            (_, Some(unit), _) => of_unit(unit)?,
            (_, _, Some(cgroup)) => of_cgroup(cgroup)?,
            _ => return Ok(None),
        };
        // Tracing is no part of the program, even if the program started it.
        let pids: Vec<u32> = pids.into_iter().filter(|pid| *pid != std::process::id()).collect();
        let listen = listens(&pids);
        Ok(Some(Self { name, pids, listen }))
    }

    pub(super) fn have_ended(&self) -> bool {
        !self.pids.iter().any(|pid| Path::new("/proc").join(pid.to_string()).exists())
    }
}

fn usage(line: String) -> Failure {
    Failure::new(Exit::Usage, line)
}

fn all() -> impl Iterator<Item = u32> {
    kernel_file::read_numbers("/proc").into_iter().flatten().take(MAX_PROCESSES)
}

/// A process and those that it started, and they in turn.
fn of_pid(pid: u32) -> Result<(String, Vec<u32>), Failure> {
    let status = |pid: u32| kernel_file::read_to_string(format!("/proc/{pid}/status")).ok();
    let field = |status: &str, name: &str| -> Option<u32> {
        status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    let own = status(pid).ok_or_else(|| usage(format!("no process {pid}")))?;
    // It may be a thread.
    let process = field(&own, "Tgid:").unwrap_or(pid);
    let name = own.lines().find_map(|line| line.strip_prefix("Name:")).unwrap_or_default().trim();
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for child in all() {
        if let Some(parent) = status(child).and_then(|status| field(&status, "PPid:")) {
            children.entry(parent).or_default().push(child);
        }
    }
    let (mut pids, mut waiting) = (BTreeSet::new(), vec![process]);
    while let Some(next) = waiting.pop() {
        if pids.insert(next) {
            waiting.extend(children.get(&next).into_iter().flatten());
        }
    }
    // What is asked for comes first.
    pids.remove(&process);
    let pids = std::iter::once(process).chain(pids).collect();
    Ok((format!("{name} ({process})"), pids))
}

/// A path with the cgroups of its tasks that still live.
pub(super) fn with_cgroups(mut path: PathSummary) -> PathSummary {
    for task in path.tasks_mut() {
        task.cgroup = cgroups(task.tid).into_iter().find(|path| path != "/");
    }
    path
}

/// Paths of the cgroups that a process is in, one for each hierarchy.
fn cgroups(pid: u32) -> Vec<String> {
    let text = kernel_file::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(str::to_owned).collect()
}

fn of_unit(unit: &str) -> Result<(String, Vec<u32>), Failure> {
    let unit = if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") };
    let is_in = |path: &String| path.split('/').any(|part| part == unit);
    let pids: Vec<u32> = all().filter(|pid| cgroups(*pid).iter().any(is_in)).collect();
    if pids.is_empty() {
        return Err(usage(format!(
            "no process in a unit '{unit}' (systemctl list-units lists them)"
        )));
    }
    Ok((unit, pids))
}

/// A path below the root of a hierarchy, or below /sys/fs/cgroup.
fn of_cgroup(cgroup: &Path) -> Result<(String, Vec<u32>), Failure> {
    let given = cgroup.display().to_string();
    let names = names(&given);
    let is_in = |path: &String| {
        names.iter().any(|name| {
            let rest = path.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let pids: Vec<u32> = all().filter(|pid| cgroups(*pid).iter().any(is_in)).collect();
    if !pids.is_empty() {
        return Ok((format!("cgroup {given}"), pids));
    }
    let why =
        if names.iter().any(|name| exists(name)) { "no process in cgroup" } else { "no cgroup" };
    Err(usage(format!("{why} '{given}' (cat /proc/PID/cgroup shows that of a process)")))
}

/// Names of it in /proc/PID/cgroup: with the mount point stripped, and the hierarchy of version 1.
fn names(given: &str) -> Vec<String> {
    let trimmed = given.trim_matches('/');
    let Some(below) = trimmed.strip_prefix(CGROUPS.trim_matches('/')) else {
        return vec![format!("/{trimmed}")];
    };
    let below = below.trim_matches('/');
    let of_controller = below.split_once('/').map(|(_, path)| format!("/{path}"));
    std::iter::once(format!("/{below}")).chain(of_controller).collect()
}

fn exists(name: &str) -> bool {
    let name = name.trim_start_matches('/');
    let mounts =
        kernel_file::read_dir(CGROUPS).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(PathBuf::from(CGROUPS)).chain(mounts).any(|mount| mount.join(name).is_dir())
}

/// True if others can ask one of these processes: it listens, or has a connection to its port or path.
fn listens(pids: &[u32]) -> bool {
    let Some(first) = pids.first() else { return false };
    let table = |name: &str| {
        kernel_file::read_to_string(format!("/proc/{first}/net/{name}")).unwrap_or_default()
    };
    let mut served = HashSet::new();
    for name in ["tcp", "tcp6"] {
        served.extend(served_tcp(&table(name)));
    }
    served.extend(served_unix(&table("unix")));
    pids.iter().any(|pid| sockets(*pid).iter().any(|inode| served.contains(inode)))
}

/// Inodes of the sockets that a process has open.
fn sockets(pid: u32) -> Vec<u64> {
    let entries = kernel_file::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let inode = |entry: std::io::Result<fs::DirEntry>| {
        let target = kernel_file::read_link(entry.ok()?.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.take(MAX_DESCRIPTORS).filter_map(inode).collect()
}

/// Sockets that listen, and those with the port of one that does.
fn served_tcp(table: &str) -> Vec<u64> {
    let rows = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        Some((port, *fields.get(3)?, fields.get(9)?.parse::<u64>().ok()?))
    });
    let rows: Vec<(&str, &str, u64)> = rows.collect();
    let ports: HashSet<&str> =
        rows.iter().filter(|(_, state, _)| *state == LISTEN).map(|(port, ..)| *port).collect();
    rows.iter().filter(|(port, ..)| ports.contains(port)).map(|(.., inode)| *inode).collect()
}

/// Sockets with a path: those that listen, and the ends of connections that were accepted there.
fn served_unix(table: &str) -> Vec<u64> {
    let rows = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(6);
        let inode = fields.next()?.parse().ok()?;
        fields.next().map(|_| inode)
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_may_be_given_as_a_directory() {
        assert_eq!(names("/system.slice/db.service/"), ["/system.slice/db.service"]);
        assert_eq!(names("db"), ["/db"]);
        assert_eq!(names("/sys/fs/cgroup/memory/db"), ["/memory/db", "/db"]);
        assert_eq!(names("/sys/fs/cgroup/db"), ["/db"]);
    }

    #[test]
    fn accepted_connections_are_served_and_connections_to_others_are_not() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:1538 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0 10 0
   2: 0100007F:9C40 0100007F:1538 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 100 0 0 10 0
";
        assert_eq!(served_tcp(tcp), [11, 12]);
        let unix = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21 /run/db.sock
0000000000000000: 00000003 00000000 00000000 0001 03 22 /run/db.sock
0000000000000000: 00000003 00000000 00000000 0001 03 23
";
        assert_eq!(served_unix(unix), [21, 22]);
        assert_eq!(
            (served_tcp("junk\nmore junk"), served_unix("a\nb c")),
            (Vec::new(), Vec::new())
        );
    }

    #[test]
    fn this_process_is_found_by_its_number() {
        let (name, pids) = of_pid(std::process::id()).unwrap();
        assert!(name.ends_with(&format!("({})", std::process::id())) && !pids.is_empty());
        assert!(of_pid(u32::MAX).is_err());
        assert!(of_unit("no-such-unit").is_err());
        assert!(of_cgroup(Path::new("/no/such/group")).is_err());
    }
}
