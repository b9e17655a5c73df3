//! What runs out on nodes, and when, as `memwright check` forecasts it from the node's recording.

use super::asking::{self, line};
use crate::Failure;
use crate::args::WayArgs;
use mw_render::html::FleetForecast;
use serde::Deserialize;

/// Fields that are read of the output of `check --json`, of whichever version.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    exhaustion: Vec<Forecast>,
}

#[derive(Debug, Deserialize)]
struct Forecast {
    forecast: String,
    decline: String,
    hours_left: Hours,
}

#[derive(Debug, Deserialize)]
struct Hours {
    expected: f64,
}

/// The forecasts of nodes, what runs out first before the others; of a node that does not say, none.
pub(super) fn ask(way: &WayArgs, nodes: &[String]) -> Result<Vec<FleetForecast>, Failure> {
    let words = ["memwright", "check", "--json"];
    let (answers, _) = asking::ask_all(way, nodes, &words, |output| {
        let answer: Answer = asking::json(output, "unexpected output, not a memwright report")?;
        Ok(answer.exhaustion)
    })?;
    Ok(rows(answers))
}

fn rows(answers: Vec<(String, Vec<Forecast>)>) -> Vec<FleetForecast> {
    let of_node = |(node, forecasts): (String, Vec<Forecast>)| {
        forecasts.into_iter().map(move |forecast| (node.clone(), forecast))
    };
    let mut all: Vec<(String, Forecast)> = answers.into_iter().flat_map(of_node).collect();
    all.sort_by(|(a_node, a), (b_node, b)| {
        let by_time = a.hours_left.expected.total_cmp(&b.hours_left.expected);
        by_time.then_with(|| a_node.cmp(b_node))
    });
    let row = |(node, forecast): (String, Forecast)| FleetForecast {
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
        let forecast = |hours: f64| -> Forecast {
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
