//! `memwright lab`: plays cases on real kernels in virtual machines.

use crate::args::{Acceleration, CaseKind, LabArgs, LabFormat};
use crate::progress::Spinner;
use crate::{Exit, Failure, terminal};
use mw_lab::accel::Accel;
use mw_lab::guest::Role;
use mw_lab::report::{Report, Tally, outcome_word};
use mw_lab::{Kernel, Kind, Lab, LabError, Play, Variant, cases, kernel, logs};
use mw_sys::SignalsBlocked;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;

pub(crate) fn run(args: &LabArgs) -> Result<Exit, Failure> {
    // What is interrupted removes its files, then ends by the signal.
    let signals = SignalsBlocked::new().map_err(|error| Failure::new(Exit::CouldNotLook, error))?;
    let played = play_chosen(args, &signals);
    drop(signals);
    let Some(report) = played? else { return Ok(Exit::Fine) };
    match if args.json { LabFormat::Json } else { args.format } {
        LabFormat::Text => terminal::print(&report.text()),
        LabFormat::Markdown => terminal::print(&report.markdown()),
        LabFormat::Json => super::print_json(&report)?,
    }
    Ok(exit(Tally::of(&report.plays), args.strict))
}

fn exit(tally: Tally, strict: bool) -> Exit {
    match () {
        () if tally.failed > 0 => Exit::Findings,
        () if tally.passed == 0 => Exit::CouldNotLook,
        () if strict && tally.skipped > 0 => Exit::Findings,
        () => Exit::Fine,
    }
}

/// The report, or nothing where the cases were only to be listed.
fn play_chosen(args: &LabArgs, signals: &SignalsBlocked) -> Result<Option<Report>, Failure> {
    let unpacked = match args.cases {
        Some(_) => None,
        None => Some(cases::unpack().map_err(could_not)?),
    };
    let own = args.cases.as_deref();
    let folder = own.or(unpacked.as_ref().map(|dir| dir.path())).unwrap_or(Path::new("."));
    let kinds: Vec<Kind> = args.kind.iter().map(|kind| kind_of(*kind)).collect();
    let mut variants = cases::chosen(folder, &args.names, &kinds).map_err(failure)?;
    if args.watch {
        variants.retain(|variant| variant.watched.is_some());
    }
    if args.list {
        terminal::print(&list(&variants));
        return Ok(None);
    }
    let binary = std::env::current_exe().map_err(could_not)?;
    let mut session = Session {
        lab: Lab::new(&binary).map_err(failure)?,
        kernels: BTreeMap::new(),
        accel_known: args.accel == Acceleration::Tcg,
        args,
        signals,
    };
    let plays = session.play_all(&planned(args, &variants))?;
    Ok(Some(Report::new(env!("CARGO_PKG_VERSION"), plays)))
}

/// What is played on which kernel, in order.
fn planned<'a>(args: &LabArgs, variants: &'a [Variant]) -> Vec<(&'a Variant, String)> {
    let kernels: Vec<String> = match args.all_kernels {
        true => kernel::series().map(str::to_owned).collect(),
        false => args.kernel.clone(),
    };
    let on = |variant: &'a Variant| -> Vec<(&'a Variant, String)> {
        match kernels.is_empty() {
            true => vec![(variant, variant.kernel.clone())],
            false => kernels.iter().map(|kernel| (variant, kernel.clone())).collect(),
        }
    };
    variants.iter().flat_map(on).collect()
}

/// What all plays share.
struct Session<'a> {
    lab: Lab,
    /// Each kernel that was asked for, or why it cannot be had.
    kernels: BTreeMap<String, Result<Kernel, String>>,
    accel_known: bool,
    args: &'a LabArgs,
    signals: &'a SignalsBlocked,
}

impl Session<'_> {
    fn play_all(&mut self, planned: &[(&Variant, String)]) -> Result<Vec<Play>, Failure> {
        let mut plays = Vec::new();
        for (number, (variant, wanted)) in planned.iter().enumerate() {
            let name = variant.full_name();
            let what = format!("{} of {}: {name} on {wanted}", number + 1, planned.len());
            let spinner = Spinner::start(&what);
            let play =
                self.play(variant, wanted, &|step| spinner.say(&format!("{what}: {step}")))?;
            drop(spinner);
            if self.signals.is_asked_to_end() {
                return Err(Failure::new(
                    Exit::CouldNotLook,
                    "interrupted; nothing is left behind",
                ));
            }
            if !std::io::stderr().is_terminal() {
                eprintln!("{what}: {} in {:.0} s", outcome_word(&play.outcome), play.wall_s);
            }
            plays.push(play);
        }
        Ok(plays)
    }

    fn play(
        &mut self,
        variant: &Variant,
        wanted: &str,
        say: &dyn Fn(&str),
    ) -> Result<Play, Failure> {
        let found = self
            .kernels
            .entry(wanted.to_owned())
            .or_insert_with(|| Kernel::find(wanted).map_err(|error| error.to_string()));
        let kernel = match found.clone() {
            Ok(kernel) => kernel,
            Err(why) => return Ok(Play::skipped(variant, wanted, why)),
        };
        self.settle_accel(&kernel)?;
        let called = if wanted.contains('/') { &kernel.release } else { wanted };
        let signals = self.signals;
        let mut watch = |step: Option<&mw_lab::port::Step>| {
            say(step.map_or("boot", |step| &step.name));
            !signals.is_asked_to_end()
        };
        let role = if self.args.watch { Role::Watch } else { Role::Play };
        let (play, run) = self.lab.play(variant, &kernel, called, role, &mut watch);
        if let (Some(dir), Some(run)) = (&self.args.keep_logs, &run) {
            logs::keep(dir, &play, run).map_err(could_not)?;
        }
        Ok(play)
    }

    /// Finds out once whether hardware virtualisation works.
    fn settle_accel(&mut self, kernel: &Kernel) -> Result<(), Failure> {
        if self.accel_known {
            return Ok(());
        }
        let accel = self.lab.try_kvm(kernel).map_err(could_not)?;
        self.accel_known = true;
        if accel == Accel::Tcg && self.args.accel == Acceleration::Kvm {
            return Err(Failure::new(
                Exit::CouldNotLook,
                "no guest comes up on /dev/kvm here; --accel tcg plays in software",
            ));
        }
        Ok(())
    }
}

fn list(variants: &[Variant]) -> String {
    let width = variants.iter().map(|v| v.full_name().len()).max().unwrap_or(0);
    let line = |v: &Variant| format!("{:<width$}  {:<4}  {}\n", v.full_name(), v.kernel, v.how);
    variants.iter().map(line).collect()
}

fn kind_of(kind: CaseKind) -> Kind {
    match kind {
        CaseKind::Tale => Kind::Tale,
        CaseKind::Rule => Kind::Rule,
        CaseKind::Decoy => Kind::Decoy,
        CaseKind::Evaluation => Kind::Evaluation,
    }
}

/// A name or a description that cannot be used is a mistake of usage.
fn failure(error: LabError) -> Failure {
    let exit = match error {
        LabError::CaseUnknown { .. } | LabError::Case { .. } => Exit::Usage,
        _ => Exit::CouldNotLook,
    };
    Failure::new(exit, error)
}

fn could_not(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::CouldNotLook, error)
}
