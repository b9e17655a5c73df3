//! Forecasts of what runs out on nodes, and when, as `memwright check` forecasts it from the node's recording.

use crate::asking::{self, NodeAccess, line};
use mw_render::html::FleetForecast;
use serde::Deserialize;

/// Fields that are read of the output of `check --json`, of whichever version.
#[derive(Deserialize)]
struct CheckAnswer {
    #[serde(default)]
    exhaustion: Vec<NodeForecast>,
}

#[derive(Debug, Deserialize)]
struct NodeForecast {
    forecast: String,
    decline: String,
    hours_left: ForecastHours,
}

#[derive(Debug, Deserialize)]
struct ForecastHours {
    expected: f64,
}

/// The forecasts of nodes, what runs out first before the others; of a node that does not say, none.
pub(crate) fn ask(access: NodeAccess<'_>, nodes: &[String]) -> Vec<FleetForecast> {
    let words = ["memwright", "check", "--json"];
    let (answers, _) = asking::ask_all(access, nodes, &words, |output| {
        let answer: CheckAnswer =
            asking::json(output, "unexpected output, not a memwright report")?;
        Ok(answer.exhaustion)
    });
    rows(answers)
}

fn rows(answers: Vec<(String, Vec<NodeForecast>)>) -> Vec<FleetForecast> {
    let of_node = |(node, forecasts): (String, Vec<NodeForecast>)| {
        forecasts.into_iter().map(move |forecast| (node.clone(), forecast))
    };
    let mut all: Vec<(String, NodeForecast)> = answers.into_iter().flat_map(of_node).collect();
    all.sort_by(|(a_node, a), (b_node, b)| {
        let by_time = a.hours_left.expected.total_cmp(&b.hours_left.expected);
        by_time.then_with(|| a_node.cmp(b_node))
    });
    let row = |(node, forecast): (String, NodeForecast)| FleetForecast {
        node,
        forecast: line(&forecast.forecast),
        decline: line(&forecast.decline),
    };
    all.into_iter().map(row).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_runs_out_first_comes_first() {
        let forecast = |hours: f64| -> NodeForecast {
            let json = serde_json::json!({
                "forecast": format!("in {hours} h"), "decline": "d", "hours_left": {"expected": hours, "least": 1.0},
            });
            serde_json::from_value(json).unwrap()
        };
        let answers = vec![
            ("n2".to_owned(), vec![forecast(9.0), forecast(1.0)]),
            ("n1".to_owned(), vec![forecast(9.0)]),
            ("n3".to_owned(), Vec::new()),
        ];
        let rows = rows(answers);
        let found: Vec<(&str, &str)> =
            rows.iter().map(|row| (row.node.as_str(), row.forecast.as_str())).collect();
        assert_eq!(found, [("n2", "in 1 h"), ("n1", "in 9 h"), ("n2", "in 9 h")]);
    }
}
