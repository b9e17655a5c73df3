//! Crates of the registry, compiled: a machine keeps them from one run to the next.
//!
//! They take two fifths of a build's CPU time, and change with the lock file and the compiler alone. One archive of what
//! cargo made of them is stored in `$XDG_CACHE_HOME/memwright/crates`, or `~/.cache/memwright/crates`. Cargo itself decides
//! by its fingerprints what of it can be used; a crate that cannot is compiled as before.

use crate::arch;
use crate::workspace::{built, root, run, target_dir};
use anyhow::Context;
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories of cargo's output with something of each crate. The names in them end with a hash of the crate and of all
/// that it is built with.
const PARTS: [&str; 3] = [".fingerprint", "build", "deps"];

/// Restores what an earlier run stored into a target directory without the program. Returns true if it did.
pub(crate) fn restore() -> anyhow::Result<bool> {
    let archive = archive()?;
    if built("memwright").exists() || !archive.is_file() {
        return Ok(false);
    }
    run(tar().arg("--extract").arg("--file").arg(archive))?;
    Ok(true)
}

/// Stores what the build compiled, unless it is stored. Archives of other lock files and compilers are removed.
pub(crate) fn store() -> anyhow::Result<()> {
    let archive = archive()?;
    if archive.exists() {
        return Ok(());
    }
    let folder = archive.parent().context("an archive without a directory")?;
    fs::create_dir_all(folder)?;
    for other in fs::read_dir(folder)? {
        fs::remove_file(other?.path())?;
    }
    let mut list = tempfile::NamedTempFile::new()?;
    for path in paths_of_registry_crates(&target_dir().join("debug"))? {
        writeln!(list, "{path}")?;
    }
    // Renamed at the end: a run that is stopped leaves no half of an archive.
    let temporary = tempfile::NamedTempFile::new_in(folder)?;
    run(tar()
        .arg("--create")
        .arg("--file")
        .arg(temporary.path())
        .arg("--files-from")
        .arg(list.path()))?;
    temporary.persist(archive)?;
    Ok(())
}

/// Times in full: cargo compiles again what seems to be older than what it was made from.
fn tar() -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--format=posix", "--use-compress-program=zstd -1 -T0", "--directory"])
        .arg(target_dir().join("debug"));
    tar
}

/// The archive of this lock file, these profiles and this compiler.
fn archive() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let compiler = Command::new("rustc").arg("-vV").current_dir(root()).output()?.stdout;
    let mut hasher = DefaultHasher::new();
    compiler.hash(&mut hasher);
    for file in ["Cargo.lock", "Cargo.toml"] {
        fs::read(root().join(file))?.hash(&mut hasher);
    }
    let folder = cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("memwright/crates");
    Ok(folder.join(format!("{:016x}.tar.zst", hasher.finish())))
}

/// Paths of what cargo made of crates that are none of the workspace, below the directory of a profile.
fn paths_of_registry_crates(profile: &Path) -> anyhow::Result<Vec<String>> {
    let own = arch::package_names()?;
    let is_of_registry =
        |name: &str| name.rsplit_once('-').is_some_and(|(package, _)| !own.contains(package));
    let hashes: BTreeSet<String> = names_in(&profile.join(PARTS[0]))?
        .into_iter()
        .filter(|name| is_of_registry(name))
        .filter_map(|name| Some(hash_of(&name)?.to_owned()))
        .collect();
    let mut paths = Vec::new();
    for part in PARTS {
        let names = names_in(&profile.join(part))?;
        let kept =
            names.into_iter().filter(|name| hash_of(name).is_some_and(|of| hashes.contains(of)));
        paths.extend(kept.map(|name| format!("{part}/{name}")));
    }
    Ok(paths)
}

/// The hash in a name such as `serde-0123456789abcdef` or `libserde-0123456789abcdef.rmeta`.
fn hash_of(name: &str) -> Option<&str> {
    let stem = name.split('.').next()?;
    Some(stem.rsplit_once('-')?.1)
}

fn names_in(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_of_other_people() {
        let profile = tempfile::tempdir().unwrap();
        for path in [
            ".fingerprint/serde-00000000000000aa/lib-serde",
            ".fingerprint/mw-rules-00000000000000bb/lib-mw_rules",
            "build/serde-00000000000000aa/output",
            "deps/libserde-00000000000000aa.rmeta",
            "deps/serde-00000000000000aa.d",
            "deps/libmw_rules-00000000000000bb.rmeta",
            "deps/settings-00000000000000bb",
        ] {
            let path = profile.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut paths = paths_of_registry_crates(profile.path()).unwrap();
        paths.sort();
        assert_eq!(
            paths,
            [
                ".fingerprint/serde-00000000000000aa",
                "build/serde-00000000000000aa",
                "deps/libserde-00000000000000aa.rmeta",
                "deps/serde-00000000000000aa.d",
            ]
        );
    }
}
