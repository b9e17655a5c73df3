//! What decides how severe a state is: the page blocks of fragmented memory, and when the OOM killer last killed. A
//! captured tree has both, a line each.

use crate::collector::transparent_hugepage;
use crate::kernel_log::KernelLog;
use crate::page_flags;
use crate::sampler::Sampler;
use crate::source::Source;
use mw_model::{
    Missing, OomHistory, OomShortage, OomVictim, Origin, OriginKind, PageBlocks, Sample,
    ServiceProcess, Snapshot, derived, zones,
};
use mw_proc::vmstat::Counter;
use std::time::Duration;

pub(crate) const PAGE_BLOCKS: &str = "/memwright/page_blocks";
pub(crate) const OOM_HISTORY: &str = "/memwright/oom_history";
const OF_MACHINE: &str = "machine";
const OF_CGROUP: &str = "cgroup";

/// Time for sampling the blocks of fragmented memory.
const BLOCKS_TIME: Duration = Duration::from_millis(10);

/// As much of the running machine as the judgement needs.
pub(crate) fn snapshot(source: &Source) -> Snapshot {
    let page_bytes = rustix::param::page_size() as u64;
    let mut snapshot = Snapshot {
        origin: Origin { page_bytes, ..Origin::default() },
        thp: transparent_hugepage::collect(source).into(),
        ..Snapshot::default()
    };
    Sampler::open(source, &[]).sample(&mut snapshot.sample);
    snapshot
}

/// The page blocks where free memory is fragmented: what they consist of decides whether compaction makes them whole.
pub(crate) fn page_blocks(
    source: &Source,
    snapshot: &Snapshot,
) -> Result<Vec<PageBlocks>, Missing> {
    if source.kind() == OriginKind::Tree {
        return captured_blocks(source);
    }
    if !zones::has_fragmented(snapshot) {
        return Err(Missing::skipped(page_flags::FILE, "no zone is fragmented"));
    }
    crate::page_blocks::page_blocks(
        source,
        snapshot,
        derived::huge_page_bytes(snapshot),
        BLOCKS_TIME,
    )
}

/// The latest kills of the OOM killer, where it has killed at all.
pub(crate) fn oom_history(source: &Source, sample: &Sample) -> Result<OomHistory, Missing> {
    if source.kind() == OriginKind::Tree {
        return captured_history(source);
    }
    let kills = sample.vmstat.required()?.get(Counter::OomKill);
    match kills {
        Some(count) if count > 0 => KernelLog::history(),
        _ => Ok(OomHistory::default()),
    }
}

pub(crate) fn write_page_blocks(blocks: &[PageBlocks]) -> String {
    blocks.iter().map(|blocks| blocks.line() + "\n").collect()
}

/// `machine` or `cgroup`, when, and who, a line each. Paths of cgroups are left out: people choose them.
pub(crate) fn write_oom_history(history: &OomHistory) -> String {
    let of = [(OF_MACHINE, &history.of_machine), (OF_CGROUP, &history.of_cgroup)];
    let line = |(of, victim): (&str, &Option<OomVictim>)| {
        let OomVictim { last_unix_ms, process, .. } = victim.as_ref()?;
        Some(format!("{of} {last_unix_ms} {}\n", process.name))
    };
    of.into_iter().filter_map(line).collect()
}

fn captured_history(source: &Source) -> Result<OomHistory, Missing> {
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

fn captured_blocks(source: &Source) -> Result<Vec<PageBlocks>, Missing> {
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
