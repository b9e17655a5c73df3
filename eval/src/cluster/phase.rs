//! What the counters of n1 were in each phase, and what the cluster wrote meanwhile.

use super::lines::{self, Line, Says};
use anyhow::Context;
use mw_model::IncidentRow;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Time after the beginning of the flood in which the recorder may see it, before the cluster reports something.
const CAUSES: &[&str] = &["dirty-limit-too-high", "page-cache-flood"];

/// The phase without a flood.
pub(super) const CALM: &str = "healthy";

/// Least rate at which a flood writes to the disk, which takes 700 kB/s.
const FLOOD_KIB_PER_S: f64 = 400.0;

/// Times are in seconds since the epoch.
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) scanned_per_s: f64,
    /// Allocations that had to reclaim.
    pub(super) direct_reclaims: f64,
    pub(super) major_faults_per_s: f64,
    pub(super) oom_kills: f64,
    pub(super) disk_kib_per_s: f64,
    /// The node with the resources at the end.
    pub(super) holder: String,
}

impl Phase {
    /// True if an incident began in this phase and has a cause that the flood may have.
    pub(super) fn is_warned_of(&self, incident: &IncidentRow) -> bool {
        (self.from_s..self.to_s).contains(&began_s(incident)) && is_of_flood(incident)
    }

    /// `text` is the counters at the beginning and at the end, and who holds the resources.
    pub(super) fn parse(
        (name, what): (&'static str, &'static str),
        text: &str,
    ) -> anyhow::Result<Self> {
        let (mut first, mut last, mut holder) = (BTreeMap::new(), BTreeMap::new(), String::new());
        for line in text.lines() {
            let (counter, value) = line.split_once(' ').unwrap_or((line, ""));
            match value.parse::<f64>() {
                Ok(value) if !first.contains_key(counter) => drop(first.insert(counter, value)),
                Ok(value) => drop(last.insert(counter, value)),
                Err(_) => holder = value.to_owned(),
            }
        }
        let at = |counters: &BTreeMap<&str, f64>, name: &str| {
            counters.get(name).copied().with_context(|| format!("no {name} in {text}"))
        };
        let (from_s, to_s) = (at(&first, "time")?, at(&last, "time")?);
        let grew = |name: &str| anyhow::Ok(at(&last, name)? - at(&first, name)?);
        let took_s = to_s - from_s;
        let reclaims = ["allocstall_normal", "allocstall_dma32"].map(grew).into_iter();
        Ok(Self {
            name,
            what,
            from_s,
            to_s,
            scanned_per_s: (grew("pgscan_kswapd")? + grew("pgscan_direct")?) / took_s,
            direct_reclaims: reclaims.sum::<anyhow::Result<f64>>()?,
            major_faults_per_s: grew("pgmajfault")? / took_s,
            oom_kills: grew("oom_kill")?,
            disk_kib_per_s: grew("written")? / took_s / 1024.0,
            holder,
        })
    }

    pub(super) fn took_s(&self) -> f64 {
        self.to_s - self.from_s
    }
}

/// True if an incident has a cause that the flood may have.
pub(super) fn is_of_flood(incident: &IncidentRow) -> bool {
    incident.cause.as_deref().is_some_and(|cause| CAUSES.contains(&cause))
}

/// Beginning of an incident, in seconds since the epoch.
pub(super) fn began_s(incident: &IncidentRow) -> f64 {
    incident.started_unix_ms as f64 / 1000.0
}

/// An operation that began in a phase has failed by then.
const FAILS_S: f64 = 35.0;

/// The lines from the beginning of a phase to that of the next; of the last, to when an operation that began in it has failed.
pub(super) fn lines_of<'a>(
    phases: &[Phase],
    lines: &'a [Line],
    number: usize,
) -> impl Iterator<Item = &'a Line> {
    let from_s = phases[number].from_s;
    let end_s = phases.get(number + 1).map_or(phases[number].to_s + FAILS_S, |next| next.from_s);
    lines::between(lines, from_s, end_s)
}

/// Errors of a phase in which nothing is to happen: each in a sentence.
pub(super) fn wrong(phases: &[Phase], lines: &[Line], number: usize) -> Vec<String> {
    let Phase { name, holder, disk_kib_per_s, .. } = &phases[number];
    let mut wrong = Vec::new();
    let said: Vec<&str> = lines_of(phases, lines, number).map(|line| line.text.as_str()).collect();
    if !said.is_empty() {
        let busy = if *name == CALM { " (this machine is too busy)" } else { "" };
        wrong.push(format!("{name}{busy}: {}", said.join("; ")));
    }
    if holder != "n1" {
        wrong.push(format!("{name}: the resources are on {holder}"));
    }
    if *name != CALM && *disk_kib_per_s < FLOOD_KIB_PER_S {
        wrong.push(format!("{name}: only {disk_kib_per_s:.0} KiB/s were written"));
    }
    wrong
}

/// A row for each phase.
pub(super) fn table(phases: &[Phase], lines: &[Line]) -> String {
    let mut text = "| phase | s | pages scanned/s | allocations that reclaimed | major faults/s | OOM kills | slow disk KiB/s | \
                    lost tokens | failures | restarts, moves | resources on |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for (number, phase) in phases.iter().enumerate() {
        let count =
            |says: Says| lines_of(phases, lines, number).filter(|line| line.says == says).count();
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.0} | {:.1} | {} | {:.0} | {} | {} | {} | {} |",
            phase.what,
            phase.took_s(),
            phase.scanned_per_s,
            phase.direct_reclaims,
            phase.major_faults_per_s,
            phase.oom_kills,
            phase.disk_kib_per_s,
            count(Says::Token),
            count(Says::Failed),
            count(Says::Moved),
            phase.holder
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_in_a_phase() {
        let at = |time, n| {
            format!(
                "time {time}\nallocstall_dma32 {n}\nallocstall_normal 0\npgmajfault {n}\n\
                 pgscan_kswapd {n}\npgscan_direct 0\noom_kill 0\nwritten 1024\nload 1.0\n"
            )
        };
        let text = at(100.5, 0) + &at(110.5, 20) + "holder n1\n";
        let phase = Phase::parse(("flood", "the flood"), &text).unwrap();
        assert_eq!((phase.scanned_per_s, phase.direct_reclaims, phase.took_s()), (2.0, 20.0, 10.0));
        assert_eq!((phase.holder.as_str(), phase.disk_kib_per_s), ("n1", 0.0));
        assert!(Phase::parse(("flood", "the flood"), "time 1\n").is_err());
    }
}
