//! What a capture has beside the kernel's files, by which a state is judged: the page blocks of fragmented memory, and when
//! the OOM killer last killed. A line each.

use crate::source::Source;
use mw_model::{Missing, OomHistory, OomShortage, OomVictim, PageBlocks, ServiceProcess};

pub(super) const PAGE_BLOCKS: &str = "/memwright/page_blocks";
pub(super) const OOM_HISTORY: &str = "/memwright/oom_history";
const OF_MACHINE: &str = "machine";
const OF_CGROUP: &str = "cgroup";

pub(super) fn write_page_blocks(blocks: &[PageBlocks]) -> String {
    blocks.iter().map(|blocks| blocks.line() + "\n").collect()
}

/// `machine` or `cgroup`, when, and who, a line each. Paths of cgroups are left out: people choose them.
pub(super) fn write_oom_history(history: &OomHistory) -> String {
    let of = [(OF_MACHINE, &history.of_machine), (OF_CGROUP, &history.of_cgroup)];
    let line = |(of, victim): (&str, &Option<OomVictim>)| {
        let OomVictim { last_unix_ms, process, .. } = victim.as_ref()?;
        Some(format!("{of} {last_unix_ms} {}\n", process.name))
    };
    of.into_iter().filter_map(line).collect()
}

/// The latest kills of a captured tree.
pub(crate) fn oom_history(source: &Source) -> Result<OomHistory, Missing> {
    let bytes = source.read(OOM_HISTORY)?;
    let lines = String::from_utf8_lossy(&bytes);
    let mut history = OomHistory::default();
    for line in lines.lines() {
        let malformed = || Missing::failed(OOM_HISTORY, "malformed line".to_owned());
        history.add(parse_kill(line).ok_or_else(malformed)?);
    }
    Ok(history)
}

fn parse_kill(line: &str) -> Option<OomVictim> {
    let (of, rest) = line.split_once(' ')?;
    let (at, name) = rest.split_once(' ')?;
    let shortage = match of {
        OF_MACHINE => OomShortage::Machine,
        OF_CGROUP => OomShortage::Cgroup(None),
        _ => return None,
    };
    let last_unix_ms = at.parse().ok()?;
    let process = ServiceProcess { pid: 0, name: name.to_owned() };
    Some(OomVictim { process, count: 1, last_unix_ms, shortage, ..OomVictim::default() })
}

/// The page blocks of a captured tree.
pub(crate) fn page_blocks(source: &Source) -> Result<Vec<PageBlocks>, Missing> {
    let bytes = source.read(PAGE_BLOCKS)?;
    let lines = String::from_utf8_lossy(&bytes);
    let malformed = || Missing::failed(PAGE_BLOCKS, "malformed line".to_owned());
    lines.lines().map(|line| PageBlocks::parse(line).ok_or_else(malformed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_kills_are_kept_without_paths() {
        let kill = |name: &str, last_unix_ms, shortage| OomVictim {
            process: ServiceProcess { pid: 7, name: name.to_owned() },
            last_unix_ms,
            shortage,
            ..OomVictim::default()
        };
        let mut history = OomHistory::default();
        history.add(kill("my db", 5, OomShortage::Machine));
        history.add(kill("toy", 9, OomShortage::Cgroup(Some("/user/secret".to_owned()))));
        let text = write_oom_history(&history);
        assert_eq!(text, "machine 5 my db\ncgroup 9 toy\n");
        let read: Vec<_> = text.lines().filter_map(parse_kill).collect();
        assert_eq!((read[0].process.name.as_str(), read[0].last_unix_ms), ("my db", 5));
        assert_eq!(read[1].shortage, OomShortage::Cgroup(None));
        assert_eq!(parse_kill("machine x y"), None);
    }
}
