//! `memwright incidents`: the stalls of a recording, the latest last.

use crate::args::IncidentsArgs;
use crate::config::Config;
use crate::terminal;
use crate::{Exit, Failure};
use mw_render::text;

pub(crate) fn run(args: &IncidentsArgs, config: &Config) -> Result<Exit, Failure> {
    let recording = super::recording(args.recording.as_deref(), config)?;
    let rows = recording.incidents().map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
    if args.format.is_json() {
        super::print_json(&rows)?;
    } else {
        terminal::print_page(&text::incidents(&rows, terminal::layout(false)));
    }
    Ok(Exit::Fine)
}
