//! A disk that loses power.

use crate::trace::Call;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// What a disk may still have written of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Everything,
    Nothing,
    /// Each sector as it was at any moment since.
    Torn,
    /// What was written last, and not what was written before.
    Reordered,
}

/// Numbers that are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// The files of one directory.
#[derive(Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    /// The file that a name is of now.
    open: BTreeMap<PathBuf, usize>,
    /// Names that the directory has for certain, and what changed since.
    names: BTreeMap<PathBuf, usize>,
    changes: Vec<(PathBuf, Option<usize>)>,
    writes: usize,
}

#[derive(Default)]
struct File {
    /// As it is on the disk for certain.
    synced: Vec<u8>,
    now: Vec<u8>,
    /// What each sector was since it was synced, and by which write.
    sectors: BTreeMap<usize, Vec<(usize, Vec<u8>)>>,
    lengths: Vec<usize>,
}

impl File {
    fn change(&mut self, from: usize, to: usize, write: usize) {
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            let until = ((sector + 1) * SECTOR).min(self.now.len());
            let bytes = self.now.get(sector * SECTOR..until).unwrap_or_default().to_vec();
            self.sectors.entry(sector).or_default().push((write, bytes));
        }
        self.lengths.push(self.now.len());
    }

    fn write(&mut self, from: usize, bytes: &[u8], write: usize) {
        let (before, to) = (self.now.len(), from + bytes.len());
        self.now.resize(before.max(to), 0);
        self.now[from..to].copy_from_slice(bytes);
        self.change(from.min(before), to, write);
    }

    fn cut(&mut self, bytes: usize, write: usize) {
        let before = self.now.len();
        self.now.resize(bytes, 0);
        self.change(before.min(bytes), before.max(bytes), write);
    }

    fn sync(&mut self) {
        self.synced.clone_from(&self.now);
        self.sectors.clear();
        self.lengths.clear();
    }

    fn left(&self, loss: Loss, since: usize, random: &mut Random) -> Vec<u8> {
        let mut left = match loss {
            Loss::Everything => return self.synced.clone(),
            Loss::Nothing => return self.now.clone(),
            Loss::Torn | Loss::Reordered => self.synced.clone(),
        };
        for (sector, versions) in &self.sectors {
            let version = match loss {
                Loss::Torn => random.below(versions.len() + 1).checked_sub(1),
                _ => versions.iter().rposition(|(write, _)| *write >= since),
            };
            let Some((_, bytes)) = version.and_then(|version| versions.get(version)) else {
                continue;
            };
            let from = sector * SECTOR;
            left.resize(left.len().max(from + bytes.len()), 0);
            left[from..from + bytes.len()].copy_from_slice(bytes);
        }
        if loss == Loss::Torn && !self.lengths.is_empty() {
            let length = self.lengths.get(random.below(self.lengths.len() + 1));
            left.resize(length.copied().unwrap_or(self.synced.len()), 0);
        }
        left
    }
}

impl Disk {
    pub(crate) fn apply(&mut self, call: &Call) {
        self.writes += 1;
        match call {
            Call::Created(path) => {
                self.open.insert(path.clone(), self.files.len());
                self.changes.push((path.clone(), Some(self.files.len())));
                self.files.push(File::default());
            }
            Call::Removed(path) => {
                self.open.remove(path);
                self.changes.push((path.clone(), None));
            }
            Call::Wrote { path, at, bytes } => {
                let from = usize::try_from(*at).unwrap();
                let write = self.writes;
                self.file(path).write(from, bytes, write);
            }
            Call::Cut { path, bytes } => {
                let write = self.writes;
                self.file(path).cut(usize::try_from(*bytes).unwrap(), write);
            }
            Call::Synced(path) if self.open.contains_key(path) => self.file(path).sync(),
            Call::Synced(_) => {
                self.names = self.names_after(self.changes.len());
                self.changes.clear();
            }
            Call::Said(_) => {}
        }
    }

    fn file(&mut self, path: &Path) -> &mut File {
        &mut self.files[self.open[path]]
    }

    /// The directory, where so many of its changes were made.
    fn names_after(&self, changes: usize) -> BTreeMap<PathBuf, usize> {
        let mut names = self.names.clone();
        for (path, file) in self.changes.iter().take(changes) {
            match file {
                Some(file) => names.insert(path.clone(), *file),
                None => names.remove(path),
            };
        }
        names
    }

    /// Lays down in a directory what a loss of power leaves.
    pub(crate) fn lay(&self, folder: &Path, loss: Loss, random: &mut Random) {
        let changes = match loss {
            Loss::Everything => 0,
            Loss::Nothing => self.changes.len(),
            _ => random.below(self.changes.len() + 1),
        };
        let since = self.writes.saturating_sub(random.below(12));
        for (path, file) in self.names_after(changes) {
            let mut bytes = self.files[file].left(loss, since, random);
            if loss == Loss::Torn && path.to_string_lossy().ends_with("-shm") {
                // It is written through a mapping, whenever the kernel likes.
                bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            }
            fs::write(folder.join(path.file_name().unwrap()), bytes).unwrap();
        }
    }
}
