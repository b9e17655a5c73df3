//! Settings of making room, and its progress.

use crate::meter::CostLimits;
use mw_model::{Request, RoomStep};
use mw_rules::room::RoomConsent;
use std::fmt::Display;
use std::path::Path;

/// Settings of making room.
#[derive(Debug, Clone, Copy)]
pub struct RoomSettings<'a> {
    pub request: &'a Request,
    /// Permitted changes to memory of other programs.
    pub consent: RoomConsent,
    pub max_cost: CostLimits,
    /// True if nothing is done.
    pub dry_run: bool,
    /// True if the memory is held for the caller. Otherwise a pool stays as it is, and other memory is left free.
    pub hold: bool,
    /// Directory of the journal.
    pub state_dir: &'a Path,
    /// Takes the reason where huge pages remain reserved although they were to be released.
    pub report_remaining: fn(&dyn Display),
}

/// Progress of making room.
#[derive(Debug, Clone, Copy)]
pub enum RoomProgress<'a> {
    /// The machine was measured, and the first step is next.
    Started,
    /// A step that is taken now.
    Step(&'a RoomStep),
}

/// Takes [`RoomProgress`].
pub type ProgressReport<'a> = &'a mut dyn FnMut(RoomProgress<'_>);
