//! Sums up kills of the OOM killer. Pure.

use mw_collect::LoggedKill;
use mw_model::fair::place_to_free;
use mw_model::{MemoryHolder, OomKills, OomShortage, OomVictim};

/// Victims that are told apart in one incident, one of each cgroup first: others are only counted.
const MAX_VICTIMS: usize = 16;

/// A kill, or kills of which only the kernel's counter tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kill {
    Logged(LoggedKill),
    Counted { unix_ms: u64, count: u64 },
}

impl Kill {
    pub(crate) fn unix_ms(&self) -> u64 {
        match self {
            Self::Logged(kill) => kill.victim.first_unix_ms,
            Self::Counted { unix_ms, .. } => *unix_ms,
        }
    }

    /// Source of the kill, for [`place_to_free`].
    pub(crate) fn source(&self) -> String {
        match self {
            Self::Logged(kill) => source(&kill.victim),
            Self::Counted { .. } => "not logged".to_owned(),
        }
    }
}

/// The cgroup of a victim; its user where the kernel does not say the cgroup.
fn source(victim: &OomVictim) -> String {
    let of_limit = match &victim.shortage {
        OomShortage::Cgroup(limit) => limit.as_ref(),
        _ => None,
    };
    match (victim.cgroup.as_ref().or(of_limit), victim.user) {
        (Some(path), _) => path.clone(),
        (None, Some(user)) => format!("user {user}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// Adds a kill to those before it. The holders are those of the first kill that has some.
pub(crate) fn add(kills: &mut OomKills, kill: &Kill) {
    let unix_ms = kill.unix_ms();
    if kills.count == 0 {
        kills.first_unix_ms = unix_ms;
    }
    kills.last_unix_ms = kills.last_unix_ms.max(unix_ms);
    match kill {
        Kill::Counted { count, .. } => kills.count = kills.count.saturating_add(*count),
        Kill::Logged(LoggedKill { victim, holders }) => {
            kills.count = kills.count.saturating_add(1);
            add_victim(&mut kills.victims, victim);
            if kills.holders.is_empty() && !holders.is_empty() {
                set_holders(kills, holders.clone(), "kernel log");
            }
        }
    }
}

pub(crate) fn set_holders(
    kills: &mut OomKills,
    holders: Vec<MemoryHolder>,
    source: impl Into<String>,
) {
    kills.holders = holders;
    kills.holders_source = source.into();
}

fn add_victim(victims: &mut Vec<OomVictim>, victim: &OomVictim) {
    let is_same = |known: &&mut OomVictim| {
        known.process.name == victim.process.name
            && known.shortage == victim.shortage
            && known.cgroup == victim.cgroup
    };
    let count = victims.len();
    match victims.iter_mut().find(is_same) {
        Some(known) => {
            known.count = known.count.saturating_add(1);
            known.process.pid = victim.process.pid;
            known.last_unix_ms = victim.last_unix_ms;
            known.resident_bytes = victim.resident_bytes.or(known.resident_bytes);
            known.limit_bytes = victim.limit_bytes.or(known.limit_bytes);
        }
        None if count < MAX_VICTIMS => victims.push(victim.clone()),
        None => {
            let sources: Vec<String> = victims.iter().map(source).collect();
            let own = source(victim);
            let all = sources.iter().chain([&own]).map(|source| (source.as_str(), 1));
            let place = place_to_free(all).filter(|place| sources.get(*place) != Some(&own));
            if let Some(place) = place.filter(|place| *place < count) {
                victims.remove(place);
                victims.push(victim.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{OomShortage, ServiceProcess};

    fn kill(unix_ms: u64, pid: u32, name: &str) -> Kill {
        let process = ServiceProcess { pid, name: name.to_owned() };
        let victim = OomVictim {
            process: process.clone(),
            count: 1,
            first_unix_ms: unix_ms,
            last_unix_ms: unix_ms,
            shortage: OomShortage::Machine,
            ..OomVictim::default()
        };
        let resident_bytes = u64::from(pid);
        let holders = vec![MemoryHolder { process, resident_bytes, ..MemoryHolder::default() }];
        Kill::Logged(LoggedKill { victim, holders })
    }

    #[test]
    fn kills_of_one_name_are_one_victim() {
        let mut kills = OomKills::default();
        for (unix_ms, pid, name) in [(5, 10, "app"), (6, 11, "sh"), (9, 12, "app")] {
            add(&mut kills, &kill(unix_ms, pid, name));
        }
        add(&mut kills, &Kill::Counted { unix_ms: 11, count: 2 });
        assert_eq!((kills.count, kills.first_unix_ms, kills.last_unix_ms), (5, 5, 11));
        let victims: Vec<_> = kills
            .victims
            .iter()
            .map(|victim| (victim.process.name.as_str(), victim.process.pid, victim.count))
            .collect();
        assert_eq!(victims, [("app", 12, 2), ("sh", 11, 1)]);
        assert_eq!(kills.holders[0].resident_bytes, 10, "as it was at the first kill");
    }

    #[test]
    fn a_thousand_names_are_counted() {
        let mut kills = OomKills::default();
        for pid in 0..1000 {
            add(&mut kills, &kill(5, pid, &pid.to_string()));
        }
        assert_eq!((kills.count, kills.victims.len()), (1000, MAX_VICTIMS));
    }

    #[test]
    fn many_names_of_one_cgroup_leave_room_for_another() {
        let of = |pid: u32, cgroup: &str| {
            let Kill::Logged(mut kill) = kill(5, pid, &pid.to_string()) else { unreachable!() };
            kill.victim.cgroup = Some(cgroup.to_owned());
            Kill::Logged(kill)
        };
        let mut kills = OomKills::default();
        for pid in 0..100 {
            add(&mut kills, &of(pid, "/user.slice/user-1000.slice/mine"));
        }
        let first = kills.victims[0].process.pid;
        add(&mut kills, &of(812, "/system.slice/db.service"));
        for pid in 100..200 {
            add(&mut kills, &of(pid, "/user.slice/user-1000.slice/mine"));
        }
        assert_eq!((first, kills.victims.len()), (0, MAX_VICTIMS));
        assert!(kills.victims.iter().any(|victim| victim.process.pid == 812), "{kills:#?}");
    }
}
