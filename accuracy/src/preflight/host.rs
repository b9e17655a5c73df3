//! A condition on this machine: limits of a cgroup, of a process or of a pool of huge pages, all of them small.

use super::condition::{PreflightCondition, SizeChoice};
use crate::workspace::{compile_c, run};
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A longer run is ended.
const LIMIT_S: u64 = 300;

/// The answers by their numbers, and the kernel's release.
pub(super) fn ask(
    condition: &PreflightCondition,
    program: &Path,
    sizes: SizeChoice,
) -> anyhow::Result<(BTreeMap<String, Vec<u8>>, String)> {
    anyhow::ensure!(rustix::process::geteuid().is_root(), "conditions on this machine need root");
    let dir = tempfile::tempdir()?;
    // A user that is not root asks, too.
    run(Command::new("chmod").arg("755").arg(dir.path()))?;
    condition.write_scripts(dir.path(), sizes)?;
    let bin = dir.path().join("bin");
    fs::create_dir(&bin)?;
    let sources = super::condition::folder();
    for source in ["take.c", "limited.c", "occupy.c", "../guest/hold.c"] {
        compile_c(&sources.join(source), &bin)?;
    }
    fs::copy(program, bin.join("memwright"))?;
    // Its standard input ends with this process.
    let mut script = Command::new("timeout")
        .args(["--kill-after=30", &LIMIT_S.to_string(), "busybox", "sh"])
        .arg(dir.path().join("host.sh"))
        .arg(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("busybox")?;
    let _open = script.stdin.take();
    let status = script.wait()?;
    if let Ok(outcome) = fs::read_to_string(dir.path().join("outcome")) {
        anyhow::bail!("{}", outcome.trim());
    }
    anyhow::ensure!(status.success(), "host.sh left cgroups behind: {status}");
    let mut files = BTreeMap::new();
    for entry in dir.path().join("keep").read_dir()? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, fs::read(path)?);
    }
    Ok((files, fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned()))
}
