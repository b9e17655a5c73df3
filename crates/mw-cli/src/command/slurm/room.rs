//! Makes room as `memwright make-room` does; what it reserves stays until `memwright undo`.

use crate::args::{FormatArgs, MakeRoomArgs};
use crate::config::Config;
use crate::{Exit, Failure};
use mw_model::Request;
use mw_room::CostLimits;
use std::path::PathBuf;

pub(super) fn make(
    request: &Request,
    max_cost: CostLimits,
    state_dir: Option<PathBuf>,
    config: &Config,
) -> Result<Exit, Failure> {
    let args = MakeRoomArgs {
        request: request.clone(),
        hold: None,
        dry_run: false,
        max_cost,
        allow_swap: false,
        allow_migrate: false,
        format: FormatArgs::default(),
        state_dir,
        command: Vec::new(),
    };
    crate::command::make_room::run(&args, config)
}
