//! Temporary directories. A directory is removed when its handle is dropped; a directory left by a killed process is
//! removed by the next process that uses the same parent.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

use crate::error::LabError;

/// Followed by the owner's process id and a unique suffix.
const PREFIX: &str = ".memwright-lab-";

/// A new temporary directory in `parent`.
pub(crate) fn new_in(parent: &Path) -> Result<TempDir, LabError> {
    sweep(parent);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(LabError::io(parent))
}

/// A new temporary directory in the system's directory for them.
pub(crate) fn new() -> Result<TempDir, LabError> {
    new_in(&std::env::temp_dir())
}

/// Removes this user's directories whose processes have ended. A directory that cannot be removed is left.
fn sweep(parent: &Path) {
    for entry in parent.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_left =
            || owner(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if is_left() && is_own_folder(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// True if a path is a directory of this user: not a symbolic link, and nobody else's, whose processes
/// may have numbers in a namespace of their own.
fn is_own_folder(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == user)
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

    #[test]
    fn folders_of_other_users_and_links_stay() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        let link = path(".memwright-lab-4294967295-link");
        std::fs::create_dir(path("elsewhere")).unwrap();
        std::os::unix::fs::symlink(path("elsewhere"), &link).unwrap();
        let others = path(".memwright-lab-4294967295-others");
        std::fs::create_dir(&others).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&others, Some(65534), None).unwrap();
        }
        sweep(parent.path());
        assert!(link.is_symlink() && path("elsewhere").exists());
        assert_eq!(others.exists(), is_root);
    }
}
