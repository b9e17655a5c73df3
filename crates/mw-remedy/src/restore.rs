//! The state of a change in the kernel's files, and how it is reverted.

use crate::coupling::partner_of;
use crate::device::{SettingLocation, locate};
use crate::history::{Change, ChangeStage, History, PersistedLine, Side};
use crate::kernel::{Kernel, KernelError, same_setting, setting_of};
use crate::persist::{self, FileStanding, PersistError, PersistedBlock};
use crate::point::{ChangeProgress, ChangeStep, Observer};
use serde::Serialize;

/// Something that holds neither our value nor the former one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The file, of the kernel or one of ours under /etc.
    pub path: String,
    pub now: String,
    pub ours: String,
    pub before: String,
}

/// The state of the kernel's files with respect to a change.
#[derive(Debug)]
pub(crate) enum KernelFileState {
    /// Our value is in force; what the affected files are to hold once it is reverted.
    Ours(Vec<String>),
    /// The former value is in force.
    Before,
    Drifted(Drift),
    /// This kernel has no such file.
    Missing,
    /// It was an action; there is nothing to revert.
    Action,
}

/// The state of one affected file.
enum SideStanding {
    Before,
    /// It is to hold this.
    ToBe(String),
    /// Another program set it, and it is another setting than the change's own.
    Foreign(String),
    Drifted(String),
}

/// The state of a change in the kernel's files.
pub(crate) fn standing(
    kernel: &Kernel,
    history: &History,
    change: &Change,
) -> Result<KernelFileState, KernelError> {
    let alone = standing_alone(kernel, change)?;
    if let KernelFileState::Drifted(drift) = &alone {
        // The machine was restarted, or an undo of both could not be recorded.
        if drift.path == change.path && history.is_below(change, &drift.now) {
            return Ok(KernelFileState::Before);
        }
    }
    Ok(alone)
}

fn standing_alone(kernel: &Kernel, change: &Change) -> Result<KernelFileState, KernelError> {
    let Some(before) = &change.before else { return Ok(KernelFileState::Action) };
    let path = match locate(kernel, &change.path, change.device.as_ref()) {
        SettingLocation::At(path) => path,
        SettingLocation::Ended => return Ok(KernelFileState::Before),
        SettingLocation::Missing => return Ok(KernelFileState::Missing),
    };
    let now = match kernel.read(&path) {
        Ok(content) => setting_of(&content),
        Err(error) if error.is_absent() => return Ok(KernelFileState::Missing),
        Err(error) => return Err(error),
    };
    let before = setting_of(before);
    let is_before = same_setting(&now, &before);
    if !is_before && !same_setting(&now, &change.value) && !is_partly_taken(change, &now, &before) {
        return Ok(KernelFileState::Drifted(drift(&path, &now, &change.value, &before)));
    }
    let mut targets = Vec::new();
    let mut to_do = !is_before;
    for side in &change.sides {
        match side_standing(kernel, change, side, is_before)? {
            SideStanding::Before => targets.push(setting_of(&side.before)),
            SideStanding::ToBe(value) => {
                to_do = true;
                targets.push(value);
            }
            SideStanding::Foreign(value) => targets.push(value),
            SideStanding::Drifted(value) => {
                let before = setting_of(&side.before);
                return Ok(KernelFileState::Drifted(drift(
                    &side.path,
                    &value,
                    &side.after(),
                    &before,
                )));
            }
        }
    }
    Ok(if to_do { KernelFileState::Ours(targets) } else { KernelFileState::Before })
}

fn drift(path: &str, now: &str, ours: &str, before: &str) -> Drift {
    Drift {
        path: path.to_owned(),
        now: now.to_owned(),
        ours: ours.to_owned(),
        before: before.to_owned(),
    }
}

impl Side {
    /// Value that the change gave it; a partner becomes zero.
    fn after(&self) -> String {
        self.after.as_deref().map_or_else(|| "0".to_owned(), setting_of)
    }
}

fn side_standing(
    kernel: &Kernel,
    change: &Change,
    side: &Side,
    is_before: bool,
) -> Result<SideStanding, KernelError> {
    let before = setting_of(&side.before);
    let now = match kernel.read(&side.path) {
        Ok(content) => setting_of(&content),
        Err(error) if error.is_absent() => return Ok(SideStanding::Before),
        Err(error) => return Err(error),
    };
    if same_setting(&now, &before) {
        return Ok(SideStanding::Before);
    }
    let is_after = same_setting(&now, &side.after());
    if partner_of(&change.path) == Some(side.path.as_str()) {
        let is_ours = is_after || same_setting(&now, "0");
        return Ok(if is_ours { SideStanding::ToBe(before) } else { SideStanding::Drifted(now) });
    }
    // A killed memwright may not have learnt what became of it, and the way back moves it again.
    let unknown = change.restoring || (side.after.is_none() && !is_before);
    Ok(if is_after || unknown { SideStanding::ToBe(before) } else { SideStanding::Foreign(now) })
}

/// True if a pool that was being filled when memwright was killed got a part of its pages.
fn is_partly_taken(change: &Change, now: &str, before: &str) -> bool {
    let numbers = (now.parse::<u64>(), before.parse::<u64>(), change.value.parse::<u64>());
    let (Ok(now), Ok(before), Ok(value)) = numbers else { return false };
    let between = before.min(value) <= now && now <= before.max(value);
    between && change.stage == ChangeStage::Planned && change.path.ends_with("/nr_hugepages")
}

/// Value of every affected file before.
pub(crate) fn former_sides(change: &Change) -> Vec<String> {
    change.sides.iter().map(|side| setting_of(&side.before)).collect()
}

/// Writes the former value, and what the affected files are to hold, and checks all of them.
pub(crate) fn restore(
    kernel: &Kernel,
    change: &Change,
    side_targets: &[String],
    observer: Observer<'_>,
) -> Result<(), KernelError> {
    let Some(before) = &change.before else { return Ok(()) };
    let own = setting_of(before);
    let path = match locate(kernel, &change.path, change.device.as_ref()) {
        SettingLocation::At(path) => path,
        SettingLocation::Ended | SettingLocation::Missing => return Ok(()),
    };
    let mut order: Vec<(&str, &str)> = vec![(&path, &own)];
    let sides = change.sides.iter().map(|side| side.path.as_str());
    order.extend(sides.zip(side_targets.iter().map(String::as_str)));
    // Of two files for one limit, only the one that was not zero is written: it zeroes the other,
    // and the kernel does not take a zero for some.
    let partner = partner_of(&change.path);
    let first = order.get(1).is_some_and(|&(path, value)| partner == Some(path) && value != "0");
    if own == "0" && first {
        order.swap(0, 1);
    }
    for &(path, value) in &order {
        if reads(kernel, path, value)?.is_none() {
            continue;
        }
        kernel.write_checked(path, value)?;
        observer(ChangeProgress { change: change.id, moment: ChangeStep::Restored });
    }
    for (path, value) in order {
        if let Some(now) = reads(kernel, path, value)? {
            let (path, value) = (path.to_owned(), value.to_owned());
            return Err(KernelError::NotTaken { path, value, now });
        }
    }
    Ok(())
}

/// Other values than this one that a file reads.
fn reads(kernel: &Kernel, path: &str, value: &str) -> Result<Option<String>, KernelError> {
    let now = setting_of(&kernel.read(path)?);
    Ok((!same_setting(&now, value)).then_some(now))
}

/// The state of a file of ours with respect to a change that was persisted in it.
pub(crate) fn file_standing(
    kernel: &Kernel,
    change: &Change,
    kept: &PersistedLine,
) -> Result<FileStanding, PersistError> {
    let now = persist::read_own(kernel, &kept.file)?;
    let block = PersistedBlock::new(change.id, &change.rule, &kept.line);
    Ok(block.standing(now.as_deref(), kept.former.as_deref(), &kept.file))
}

/// The drift of a file of ours.
pub(crate) fn file_drift(kept: &PersistedLine, standing: &FileStanding) -> Option<Drift> {
    match standing {
        FileStanding::Altered { now, .. } => Some(drift(&kept.file, now, &kept.line, "")),
        _ => None,
    }
}

/// Takes a change's line out of a file of ours, and clears away what a killed memwright left.
pub(crate) fn remove_line(
    kernel: &Kernel,
    change: &Change,
    kept: &PersistedLine,
    standing: &FileStanding,
    observer: Observer<'_>,
) -> Result<(), PersistError> {
    let mut tell = |moment| observer(ChangeProgress { change: change.id, moment });
    match standing {
        FileStanding::Without => {}
        FileStanding::With(rest) | FileStanding::Altered { rest, .. } => {
            persist::shrink_own(kernel, &kept.file, rest.as_deref(), &mut || {
                tell(ChangeStep::FileWritten);
            })?;
            tell(ChangeStep::FileTakenBack);
        }
    }
    persist::tidy(kernel, &kept.file, kept.made_dir)
}
