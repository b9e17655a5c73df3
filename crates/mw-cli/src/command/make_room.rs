//! `memwright make-room`: provides large memory now, the cheapest way first, and keeps it for a while.
//!
//! mw_rules::room decides each step from what was measured; here it is done, measured and bounded:
//! - `measure`: the machine before and after each step
//! - `kernel`: what this kernel offers, and the writes that do a step
//! - `migrate`: moves memory of other programs to another node
//! - `meter`: what it has cost, the limits, and pauses while others stall
//! - `work`: step after step until the memory is there
//! - `pool`: pages of a pool, journalled and released
//! - `kept`: what was provided
//! - `hold`: memory held for a time, or for a command
//! - `stop`: why it ended early
//! - `report`: the result for people

mod hold;
mod kept;
mod kernel;
mod measure;
mod meter;
mod migrate;
mod pool;
mod report;
mod stop;
mod work;

use crate::args::MakeRoomArgs;
use crate::config::Config;
use crate::{Exit, Failure, terminal};
use kept::ProvidedMemory;
use kernel::Facilities;
use measure::RoomSampler;
use meter::StallClock;
use mw_model::{Answer, Missing, PageSize, ROOM_SCHEMA, RoomReport};
use mw_rules::room::{self, RequestPart, RoomPlan};
use mw_sys::SignalsBlocked;
use std::path::Path;
use stop::Stop;
use work::RoomWork;

pub(crate) fn run(args: &MakeRoomArgs, config: &Config) -> Result<Exit, Failure> {
    // When it is interrupted, it releases what it has taken, and then ends by the signal. No thread of it may take
    // a signal before.
    let signals =
        SignalsBlocked::new().map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
    let clock = StallClock::start();
    let measure = RoomSampler::start(&args.request, args.consent()?)?;
    let usual = clock.rate();
    let facilities = Facilities::find(&measure, args);
    let states = measure.states()?;
    let parts = room::split(&states, &args.request);
    let plan = room::plan(&states, &parts, facilities.capabilities);
    // Nobody's cache is dropped for what cannot be reached.
    if args.dry_run || plan.answer() == Answer::No {
        return dry_run(args, plan, unseen(&measure, &facilities));
    }
    if !rustix::process::geteuid().is_root() {
        let why = crate::advice::with_sudo(&"make-room needs root", true);
        return Err(Failure::new(Exit::PermissionDenied, why));
    }
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let work = RoomWork::new(args, measure, facilities, usual);
    let (mut report, kept) = make(args, &state_dir, work, &parts)?;
    let Some(kept) = kept else {
        print(args, &report, &state_dir)?;
        interrupted(&signals)?;
        return Ok(Exit::Findings);
    };
    if args.hold.is_none() && args.command.is_empty() {
        report.changes = kept.leave();
        print(args, &report, &state_dir)?;
        return Ok(Exit::Fine);
    }
    print(args, &report, &state_dir)?;
    let exit = match args.hold {
        Some(time) => {
            hold::keep(time, kept, &signals);
            Exit::Fine
        }
        None => hold::command(&args.command, kept, &signals)?,
    };
    interrupted(&signals)?;
    Ok(exit)
}

/// Ends with an error after a signal; the program ends by it as soon as signals are no longer blocked.
fn interrupted(signals: &SignalsBlocked) -> Result<(), Failure> {
    if signals.is_termination_requested() {
        return Err(Failure::new(Exit::RolledBack, "interrupted; all memory released"));
    }
    Ok(())
}

/// Prints the plan, or why nothing was done.
fn dry_run(args: &MakeRoomArgs, plan: RoomPlan, unseen: Vec<Missing>) -> Result<Exit, Failure> {
    let answer = plan.answer();
    let report = RoomReport {
        schema: ROOM_SCHEMA,
        summary: report::forecast(&args.request, &plan),
        request: args.request.clone(),
        dry_run: args.dry_run,
        answer,
        available_bytes: plan.certain_bytes,
        unreclaimable: if answer == Answer::Yes { Vec::new() } else { plan.unreclaimable },
        steps: plan.steps,
        cost: None,
        changes: Vec::new(),
        unseen,
    };
    print(args, &report, Path::new(""))?;
    Ok(match answer {
        Answer::Yes | Answer::Slowly => Exit::Fine,
        Answer::No => Exit::Findings,
        Answer::Unknown => Exit::CouldNotCheck,
    })
}

/// Makes room; the report, and the memory if it was reached.
fn make(
    args: &MakeRoomArgs,
    state_dir: &Path,
    mut work: RoomWork,
    parts: &[RequestPart],
) -> Result<(RoomReport, Option<ProvidedMemory>), Failure> {
    let result = provide(args, state_dir, &mut work, parts);
    let cost = work.meter.cost();
    let (answer, summary, kept) = match result {
        Ok(kept) => (Answer::Yes, report::ready(&args.request, &cost), Some(kept)),
        Err(Stop::Failed(failure)) => return Err(failure),
        Err(stop) => {
            (Answer::No, report::not_reached(&args.request, work.provided_bytes, &stop), None)
        }
    };
    let report = RoomReport {
        schema: ROOM_SCHEMA,
        summary,
        request: args.request.clone(),
        dry_run: false,
        answer,
        available_bytes: work.provided_bytes,
        unreclaimable: if answer == Answer::Yes { Vec::new() } else { work.unreclaimable() },
        steps: work.steps,
        cost: Some(cost),
        changes: Vec::new(),
        unseen: unseen(&work.measure, &work.facilities),
    };
    Ok((report, kept))
}

fn provide(
    args: &MakeRoomArgs,
    state_dir: &Path,
    work: &mut RoomWork,
    parts: &[RequestPart],
) -> Result<ProvidedMemory, Stop> {
    if let PageSize::Hugetlb(page_bytes) = args.request.page {
        return pool::grow(work, page_bytes, parts, state_dir).map(ProvidedMemory::Pool);
    }
    for part in parts {
        work.reach(part, &mut |_| Ok(()))?;
    }
    if args.hold.is_none() && args.command.is_empty() {
        return Ok(ProvidedMemory::Free);
    }
    let memory = hold::segment(&args.request, parts)?;
    Ok(ProvidedMemory::Segment { _memory: Box::new(memory) })
}

fn unseen(measure: &RoomSampler, facilities: &Facilities) -> Vec<Missing> {
    measure.unseen.iter().chain(&facilities.unseen).cloned().collect()
}

fn print(args: &MakeRoomArgs, report: &RoomReport, state_dir: &Path) -> Result<(), Failure> {
    if !args.command.is_empty() {
        // Standard output is the command's.
        terminal::tell_page(&mw_model::visible::lines(&report::text(report, state_dir)));
        return Ok(());
    }
    if args.format.is_json() {
        return super::print_json(report);
    }
    terminal::print(&report::text(report, state_dir));
    Ok(())
}
