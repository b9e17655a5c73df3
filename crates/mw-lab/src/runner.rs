//! Runs cases: boots a guest, which goes through the phases of the case, and judges what comes back.

use std::path::Path;
use std::time::Duration;

use mw_model::IncidentRow;
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::case::watch::WatchSpec;
use crate::case::{CaseKind, Variant};
use crate::error::LabError;
use crate::judge::run_outcome;
use crate::judge::stall;
use crate::judge::transcript::{CheckReport, RunPhase, TranscriptChange};
use crate::judge::{self, MeasurementSeries};
use crate::vm::accel::Accel;
use crate::vm::guest::{self, GuestBase, GuestRole};
use crate::vm::kernel::GuestKernel;
use crate::vm::kernel_log::Trouble;
use crate::vm::port::GuestStep;
use crate::vm::qemu::{self, GuestRun, ProgressFn, RunEnd};
use crate::vm::{host, trial};
use std::collections::BTreeMap;

/// The result of one case on one kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseRun {
    pub case: String,
    pub variant: String,
    pub kind: CaseKind,
    /// The series, or the release where a file was named.
    pub kernel: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Tries, the last of which is reported; those before it failed.
    pub tries: u16,
    /// The last lines of the console of a failed run.
    #[serde(skip_deserializing)]
    pub console_tail: Option<String>,
    pub measured: Vec<MeasurementSeries>,
    #[serde(skip_deserializing)]
    pub checks: BTreeMap<RunPhase, CheckReport>,
    #[serde(skip_deserializing)]
    pub changes: Vec<TranscriptChange>,
    /// The longest stall, where the recorder watched.
    #[serde(skip_deserializing)]
    pub stall: Option<IncidentRow>,
    #[serde(skip_deserializing)]
    pub troubles: Vec<Trouble>,
    #[serde(skip_deserializing)]
    pub steps: Vec<GuestStep>,
    /// From power-on to the case's first step.
    pub first_step_s: Option<f64>,
    /// From power-on to the end.
    pub wall_s: f64,
}

impl CaseRun {
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.case, self.variant)
    }

    /// A case that cannot run here.
    pub fn skipped(variant: &Variant, kernel: &str, why: String) -> Self {
        Self::from_variant(variant, kernel, Outcome::Skipped(why))
    }

    fn from_variant(variant: &Variant, kernel: &str, outcome: Outcome) -> Self {
        Self::new(&variant.case, &variant.name, variant.kind, kernel, outcome)
    }

    /// A result without measurements.
    pub(crate) fn new(
        case: &str,
        variant: &str,
        kind: CaseKind,
        kernel: &str,
        outcome: Outcome,
    ) -> Self {
        Self {
            case: case.to_owned(),
            variant: variant.to_owned(),
            kind,
            kernel: kernel.to_owned(),
            outcome,
            tries: 1,
            console_tail: None,
            measured: Vec::new(),
            checks: BTreeMap::new(),
            changes: Vec::new(),
            stall: None,
            troubles: Vec::new(),
            steps: Vec::new(),
            first_step_s: None,
            wall_s: 0.0,
        }
    }
}

#[derive(Debug)]
pub struct Lab {
    base: GuestBase,
    accel: Accel,
}

impl Lab {
    /// `binary` is the `memwright` of the guests.
    pub fn new(binary: &Path) -> Result<Lab, LabError> {
        host::require_tools()?;
        Ok(Lab { base: GuestBase::new(binary)?, accel: Accel::Tcg })
    }

    /// Uses hardware virtualisation from now on if a guest with `kernel` boots on it.
    pub fn try_kvm(&mut self, kernel: &GuestKernel) -> Result<Accel, LabError> {
        self.accel = trial::best_accel(&self.base, kernel)?;
        Ok(self.accel)
    }

    /// Runs one case, in the guest's `role`; `kernel_name` names the kernel in the report. The guest's run
    /// is returned for its logs, if there was one.
    pub fn run(
        &self,
        variant: &Variant,
        kernel: &GuestKernel,
        kernel_name: &str,
        role: GuestRole,
        progress: &mut ProgressFn<'_>,
    ) -> (CaseRun, Option<GuestRun>) {
        let skipped = |why| (CaseRun::skipped(variant, kernel_name, why), None);
        if let Some(why) = host::missing_resources(&variant.machine) {
            return skipped(why);
        }
        let image = match guest::image(&self.base, variant, kernel, role) {
            Ok(image) => image,
            Err(error) => return skipped(error.to_string()),
        };
        let mut boot = || qemu::run(&variant.machine, self.accel, &kernel.image, &image, progress);
        let run = match boot() {
            Ok(run) if self.accel == Accel::Tcg && broke_at_boot(&run) => boot(),
            run => run,
        };
        match run {
            Ok(run) => match variant.watched.as_ref().filter(|_| role == GuestRole::Watch) {
                Some(watched) => (judged_stall(variant, watched, kernel_name, &run), Some(run)),
                None => (judged(variant, kernel_name, &run), Some(run)),
            },
            Err(error @ LabError::Protocol(_)) => {
                let outcome = Outcome::Failed(error.to_string());
                (CaseRun::from_variant(variant, kernel_name, outcome), None)
            }
            Err(error) => skipped(error.to_string()),
        }
    }
}

/// True if the kernel broke before the case's first step. An emulated CPU may execute an instruction
/// that the kernel is just replacing (`int3`), which is no failure of the case: the guest is restarted.
fn broke_at_boot(run: &GuestRun) -> bool {
    run.steps.is_empty() && run.troubles.iter().any(Trouble::is_fatal)
}

fn judged(variant: &Variant, kernel_name: &str, run: &GuestRun) -> CaseRun {
    let judged = judge::judge(&variant.expect, run);
    CaseRun {
        measured: judge::measured(&variant.expect, &judged.transcript),
        checks: judged.transcript.checks,
        changes: judged.transcript.changes,
        ..common_result(judged.outcome, variant, kernel_name, run)
    }
}

fn judged_stall(
    variant: &Variant,
    watched: &WatchSpec,
    kernel_name: &str,
    run: &GuestRun,
) -> CaseRun {
    let (outcome, stall) = stall::judge(watched, variant.kind, run);
    CaseRun { stall, ..common_result(outcome, variant, kernel_name, run) }
}

/// The parts of the result that do not depend on the role.
fn common_result(
    outcome: Outcome,
    variant: &Variant,
    kernel_name: &str,
    run: &GuestRun,
) -> CaseRun {
    // A full disk of the host is no failure of the case.
    let outcome = match (outcome, run.ended) {
        (Outcome::Failed(why), RunEnd::DiskFull) => Outcome::Skipped(why),
        (outcome, _) => outcome,
    };
    let failed = matches!(outcome, Outcome::Failed(_));
    CaseRun {
        console_tail: failed.then(|| run_outcome::console_tail(run)),
        troubles: run.troubles.clone(),
        first_step_s: run.steps.first().map(|step| seconds(step.at)),
        steps: run.steps.clone(),
        wall_s: seconds(run.wall),
        ..CaseRun::from_variant(variant, kernel_name, outcome)
    }
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
