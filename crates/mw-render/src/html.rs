//! An incident as one HTML file: it opens without a network, in light and dark, on paper and on a
//! telephone.
//!
//! The page leads with the answer. What is drawn over time, the map of free blocks and the flame
//! graph are data within the page, which scripts within the page draw; the tables are there without
//! them. The policy in its head lets only these scripts run, so that a task's name cannot.

mod charts;
mod flame;
mod fleet;
mod heat;
mod outages;
mod page;
mod path;
mod safe;
mod series;
mod tables;

pub use fleet::{FleetEvent, FleetFix, FleetForecast, FleetPage, FleetRow, fleet};

use charts::IncidentCharts;
use flame::Flame;
use heat::Heat;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context};
use mw_model::Incident;
use page::IncidentPage;
use serde::Serialize;
use series::{MOST_POINTS, SampledRows};

const TEMPLATE: &str = include_str!("html/template.html.jinja");
const STYLES: &[&str] =
    &[include_str!("html/vendor/uPlot.min.css"), include_str!("html/report.css")];
const SCRIPTS: &[&str] = &[
    include_str!("html/errors.js"),
    include_str!("html/vendor/uPlot.iife.min.js"),
    include_str!("html/format.js"),
    include_str!("html/timeline.js"),
    include_str!("html/heat.js"),
    include_str!("html/flame.js"),
    include_str!("html/report.js"),
];
/// A copy of uPlot comes with its licence.
const LICENCE: &str = include_str!("html/vendor/LICENSE");

/// An incident that could not be written as HTML.
#[derive(Debug, thiserror::Error)]
pub enum HtmlError {
    /// The template could not be filled.
    #[error("the report's template could not be filled; this is a bug of memwright")]
    Template(#[from] minijinja::Error),
    /// The data that is drawn could not be written.
    #[error("the report's data could not be written as JSON; this is a bug of memwright")]
    Data(#[from] serde_json::Error),
}

/// Data that the page's scripts draw.
#[derive(Serialize)]
struct PageData<'a> {
    /// The start of the stall in milliseconds since the epoch: zero of all other times.
    zero_unix_ms: u64,
    /// Duration, in seconds.
    stall_s: f64,
    /// Times of the charts' points, in seconds.
    at_s: Vec<f64>,
    charts: &'a IncidentCharts,
    /// Times of the maps' columns, in seconds.
    heat_at_s: Vec<f64>,
    heat: &'a Heat,
    flame: Option<&'a Flame>,
}

/// The report of an incident: one HTML file that needs nothing else, below 3 MB.
///
/// # Errors
/// [`HtmlError`] when the template cannot be filled, which no incident should bring about.
pub fn incident(incident: &Incident) -> Result<String, HtmlError> {
    let rows = SampledRows::new(incident, MOST_POINTS);
    let heat_rows = SampledRows::new(incident, heat::MOST_COLUMNS);
    let timeline = IncidentCharts::new(incident, &rows);
    let heat = Heat::new(&incident.table, &heat_rows, incident.host.page_bytes);
    let profile = incident.profile.as_ref();
    let flame = profile.and_then(|profile| Flame::new(profile, incident.baseline.as_ref()));
    let zero_unix_ms = incident.started_unix_ms;
    let drawn = PageData {
        zero_unix_ms,
        stall_s: incident.duration_ms() as f64 / 1000.0,
        at_s: rows.seconds_since(zero_unix_ms),
        charts: &timeline,
        heat_at_s: heat_rows.seconds_since(zero_unix_ms),
        heat: &heat,
        flame: flame.as_ref(),
    };
    let page = IncidentPage::new(incident, &rows, &timeline, &heat, flame.as_ref());
    fill(&page, &safe::json_in_script(&drawn)?)
}

fn fill(page: &IncidentPage, data: &str) -> Result<String, HtmlError> {
    let hashes = |texts: &[&str]| {
        texts.iter().map(|text| safe::csp_hash(text)).collect::<Vec<_>>().join(" ")
    };
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hashes(STYLES),
        hashes(SCRIPTS)
    );
    let safe = |texts: &[&str]| -> Vec<Value> {
        texts.iter().map(|text| Value::from_safe_string((*text).to_owned())).collect()
    };
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    Ok(environment.render_str(
        TEMPLATE,
        context! {
            policy => Value::from_safe_string(policy),
            styles => safe(STYLES),
            scripts => safe(SCRIPTS),
            licence => LICENCE,
            data => Value::from_safe_string(data.to_owned()),
            ..Value::from(Serde(page))
        },
    )?)
}
