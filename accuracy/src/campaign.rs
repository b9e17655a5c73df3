//! What the campaigns share: the blind trials and that of preflight.

use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// Does the work on each item, on so many threads at once.
pub(crate) fn each<T: Send>(items: Vec<T>, jobs: usize, work: impl Fn(T) + Sync) {
    let queue = Mutex::new(items.into_iter());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}

/// Appends a line of JSON to a file of results.
pub(crate) fn append(path: &Path, line: &impl Serialize) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = fs::File::options().append(true).create(true).open(path)?;
    // One write, so that two runs may extend the file at once.
    file.write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes())?;
    Ok(())
}
