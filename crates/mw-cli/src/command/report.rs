//! `memwright report`: one incident, as a page for a browser, for the terminal, or as it was
//! recorded.

use super::could_not_read;
use crate::args::{IncidentId, ReportArgs, ReportFormat};
use crate::config::Config;
use crate::output::{self, Readers, STANDARD_OUTPUT};
use crate::{Exit, Failure, terminal};
use mw_model::{Incident, IncidentRow, Missing, visible};
use mw_record::Recording;
use mw_render::{html, text};
use std::io;
use std::path::Path;

/// The missing evidence where no log can be read.
const HEARTBEATS: &str = "late heartbeats of cluster software";

pub(crate) fn run(args: &ReportArgs, config: &Config) -> Result<Exit, Failure> {
    let recording = super::recording_without_rows(args.recording.as_deref(), config)?;
    let mut incident = find(&recording, args.id)?;
    match super::heartbeats::of_incident(&incident, &args.log, config) {
        Ok((reports, not_read)) => {
            incident.heartbeats = reports;
            incident
                .unseen
                .extend(not_read.into_iter().map(|why| Missing::failed(HEARTBEATS, why)));
        }
        Err(failure) if !args.log.is_empty() => return Err(failure),
        Err(failure) => {
            incident.unseen.push(Missing::failed(HEARTBEATS, failure.to_string()));
        }
    }
    let usual = if args.output.is_some() { ReportFormat::Html } else { ReportFormat::Text };
    let could_not = |error: &dyn std::fmt::Display| Failure::new(Exit::CouldNotCheck, error);
    let asked = if args.json { Some(ReportFormat::Json) } else { args.format };
    let page = match asked.unwrap_or(usual) {
        ReportFormat::Html => html::incident(&incident).map_err(|error| could_not(&error))?,
        ReportFormat::Text => text::incident(&incident, terminal::layout(false)),
        ReportFormat::Json => {
            let json =
                serde_json::to_string_pretty(&incident).map_err(|error| could_not(&error))?;
            visible::json(&json) + "\n"
        }
    };
    match args.output.as_deref().filter(|output| *output != Path::new(STANDARD_OUTPUT)) {
        Some(output) => {
            let failed = |error: &io::Error| Failure::of_output(output, error, "--output");
            output::write(output, Readers::Of(recording.path()), &failed, |file| {
                file.write_all(page.as_bytes()).map_err(|error| failed(&error))
            })?;
            terminal::tell(&incident.verdict);
            terminal::tell(output.display());
        }
        None => {
            if args.output.is_some() {
                terminal::check_output()?;
            }
            terminal::print_page(&page);
        }
    }
    Ok(Exit::Fine)
}

/// The incident that is meant. The list of all is read only where it is needed.
pub(super) fn find(recording: &Recording, id: IncidentId) -> Result<Incident, Failure> {
    let number = match id {
        IncidentId::Number(id) => Some(id),
        IncidentId::Last => recording.last_incident().map_err(could_not_read)?,
        IncidentId::Worst => {
            let rows = recording.incidents().map_err(could_not_read)?;
            rows.iter().max_by(|a, b| a.slowest_ms().total_cmp(&b.slowest_ms())).map(|row| row.id)
        }
    };
    let found =
        number.map(|id| recording.incident(id)).transpose().map_err(could_not_read)?.flatten();
    match found {
        Some(mut incident) => {
            incident.blame = mw_rules::blame(&incident);
            Ok(incident)
        }
        None => Err(not_there(
            recording.path(),
            number,
            &recording.incidents().map_err(could_not_read)?,
        )),
    }
}

fn not_there(recording: &Path, number: Option<u64>, rows: &[IncidentRow]) -> Failure {
    let ids = rows.iter().map(|row| row.id);
    match (number, ids.clone().min(), ids.max()) {
        (Some(id), Some(first), Some(last)) => {
            let there = format!("it has incidents {first} to {last}");
            Failure::new(Exit::Usage, format!("incident {id} is not in the recording; {there}"))
        }
        // The command line is right, and an incident may come.
        _ => {
            let path = recording.display();
            let line = format!("{path}: no incidents: nothing stalled while it was recorded");
            Failure::new(Exit::CouldNotCheck, line)
        }
    }
}
