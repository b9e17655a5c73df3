//! Where the library is.

use super::elf::{self, ElfMachine, ExecutableKind};
use mw_iotune::environment::LIBRARY;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The header and the program headers.
const START_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) struct Library {
    pub(super) path: PathBuf,
    pub(super) machine: ElfMachine,
}

impl Library {
    /// The one that is named, else the first that is there.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, String> {
        let places = named.map_or_else(usual_places, |path| vec![path.to_owned()]);
        let Some(path) = places.iter().find(|path| path.is_file()) else {
            return Err(not_found(&places, named.is_none() && cfg!(target_feature = "crt-static")));
        };
        // The dynamic linker takes a relative name for one in its own directories.
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        if path.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b':' | b' ')) {
            return Err(format!(
                "{}: LD_PRELOAD cannot name a file with a space or a colon in its path; put it \
                 elsewhere",
                path.display()
            ));
        }
        let mut start = Vec::with_capacity(START_BYTES as usize + 1);
        let read = mw_sys::guarded::open(&path)
            .and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
        read.map_err(|error| format!("{}: {error}", path.display()))?;
        match elf::kind(&start) {
            ExecutableKind::Library(machine) => Ok(Self { path, machine }),
            _ => Err(format!(
                "{} is no library; build it (cargo build --release -p mw-preload)",
                path.display()
            )),
        }
    }
}

/// The reason that there is no library, and the remedy. The archive of the static program has none.
fn not_found(places: &[PathBuf], is_static: bool) -> String {
    let elsewhere = "or name it (--library, or library in [run] of the configuration)";
    if is_static {
        return format!(
            "no preload library: this is the static program, which comes without one; install a \
             package of memwright, {elsewhere}"
        );
    }
    if places.is_empty() {
        return format!(
            "no preload library: the program's own path is unknown; mount /proc, {elsewhere}"
        );
    }
    let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
    let places = places.join(", ");
    format!("no preload library: looked for {places}; install it with memwright, {elsewhere}")
}

/// Beside the program, and where packages have it.
fn usual_places() -> Vec<PathBuf> {
    let Ok(own) = std::env::current_exe() else { return Vec::new() };
    let Some(dir) = own.parent() else { return Vec::new() };
    vec![dir.join(LIBRARY), dir.join("../lib/memwright").join(LIBRARY)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said_with_where_it_was_looked_for() {
        let beside_and_packaged = usual_places();
        assert!(beside_and_packaged[1].ends_with("../lib/memwright/libmemwright_preload.so"));
        let missing = Library::find(Some(Path::new("/nowhere/x.so"))).unwrap_err();
        assert!(missing.contains("/nowhere/x.so; install"), "{missing}");
        let of_static = not_found(&usual_places(), true);
        assert!(of_static.contains("the static program"), "{of_static}");
        let unknown = not_found(&[], false);
        assert!(unknown.contains("mount /proc, or name it"), "{unknown}");
        let own = std::env::current_exe().unwrap();
        assert!(Library::find(Some(&own)).unwrap_err().contains("is no library"));
        let dir = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        let spaced = dir.path().join("x.so");
        std::fs::write(&spaced, "x").unwrap();
        assert!(Library::find(Some(&spaced)).unwrap_err().contains("with a space"));
    }
}
