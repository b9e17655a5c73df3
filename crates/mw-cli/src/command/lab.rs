//! `memwright lab`: runs cases on real kernels in virtual machines.

mod session;

use crate::args::lab::{CaseKindArg, LabArgs, LabFormat};
use crate::{Exit, Failure, terminal};
use mw_lab::report::{LabReport, Tally};
use mw_lab::{Variant, catalogue, interrupt, kernel};
use mw_model::format_duration_ms;
use mw_sys::SignalsBlocked;
use session::{LabSession, PlannedRun, could_not, failure};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The median time of a run under emulation, with two CPUs (eval/results/lab.md).
const USUAL_PLAY: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &LabArgs) -> Result<Exit, Failure> {
    let report = match interruptibly(|| play_chosen(args))? {
        LabOutcome::Listed(list) => {
            terminal::print(&list);
            return Ok(Exit::Fine);
        }
        LabOutcome::Played(report) => report,
    };
    match args.format.chosen() {
        LabFormat::Text => terminal::print(&report.text()),
        LabFormat::Markdown => terminal::print(&report.markdown()),
        LabFormat::Json => super::print_json(&report)?,
    }
    Ok(exit(Tally::new(&report.runs), args.strict))
}

/// Outcome of the cases that were chosen.
enum LabOutcome {
    Listed(String),
    Played(LabReport),
}

/// Interval at which a termination signal is noticed.
const SIGNAL_POLL: Duration = Duration::from_millis(50);

/// Does the lab's work on a thread of its own, so that it is interrupted wherever it waits; it removes
/// its files, and then the program ends by the signal.
fn interruptibly<T: Send>(work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    let signals =
        SignalsBlocked::new().map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
    std::thread::scope(|scope| {
        // Disconnected when the worker ends, also by a panic.
        let (running, ended) = mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            let _running = running;
            work()
        });
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SIGNAL_POLL) {
            if signals.is_termination_requested() {
                interrupt::interrupt();
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn exit(tally: Tally, strict: bool) -> Exit {
    if tally.failed > 0 || (strict && tally.passed > 0 && tally.skipped > 0) {
        Exit::Findings
    } else if tally.passed == 0 {
        Exit::CouldNotCheck
    } else {
        Exit::Fine
    }
}

fn play_chosen(args: &LabArgs) -> Result<LabOutcome, Failure> {
    let unpacked = match args.cases {
        Some(_) => None,
        None => Some(catalogue::unpack().map_err(could_not)?),
    };
    let own = args.cases.as_deref();
    let folder = own.or(unpacked.as_ref().map(|dir| dir.path())).unwrap_or(Path::new("."));
    let kinds: Vec<mw_lab::CaseKind> = args.kind.iter().map(|kind| kind_of(*kind)).collect();
    let mut variants = catalogue::select(folder, &args.names, &kinds).map_err(failure)?;
    if args.watch {
        variants.retain(|variant| variant.watched.is_some());
    }
    if args.list {
        return Ok(LabOutcome::Listed(list(&variants)));
    }
    let planned = planned(args, &variants);
    if planned.len() > 1 {
        terminal::tell(plan(&planned, args.jobs));
    }
    let plays = LabSession::new(args, &planned)?.play_all(&planned)?;
    Ok(LabOutcome::Played(LabReport::new(env!("CARGO_PKG_VERSION"), plays)))
}

/// Runs by kernel, in order: one round after the other.
fn planned<'a>(args: &LabArgs, variants: &'a [Variant]) -> Vec<PlannedRun<'a>> {
    let kernels: Vec<String> = match args.all_kernels {
        true => kernel::series().map(str::to_owned).collect(),
        false => args.kernel.clone(),
    };
    let mut planned = Vec::new();
    for round in 1..=args.rounds {
        for variant in variants {
            let own = std::slice::from_ref(&variant.kernel);
            let on = if kernels.is_empty() { own } else { &kernels };
            planned.extend(on.iter().map(|kernel| PlannedRun {
                variant,
                kernel: kernel.clone(),
                round,
            }));
        }
    }
    planned
}

/// The next runs, and their duration.
fn plan(planned: &[PlannedRun<'_>], jobs: usize) -> String {
    let kernels: BTreeSet<&str> = planned.iter().map(|play| &*play.kernel).collect();
    let kernels: Vec<&str> = kernels.into_iter().collect();
    let turns = u32::try_from(planned.len().div_ceil(jobs)).unwrap_or(u32::MAX);
    let limits: Duration = planned.iter().map(|play| play.variant.machine.time_limit).sum();
    let [about, most] = [USUAL_PLAY * turns, limits / u32::try_from(jobs).unwrap_or(u32::MAX)]
        .map(|time| format_duration_ms(time.as_secs_f64() * 1000.0));
    let at_once = if jobs > 1 { format!(", {jobs} at once") } else { String::new() };
    format!(
        "{} runs on kernel {}{at_once}: about {about} in software, {most} at most; --list lists \
         them, Ctrl-C ends them",
        planned.len(),
        kernels.join(" and ")
    )
}

fn list(variants: &[Variant]) -> String {
    let width = variants.iter().map(|v| v.full_name().len()).max().unwrap_or(0);
    let line = |v: &Variant| format!("{:<width$}  {:<4}  {}\n", v.full_name(), v.kernel, v.how);
    variants.iter().map(line).collect()
}

fn kind_of(kind: CaseKindArg) -> mw_lab::CaseKind {
    match kind {
        CaseKindArg::Tale => mw_lab::CaseKind::FieldReport,
        CaseKindArg::Rule => mw_lab::CaseKind::Rule,
        CaseKindArg::Decoy => mw_lab::CaseKind::Decoy,
        CaseKindArg::Evaluation => mw_lab::CaseKind::Evaluation,
    }
}
