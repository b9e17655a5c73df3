//! `memwright fix`: fixes findings, and reports what is left (mw_remedy::FixReport).

use crate::args::FixArgs;
use crate::config::Config;
use crate::progress::Spinner;
use crate::{Exit, Failure, advice, live, terminal};
use mw_remedy::{
    ApplyError, ChangeError, CheckFindings, FixError, FixReport, FixSettings, JournalError, Kernel,
    PlanError, setting_of,
};
use mw_render::text;
use mw_rules::profiles::{self, TuningProfile};
use std::path::Path;

pub(crate) fn run(args: &FixArgs, config: &Config) -> Result<Exit, Failure> {
    for id in &args.rules {
        if !super::rule(id)?.has_hazard() {
            let why = format!(
                "'{id}' explains stalls and has nothing to fix; 'memwright explain {id}' tells what \
                 to do"
            );
            return Err(Failure::new(Exit::Usage, why));
        }
    }
    let (before, unknown) = check()?;
    let kernel = Kernel::live();
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let settings = settings(args, &kernel, &state_dir);
    let mut report =
        FixReport::plan(&kernel, &before, &settings).map_err(|error| plan_failure(&error))?;
    let is_idle = report.plan.is_empty() && !args.persist;
    if let Some(verdict) = unknown
        && settings.named.is_empty()
        && is_idle
    {
        return Err(Failure::new(Exit::CouldNotCheck, verdict));
    }
    if !args.dry_run && !is_idle {
        let _spinner = Spinner::start("fixing");
        let fixed = report.carry_out(&kernel, &settings, &mut || Ok(check()?.0));
        fixed.map_err(|error| failure(error, &state_dir))?;
    }
    if args.format.is_json() {
        super::print_json(&report)?;
    } else {
        terminal::print(&text::fix(&report, &advice::undo(&[], &state_dir)));
    }
    let left = !report.remaining.is_empty() || !report.could_not_check.is_empty();
    Ok(if left { Exit::Findings } else { Exit::Fine })
}

fn settings<'a>(args: &'a FixArgs, kernel: &Kernel, state_dir: &'a Path) -> FixSettings<'a> {
    let profile = args.profile.as_deref().and_then(TuningProfile::find);
    FixSettings {
        named: match profile {
            Some(_) => profiles::rules().collect(),
            None => args.rules.iter().map(String::as_str).collect(),
        },
        profile: profile.map(|profile| profile.finding(&|path| present(kernel, path))),
        dry_run: args.dry_run,
        persist: args.persist,
        state_dir,
    }
}

/// A setting's value; none where this kernel does not have it, or it cannot be read, as the plan says then.
fn present(kernel: &Kernel, path: &str) -> Option<String> {
    kernel.read_setting(path).ok().map(|content| setting_of(&content))
}

/// The findings, and the verdict where the machine could not be checked.
fn check() -> Result<(CheckFindings, Option<String>), Failure> {
    let report = mw_rules::check(&live::window()?, None);
    let unknown = report.is_unknown().then_some(report.verdict);
    let unchecked = report.skipped.into_iter().map(|skipped| skipped.rule).collect();
    Ok((CheckFindings { findings: report.findings, unchecked }, unknown))
}

fn failure(error: FixError<Failure>, state_dir: &Path) -> Failure {
    match error {
        FixError::Check(failure) => failure,
        FixError::Plan(error) => plan_failure(&error),
        FixError::Journal(error) => journal_failure(&error),
        FixError::Apply(error) => apply_failure(state_dir, &error),
        FixError::Persist(cause) => {
            let exit = if cause.is_privilege() { Exit::PermissionDenied } else { Exit::Findings };
            let undo = advice::undo(&[], state_dir);
            let line = format!(
                "the changes are in force but could not be persisted: {cause}; revert with: {undo}"
            );
            Failure::new(exit, line)
        }
    }
}

fn plan_failure(error: &PlanError) -> Failure {
    let denied = error.is_privilege();
    let exit = if denied { Exit::PermissionDenied } else { Exit::CouldNotCheck };
    Failure::new(exit, advice::with_sudo(error, denied))
}

pub(super) fn journal_failure(error: &JournalError) -> Failure {
    Failure::new(journal_exit(error), advice::with_sudo(error, error.is_privilege()))
}

pub(super) fn journal_exit(error: &JournalError) -> Exit {
    if error.is_privilege() { Exit::PermissionDenied } else { Exit::CouldNotCheck }
}

fn apply_failure(state_dir: &Path, error: &ApplyError) -> Failure {
    let exit = match error {
        _ if error.is_privilege() => Exit::PermissionDenied,
        ApplyError::NothingChanged { .. } if matches!(error.cause(), ChangeError::Journal(_)) => {
            Exit::CouldNotCheck
        }
        _ => Exit::RolledBack,
    };
    let mut line = advice::with_sudo(error, error.is_privilege());
    if let ApplyError::Stuck { stuck, .. } = error {
        let ids: Vec<u64> = stuck.iter().map(|stuck| stuck.change).collect();
        line += &format!("; retry with: {}", advice::undo(&ids, state_dir));
    }
    Failure::new(exit, line)
}
