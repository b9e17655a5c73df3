//! The captured trees of fixtures/.

use std::path::{Path, PathBuf};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");

/// The archive of a tree, `CASE/VARIANT`.
#[must_use]
pub fn fixture(name: &str) -> PathBuf {
    Path::new(DIR).join(format!("{name}.txt"))
}

/// Trees of public reports, which are judged by a campaign of their own.
const REPORTS: &str = "reports";

/// The names of all trees, in their order.
///
/// # Panics
/// fixtures/ cannot be read.
#[must_use]
pub fn fixtures() -> Vec<String> {
    let names = |dir: &Path| -> Vec<String> {
        let entries = dir.read_dir().unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    };
    let mut all = Vec::new();
    for case in names(Path::new(DIR)) {
        let dir = Path::new(DIR).join(&case);
        if dir.is_dir() && case != REPORTS {
            let archives = names(&dir).into_iter();
            all.extend(
                archives.filter_map(|name| Some(format!("{case}/{}", name.strip_suffix(".txt")?))),
            );
        }
    }
    all.sort_unstable();
    all
}
