//! Outages of probed services: from the first failure to the first good answer.

use super::series::SampledRows;
use mw_model::{Incident, Metric, ProbeMetric, TriggerKind};
use serde::Serialize;

/// Outages of one probe that are drawn.
const MOST_OUTAGES: usize = 50;

/// A time without a good answer, in seconds since the stall began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OutageSpan {
    pub(super) name: String,
    pub(super) from_s: f64,
    pub(super) to_s: f64,
}

/// The outages of a probe, in the order of time.
pub(super) fn outages(incident: &Incident, rows: &SampledRows, probe: &str) -> Vec<OutageSpan> {
    let column = |metric| Metric::Probe(probe.into(), metric).to_string();
    let failures: Vec<_> = rows.recorded(&column(ProbeMetric::Failures)).collect();
    let answers = rows.recorded(&column(ProbeMetric::Answers));
    let worst = rows.recorded(&column(ProbeMetric::Worst));
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut since = None;
    for (((at, failed), (_, answered)), (_, worst_us)) in failures.iter().zip(answers).zip(worst) {
        let (failed, answered) = (failed.unwrap_or(0), answered.unwrap_or(0));
        if failed > 0 && since.is_none() {
            since = Some(at.saturating_sub(worst_us.unwrap_or(0) / 1000));
        }
        if answered > failed {
            spans.extend(since.take().map(|since| (since, *at)));
        }
    }
    let last = failures.last().map(|(at, _)| *at);
    spans.extend(since.zip(last));
    with_the_incident(incident, probe, &mut spans);
    let second = |unix_ms: u64| (unix_ms as f64 - incident.started_unix_ms as f64) / 1000.0;
    let outage = |(from, to): (u64, u64)| OutageSpan {
        name: String::new(),
        from_s: second(from),
        to_s: second(to),
    };
    spans.into_iter().map(outage).take(MOST_OUTAGES).collect()
}

/// A table may begin after an outage did.
fn with_the_incident(incident: &Incident, probe: &str, spans: &mut Vec<(u64, u64)>) {
    let trigger = &incident.trigger;
    let is_its = trigger.kind == TriggerKind::Probe && trigger.name == probe;
    let (began, ended) = (incident.started_unix_ms, incident.ended_unix_ms);
    if !is_its || trigger.failure.is_none() || ended <= began {
        return;
    }
    match spans.iter_mut().find(|(from, to)| *from <= ended && *to >= began) {
        Some((from, to)) => (*from, *to) = (began.min(*from), ended.max(*to)),
        None => spans.push((began, ended)),
    }
}

impl OutageSpan {
    /// Draws the time since the outage began instead of how fast the service failed.
    pub(super) fn draw_over(&self, at_s: &[f64], values_ms: &mut [Option<f64>]) {
        for (at_s, value) in at_s.iter().zip(values_ms) {
            if (self.from_s..=self.to_s).contains(at_s) {
                let without_ms = ((at_s - self.from_s) * 1000.0).round();
                *value = Some(value.unwrap_or(0.0).max(without_ms));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::series::MOST_POINTS;
    use mw_model::{Table, Trigger};

    /// Rows a second apart: answers, failures, and the worst in ms.
    fn recorded(looks: &[(u64, u64, u64)]) -> Incident {
        let columns = ["probe.db.answers", "probe.db.failures", "probe.db.worst_us"];
        let mut table = Table::new(columns);
        for (at, (answers, failures, worst_ms)) in (100_000..).step_by(1000).zip(looks) {
            table.push(at, &[*answers, *failures, worst_ms * 1000]);
        }
        Incident { started_unix_ms: 102_000, ended_unix_ms: 104_000, table, ..Incident::default() }
    }

    fn spans(incident: &Incident) -> Vec<(f64, f64)> {
        let outages = outages(incident, &SampledRows::new(incident, MOST_POINTS), "db");
        outages.iter().map(|outage| (outage.from_s, outage.to_s)).collect()
    }

    /// Promise (The recorder): A report draws an outage from the first failure to the first good answer, not as fast
    /// answers.
    #[test]
    fn from_the_first_failure_to_the_first_good_answer() {
        let looks = [(1, 0, 2), (1, 0, 2), (1, 1, 3), (1, 1, 1), (0, 0, 0), (1, 0, 4), (1, 1, 500)];
        assert_eq!(spans(&recorded(&looks)), [(-0.003, 3.0), (3.5, 4.0)]);
        assert_eq!(spans(&recorded(&[(1, 0, 900), (1, 0, 2)])), []);
    }

    #[test]
    fn an_outage_that_began_before_the_table_has_its_length() {
        let trigger = Trigger {
            name: "db".to_owned(),
            failure: Some("connection refused".to_owned()),
            ..Trigger::default()
        };
        let mut incident = Incident { trigger, ..recorded(&[(1, 1, 3), (1, 0, 2)]) };
        incident.started_unix_ms = 10_000;
        incident.ended_unix_ms = 101_000;
        assert_eq!(spans(&incident), [(0.0, 91.0)]);
        incident.table = Table::default();
        assert_eq!(spans(&incident), [(0.0, 91.0)]);
    }

    #[test]
    fn fast_failures_are_not_drawn_as_fast_answers() {
        let outage = OutageSpan { name: String::new(), from_s: 0.0, to_s: 2.0 };
        let mut values = [Some(2.0), Some(3.0), None, Some(9_000.0), Some(4.0)];
        outage.draw_over(&[-1.0, 0.5, 1.0, 2.0, 3.0], &mut values);
        assert_eq!(values, [Some(2.0), Some(500.0), Some(1_000.0), Some(9_000.0), Some(4.0)]);
    }
}
