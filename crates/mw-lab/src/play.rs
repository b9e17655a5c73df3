//! Plays cases: boots a guest, lets it go through everything that the case promises, and judges what
//! comes back.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::Outcome;
use crate::accel::Accel;
use crate::case::{Kind, Variant};
use crate::error::LabError;
use crate::guest::{self, Base, Role};
use crate::judge::{self, Measured};
use crate::kernel::Kernel;
use crate::klog::Trouble;
use crate::port::Step;
use crate::qemu::{self, Ended, Run, Watch};
use crate::transcript::{Change, Check, Phase};
use crate::watched::{self, Stall, Watched};
use crate::{host, verdict};
use std::collections::BTreeMap;

/// What became of one case on one kernel.
#[derive(Debug, Clone, Serialize)]
pub struct Play {
    /// The case.
    pub case: String,
    /// Its variant.
    pub variant: String,
    /// What the case is there for.
    pub kind: Kind,
    /// The kernel's series, or its release where it was named by a file.
    pub kernel: String,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// At which try that was; those before it failed.
    pub tries: u16,
    /// The console's last lines, where it failed.
    pub last_words: Option<String>,
    /// What was measured.
    pub measured: Vec<Measured>,
    /// What memwright found.
    pub checks: BTreeMap<Phase, Check>,
    /// What `memwright fix` changed.
    pub changes: Vec<Change>,
    /// The longest stall that the recorder saw, where it watched.
    pub stall: Option<Stall>,
    /// What the guest's kernel said about its health.
    pub troubles: Vec<Trouble>,
    /// What the guest did, and when.
    pub steps: Vec<Step>,
    /// From the start of the machine to the case's first step, in seconds.
    pub first_step_s: Option<f64>,
    /// From the start of the machine to its end, in seconds.
    pub wall_s: f64,
}

impl Play {
    /// `CASE/VARIANT`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.case, self.variant)
    }

    /// A case that could not be tried.
    pub fn skipped(variant: &Variant, kernel: &str, why: String) -> Play {
        Play {
            case: variant.case.clone(),
            variant: variant.name.clone(),
            kind: variant.kind,
            kernel: kernel.to_owned(),
            outcome: Outcome::Skipped(why),
            tries: 1,
            last_words: None,
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

/// Where cases are played.
#[derive(Debug)]
pub struct Lab {
    base: Base,
    accel: Accel,
}

impl Lab {
    /// With `binary` as the `memwright` of the guests.
    pub fn new(binary: &Path) -> Result<Lab, LabError> {
        host::require_tools()?;
        Ok(Lab { base: Base::new(binary)?, accel: Accel::Tcg })
    }

    /// Uses hardware virtualisation from now on if a guest with `kernel` comes up on it.
    pub fn try_kvm(&mut self, kernel: &Kernel) -> Result<Accel, LabError> {
        self.accel = Accel::best(&self.base, kernel)?;
        Ok(self.accel)
    }

    /// Plays one case, or has the recorder watch it; `called` is what the kernel is called in the
    /// report. The run is returned for its logs, if there was one.
    pub fn play(
        &self,
        variant: &Variant,
        kernel: &Kernel,
        called: &str,
        role: Role,
        watch: &mut Watch<'_>,
    ) -> (Play, Option<Run>) {
        let skipped = |why| (Play::skipped(variant, called, why), None);
        if let Some(why) = host::lacks(&variant.machine) {
            return skipped(why);
        }
        let image = match guest::image(&self.base, variant, kernel, role) {
            Ok(image) => image,
            Err(error) => return skipped(error.to_string()),
        };
        let mut boot = || qemu::run(&variant.machine, self.accel, &kernel.image, &image, watch);
        let run = match boot() {
            Ok(run) if self.accel == Accel::Tcg && broke_at_boot(&run) => boot(),
            run => run,
        };
        match run {
            Ok(run) => match variant.watched.as_ref().filter(|_| role == Role::Watch) {
                Some(watched) => (was_watched(variant, watched, called, &run), Some(run)),
                None => (judged(variant, called, &run), Some(run)),
            },
            Err(error @ LabError::Protocol(_)) => {
                let outcome = Outcome::Failed(error.to_string());
                (Play { outcome, ..Play::skipped(variant, called, String::new()) }, None)
            }
            Err(error) => skipped(error.to_string()),
        }
    }
}

/// Whether the kernel broke before the case's first step. An emulated processor may meet an
/// instruction that the kernel is just replacing (`int3`): that is not the case's doing, and such a
/// guest is started once more.
fn broke_at_boot(run: &Run) -> bool {
    run.steps.is_empty() && run.troubles.iter().any(Trouble::is_fatal)
}

fn judged(variant: &Variant, called: &str, run: &Run) -> Play {
    let judged = judge::judge(&variant.expect, run);
    Play {
        measured: judge::measured(&judged.transcript),
        checks: judged.transcript.checks,
        changes: judged.transcript.changes,
        ..came_to(judged.outcome, variant, called, run)
    }
}

fn was_watched(variant: &Variant, watched: &Watched, called: &str, run: &Run) -> Play {
    let (outcome, stall) = watched::judge(watched, variant.kind, run);
    Play { stall, ..came_to(outcome, variant, called, run) }
}

/// What is to be said of any run.
fn came_to(outcome: Outcome, variant: &Variant, called: &str, run: &Run) -> Play {
    // What the host lacks is no failure of the case.
    let outcome = match (outcome, run.ended) {
        (Outcome::Failed(why), Ended::DiskFull) => Outcome::Skipped(why),
        (outcome, _) => outcome,
    };
    let failed = matches!(outcome, Outcome::Failed(_));
    Play {
        outcome,
        last_words: failed.then(|| verdict::last_words(run)),
        troubles: run.troubles.clone(),
        first_step_s: run.steps.first().map(|step| seconds(step.at)),
        steps: run.steps.clone(),
        wall_s: seconds(run.wall),
        ..Play::skipped(variant, called, String::new())
    }
}

/// To the millisecond.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
