//! `memwright top`: this machine, or a recording, in the terminal.

use super::captured;
use crate::args::TopArgs;
use crate::{Exit, Failure, live};
use jiff::tz::TimeZone;
use mw_top::{Face, Feed, Live, Replay, ReplayError, Top};
use std::io::{self, IsTerminal};
use std::path::Path;

pub(crate) fn run(args: &TopArgs) -> Result<Exit, Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "top needs a terminal; 'memwright check' prints the state of memory once",
        ));
    }
    let zone = TimeZone::system();
    let interval_ms = u64::try_from(args.interval.as_millis()).unwrap_or(u64::MAX);
    let (mut top, mut feed): (Top, Box<dyn Feed>) = match &args.recording {
        None => {
            let live = Live::open(live::source()?)
                .map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
            (Top::live(interval_ms, zone), Box::new(live))
        }
        Some(path) => {
            let unpack = |bytes: &[u8], recording: &Path| {
                captured::snapshot(bytes, recording).map_err(|why| why.to_string())
            };
            let replay = Replay::open(path, unpack).map_err(replay_failed)?;
            let at = args.at.map(|at| move |last_ms| at.unix_ms(last_ms));
            let at_ms = replay.start(at, &zone).map_err(replay_failed)?;
            (Top::replay(at_ms, interval_ms, zone), Box::new(replay))
        }
    };
    let face = Face::from_environment(|name| std::env::var(name).ok());
    let shown = mw_top::run(&mut top, feed.as_mut(), face);
    shown
        .map(|()| Exit::Fine)
        .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("the terminal: {error}")))
}

fn replay_failed(error: ReplayError) -> Failure {
    match error {
        ReplayError::OutOfRange { .. } => Failure::new(Exit::Usage, error),
        ReplayError::Record(_) | ReplayError::Empty(_) => Failure::from_error(&error),
    }
}
