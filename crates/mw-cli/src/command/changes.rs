//! `memwright changes`: lists the changes and their state.

use super::fix::journal_failure;
use crate::args::ChangesArgs;
use crate::config::Config;
use crate::{Exit, Failure, terminal};
use mw_remedy::{History, Kernel, changes};
use mw_render::text;

pub(crate) fn run(args: &ChangesArgs, config: &Config) -> Result<Exit, Failure> {
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let history = History::read(&state_dir).map_err(|error| journal_failure(&error))?;
    let mut all = changes(&Kernel::live(), &history);
    if !args.all {
        all.changes.retain(|change| !change.state.is_over());
    }
    if args.format.is_json() {
        super::print_json(&all)?;
    } else {
        terminal::print(&text::changes(&all));
    }
    Ok(if all.damage.is_empty() { Exit::Fine } else { Exit::CouldNotCheck })
}
