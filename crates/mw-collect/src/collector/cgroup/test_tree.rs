//! A tree of files in a temporary directory, for tests.

#![allow(clippy::unwrap_used, reason = "tests")]

/// Writes the files with their directories.
pub(super) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}
