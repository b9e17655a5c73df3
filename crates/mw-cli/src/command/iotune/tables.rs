//! The tables that are in force and saved.

use super::directory::Directory;
use crate::output::without_interruption;
use crate::{Exit, Failure};
use mw_iotune::{LIVE, LineSetting, SAVED, TABLE_MAX_BYTES};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A table, with whatever lines it has: comments, and what is wrong, stay as they are.
#[derive(Debug, Default, Clone)]
pub(super) struct IotuneTable {
    lines: Vec<String>,
}

impl IotuneTable {
    /// The one that programs obey.
    pub(super) fn in_force() -> Result<Self, Failure> {
        let live = Self::read(LIVE)?;
        Ok(match live {
            Some(table) => table,
            None => Self::read(SAVED)?.unwrap_or_default(),
        })
    }

    /// Contents of a file; none where it does not exist.
    pub(super) fn read(path: &str) -> Result<Option<Self>, Failure> {
        let (directory, name) = split(path);
        let Some(directory) = Directory::open(directory)? else { return Ok(None) };
        let Some(file) = directory.read(name)? else { return Ok(None) };
        let mut text = Vec::new();
        let read = file.take(TABLE_MAX_BYTES as u64 + 1).read_to_end(&mut text);
        if read.map_err(|error| Failure::of_file(path, &error))? > TABLE_MAX_BYTES {
            return Err(Failure::new(Exit::CouldNotCheck, format!("{path}: longer than 16 KiB")));
        }
        let text = String::from_utf8_lossy(&text);
        Ok(Some(Self { lines: text.lines().map(str::to_owned).collect() }))
    }

    /// The text of the table.
    pub(super) fn text(&self) -> String {
        self.lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }

    /// The paths, as they are written, and their settings; of two lines of a path the last.
    pub(super) fn settings(&self) -> Vec<(String, LineSetting)> {
        let text = self.text();
        let mut settings: Vec<(String, LineSetting)> = Vec::new();
        for line in mw_iotune::lines(text.as_bytes()).filter_map(|(_, line)| line.ok()) {
            let path = String::from_utf8_lossy(line.path).into_owned();
            settings.retain(|(known, _)| *known != path);
            settings.push((path, line.setting));
        }
        settings
    }

    /// Errors by line.
    pub(super) fn wrong(&self) -> Vec<(usize, &'static str)> {
        let text = self.text();
        let lines = mw_iotune::lines(text.as_bytes());
        lines.filter_map(|(number, line)| Some((number, line.err()?))).collect()
    }

    /// The setting of a path itself.
    pub(super) fn get(&self, path: &str) -> Option<LineSetting> {
        let settings = self.settings();
        settings.into_iter().find(|(known, _)| known == path).map(|(_, setting)| setting)
    }

    pub(super) fn put(&mut self, path: &str, setting: LineSetting) {
        let line = format!("{path} {setting}");
        match self.lines.iter().position(|line| is_of(line, path)) {
            Some(at) => self.lines[at] = line,
            None => self.lines.push(line),
        }
    }

    /// Takes the lines of a path away; false where there is none.
    pub(super) fn take(&mut self, path: &str) -> bool {
        let before = self.lines.len();
        self.lines.retain(|line| !is_of(line, path));
        self.lines.len() < before
    }

    /// Puts the table in the place of a file, whole or not at all.
    pub(super) fn write(&self, path: &str) -> Result<(), Failure> {
        let text = self.text();
        if text.len() > TABLE_MAX_BYTES {
            return Err(Failure::new(Exit::Usage, "the table would be longer than 16 KiB"));
        }
        let (directory, name) = split(path);
        without_interruption(|| Directory::make(directory)?.replace(name, &text))
    }
}

/// A table's directory, and its name in it.
fn split(path: &str) -> (&Path, &str) {
    path.rsplit_once('/').map_or((Path::new("."), path), |(dir, name)| (Path::new(dir), name))
}

fn is_of(line: &str, path: &str) -> bool {
    !line.trim_start().starts_with('#') && line.split_whitespace().next() == Some(path)
}

/// Held while a table is changed.
pub(super) fn lock() -> Result<File, Failure> {
    let (directory, name) = split(LIVE);
    Directory::make(directory)?.lock(&format!("{name}.lock"))
}

/// A path as the table has it: as the kernel knows it, without links.
pub(super) fn real(path: &Path) -> Result<String, Failure> {
    let real = path.canonicalize().map_err(|error| Failure::of_file(path, &error))?;
    named(&real).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{}: the table takes no such name", path.display()))
    })
}

/// A path as the table has it, where it is whole and text.
pub(super) fn named(path: &Path) -> Option<String> {
    path.is_absolute().then(|| path.to_str().map(mw_iotune::escape)).flatten()
}
