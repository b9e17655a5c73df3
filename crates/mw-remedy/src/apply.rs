//! Carrying a plan out, all of it or nothing.

use crate::coupling::affected_by;
use crate::device;
use crate::failure::{ApplyError, ChangeError, UnrevertedChange};
use crate::history::{Change, PersistedLine};
use crate::journal::Journal;
use crate::kernel::{Kernel, KernelError, same_setting, setting_of};
use crate::persist::{self, FileStanding, PersistTarget, PersistedBlock, target_of};
use crate::plan::{Plan, PlannedChange};
use crate::point::{ChangeProgress, ChangeStep, Observer};
use crate::record::{ChangeEvent, Content, Intent, PersistRecord, SavedFile};
use crate::restore::{KernelFileState, file_standing, standing};
use crate::shadow::ShadowedLine;
use crate::tuners::others;
use crate::undo::{RevertMode, UndoOutcome, revert};
use serde::Serialize;

/// Room that one change takes in the journal at most, with everything that may become of it and
/// without the contents that it saves.
const CHANGE_BYTES: u64 = 8 * 1024;

/// The reason why an action is not persisted.
pub const DONE_ONCE: &str = "it is a one-time action that leaves no setting";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ApplyOutcome {
    /// The changes, in order.
    pub changes: Vec<AppliedChange>,
    /// Settings that got the wanted value from another program after the plan was made.
    pub already: Vec<String>,
}

/// One change that was made and reads back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedChange {
    /// Its number, for `memwright undo`.
    pub id: u64,
    /// The rule whose remedy it is.
    pub rule: String,
    pub path: String,
    /// The former value; absent for an action.
    pub before: Option<String>,
    pub value: String,
    /// True if it is an action that was done once, so that there is nothing to revert.
    pub once: bool,
    /// Its persistence, where that was requested and is possible.
    pub kept: Option<PersistedChange>,
    /// The reason why it is not persisted although that was requested.
    pub not_kept: Option<String>,
}

/// Persistence of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PersistedChange {
    /// Our file and the line in it.
    pub target: PersistTarget,
    /// Other files that set the same.
    pub shadowed: Vec<ShadowedLine>,
}

/// Carries a plan out, all of it or nothing, and persists it where `persist` says so.
///
/// # Errors
/// Why it was not carried out, and what became of the changes that had been made by then.
pub fn apply(
    kernel: &Kernel,
    journal: &mut Journal,
    plan: &Plan,
    persist: bool,
    observer: Observer<'_>,
) -> Result<ApplyOutcome, ApplyError> {
    apply_by(kernel, journal, plan, persist, observer, &mut write)
}

/// Method of writing a change: see [`apply_by`].
pub type ChangeWriter<'a> = &'a mut dyn FnMut(&Kernel, &PlannedChange) -> Result<(), KernelError>;

/// As [`apply`], with another way to write: `writer` may reach the planned value of a pool of huge pages in
/// several writes. Until it returns, the journal says that the change was begun, so that [`crate::undo`] finds
/// any value in between. If it fails, what it has written is reverted.
///
/// # Errors
/// As [`apply`].
pub fn apply_by(
    kernel: &Kernel,
    journal: &mut Journal,
    plan: &Plan,
    persist: bool,
    observer: Observer<'_>,
    writer: ChangeWriter<'_>,
) -> Result<ApplyOutcome, ApplyError> {
    let mut run = ApplyRun { kernel, journal, observer, made: Vec::new() };
    run.prepare(plan, persist)
        .map_err(|cause| ApplyError::NothingChanged { cause: Box::new(cause) })?;
    let mut applied = ApplyOutcome::default();
    for planned in &plan.changes {
        match run.change(planned, persist, writer) {
            Ok(Some(change)) => applied.changes.push(change),
            Ok(None) => applied.already.push(planned.path.clone()),
            Err(cause) => return Err(run.roll_back(cause)),
        }
    }
    Ok(applied)
}

fn write(kernel: &Kernel, planned: &PlannedChange) -> Result<(), KernelError> {
    match planned.once {
        true => kernel.write(&planned.path, &planned.value),
        false => kernel.write_checked(&planned.path, &planned.value),
    }
}

/// Keeps changes across reboots that are in force and were made without that: for a caller that
/// first wants to see whether they helped. Those that are not in force, or are kept already, are
/// left out of the answer.
///
/// # Errors
/// The first change that cannot be written to a file of ours; those before it are kept.
pub fn keep(
    kernel: &Kernel,
    journal: &mut Journal,
    changes: &[u64],
    observer: Observer<'_>,
) -> Result<Vec<AppliedChange>, ChangeError> {
    journal.history().usable(false)?;
    let wanted: Vec<Change> = journal
        .history()
        .changes
        .iter()
        .filter(|change| changes.contains(&change.id) && change.is_active() && !change.is_once())
        .filter(|change| !change.persist.as_ref().is_some_and(|kept| kept.done))
        .cloned()
        .collect();
    let mut run = ApplyRun { kernel, journal, observer, made: Vec::new() };
    let mut answer = Vec::new();
    for change in wanted {
        if matches!(standing(kernel, run.journal.history(), &change)?, KernelFileState::Ours(_)) {
            answer.push(run.keep_one(&change)?);
        }
    }
    Ok(answer)
}

struct ApplyRun<'a> {
    kernel: &'a Kernel,
    journal: &'a mut Journal,
    observer: Observer<'a>,
    /// The changes of this run that are in the journal.
    made: Vec<u64>,
}

impl ApplyRun<'_> {
    fn tell(&mut self, change: u64, moment: ChangeStep) {
        (self.observer)(ChangeProgress { change, moment });
    }

    fn prepare(&mut self, plan: &Plan, persist: bool) -> Result<(), ChangeError> {
        self.journal.history().usable(false)?;
        if plan.changes.is_empty() {
            return Ok(());
        }
        let room: u64 = plan.changes.iter().map(|change| self.room(change, persist)).sum();
        Ok(self.journal.reserve(room)?)
    }

    /// Room that a change may take in the journal; JSON may double a text's length.
    fn room(&self, change: &PlannedChange, persist: bool) -> u64 {
        let saved =
            change.path.len() + change.value.len() + change.before.as_ref().map_or(0, String::len);
        let target = change.persist.as_ref().filter(|_| persist);
        let file = target
            .and_then(|target| persist::read_own(self.kernel, &target.file).ok().flatten())
            .map_or(0, |content| content.len());
        CHANGE_BYTES + 2 * (saved + file) as u64
    }

    /// Makes one change; `None` where another program has made it since it was planned.
    fn change(
        &mut self,
        planned: &PlannedChange,
        persist: bool,
        writer: ChangeWriter<'_>,
    ) -> Result<Option<AppliedChange>, ChangeError> {
        let id = self.next_id();
        self.tell(id, ChangeStep::Begun);
        let Some(intent) = self.intent(planned)? else { return Ok(None) };
        let (path, value, once) = (intent.path.clone(), intent.value.clone(), planned.once);
        let sides: Vec<String> = intent.sides.iter().map(|side| side.path.clone()).collect();
        self.journal.append(id, ChangeEvent::Planned(intent))?;
        self.made.push(id);
        self.tell(id, ChangeStep::Planned);
        writer(self.kernel, planned)?;
        self.tell(id, ChangeStep::Written);
        let after = sides
            .iter()
            .map(|side| Ok(Content::new(&self.kernel.read(side)?)))
            .collect::<Result<_, KernelError>>()?;
        self.journal.append(id, ChangeEvent::Applied { after })?;
        self.tell(id, ChangeStep::Applied);
        let mut applied = AppliedChange {
            id,
            rule: planned.rule.clone(),
            path,
            before: planned.present(),
            value,
            once,
            kept: None,
            not_kept: None,
        };
        if persist && once {
            applied.not_kept = Some(DONE_ONCE.to_owned());
        } else if persist {
            self.keep_change(&mut applied)?;
        }
        Ok(Some(applied))
    }

    fn next_id(&self) -> u64 {
        self.journal.history().newest_change().max(persist::newest_change(self.kernel)) + 1
    }

    /// The change as it goes into the journal; `None` if the value is in force by now.
    fn intent(&self, planned: &PlannedChange) -> Result<Option<Intent>, ChangeError> {
        let mut intent = Intent {
            rule: planned.rule.clone(),
            path: planned.path.clone(),
            value: planned.value.clone(),
            before: None,
            sides: Vec::new(),
            device: device::identify(self.kernel, &planned.path),
        };
        if planned.once {
            return Ok(Some(intent));
        }
        let content = self.kernel.read_setting(&planned.path)?;
        let now = setting_of(&content);
        if same_setting(&now, &planned.value) {
            return Ok(None);
        }
        let then = planned.present().unwrap_or_default();
        if !same_setting(&now, &then) {
            return Err(ChangeError::Moved { path: planned.path.clone(), planned: then, now });
        }
        intent.before = Some(Content::new(&content));
        if let Some(side) = affected_by(&planned.path) {
            match self.kernel.read_setting(side) {
                Ok(content) => intent
                    .sides
                    .push(SavedFile { path: side.to_owned(), before: Content::new(&content) }),
                Err(error) if error.is_absent() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(intent))
    }

    fn keep_one(&mut self, change: &Change) -> Result<AppliedChange, ChangeError> {
        let mut applied = AppliedChange {
            id: change.id,
            rule: change.rule.clone(),
            path: change.path.clone(),
            before: change.before.as_deref().map(setting_of),
            value: change.value.clone(),
            once: change.is_once(),
            kept: None,
            not_kept: None,
        };
        if let Some(kept) = self.already_there(change)? {
            self.journal.append(change.id, ChangeEvent::Persisted)?;
            applied.kept = Some(kept);
            return Ok(applied);
        }
        self.keep_change(&mut applied)?;
        Ok(applied)
    }

    /// State of a change of which the journal does not say that its line got there, but it did.
    fn already_there(&self, change: &Change) -> Result<Option<PersistedChange>, ChangeError> {
        let Some(kept) = &change.persist else { return Ok(None) };
        if !matches!(file_standing(self.kernel, change, kept)?, FileStanding::With(_)) {
            return Ok(None);
        }
        let target = PersistTarget { file: kept.file.clone(), line: kept.line.clone() };
        let shadowed = others(self.kernel, &target, &change.path, &change.value);
        Ok(Some(PersistedChange { target, shadowed }))
    }

    fn keep_change(&mut self, applied: &mut AppliedChange) -> Result<(), ChangeError> {
        let change = self.journal.history().change(applied.id);
        let device = change.and_then(|change| change.device.as_ref());
        let target = match target_of(self.kernel, &applied.path, &applied.value, device) {
            Ok(target) => target,
            Err(why) => {
                applied.not_kept = Some(why);
                return Ok(());
            }
        };
        let id = applied.id;
        let former = persist::read_to_add(self.kernel, &target)?;
        let persisting = PersistRecord {
            file: target.file.clone(),
            line: target.line.clone(),
            former: former.as_deref().map(Content::new),
            made_dir: self.made_dir(&target.file),
        };
        self.journal.append(id, ChangeEvent::Persisting(persisting))?;
        self.tell(id, ChangeStep::Persisting);
        let block = PersistedBlock::new(id, &applied.rule, &target.line);
        let content = block.added_to(former.as_deref(), &target.file);
        let observer = &mut *self.observer;
        persist::replace_own(self.kernel, &target.file, &content, &mut || {
            observer(ChangeProgress { change: id, moment: ChangeStep::FileWritten });
        })?;
        self.tell(id, ChangeStep::FileInPlace);
        self.journal.append(id, ChangeEvent::Persisted)?;
        self.tell(id, ChangeStep::Persisted);
        let shadowed = others(self.kernel, &target, &applied.path, &applied.value);
        applied.kept = Some(PersistedChange { target, shadowed });
        Ok(())
    }

    /// True if the directory of a file of ours is there for memwright alone: the last change to be
    /// reverted removes it, whichever one made it.
    fn made_dir(&self, file: &str) -> bool {
        let made = |kept: &PersistedLine| kept.file == file && kept.made_dir;
        persist::lacks_dir(self.kernel, file)
            || self
                .journal
                .history()
                .changes
                .iter()
                .any(|change| change.is_active() && change.persist.as_ref().is_some_and(made))
    }

    fn roll_back(mut self, cause: ChangeError) -> ApplyError {
        let cause = Box::new(cause);
        let Some(&failed) = self.made.last() else { return ApplyError::NothingChanged { cause } };
        // The way back must not hang on the journal: a full disk may be why it is needed.
        let _ = self.journal.append(failed, ChangeEvent::Failed { why: cause.to_string() });
        self.tell(failed, ChangeStep::Failed);
        let (mut rolled_back, mut stuck) = (Vec::new(), Vec::new());
        for id in std::mem::take(&mut self.made).into_iter().rev() {
            let Some(change) = self.journal.history().change(id).cloned() else { continue };
            let mode = RevertMode::RollBack { failed: id == failed };
            let undone = revert(self.kernel, self.journal, &change, mode, self.observer);
            match undone.outcome {
                UndoOutcome::Restored { .. } => rolled_back.push(id),
                outcome if outcome.is_gone() => {}
                outcome => {
                    stuck.push(UnrevertedChange {
                        change: id,
                        path: change.path,
                        why: outcome.to_string(),
                    });
                }
            }
        }
        match (rolled_back.is_empty(), stuck.is_empty()) {
            (true, true) => ApplyError::NothingChanged { cause },
            (false, true) => ApplyError::RolledBack { cause, rolled_back },
            (_, false) => ApplyError::Stuck { cause, rolled_back, stuck },
        }
    }
}
