//! Stalls since the recorder was started: counters that only grow.

use crate::family;
use crate::page::{Exemplar, MetricsPage};
use mw_model::{BlameParty, BlameShare, GroupWait, Incident, Trigger, TriggerKind};
use std::collections::BTreeMap;

/// Upper bounds of the buckets, in seconds.
pub const BUCKETS_S: [f64; 12] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// More probes than a recorder may have, with its own monitors.
const MAX_PROBES: usize = 128;
/// More than the rules and `unknown`.
const MAX_CAUSES: usize = 64;

/// Combinations of victim, culprit and cause with a series; a series more has the rest.
const MAX_BLAMED: usize = 64;
/// Label of the rest.
const OTHERS: &str = "others";

/// Sums over the incidents of a recorder.
#[derive(Debug, Clone, Default)]
pub struct StallMetrics {
    probes: BTreeMap<String, ProbeStalls>,
    /// In milliseconds, by victim, culprit and cause.
    blamed_ms: BTreeMap<[String; 3], u64>,
    /// In microseconds, by victim, resource and origin.
    waits_us: BTreeMap<[String; 3], u64>,
}

#[derive(Debug, Clone, Default)]
struct ProbeStalls {
    open: u64,
    causes: BTreeMap<String, u64>,
    /// By bucket, the last one without a bound.
    counts: [u64; BUCKETS_S.len() + 1],
    exemplars: [Option<Exemplar>; BUCKETS_S.len() + 1],
    sum_s: f64,
}

impl StallMetrics {
    /// Series of a probe are there from the start: Prometheus cannot see an increase from nothing.
    pub fn watch(&mut self, probe: &str) {
        self.probe(probe);
    }

    /// A stall has begun.
    pub fn begin(&mut self, trigger: &Trigger) {
        if let Some(probe) = self.of(trigger) {
            probe.open += 1;
        }
    }

    /// A stall is over and explained.
    pub fn end(&mut self, incident: &Incident) {
        incident.blame.iter().for_each(|share| self.blame(share));
        let Some(probe) = self.of(&incident.trigger) else { return };
        probe.open = probe.open.saturating_sub(1);
        let cause = incident.causes.first().map_or("unknown", |cause| &cause.finding.rule);
        if probe.causes.len() < MAX_CAUSES || probe.causes.contains_key(cause) {
            *probe.causes.entry(cause.to_owned()).or_default() += 1;
        }
        let lasted_ms = incident.ended_unix_ms.saturating_sub(incident.started_unix_ms);
        let value = lasted_ms as f64 / 1000.0;
        probe.sum_s += value;
        let bucket = BUCKETS_S.iter().position(|bound| value <= *bound).unwrap_or(BUCKETS_S.len());
        if let (Some(count), Some(exemplar)) =
            (probe.counts.get_mut(bucket), probe.exemplars.get_mut(bucket))
        {
            *count += 1;
            let (incident_id, unix_ms) = (incident.id, incident.ended_unix_ms);
            // Without a number it could not be recorded yet.
            if incident_id > 0 {
                *exemplar = Some(Exemplar { incident_id, value, unix_ms });
            }
        }
    }

    fn blame(&mut self, share: &BlameShare) {
        let key =
            [share.victim.to_string(), share.culprit.to_string(), share.cause_name().to_owned()];
        let has_room = self.blamed_ms.len() < MAX_BLAMED || self.blamed_ms.contains_key(&key);
        let key = if has_room { key } else { [OTHERS; 3].map(str::to_owned) };
        let sum = self.blamed_ms.entry(key).or_default();
        *sum = sum.saturating_add(share.lost_ms);
    }

    /// Sets what the cgroups of the services waited since the recorder was started.
    pub fn set_waits(&mut self, waits: Vec<(BlameParty, Vec<GroupWait>)>) {
        self.waits_us.clear();
        for (victim, waits) in waits {
            let victim = victim.to_string();
            for GroupWait { resource, origin, waited_us } in waits {
                let labels = [&victim, resource.name(), origin.name()].map(str::to_owned);
                // Several groups of one unit have one owner.
                let sum = self.waits_us.entry(labels).or_default();
                *sum = sum.saturating_add(waited_us);
            }
        }
    }

    pub fn write(&self, page: &mut MetricsPage) {
        for ([victim, resource, origin], us) in &self.waits_us {
            page.add(family::PRESSURE, [victim, resource, origin], *us as f64 / 1e6);
        }
        for ([victim, culprit, cause], ms) in &self.blamed_ms {
            page.add(family::BLAME, [victim, culprit, cause], *ms as f64 / 1000.0);
        }
        for (name, probe) in &self.probes {
            page.add(family::STALLS_OPEN, [name], probe.open as f64);
            for (cause, count) in &probe.causes {
                page.add(family::STALLS, [name, cause], *count as f64);
            }
            probe.histogram(name, page);
        }
    }

    /// Evidence that somebody requested is no stall.
    fn of(&mut self, trigger: &Trigger) -> Option<&mut ProbeStalls> {
        if trigger.kind == TriggerKind::Requested { None } else { self.probe(&trigger.name) }
    }

    fn probe(&mut self, name: &str) -> Option<&mut ProbeStalls> {
        if self.probes.len() >= MAX_PROBES && !self.probes.contains_key(name) {
            return None;
        }
        let new =
            || ProbeStalls { causes: [("unknown".to_owned(), 0)].into(), ..ProbeStalls::default() };
        Some(self.probes.entry(name.to_owned()).or_insert_with(new))
    }
}

impl ProbeStalls {
    fn histogram(&self, name: &str, page: &mut MetricsPage) {
        let label = || ("probe", name.to_owned());
        let mut below = 0;
        for (index, (count, exemplar)) in self.counts.iter().zip(&self.exemplars).enumerate() {
            below += count;
            // Written alike in both formats, so that a change of format does not change the series.
            let bound =
                BUCKETS_S.get(index).map_or("+Inf".to_owned(), |bound| format!("{bound:?}"));
            let labels = vec![label(), ("le", bound)];
            page.push(family::STALL_SECONDS, "_bucket", labels, below as f64, exemplar.clone());
        }
        page.push(family::STALL_SECONDS, "_sum", vec![label()], self.sum_s, None);
        page.push(family::STALL_SECONDS, "_count", vec![label()], below as f64, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Exposition;
    use mw_model::{PartyKind, Resource, WaitOrigin};

    #[test]
    fn a_stall_counts_in_its_bucket_and_in_those_above() {
        let mut stalls = StallMetrics::default();
        stalls.watch("db");
        let mut incident = Incident { id: 7, ended_unix_ms: 1_700, ..Incident::default() };
        "db".clone_into(&mut incident.trigger.name);
        stalls.begin(&incident.trigger);
        stalls.end(&incident);
        let mut page = MetricsPage::default();
        stalls.write(&mut page);
        let text = page.write(Exposition::OpenMetrics);
        for line in [
            "memwright_stalls_total{probe=\"db\",cause=\"unknown\"} 1",
            "memwright_stall_seconds_bucket{probe=\"db\",le=\"1.0\"} 0",
            "memwright_stall_seconds_bucket{probe=\"db\",le=\"2.5\"} 1 # {incident_id=\"7\"} 1.7 1.700",
            "memwright_stall_seconds_bucket{probe=\"db\",le=\"+Inf\"} 1",
            "memwright_stall_seconds_sum{probe=\"db\"} 1.7",
            "memwright_stall_seconds_count{probe=\"db\"} 1",
            "memwright_stalls_open{probe=\"db\"} 0",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
        }
    }

    fn share(culprit: &str, lost_ms: u64) -> BlameShare {
        BlameShare {
            victim: BlameParty::of_cgroup("/system.slice/db.service"),
            culprit: BlameParty::named(PartyKind::Process, culprit),
            cause: Some("reclaim-storm".to_owned()),
            lost_ms,
        }
    }

    fn written(stalls: &StallMetrics) -> String {
        let mut page = MetricsPage::default();
        stalls.write(&mut page);
        page.write(Exposition::Text)
    }

    #[test]
    fn time_is_summed_up_by_victim_culprit_and_cause() {
        let mut stalls = StallMetrics::default();
        for lost_ms in [1500, 250] {
            let own = BlameShare { cause: None, ..BlameShare::default() };
            let blame = vec![share("java", lost_ms), BlameShare { lost_ms: 10, ..own }];
            stalls.end(&Incident { blame, ..Incident::default() });
        }
        let text = written(&stalls);
        for line in [
            "{victim=\"db.service\",culprit=\"process java\",cause=\"reclaim-storm\"} 1.75",
            "{victim=\"unknown\",culprit=\"unknown\",cause=\"unknown\"} 0.02",
        ] {
            let line = format!("memwright_blame_seconds_total{line}\n");
            assert!(text.contains(&line), "{line}\n{text}");
        }
    }

    #[test]
    fn waits_have_a_series_for_each_origin() {
        let mut stalls = StallMetrics::default();
        let wait = |origin, waited_us| GroupWait { resource: Resource::Memory, origin, waited_us };
        let waits = vec![wait(WaitOrigin::OwnLimit, 1_500_000), wait(WaitOrigin::Machine, 2000)];
        stalls.set_waits(vec![(BlameParty::of_cgroup("/system.slice/db.service"), waits)]);
        let text = written(&stalls);
        for (origin, seconds) in [("own-limit", "1.5"), ("machine", "0.002")] {
            let line = format!(
                "memwright_pressure_seconds_total{{victim=\"db.service\",resource=\"memory\",origin=\"{origin}\"}} {seconds}\n"
            );
            assert!(text.contains(&line), "{line}{text}");
        }
    }

    /// Promise (Blame): However many culprits there are, metrics have 65 series of them, and one has the rest.
    #[test]
    fn many_culprits_are_a_series_of_others() {
        let mut stalls = StallMetrics::default();
        for n in 0..10_000 {
            let blame = vec![share(&format!("p\"{n}\n"), 1000)];
            stalls.end(&Incident { blame, ..Incident::default() });
        }
        let text = written(&stalls);
        let of_blame =
            text.lines().filter(|line| line.starts_with("memwright_blame_seconds_total{"));
        assert_eq!(of_blame.count(), MAX_BLAMED + 1, "{text}");
        let others = "{victim=\"others\",culprit=\"others\",cause=\"others\"} 9936\n";
        assert!(text.contains(others) && text.contains("culprit=\"process p\\\"0\\n\""), "{text}");
    }

    #[test]
    fn evidence_that_was_requested_is_no_stall() {
        let mut stalls = StallMetrics::default();
        let trigger = Trigger { kind: TriggerKind::Requested, ..Trigger::default() };
        stalls.begin(&trigger);
        stalls.end(&Incident { trigger, ..Incident::default() });
        let mut page = MetricsPage::default();
        stalls.write(&mut page);
        assert!(!page.write(Exposition::Text).contains("probe="));
    }
}
