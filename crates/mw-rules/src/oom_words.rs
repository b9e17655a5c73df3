//! Kills of the OOM killer in words.

use mw_model::{OomKills, OomShortage, OomVictim, ServiceFate, ServiceProcess, format_bytes};

/// Victims that a headline names.
const MAX_NAMED: usize = 3;

/// `the OOM killer killed app (812) at the limit of db.service`.
pub(crate) fn headline(oom: &OomKills) -> String {
    let mut names: Vec<String> = oom.victims.iter().take(MAX_NAMED).map(named).collect();
    let shown = oom.victims.iter().take(MAX_NAMED).map(|victim| victim.count);
    let others = oom.count.saturating_sub(shown.fold(0, u64::saturating_add));
    if names.is_empty() {
        return format!("the OOM killer killed {}", processes(oom.count.max(1)));
    }
    if others > 0 {
        names.push(if others == 1 { "another".to_owned() } else { format!("{others} others") });
    }
    let last = names.pop().unwrap_or_default();
    let names = if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) };
    let limit = match shortage_of_all(oom) {
        Some(OomShortage::Cgroup(Some(path))) => {
            format!(" at the limit of {}", mw_model::cgroup_name(path))
        }
        _ => String::new(),
    };
    format!("the OOM killer killed {names}{limit}")
}

/// `1 process`, `7 processes`.
pub(crate) fn processes(count: u64) -> String {
    format!("{count} {}", if count == 1 { "process" } else { "processes" })
}

/// `app (812)`; the name alone where the number is not one of this namespace.
pub(crate) fn process(process: &ServiceProcess) -> String {
    match process.pid {
        0 => process.name.clone(),
        pid => format!("{} ({pid})", process.name),
    }
}

/// `app (812), 3 times, in /db/in, with 62 MiB, at the memory limit of /db; sh needed memory`.
pub(crate) fn victim(victim: &OomVictim) -> String {
    let group = victim.cgroup.as_ref().map_or(String::new(), |path| format!(", in {path}"));
    let size = victim.resident_bytes.map(format_bytes);
    let size = size.map_or(String::new(), |size| format!(", with {size}"));
    let shortage = shortage(victim).map_or(String::new(), |text| format!(", {text}"));
    let by = victim.invoked_by.as_ref().filter(|by| **by != victim.process.name);
    let by = by.map_or(String::new(), |by| format!("; {by} needed memory"));
    format!("{}{group}{size}{shortage}{by}", named(victim))
}

/// What became of a service that lost a process.
pub(crate) fn fate(fate: &ServiceFate) -> String {
    let former = process(&fate.former);
    let now = match (&fate.listener, fate.listens) {
        _ if fate.still_runs => format!("{former} still runs"),
        (Some(listener), _) if listener.name == fate.former.name => {
            format!("started again as {}", process(listener))
        }
        (Some(listener), _) => {
            format!("{} listens in its place", process(listener))
        }
        (None, Some(true)) => "another process listens".to_owned(),
        (None, Some(false)) => "nothing listens".to_owned(),
        (None, None) => format!("{former} has ended"),
    };
    match fate.answers {
        Some(true) => format!("{now} and answers"),
        Some(false) => format!("{now}, no good answer"),
        None => now,
    }
}

/// `app (812)`, `app (3 times, last 812)`.
fn named(victim: &OomVictim) -> String {
    match (victim.count, victim.process.pid) {
        (0 | 1, _) => process(&victim.process),
        (count, 0) => format!("{} ({count} times)", victim.process.name),
        (count, pid) => format!("{} ({count} times, last {pid})", victim.process.name),
    }
}

/// What had no memory left, where it is the same for all.
fn shortage_of_all(oom: &OomKills) -> Option<&OomShortage> {
    let first = oom.victims.first()?;
    let is_same = oom.victims.iter().all(|victim| victim.shortage == first.shortage);
    is_same.then_some(&first.shortage)
}

fn shortage(victim: &OomVictim) -> Option<String> {
    Some(match &victim.shortage {
        OomShortage::Machine => "because the machine had no memory left".to_owned(),
        OomShortage::Cpuset => "because the nodes of a cpuset had no memory left".to_owned(),
        OomShortage::MemoryPolicy => {
            "because the nodes of a memory policy had no memory left".to_owned()
        }
        OomShortage::Cgroup(Some(path)) => {
            let limit = victim.limit_bytes.map(format_bytes);
            let limit = limit.map_or(String::new(), |limit| format!(" ({limit})"));
            format!("at the memory limit of {path}{limit}")
        }
        OomShortage::Cgroup(None) => "at the memory limit of a cgroup".to_owned(),
        OomShortage::Unknown => return None,
    })
}
