//! `memwright check`: the verdict, what is wrong, and what fixes it.

use super::lasting::SightingsFile;
use crate::args::{CheckArgs, Format};
use crate::config::Config;
use crate::output::{self, Readers, STANDARD_OUTPUT};
use crate::{Exit, Failure, live, terminal};
use mw_collect::calibrate::calibrate;
use mw_collect::page_blocks;
use mw_metrics::Exposition;
use mw_model::{
    Answer, Constraint, HugePool, OriginKind, PageSize, Preflight, Report, Request, Window,
};
use mw_render::{json, nagios, npd, preflight_words, text};
use mw_rules::{Rule, preflight};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) fn run(args: &CheckArgs, config: &Config) -> Result<Exit, Failure> {
    match check(args, config) {
        Err(failure) if is_unknown(&failure) => match args.format.chosen() {
            Format::Nagios => {
                terminal::print_page(&nagios::unknown(&failure));
                Ok(Exit::Plugin(nagios::PluginState::Unknown))
            }
            Format::Npd => {
                terminal::print_page(&npd::unknown(&failure));
                Ok(Exit::CouldNotCheck)
            }
            _ => Err(failure),
        },
        ended => ended,
    }
}

/// True if a monitoring system learns no state of the machine by it.
fn is_unknown(failure: &Failure) -> bool {
    matches!(failure.exit, Exit::CouldNotCheck | Exit::PermissionDenied)
}

fn check(args: &CheckArgs, config: &Config) -> Result<Exit, Failure> {
    let only = args.only.iter().map(|id| hazard_rule(id)).collect::<Result<Vec<_>, _>>()?;
    let checked = collect(args, config)?;
    let mut window = checked.window;
    let request = args.request.as_ref();
    if let Some(request) = request {
        with_page_blocks(&mut window, request)?;
    }
    let preflight = request.map(|request| answer(&window, request, args, config)).transpose()?;
    let is_wanted = |rule: &Rule| only.is_empty() || only.iter().any(|wanted| wanted.id == rule.id);
    let mut report = mw_rules::check_rules(&window, preflight, is_wanted);
    if checked.root.is_none() && only.is_empty() {
        report.exhaustion = super::forecast(config.recording(None), request);
    }
    if let Some(root) = checked.root {
        report.root = root.display().to_string();
    }
    if let Some(least) = args.after.filter(|least| !least.is_zero()) {
        let mut kept = SightingsFile::open(&config.state_dir(args.state_dir.as_deref()));
        kept.note(&report)?;
        kept.sightings.settle(&mut report, least);
    }
    let format = args.format.chosen();
    let text = match format {
        Format::Text => text::report(&report, terminal::layout(args.verbose)),
        Format::Nagios => nagios::report(&report),
        Format::Json => json::report(&report)
            .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("as JSON: {error}")))?,
        Format::Npd => npd::report(&report),
        Format::Prometheus => metrics(&window, &report),
    };
    print(&text, args.output.as_deref())?;
    if format == Format::Nagios {
        return Ok(Exit::Plugin(nagios::state(&report)));
    }
    Ok(exit(&report, args, config))
}

/// The rule of this id, which must look for a hazard.
fn hazard_rule(id: &str) -> Result<&'static Rule, Failure> {
    let rule = super::rule(id)?;
    if !rule.has_hazard() {
        let line = format!("'{id}' only explains stalls; choose a rule that check looks for");
        return Err(Failure::new(Exit::Usage, line));
    }
    Ok(rule)
}

fn metrics(window: &Window, report: &Report) -> String {
    let mut page = mw_metrics::machine(window, report);
    mw_metrics::with_build(&mut page, env!("CARGO_PKG_VERSION"));
    if let Some(preflight) = &report.preflight {
        mw_metrics::with_preflight(&mut page, &preflight.request, preflight.time.as_ref());
    }
    page.write(Exposition::Text)
}

fn print(text: &str, output: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = output.filter(|path| *path != Path::new(STANDARD_OUTPUT)) else {
        terminal::print_page(text);
        return Ok(());
    };
    let failed = |error: &std::io::Error| Failure::of_output(path, error, "--output");
    // node_exporter reads it under a user of its own.
    output::write(path, Readers::Everybody, &failed, |file| {
        file.write_all(text.as_bytes()).map_err(|error| failed(&error))
    })
}

/// The window, and where it is from.
struct CheckWindow {
    window: Window,
    /// The tree or the recording, where it is not this machine.
    root: Option<PathBuf>,
}

fn collect(args: &CheckArgs, config: &Config) -> Result<CheckWindow, Failure> {
    if let Some(file) = args.replay.file() {
        super::confined::confine(file);
        let recording = super::recording(Some(file), config)?;
        let window = super::replay::window(&recording, args.replay.at)?;
        return Ok(CheckWindow { window, root: Some(file.to_owned()) });
    }
    let Some(root) = &args.root else {
        return Ok(CheckWindow { window: live::window()?, root: None });
    };
    let window = super::tree::read(root, mw_collect::window)?;
    Ok(CheckWindow { window, root: Some(root.clone()) })
}

/// The answer of the pool that is named, or else of the machine.
fn answer(
    window: &Window,
    request: &Request,
    args: &CheckArgs,
    config: &Config,
) -> Result<Preflight, Failure> {
    if let Some(pool) = &args.pool {
        let room = super::pool::room(pool, config)?;
        return match preflight::from_pool(request, &room) {
            Ok(answer) => Ok(preflight_words::describe_pool(request, &room, answer)),
            Err(constraint) => {
                let mut preflight = machine_preflight(window, request)?;
                preflight.obstacles.push(preflight_words::obstacle(request, &constraint));
                Ok(preflight)
            }
        };
    }
    machine_preflight(window, request)
}

/// Time for sampling page blocks.
const BLOCKS_TIME: Duration = Duration::from_millis(25);

/// A request for huge pages of a pool that may be too small needs to know how far it can be grown.
fn with_page_blocks(window: &mut Window, request: &Request) -> Result<(), Failure> {
    let snapshot = &mut window.now;
    let PageSize::Hugetlb(page_bytes) = request.page else { return Ok(()) };
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let available = HugePool::find(pools, page_bytes).map_or(0, HugePool::available_bytes);
    let is_live = snapshot.origin.kind == OriginKind::Live;
    if is_live && (available < request.size_bytes || request.node.is_some()) {
        let blocks = page_blocks(&live::source()?, snapshot, page_bytes, BLOCKS_TIME);
        snapshot.page_blocks = blocks.into();
    }
    Ok(())
}

/// Answers the request. How long it takes is measured for a moment, unless it is refused or the
/// machine is another one, of which there is a tree.
fn machine_preflight(window: &Window, request: &Request) -> Result<Preflight, Failure> {
    let mut assessment = preflight::assess(window, request)
        .map_err(|missing| Failure::new(Exit::CouldNotCheck, missing))?;
    if assessment.answer() != Answer::No && window.now.origin.kind != OriginKind::Tree {
        match calibrate(request, &window.now) {
            Ok(calibration) => preflight::add_time(&mut assessment, window, &calibration),
            Err(missing) => assessment.constraints.push(Constraint::unread(missing)),
        }
    }
    Ok(preflight_words::describe(&assessment))
}

fn exit(report: &Report, args: &CheckArgs, config: &Config) -> Exit {
    let fail_on = config.fail_on(args.fail_on);
    let answers = |answer| report.preflight.as_ref().is_some_and(|p| p.answer == answer);
    let refused = answers(Answer::No);
    let found = report.worst.is_some_and(|worst| fail_on.is_reached_by(worst));
    if found || refused {
        Exit::Findings
    } else if report.is_unknown() || answers(Answer::Unknown) {
        Exit::CouldNotCheck
    } else {
        Exit::Fine
    }
}
