//! Runs the planned variants, several at once with --jobs.

use crate::args::lab::{Acceleration, LabArgs};
use crate::progress::Spinner;
use crate::terminal::tell;
use crate::{Exit, Failure};
use mw_lab::interrupt::is_interrupted;
use mw_lab::report::outcome_word;
use mw_lab::vm::accel::Accel;
use mw_lab::vm::guest::GuestRole;
use mw_lab::vm::port::GuestStep;
use mw_lab::{CaseRun, GuestKernel, Lab, LabError, Outcome, Variant, logs};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which the display is updated.
const REFRESH: Duration = Duration::from_millis(50);

pub(super) struct PlannedRun<'a> {
    pub(super) variant: &'a Variant,
    /// As requested: a series, or the path of an image.
    pub(super) kernel: String,
    /// From 1.
    pub(super) round: u16,
}

impl PlannedRun<'_> {
    fn name(&self) -> String {
        format!("{} on {}", self.variant.full_name(), self.kernel)
    }
}

pub(super) struct LabSession<'a> {
    lab: Lab,
    /// Each requested kernel, or why it is not available.
    kernels: BTreeMap<String, Result<GuestKernel, String>>,
    args: &'a LabArgs,
}

struct Board {
    next: AtomicUsize,
    ended: AtomicBool,
    /// State of each run; nothing once it has ended.
    at: Mutex<Vec<Option<String>>>,
    done: Mutex<Vec<(usize, Result<CaseRun, Failure>)>>,
}

impl Board {
    fn has_ended(&self) -> bool {
        self.ended.load(SeqCst) || is_interrupted()
    }
}

/// A player's place on the board, which it leaves however it ends: whoever looks on waits for that.
struct Seat<'a> {
    board: &'a Board,
    player: usize,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        lock(&self.board.at)[self.player] = None;
    }
}

impl<'a> LabSession<'a> {
    /// Finds the kernels, and out whether hardware virtualisation works.
    pub(super) fn new(args: &'a LabArgs, planned: &[PlannedRun<'_>]) -> Result<Self, Failure> {
        let binary = std::env::current_exe().map_err(could_not)?;
        let mut lab = Lab::new(&binary).map_err(failure)?;
        let mut kernels = BTreeMap::new();
        for wanted in planned.iter().map(|play| &play.kernel) {
            if !kernels.contains_key(wanted) {
                let _spinner = Spinner::start(&format!("kernel {wanted}"));
                let found = GuestKernel::find(wanted).map_err(|error| error.to_string());
                kernels.insert(wanted.clone(), found);
            }
        }
        if let Some(kernel) = kernels.values().flatten().next() {
            settle_accel(&mut lab, args.accel, kernel)?;
        }
        Ok(Self { lab, kernels, args })
    }

    /// The plays, in the order in which they were planned.
    pub(super) fn play_all(&self, planned: &[PlannedRun<'_>]) -> Result<Vec<CaseRun>, Failure> {
        let players = self.args.jobs.min(planned.len()).max(1);
        let board = Board {
            next: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            at: Mutex::new(vec![Some(String::new()); players]),
            done: Mutex::new(Vec::new()),
        };
        std::thread::scope(|scope| {
            for player in 0..players {
                let board = &board;
                scope.spawn(move || self.play_some(planned, board, player));
            }
            show_progress(&board);
        });
        if is_interrupted() {
            return Err(Failure::new(
                Exit::CouldNotCheck,
                "interrupted; everything was cleaned up",
            ));
        }
        let mut done = board.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, play)| play).collect()
    }

    /// Work of one thread: run after run, until none is left.
    fn play_some(&self, planned: &[PlannedRun<'_>], board: &Board, player: usize) {
        let _seat = Seat { board, player };
        while !board.has_ended() {
            let number = board.next.fetch_add(1, SeqCst);
            let Some(play) = planned.get(number) else { break };
            let what = format!("{} of {}: {}", number + 1, planned.len(), play.name());
            let result = self.play_until_it_passes(play, board, &mut |step: &str| {
                lock(&board.at)[player] = Some(format!("{what}: {step}"));
            });
            if let Ok(play) = &result
                && !std::io::stderr().is_terminal()
            {
                let word = outcome_word(&play.outcome);
                tell(format_args!("{what}: {word} in {:.0} s", play.wall_s));
            }
            if result.is_err() {
                board.ended.store(true, SeqCst);
            }
            lock(&board.done).push((number, result));
        }
    }

    /// As often as is allowed.
    fn play_until_it_passes(
        &self,
        planned: &PlannedRun<'_>,
        board: &Board,
        say: &mut dyn FnMut(&str),
    ) -> Result<CaseRun, Failure> {
        let mut tries = 1;
        loop {
            let play = CaseRun { tries, ..self.play(planned, board, say)? };
            match &play.outcome {
                Outcome::Failed(why) if tries <= self.args.retries && !board.has_ended() => {
                    tell(format_args!("{}: failed, once more: {why}", planned.name()));
                    tries += 1;
                }
                _ => return Ok(play),
            }
        }
    }

    fn play(
        &self,
        planned: &PlannedRun<'_>,
        board: &Board,
        say: &mut dyn FnMut(&str),
    ) -> Result<CaseRun, Failure> {
        let PlannedRun { variant, kernel: wanted, round } = planned;
        let kernel = match self.kernels.get(wanted) {
            Some(Ok(kernel)) => kernel,
            Some(Err(why)) => return Ok(CaseRun::skipped(variant, wanted, why.clone())),
            None => return Ok(CaseRun::skipped(variant, wanted, "not looked for".to_owned())),
        };
        let called = if wanted.contains('/') { &kernel.release } else { wanted };
        let mut watch = |step: Option<&GuestStep>| {
            say(step.map_or("boot", |step| &step.name));
            !board.has_ended()
        };
        let role = if self.args.watch { GuestRole::Watch } else { GuestRole::Check };
        let (play, run) = self.lab.run(variant, kernel, called, role, &mut watch);
        if let (Some(dir), Some(run)) = (&self.args.keep_logs, &run) {
            let dir = match self.args.rounds {
                1 => dir.clone(),
                _ => dir.join(format!("round-{round}")),
            };
            logs::keep(&dir, &play, run).map_err(could_not)?;
        }
        Ok(play)
    }
}

/// Shows the step of each run until all have ended.
fn show_progress(board: &Board) {
    let spinner = Spinner::start("boot");
    loop {
        let at: Vec<String> = lock(&board.at).iter().flatten().cloned().collect();
        if at.is_empty() {
            return;
        }
        spinner.update(&at.join(" · "));
        std::thread::sleep(REFRESH);
    }
}

fn settle_accel(lab: &mut Lab, wanted: Acceleration, kernel: &GuestKernel) -> Result<(), Failure> {
    if wanted == Acceleration::Tcg {
        return Ok(());
    }
    let accel = lab.try_kvm(kernel).map_err(could_not)?;
    if accel == Accel::Tcg && wanted == Acceleration::Kvm {
        return Err(Failure::new(
            Exit::CouldNotCheck,
            "no guest comes up on /dev/kvm here; --accel tcg runs in software",
        ));
    }
    Ok(())
}

/// A lock whose data is whole at any moment.
fn lock<T>(behind: &Mutex<T>) -> MutexGuard<'_, T> {
    behind.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name or a description that cannot be used is a mistake of usage.
pub(super) fn failure(error: LabError) -> Failure {
    let exit = match error {
        LabError::CaseUnknown { .. } | LabError::Case { .. } => Exit::Usage,
        _ => Exit::CouldNotCheck,
    };
    Failure::new(exit, error)
}

pub(super) fn could_not(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::CouldNotCheck, error)
}
