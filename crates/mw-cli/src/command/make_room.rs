//! `memwright make-room`: provides large memory now, and keeps it for a while (mw-room).

use crate::args::MakeRoomArgs;
use crate::command::{child, reserved};
use crate::config::Config;
use crate::progress::Spinner;
use crate::{Exit, Failure, advice, live, terminal};
use mw_model::{Absence, Answer, RoomEnd, RoomReport, visible};
use mw_render::{room_words, text};
use mw_room::{ProvidedMemory, RoomError, RoomProgress, RoomSettings};
use mw_sys::SignalsBlocked;
use std::ffi::OsString;
use std::path::Path;

pub(crate) fn run(args: &MakeRoomArgs, config: &Config) -> Result<Exit, Failure> {
    // When it is interrupted, it releases what it has taken, and then ends by the signal. No thread of it may take
    // a signal before.
    let signals =
        SignalsBlocked::new().map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let settings = RoomSettings {
        request: &args.request,
        consent: args.consent()?,
        max_cost: args.max_cost,
        dry_run: args.dry_run,
        hold: args.hold.is_some() || !args.command.is_empty(),
        state_dir: &state_dir,
        report_remaining: reserved::report_remaining,
    };
    let mut spinner = None;
    let made = mw_room::make_room(live::source()?, &settings, &mut |progress| match progress {
        RoomProgress::Started => spinner = Some(Spinner::start("making room")),
        RoomProgress::Step(step) => {
            spinner.iter().for_each(|spinner| spinner.update(&room_words::step(step)));
        }
    });
    drop(spinner);
    let (outcome, provided) = made.map_err(failure)?;
    let (answer, is_planned) = (outcome.answer, matches!(outcome.end, RoomEnd::Planned { .. }));
    print(args, &room_words::describe(outcome), &state_dir)?;
    let exit = match (provided, args.hold) {
        (Some(provided), Some(time)) => {
            provided.hold_for(time, &signals);
            Exit::Fine
        }
        (Some(provided), None) => run_command(&args.command, provided, &signals)?,
        (None, _) => exit(answer),
    };
    // The program ends by the signal as soon as signals are no longer blocked.
    let may_hold = !is_planned && (settings.hold || answer != Answer::Yes);
    if may_hold && signals.is_termination_requested() {
        return Err(Failure::new(Exit::RolledBack, "interrupted; all memory released"));
    }
    Ok(exit)
}

fn exit(answer: Answer) -> Exit {
    match answer {
        Answer::Yes | Answer::Slowly => Exit::Fine,
        Answer::No => Exit::Findings,
        Answer::Unknown => Exit::CouldNotCheck,
    }
}

fn failure(error: RoomError) -> Failure {
    let exit = match &error {
        RoomError::Reservation(_) | RoomError::NeedsRoot => Exit::PermissionDenied,
        RoomError::Step(cause) if cause.is_privilege() => Exit::PermissionDenied,
        RoomError::NotMeasured(missing) if missing.absence == Absence::Absent => Exit::Findings,
        RoomError::NoPool(_) | RoomError::NotHeld(_) => Exit::Findings,
        RoomError::NotMeasured(_)
        | RoomError::NodeGone(_)
        | RoomError::Step(_)
        | RoomError::Pool(_) => Exit::CouldNotCheck,
    };
    match error {
        RoomError::Reservation(error) => error.into(),
        RoomError::NeedsRoot => Failure::new(exit, advice::with_sudo(&error, true)),
        error => Failure::new(exit, error),
    }
}

/// Starts the command, and waits for its end.
fn run_command(
    words: &[OsString],
    provided: ProvidedMemory,
    signals: &SignalsBlocked,
) -> Result<Exit, Failure> {
    let Some((name, rest)) = words.split_first() else { return Ok(Exit::Fine) };
    let pool = provided.keep_pool();
    // The command starts with all signals unblocked.
    let child = child::spawn(name, rest)?;
    let status = pool.hold_until_exit(child, signals).map_err(child::not_waited)?;
    Ok(Exit::from_status(status))
}

fn print(args: &MakeRoomArgs, report: &RoomReport, state_dir: &Path) -> Result<(), Failure> {
    let page = || text::room(report, &advice::undo(&report.changes, state_dir));
    if !args.command.is_empty() {
        // Standard output is the command's.
        terminal::tell_page(&visible::lines(&page()));
        return Ok(());
    }
    if args.format.is_json() {
        return super::print_json(report);
    }
    terminal::print(&page());
    Ok(())
}
