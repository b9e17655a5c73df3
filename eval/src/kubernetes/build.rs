//! Builds Helm, etcd and the API server with Go, once, in target/kubernetes.

use super::commands::checked;
use crate::workspace::target_dir;
use anyhow::Context;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const HELM: &str = "helm.sh/helm/v4/cmd/helm@v4.3.1";

/// Main packages, and the version of their modules.
const API_SERVER: (&str, &str) = ("k8s.io/kubernetes", "v1.37.2");
const ETCD: (&str, &str) = ("go.etcd.io/etcd/server/v3", "v3.7.3");

/// Modules that have the API server's version with a 0 in front, and that it finds in its own tree.
const STAGED: &str = "v0.37.2";

/// The directory of the programs.
pub(super) fn all() -> anyhow::Result<PathBuf> {
    let dir = std::path::absolute(target_dir())?.join("kubernetes");
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin)?;
    if !bin.join("helm").exists() {
        println!("== building {HELM}");
        checked(go().args(["install", HELM]).env("GOBIN", &bin))?;
    }
    let server = (API_SERVER, "k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver");
    for (module, package, program) in [(ETCD, ETCD.0, "etcd"), server] {
        if !bin.join(program).exists() {
            println!("== building {program} {}", module.1);
            build(&dir.join(program), module, package, &bin.join(program))
                .with_context(|| format!("building {program}"))?;
        }
    }
    Ok(bin)
}

fn go() -> Command {
    let mut go = Command::new("go");
    go.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod -trimpath");
    go
}

/// Builds a program whose module has replacements, which `go install` refuses, in a module that requires it.
fn build(
    dir: &Path,
    (module, version): (&str, &str),
    package: &str,
    program: &Path,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut text = format!("module build\n\ngo 1.26\n\nrequire {module} {version}\n");
    for staged in staged(module, version)? {
        writeln!(text, "replace {staged} => {staged} {STAGED}")?;
    }
    std::fs::write(dir.join("go.mod"), text)?;
    // What the API server says of itself: charts ask for it.
    let flags = format!("-ldflags=-X k8s.io/component-base/version.gitVersion={version}");
    checked(go().current_dir(dir).args(["build", &flags, "-o"]).arg(program).arg(package))?;
    Ok(())
}

/// The modules that the module's own go.mod replaces by directories of its repository.
fn staged(module: &str, version: &str) -> anyhow::Result<Vec<String>> {
    let output = checked(go().args(["mod", "download", "-json", &format!("{module}@{version}")]))?;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let file = found["GoMod"].as_str().context("no go.mod")?;
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    let names = text.lines().filter_map(|line| line.split_once(" => ./staging/"));
    Ok(names.map(|(name, _)| name.trim().trim_start_matches("replace ").to_owned()).collect())
}
