//! A file in place of another, all of it or nothing.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes beside the file, under a name that no reader looks for and never through a link, and renames it. Both are on
/// disk when this returns.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let new = path.with_extension("new");
    // What an earlier one left.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let done = || {
        let mut file = File::create_new(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        File::open(dir)?.sync_all()
    };
    done().inspect_err(|_| {
        let _ = std::fs::remove_file(&new);
    })
}
