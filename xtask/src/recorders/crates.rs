//! Recorders that their authors publish as crates, built here: below and Rezolus.

use super::group::Group;
use super::programs::{Programs, Recorder, log, spawn};
use crate::packages;
use crate::workspace;
use anyhow::Context;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The compiler of BPF is newer than Debian's default, which fails on what below loads.
const PACKAGES: &[(&str, &str)] = &[
    ("clang-19", CLANG),
    ("libelf-dev", "/usr/include/libelf.h"),
    ("zlib1g-dev", "/usr/include/zlib.h"),
    ("pkg-config", "/usr/bin/pkg-config"),
];
const CLANG: &str = "/usr/bin/clang-19";

const CRATES: &[&str] = &["below@0.9.0", "rezolus@5.4.0"];

/// Longest wait for Rezolus' agent to answer.
const START: Duration = Duration::from_secs(60);

/// Builds them, unless that was done; the folder of the programs.
pub(super) fn build(cache: &Path) -> anyhow::Result<PathBuf> {
    packages::install(PACKAGES)?;
    let cache = std::path::absolute(cache)?.join("crates");
    let tools = cache.join("tools");
    std::fs::create_dir_all(&tools)?;
    let clang = tools.join("clang");
    if !clang.exists() {
        std::os::unix::fs::symlink(CLANG, clang)?;
    }
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools).chain(std::env::split_paths(&inherited));
    let mut command = Command::new("cargo");
    command.env("PATH", std::env::join_paths(paths)?);
    command.args(["install", "--quiet", "--locked", "--root"]).arg(&cache);
    command.arg("--target-dir").arg(cache.join("target")).args(CRATES);
    workspace::run(&mut command)?;
    Ok(cache.join("bin"))
}

/// In a hierarchy of version 2, and without its statistics of exits, for which it needs tracefs.
pub(super) fn below(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let config = folder.join("below.conf");
    let groups = group.mount().context("no mount")?;
    let text = format!("store_dir = {output:?}\nlog_dir = {folder:?}\ncgroup_root = {groups:?}\n");
    std::fs::write(&config, text)?;
    let mut command = group.enter(&programs.crates.join("below"));
    command.arg("--config").arg(config).args([
        "record",
        "--interval-s",
        "1",
        "--disable-exitstats",
    ]);
    let child = spawn(&mut command, folder)?;
    Ok(Recorder { group, output, children: vec![child] })
}

/// Its agent with all samplers that the kernel allows, and its recorder, which asks the agent once a second.
pub(super) fn rezolus(
    programs: &Programs,
    group: Group,
    folder: &Path,
) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let program = programs.crates.join("rezolus");
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = folder.join("agent.toml");
    std::fs::write(
        &config,
        format!("[general]\nlisten = \"{address}\"\n[defaults]\nenabled = true\n"),
    )?;
    let mut agent = spawn(group.enter(&program).arg(config), folder)?;
    let begun = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        anyhow::ensure!(
            agent.try_wait()?.is_none() && begun.elapsed() < START,
            "the agent does not answer at {address}: {}",
            workspace::read(&log(folder))?.trim()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut command = group.enter(&program);
    command.args(["record", "--interval", "1s", "--format", "raw"]);
    command.arg(format!("http://{address}/")).arg(output.join("raw"));
    let recorder = spawn(&mut command, folder)?;
    Ok(Recorder { group, output, children: vec![agent, recorder] })
}
