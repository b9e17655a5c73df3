//! Room for a large request: provided now, the cheapest way first, and kept for a while.
//!
//! mw_rules::room decides each step from what was measured; here it is done, measured and bounded:
//! - `measure`: the machine before and after each step
//! - `facilities`: what this kernel offers, and the writes that do a step
//! - `migrate`: moves memory of other programs to another node
//! - `meter`: what it has cost, the limits, and pauses while others stall
//! - `work`: step after step until the memory is there
//! - `pool`: pages of a pool, journalled and released
//! - `provided_memory`: what was provided, and `hold`, which holds it for a time or for a command

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod error;
mod facilities;
mod hold;
mod measure;
mod meter;
mod migrate;
mod pool;
mod provided_memory;
mod settings;
mod work;

pub use error::RoomError;
pub use meter::CostLimits;
pub use provided_memory::ProvidedMemory;
pub use settings::{ProgressReport, RoomProgress, RoomSettings};

use error::Stop;
use facilities::Facilities;
use measure::RoomSampler;
use meter::StallClock;
use mw_collect::Source;
use mw_model::{Answer, Missing, PageSize, RoomEnd, RoomOutcome};
use mw_rules::room::{self, RequestPart, RoomPlan};
use work::RoomWork;

/// Makes room for a request on this machine: the outcome, and the memory, if it was reached and is to be held. A
/// request that cannot be reached costs nobody's cache. The caller has blocked signals ([`mw_sys::SignalsBlocked`]);
/// one that ends a program ends the work, and what was taken is released.
///
/// # Errors
/// The machine was not measured, a step failed, or the memory was not held.
pub fn make_room(
    source: Source,
    settings: &RoomSettings<'_>,
    progress: ProgressReport<'_>,
) -> Result<(RoomOutcome, Option<ProvidedMemory>), RoomError> {
    let clock = StallClock::start();
    let measure = RoomSampler::start(source, settings.request, settings.consent);
    let usual = clock.rate();
    let facilities = Facilities::find(&measure);
    let states = measure.states()?;
    let parts = room::split(&states, settings.request);
    let plan = room::plan(&states, &parts, facilities.capabilities);
    if settings.dry_run || plan.answer() == Answer::No {
        return Ok((planned(settings, plan, unseen(&measure, &facilities)), None));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(RoomError::NeedsRoot);
    }
    let work = RoomWork::new(settings.max_cost, measure, facilities, usual, progress);
    make(settings, work, &parts)
}

/// The outcome where nothing was done.
fn planned(settings: &RoomSettings<'_>, plan: RoomPlan, unseen: Vec<Missing>) -> RoomOutcome {
    let answer = plan.answer();
    RoomOutcome {
        request: settings.request.clone(),
        dry_run: settings.dry_run,
        answer,
        available_bytes: plan.certain_bytes,
        end: RoomEnd::Planned { possible_bytes: plan.possible_bytes },
        steps: plan.steps,
        changes: Vec::new(),
        unreclaimable: if answer == Answer::Yes { Vec::new() } else { plan.unreclaimable },
        unseen,
    }
}

fn make(
    settings: &RoomSettings<'_>,
    mut work: RoomWork<'_>,
    parts: &[RequestPart],
) -> Result<(RoomOutcome, Option<ProvidedMemory>), RoomError> {
    let result = provide(settings, &mut work, parts);
    let cost = work.meter.cost();
    let (answer, end, provided) = match result {
        Ok(provided) => (Answer::Yes, RoomEnd::Provided(cost), Some(provided)),
        Err(Stop::Failed(error)) => return Err(error),
        Err(Stop::Short(why)) => (Answer::No, RoomEnd::Stopped(why, cost), None),
    };
    let mut outcome = RoomOutcome {
        request: settings.request.clone(),
        dry_run: false,
        answer,
        available_bytes: work.provided_bytes,
        end,
        unreclaimable: if answer == Answer::Yes { Vec::new() } else { work.unreclaimable() },
        unseen: unseen(&work.measure, &work.facilities),
        steps: work.steps,
        changes: Vec::new(),
    };
    if settings.hold {
        return Ok((outcome, provided));
    }
    outcome.changes = provided.map(ProvidedMemory::leave).unwrap_or_default();
    Ok((outcome, None))
}

fn provide(
    settings: &RoomSettings<'_>,
    work: &mut RoomWork<'_>,
    parts: &[RequestPart],
) -> Result<ProvidedMemory, Stop> {
    if let PageSize::Hugetlb(page_bytes) = settings.request.page {
        return pool::grow(work, page_bytes, parts, settings).map(ProvidedMemory::of_pool);
    }
    for part in parts {
        work.reach(part, &mut |_| Ok(()))?;
    }
    if !settings.hold {
        return Ok(ProvidedMemory::free());
    }
    hold::segment(settings.request, parts).map(ProvidedMemory::of_segment)
}

fn unseen(measure: &RoomSampler, facilities: &Facilities) -> Vec<Missing> {
    measure.unseen.iter().chain(&facilities.unseen).cloned().collect()
}
