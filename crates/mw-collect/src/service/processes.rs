//! Processes of a service: who holds a socket, and who belongs to whom.

use mw_model::ServiceProcess;
use mw_proc::cgroup::{self, Membership};
use mw_proc::pid_stat::PidStat;
use mw_sys::kernel_file;
use std::time::Instant;

/// The most processes that are searched for a socket.
const MAX_SEARCHED: usize = 16_384;
/// The most descriptors of one process that are looked at.
const MAX_DESCRIPTORS: usize = 65_536;
/// The most processes of a service.
pub(super) const MAX_PROCESSES: usize = 256;
/// The most threads of one process whose children are looked for.
const MAX_THREADS: usize = 64;
/// Maximum number of levels to the first process of a service.
const MAX_ANCESTORS: usize = 16;

/// The processes that hold sockets, one for each inode, found before `deadline`; `first` are looked at
/// before others. The flag says whether all processes were searched.
pub(super) fn owners(inodes: &[u64], first: &[u32], deadline: Instant) -> (Vec<(u64, u32)>, bool) {
    let mut wanted: Vec<u64> = inodes.iter().copied().filter(|inode| *inode > 0).collect();
    let mut found = Vec::new();
    let mut all = pids();
    // What accepted the connection is likely to be young.
    all.sort_unstable_by(|a, b| b.cmp(a));
    for pid in first.iter().copied().chain(all.into_iter().take(MAX_SEARCHED)) {
        if wanted.is_empty() {
            return (found, true);
        }
        if Instant::now() > deadline {
            return (found, false);
        }
        for inode in sockets(pid) {
            if let Some(at) = wanted.iter().position(|wanted| *wanted == inode) {
                wanted.swap_remove(at);
                found.push((inode, pid));
            }
        }
    }
    (found, true)
}

fn pids() -> Vec<u32> {
    kernel_file::read_numbers("/proc").into_iter().flatten().collect()
}

/// Inodes of the sockets that a process holds.
pub(super) fn sockets(pid: u32) -> impl Iterator<Item = u64> {
    let entries = kernel_file::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.take(MAX_DESCRIPTORS).filter_map(|entry| {
        let link = kernel_file::read_link(entry.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        inode.parse().ok()
    })
}

/// The first files of a process that have a path, and its working directory.
pub(super) fn paths(pid: u32, most: usize) -> Vec<String> {
    let entries = kernel_file::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let files = entries.take(most).map(|entry| entry.path());
    let links = files.chain([format!("/proc/{pid}/cwd").into()]).map(kernel_file::read_link);
    let paths = links.filter_map(|link| link.ok()?.into_os_string().into_string().ok());
    paths.filter(|path| path.starts_with('/')).collect()
}

/// Contents of /proc/PID/stat; `None` once it has ended.
pub(super) fn stat(pid: u32) -> Option<PidStat> {
    let stat = PidStat::parse(&kernel_file::read(format!("/proc/{pid}/stat")).ok()?).ok()?;
    (!stat.has_ended()).then_some(stat)
}

pub(super) fn named(pid: u32) -> Option<ServiceProcess> {
    Some(ServiceProcess { pid, name: stat(pid)?.name })
}

/// A process's groups in all hierarchies.
pub(super) fn memberships(pid: u32) -> Vec<Membership> {
    let text = kernel_file::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    cgroup::parse_self(&text).unwrap_or_default()
}

/// The systemd unit of a process: the last service or scope of its path, a login session's aside.
pub(super) fn unit(memberships: &[Membership]) -> Option<String> {
    let is_systemds = |membership: &&Membership| {
        membership.is_unified() || membership.has_controller("name=systemd")
    };
    memberships.iter().filter(is_systemds).find_map(|membership| unit_of_path(&membership.path))
}

fn unit_of_path(path: &str) -> Option<String> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let is_unit = |name: &&str| {
        let is_session = name.starts_with("session-") || *name == "init.scope";
        let is_manager = name.starts_with("user@");
        let is_terminal = name.starts_with("app-") || name.starts_with("vte-");
        name.ends_with(".service") && !is_manager
            || name.ends_with(".scope") && !is_session && !is_terminal
    };
    path.rsplit('/').find(is_unit).map(str::to_owned)
}

/// The process from which all of its service come: the topmost one of the same unit, or without a unit
/// the topmost one that runs the same program.
pub(super) fn leader(pid: u32) -> u32 {
    let own_unit = unit(&memberships(pid));
    let own_program = program(pid);
    let mut leader = pid;
    for _ in 0..MAX_ANCESTORS {
        let Some(parent) = stat(leader).map(|stat| stat.parent).filter(|parent| *parent > 1) else {
            break;
        };
        let is_same = match &own_unit {
            Some(unit) => self::unit(&memberships(parent)).as_ref() == Some(unit),
            None => own_program.is_some() && program(parent) == own_program,
        };
        if !is_same {
            break;
        }
        leader = parent;
    }
    leader
}

fn program(pid: u32) -> Option<std::path::PathBuf> {
    kernel_file::read_link(format!("/proc/{pid}/exe")).ok()
}

/// A process and those that come from it, [`MAX_PROCESSES`] at most.
pub fn family(leader: u32, deadline: Instant) -> Vec<u32> {
    let mut family = vec![leader];
    let mut next = 0;
    while let Some(pid) = family.get(next).copied() {
        next += 1;
        if family.len() >= MAX_PROCESSES || Instant::now() > deadline {
            break;
        }
        family.extend(children(pid));
    }
    family.truncate(MAX_PROCESSES);
    family
}

/// From /proc/PID/task/TID/children (4.2 and later, `CONFIG_PROC_CHILDREN`).
fn children(pid: u32) -> Vec<u32> {
    let tasks = kernel_file::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.take(MAX_THREADS).filter_map(|task| {
        let text = kernel_file::read_to_string(task.path().join("children")).ok()?;
        Some(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
    });
    lists.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn units_of_paths() {
        for (path, unit) in [
            (
                "/system.slice/system-postgresql.slice/postgresql@15-main.service",
                Some("postgresql@15-main.service"),
            ),
            ("/system.slice/docker-0f.scope/init", Some("docker-0f.scope")),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/db.service",
                Some("db.service"),
            ),
            ("/user.slice/user-1000.slice/session-3.scope", None),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope", None),
            ("/init.scope", None),
            ("/docker/0f", None),
            ("/system.slice/db.service (deleted)", Some("db.service")),
        ] {
            assert_eq!(unit_of_path(path).as_deref(), unit, "{path}");
        }
    }

    #[test]
    fn the_holder_of_a_socket_is_found() {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let inode =
            std::fs::metadata(format!("/proc/self/fd/{}", server.as_raw_fd())).unwrap().ino();
        let soon = Instant::now() + Duration::from_secs(10);
        let own = std::process::id();
        assert_eq!(owners(&[inode, 0], &[], soon), (vec![(inode, own)], true));
        assert_eq!(owners(&[inode], &[own], soon).0.len(), 1);
        drop(server);
        assert_eq!(owners(&[inode], &[own], soon), (vec![], true));
    }

    #[test]
    fn a_family_is_found() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let soon = Instant::now() + Duration::from_secs(10);
        assert!(family(std::process::id(), soon).contains(&child.id()));
        assert_eq!(leader(child.id()), child.id(), "another program");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
