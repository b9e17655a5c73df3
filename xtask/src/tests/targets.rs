//! Builds every test program at once, with the libraries and programs that the tests start.

use crate::workspace::{cargo_command, root};
use anyhow::Context;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestTarget {
    /// The package and the target, as in `mw-cli watch`; `mw-cli` for the unit tests of the library.
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    /// The package's directory, in which cargo starts its tests.
    pub(crate) folder: PathBuf,
}

/// Test programs that were built.
#[derive(Debug)]
pub(crate) struct TestPrograms {
    pub(crate) tests: Vec<TestTarget>,
    /// The bench that compares preflight's answers with what the kernel does.
    pub(crate) preflight: TestTarget,
}

/// The bench that is run.
const PREFLIGHT: &str = "preflight_accuracy";

/// Builds everything that the tests need with one set of features, so that nothing is built twice, and lints it:
/// its compiler is clippy-driver, whose warnings are errors by CLIPPY_ARGS, as `cargo clippy -- -D warnings` sets it.
/// Beside the build, clippy would check each dependency and each crate a second time.
pub(super) fn build() -> anyhow::Result<TestPrograms> {
    // All targets leave out a bench that is to be named, also where it is named beside them.
    let messages = [
        cargo_build(&["--workspace", "--all-targets"])?,
        cargo_build(&["--workspace", "--bench", PREFLIGHT])?,
    ]
    .concat();
    let is_bench = |message: &&Value| message["target"]["kind"][0] == "bench";
    let (benches, others): (Vec<_>, Vec<_>) = messages.iter().partition(is_bench);
    let preflight = benches.into_iter().find(|message| message["target"]["name"] == PREFLIGHT);
    Ok(TestPrograms {
        tests: others.into_iter().filter_map(target).collect(),
        preflight: preflight.and_then(target).with_context(|| format!("no {PREFLIGHT}"))?,
    })
}

/// Builds targets; returns cargo's messages.
fn cargo_build(targets: &[&str]) -> anyhow::Result<Vec<Value>> {
    let output = cargo_command()
        .args(["build", "--locked"])
        .args(targets)
        .args(["--message-format", "json-render-diagnostics"])
        .env("RUSTC_WORKSPACE_WRAPPER", root().join("xtask/compile.sh"))
        .env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo build")?;
    anyhow::ensure!(output.status.success(), "cargo build failed");
    let messages = String::from_utf8(output.stdout)?;
    Ok(messages.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// The test program or bench of one of cargo's messages.
fn target(message: &Value) -> Option<TestTarget> {
    let program = message["executable"].as_str()?;
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let target = message["target"]["name"].as_str()?;
    let name = match kind {
        "bin" if message["profile"]["test"] != true => return None,
        "test" | "bench" | "bin" => format!("{package} {target}"),
        _ => package.to_owned(),
    };
    Some(TestTarget { name, program: program.into(), folder })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(kind: &str, name: &str) -> Value {
        json!({
            "reason": "compiler-artifact",
            "manifest_path": "/repo/crates/mw-cli/Cargo.toml",
            "target": { "kind": [kind], "name": name },
            "profile": { "test": true },
            "executable": "/repo/target/debug/deps/it-1",
        })
    }

    #[test]
    fn targets_are_named_by_package_and_target() {
        let name = |kind, name| target(&message(kind, name)).unwrap().name;
        assert_eq!(name("lib", "mw_cli"), "mw-cli");
        assert_eq!(name("test", "watch"), "mw-cli watch");
        assert_eq!(name("bin", "memwright"), "mw-cli memwright");
        assert_eq!(
            target(&message("test", "a")).unwrap().folder,
            PathBuf::from("/repo/crates/mw-cli")
        );
    }

    #[test]
    fn programs_and_libraries_are_no_test_programs() {
        let mut program = message("bin", "memwright");
        program["profile"]["test"] = false.into();
        assert_eq!(target(&program), None);
        assert_eq!(target(&json!({ "reason": "build-finished", "success": true })), None);
    }
}
