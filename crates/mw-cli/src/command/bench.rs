//! `memwright bench`: the cost of creating, locking and destroying a segment (mw-bench).

mod svg;

use crate::args::BenchArgs;
use crate::command::reserved;
use crate::config::Config;
use crate::{Exit, Failure, live};
use indicatif::{ProgressBar, ProgressStyle};
use mw_bench::{BenchError, BenchSettings};
use mw_render::preflight_words::describe;
use mw_render::text;

pub(crate) fn run(args: &BenchArgs, config: &Config) -> Result<Exit, Failure> {
    args.svg.as_deref().map_or(Ok(()), svg::check)?;
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let settings = BenchSettings {
        size_bytes: args.size,
        kind: args.kind,
        threads: args.threads.clone(),
        pages: args.page.clone(),
        place: args.place.clone(),
        rounds: args.rounds,
        reserve: args.reserve,
        state_dir: &state_dir,
        report_remaining: reserved::report_remaining,
    };
    let mut shown = None;
    let measured = mw_bench::bench(&live::window()?, &settings, &mut |name, steps| {
        let bar = shown.get_or_insert_with(|| bar(steps as u64));
        bar.set_message(name.to_owned());
        bar.inc(1);
    });
    let report = measured.map_err(failure)?;
    if let Some(bar) = shown {
        bar.finish_and_clear();
    }
    if let Some(path) = &args.svg {
        svg::write(&report, path)?;
    }
    if args.format.is_json() {
        super::print_json(&report)?;
    } else {
        crate::terminal::print(&text::bench(&report));
    }
    Ok(Exit::Fine)
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Refused(assessment) => {
            Failure::new(Exit::Findings, describe(&assessment).summary)
        }
        BenchError::Reservation(error) => error.into(),
        BenchError::TooLarge { .. } => Failure::new(Exit::Findings, error),
        BenchError::Interrupted => Failure::new(Exit::RolledBack, error),
        BenchError::NotMeasured(_) | BenchError::Signals(_) => {
            Failure::new(Exit::CouldNotCheck, error)
        }
    }
}

fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let template = "{bar:30} {pos}/{len} {msg} ({elapsed}, {eta} left)";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
