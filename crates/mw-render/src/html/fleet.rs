//! The stalls of many nodes as one HTML file without scripts.

use super::{HtmlError, STYLES, safe};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context};
use serde::Serialize;

const TEMPLATE: &str = include_str!("fleet.html.jinja");

/// Contents of the page.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FleetPage {
    /// The answer in one line.
    pub verdict: String,
    /// The time that is covered.
    pub period: String,
    /// Names and values that lead the page.
    pub facts: Vec<(String, String)>,
    /// By cause, the most time lost first.
    pub causes: Vec<FleetRow>,
    /// Number of further causes.
    pub more_causes: usize,
    /// By node, the most time lost first.
    pub nodes: Vec<FleetRow>,
    /// Number of further nodes.
    pub more_nodes: usize,
    /// Events, the latest first.
    pub events: Vec<FleetEvent>,
    /// Number of further events.
    pub more_events: usize,
    /// Effect of fixes, the most first.
    pub fixes: Vec<FleetFix>,
    /// Forecasts, soonest first.
    pub forecasts: Vec<FleetForecast>,
    /// Number of further forecasts.
    pub more_forecasts: usize,
    /// Nodes that did not answer, and why.
    pub silent: Vec<(String, String)>,
    /// Number of further such nodes.
    pub more_silent: usize,
}

/// A cause or a node, and what it cost.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FleetRow {
    pub name: String,
    pub incidents: usize,
    /// On how many nodes, of a cause; with which cause above all, of a node.
    pub about: String,
    /// The time lost, in words.
    pub lost: String,
    /// Its share of the most in this table, 0 to 100.
    pub share_percent: f64,
}

/// Stalls with the same cause that follow each other closely.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FleetEvent {
    pub began: String,
    pub lasted: String,
    pub cause: String,
    pub nodes: String,
    pub incidents: usize,
    pub worst: String,
    pub verdict: String,
}

/// Changes of one rule, and what they brought.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FleetFix {
    pub rule: String,
    pub settings: String,
    pub nodes: String,
    pub applied: String,
    /// The share of the time that was lost to this cause before, in words.
    pub before: String,
    /// The same from then on.
    pub after: String,
}

/// A forecast of a node.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FleetForecast {
    pub node: String,
    /// Subject and time.
    pub forecast: String,
    /// Rate.
    pub decline: String,
}

/// The page: one HTML file that needs nothing else.
///
/// # Errors
/// [`HtmlError`] when the template cannot be filled, which no fleet should bring about.
pub fn fleet(page: &FleetPage) -> Result<String, HtmlError> {
    let hashes: Vec<String> = STYLES.iter().map(|text| safe::csp_hash(text)).collect();
    let policy = format!(
        "default-src 'none'; style-src {}; base-uri 'none'; form-action 'none'",
        hashes.join(" ")
    );
    let styles: Vec<Value> =
        STYLES.iter().map(|text| Value::from_safe_string((*text).to_owned())).collect();
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("shown", |text: String| safe::shown(&text));
    Ok(environment.render_str(
        TEMPLATE,
        context! {
            policy => Value::from_safe_string(policy),
            styles => styles,
            ..Value::from(Serde(page))
        },
    )?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn whatever_nodes_are_called_is_text() {
        let odd = "<script>alert(1)</script>\u{202e}".to_owned();
        let row = FleetRow { name: odd.clone(), about: odd.clone(), ..FleetRow::default() };
        let event =
            FleetEvent { cause: odd.clone(), verdict: odd.clone(), ..FleetEvent::default() };
        let page = FleetPage {
            verdict: odd.clone(),
            period: odd.clone(),
            facts: vec![(odd.clone(), odd.clone())],
            causes: vec![row.clone()],
            nodes: vec![row],
            events: vec![event],
            fixes: vec![FleetFix {
                rule: odd.clone(),
                settings: odd.clone(),
                ..FleetFix::default()
            }],
            forecasts: vec![FleetForecast {
                node: odd.clone(),
                forecast: odd.clone(),
                decline: odd.clone(),
            }],
            silent: vec![(odd.clone(), odd)],
            ..FleetPage::default()
        };
        let html = fleet(&page).unwrap();
        assert!(!html.contains("<script") && !html.contains('\u{202e}'));
        assert!(html.contains("&lt;script&gt;"));
    }

    #[test]
    fn a_week_without_a_stall_is_a_page_too() {
        let page =
            FleetPage { verdict: "no stalls on 40 nodes".to_owned(), ..FleetPage::default() };
        let html = fleet(&page).unwrap();
        assert!(
            html.contains("<h1>no stalls on 40 nodes</h1>") && !html.contains("<table"),
            "{html}"
        );
    }
}
