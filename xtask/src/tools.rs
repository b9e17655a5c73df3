//! Programs that cargo installs, and what they check.

use crate::workspace::{cargo, cargo_with, target_dir};
use anyhow::Context;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// A program, and the version that is installed where there is none.
type Tool = (&'static str, &'static str);

pub(crate) const AUDITABLE: Tool = ("cargo-auditable", "0.7.7");
pub(crate) const CYCLONEDX: Tool = ("cargo-cyclonedx", "0.5.9");
const DENY: Tool = ("cargo-deny", "0.20.2");

/// PATH with the directory of a tool, which is installed in target/tools if PATH does not have it.
pub(crate) fn path_with((name, version): Tool) -> anyhow::Result<OsString> {
    let tools = std::path::absolute(target_dir())?.join("tools");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    dirs.push(tools.join("bin"));
    if !dirs.iter().any(|dir| dir.join(name).exists()) {
        println!("== installing {name} {version}");
        let root = tools.to_str().context("the target directory is not UTF-8")?;
        // Unoptimised: the build takes longer than all that the tool then does.
        let args = ["install", "--locked", "--debug", "--version", version, name, "--root", root];
        cargo(&args)?;
    }
    Ok(std::env::join_paths(dirs)?)
}

/// Licences, banned crates and sources of all dependencies (deny.toml).
///
/// Promise (Installation): All crates have a licence that permits distribution, and come from crates.io.
pub(crate) fn dependencies() -> anyhow::Result<()> {
    let path = path_with(DENY)?;
    let args = ["deny", "--log-level", "error", "check", "licenses", "bans", "sources"];
    cargo_with(&args, |cargo| {
        cargo.env("PATH", path);
    })
}

/// RustSec's advisories about all dependencies, or a few words on why they were not read. No package archive (Debian,
/// crates.io, PyPI, npm) has a copy of the database: it is fetched from GitHub, and where that cannot be reached a copy
/// of an earlier fetch counts.
pub(crate) fn advisories() -> anyhow::Result<String> {
    let path = path_with(DENY)?;
    let mut fetch = Command::new("cargo");
    let fetched = fetch.args(["deny", "fetch", "db"]).env("PATH", &path).output()?;
    if !fetched.status.success() && !has_advisories() {
        return Ok(
            "not read: github.com cannot be reached, and no package archive has them".to_owned()
        );
    }
    let args = ["deny", "--log-level", "error", "check", "--disable-fetch", "advisories"];
    cargo_with(&args, |cargo| {
        cargo.env("PATH", path);
    })?;
    Ok(if fetched.status.success() { "none applies" } else { "none of an old copy applies" }
        .to_owned())
}

/// True if cargo-deny has a copy of the database, in its usual place.
fn has_advisories() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let copies = home.and_then(|home| std::fs::read_dir(home.join("advisory-dbs")).ok());
    copies.is_some_and(|mut copies| copies.next().is_some())
}
