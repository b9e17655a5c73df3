//! What the counters of n1 were in each phase.

use anyhow::Context;
use mw_model::IncidentRow;
use std::collections::BTreeMap;

/// What the recorder may see after the flood began, before the cluster says something.
const CAUSES: &[&str] = &["dirty-limit-too-high", "page-cache-flood"];

/// The phases in their order: their names in the agent's files, and for people.
pub(super) const PHASES: &[(&str, &str)] = &[
    ("healthy", "no flood"),
    ("flood", "the flood, `dirty_ratio` 90"),
    ("direct-io", "the flood under `memwright run --direct-io 64k`"),
    ("device", "the flood, `max_bytes` of the device 4 MiB, `strict_limit`"),
    ("group", "the flood in a group with `memory.high` 8 MiB"),
];

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
    /// Whether an incident that began in this phase has a cause that the flood may have.
    pub(super) fn is_warned_of(&self, incident: &IncidentRow) -> bool {
        (self.from_s..self.to_s).contains(&began_s(incident))
            && incident.cause.as_deref().is_some_and(|cause| CAUSES.contains(&cause))
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

/// When an incident began, in seconds since the epoch.
pub(super) fn began_s(incident: &IncidentRow) -> f64 {
    incident.started_unix_ms as f64 / 1000.0
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
        let phase = Phase::parse(PHASES[1], &text).unwrap();
        assert_eq!((phase.scanned_per_s, phase.direct_reclaims, phase.took_s()), (2.0, 20.0, 10.0));
        assert_eq!((phase.holder.as_str(), phase.disk_kib_per_s), ("n1", 0.0));
        assert!(Phase::parse(PHASES[1], "time 1\n").is_err());
    }
}
