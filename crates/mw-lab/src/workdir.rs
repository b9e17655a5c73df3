//! Temporary folders. One is removed when it is dropped; what a killed process has left is removed
//! by the next one that works in the same place.

use std::path::Path;

use tempfile::TempDir;

use crate::error::LabError;

/// The owner's process id follows, then something unique.
const PREFIX: &str = ".memwright-lab-";

/// A new temporary folder in `parent`.
pub(crate) fn new_in(parent: &Path) -> Result<TempDir, LabError> {
    sweep(parent);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(LabError::io(parent))
}

/// A new temporary folder where the system keeps such.
pub(crate) fn new() -> Result<TempDir, LabError> {
    new_in(&std::env::temp_dir())
}

/// Removes the folders whose owners are gone. One that cannot be removed is no harm here.
fn sweep(parent: &Path) {
    for entry in parent.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_have_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        // No process has a number as high as this.
        for name in [".memwright-lab-4294967295-x", ".memwright-lab-1-x", "memwright"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let dir = new_in(parent.path()).unwrap();
        assert!(dir.path().exists());
        assert!(!path(".memwright-lab-4294967295-x").exists());
        assert!(path(".memwright-lab-1-x").exists() && path("memwright").exists());
    }
}
