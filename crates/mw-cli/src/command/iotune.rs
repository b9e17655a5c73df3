//! `memwright iotune`: discovered direct I/O per path, shown, set and saved.

mod directory;
mod programs;
pub(crate) mod show;
mod tables;

use crate::args::{IotuneAction, IotuneArgs};
use crate::{Exit, Failure, terminal};
use mw_iotune::{LIVE, LineSetting, SAVED};
use std::path::Path;
use tables::IotuneTable;

pub(crate) fn run(args: &IotuneArgs) -> Result<Exit, Failure> {
    match &args.action {
        IotuneAction::Show { path, format } => show::run(path.as_deref(), format.is_json()),
        IotuneAction::Set { path, settings } => set(path, settings),
        IotuneAction::Unset { path } => unset(path),
        IotuneAction::Save { path } => save(path.as_deref()),
    }
}

fn set(path: &Path, settings: &[String]) -> Result<Exit, Failure> {
    let text = settings.join(",");
    let wrong = |why| Failure::new(Exit::Usage, format!("'{text}': {why}"));
    let requested = mw_iotune::setting(text.as_bytes()).map_err(wrong)?;
    let path = tables::real(path)?;
    let _lock = tables::lock()?;
    let mut table = IotuneTable::in_force()?;
    let before = table.get(&path).unwrap_or_default();
    let setting = LineSetting {
        size: requested.size.or(before.size),
        reads: requested.reads.or(before.reads),
    };
    table.put(&path, setting);
    table.write(LIVE)?;
    terminal::print(&format!("{path}: {setting}, until the next reboot\n{}", notify_programs()));
    Ok(Exit::Fine)
}

fn unset(path: &Path) -> Result<Exit, Failure> {
    // What is gone may have had a setting.
    let path = tables::real(path).or_else(|error| tables::named(path).ok_or(error))?;
    let _lock = tables::lock()?;
    let mut table = IotuneTable::in_force()?;
    if !table.take(&path) {
        let why = format!("{path} has no setting of its own; 'memwright iotune show' lists them");
        return Err(Failure::new(Exit::Usage, why));
    }
    table.write(LIVE)?;
    terminal::print(&format!(
        "{path}: no setting of its own, until the next reboot\n{}",
        notify_programs()
    ));
    Ok(Exit::Fine)
}

fn save(path: Option<&Path>) -> Result<Exit, Failure> {
    let _lock = tables::lock()?;
    let table = IotuneTable::in_force()?;
    let saved = match path {
        None => table,
        Some(path) => {
            let path = tables::real(path).or_else(|error| tables::named(path).ok_or(error))?;
            let mut saved = IotuneTable::read(SAVED)?.unwrap_or_default();
            match table.get(&path) {
                Some(setting) => saved.put(&path, setting),
                None => {
                    saved.take(&path);
                }
            }
            saved
        }
    };
    saved.write(SAVED)?;
    terminal::print(&format!("saved in {SAVED}: in force after every boot\n"));
    Ok(Exit::Fine)
}

/// Notifies running programs of the change, and reports how many.
fn notify_programs() -> String {
    let (notified, failed) = programs::notify();
    let mut text = match notified {
        0 => "No running program has the library loaded; start them with 'memwright run'.\n".into(),
        1 => "1 running program was notified.\n".to_owned(),
        _ => format!("{notified} running programs were notified.\n"),
    };
    if failed > 0 {
        text += &format!(
            "{failed} could not be notified: the change takes effect when they are restarted.\n"
        );
    }
    text
}
