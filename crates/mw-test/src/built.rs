//! Libraries that Rust cannot link, which `cargo test` therefore does not build.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the directory of what `cargo xtask ci` has built already.
pub const BUILT_DIR: &str = "MW_BUILT_DIR";

/// The file `name` of a package's target, built.
///
/// # Panics
/// Where cargo cannot build it.
#[must_use]
pub fn built(package: &str, target: &str, name: &str) -> PathBuf {
    if let Some(dir) = std::env::var_os(BUILT_DIR) {
        let path = Path::new(&dir).join(name);
        assert!(path.exists(), "{} was not built", path.display());
        return path;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--package", package, "--message-format", "json"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).unwrap();
    let files = messages
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|message| message["target"]["name"] == target)
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    let mut paths = files.filter_map(|file| file.as_str().map(PathBuf::from));
    paths.find(|path| path.ends_with(name)).unwrap()
}
