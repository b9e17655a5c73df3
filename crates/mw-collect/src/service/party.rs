//! The processes at both ends of a signal, read while they are there: either may end at once.

use super::processes::{memberships, named, unit};
use mw_model::{KillParty, ServiceProcess};
use mw_proc::cgroup::Membership;
use mw_proc::limits::Rlimits;
use mw_proc::pid_stat::PidStat;
use mw_proc::status::Status;
use mw_sys::kernel_file;

/// `CAP_KILL` of capabilities(7).
const CAP_KILL: u64 = 1 << 5;

/// Facts about a process at one end of a signal. A process that has ended has them until its parent has waited for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartyFacts {
    pub party: KillParty,
    /// It may send signals to processes of other users.
    pub may_kill_others: bool,
    /// It is the first process of a PID namespace below that of /proc.
    pub is_namespace_init: bool,
    /// CPU time that it may use at most, in seconds, where it has used that much.
    pub reached_cpu_limit_s: Option<u64>,
}

/// Reads about a process, by the number of any of its threads; `None` if it is gone.
pub fn read_party(task: u32) -> Option<PartyFacts> {
    let read = |pid: u32, file: &str| kernel_file::read(format!("/proc/{pid}/{file}")).ok();
    let status = Status::parse(&read(task, "status")?).ok()?;
    let pid = status.tgid.unwrap_or(task);
    let stat = read(pid, "stat").and_then(|text| PidStat::parse(&text).ok());
    let groups = memberships(pid);
    let capabilities = status.effective_capabilities.unwrap_or(0);
    let parent = stat.as_ref().map(|stat| stat.parent).filter(|parent| *parent > 0);
    let limit = read(pid, "limits").and_then(|text| Rlimits::parse(&text).ok());
    let limit = limit.and_then(|limits| limits.cpu_time?.hard);
    let cpu_ticks = stat.as_ref().map_or(0, |stat| stat.cpu_ticks);
    Some(PartyFacts {
        party: KillParty {
            process: ServiceProcess {
                pid,
                name: stat.as_ref().map_or(status.name, |s| s.name.clone()),
            },
            uid: status.uid,
            unit: unit(&groups),
            cgroup: cgroup(&groups),
            parent: parent.and_then(named),
        },
        may_kill_others: status.uid == Some(0) || capabilities & CAP_KILL != 0,
        is_namespace_init: status.inner_pid == Some(1) && pid != 1,
        reached_cpu_limit_s: limit
            .filter(|limit| is_reached(*limit, cpu_ticks, ticks_per_second())),
    })
}

/// The cgroup that systemd made, or else that of the memory controller.
fn cgroup(groups: &[Membership]) -> Option<String> {
    let is_of = |controller: &str| {
        let found = groups.iter().find(|group| match controller {
            "" => group.is_unified(),
            name => group.has_controller(name),
        });
        found.map(|group| group.path.clone()).filter(|path| path != "/")
    };
    let path = ["name=systemd", "", "memory"].into_iter().find_map(is_of);
    path.or_else(|| groups.first().map(|group| group.path.clone()))
}

/// The kernel compares what its ticks have sampled with the limit, and shows the time that was measured, which may be
/// less.
fn is_reached(limit_s: u64, cpu_ticks: u64, per_second: u64) -> bool {
    cpu_ticks.saturating_mul(4) >= limit_s.saturating_mul(per_second).saturating_mul(3)
}

fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_cpu_time_is_reached_at_three_quarters_of_what_is_shown() {
        assert!(is_reached(1, 98, 100) && is_reached(1, 300, 100) && is_reached(8, 600, 100));
        assert!(
            !is_reached(1, 70, 100) && !is_reached(8, 500, 100) && !is_reached(u64::MAX, 1, 100)
        );
    }

    #[test]
    fn a_process_is_read_until_it_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let facts = read_party(child.id()).unwrap();
        let own = std::process::id();
        assert_eq!(
            facts.party.process,
            ServiceProcess { pid: child.id(), name: "sleep".to_owned() }
        );
        assert_eq!(facts.party.parent.as_ref().map(|parent| parent.pid), Some(own));
        assert_eq!((facts.is_namespace_init, facts.reached_cpu_limit_s), (false, None));
        child.kill().unwrap();
        assert!(read_party(child.id()).is_some());
        child.wait().unwrap();
        assert_eq!(read_party(child.id()), None);
    }
}
