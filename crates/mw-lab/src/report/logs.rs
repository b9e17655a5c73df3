//! Keeps what a run brought back in a directory, for people to read.

use std::path::{Component, Path};

use crate::error::LabError;
use crate::runner::CaseRun;
use crate::vm::qemu::GuestRun;

/// Writes the console and the frames of `run` to `dir/CASE/VARIANT-KERNEL`.
pub fn keep(dir: &Path, play: &CaseRun, run: &GuestRun) -> Result<(), LabError> {
    let dir = dir.join(&play.case).join(format!("{}-{}", play.variant, play.kernel));
    write(&dir.join("console.log"), run.console.as_bytes())?;
    for (name, contents) in &run.frames.files {
        if is_inside(name) {
            write(&dir.join(name), contents)?;
        }
    }
    Ok(())
}

/// The guest names its frames: none may lead out of the directory.
fn is_inside(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn write(path: &Path, contents: &[u8]) -> Result<(), LabError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(LabError::io(parent))?;
    }
    std::fs::write(path, contents).map_err(LabError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_frame_leads_out_of_the_folder() {
        assert!(is_inside("during/check") && is_inside("keep/series.csv"));
        for name in ["", "/etc/passwd", "../x", "keep/../../x", "./x"] {
            assert!(!is_inside(name), "{name}");
        }
    }
}
