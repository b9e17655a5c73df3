//! Plays of one boot at native speed, in cgroups and namespaces of this machine.

use super::boot::Boot;
use super::play::Play;
use super::stage::TrialStage;
use crate::workspace::{compile_c, run};
use anyhow::Context;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs in C of the scripts, and where they are from.
const SOURCES: &[&str] =
    &["trials/ask.c", "trials/serve.c", "trials/load.c", "trials/disk.c", "guest/hold.c"];
/// Longer waits end all.
const LIMIT_S: u64 = 900;

/// Returns the kernel's release; the files of the plays are in `kept`.
pub(super) fn play(
    stage: &TrialStage,
    boot: &Boot,
    plays: &[Play],
    kept: &Path,
) -> anyhow::Result<String> {
    anyhow::ensure!(rustix::process::geteuid().is_root(), "plays on the host need root");
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name);
    for folder in ["lab", "bin", "svc"] {
        fs::create_dir(at(folder))?;
    }
    stage.write(&at("lab"), boot, plays)?;
    let sources = crate::workspace::root().join("lab");
    for source in SOURCES {
        compile_c(&sources.join(source), &at("bin"))?;
    }
    fs::copy(&stage.memwright, at("bin/memwright"))?;
    run(Command::new("javac")
        .arg("-d")
        .arg(at("svc/java"))
        .arg(sources.join("trials/Server.java")))?;
    run(Command::new("cp").arg("--sparse=always").arg(&stage.images.data).arg(at("data")))?;
    let prefix = format!("mw-trials-{}/", std::process::id());
    let log = fs::File::create(kept.join("console"))?;
    // Its standard input ends with this process.
    let mut script = Command::new("timeout")
        .args(["--kill-after=30", &LIMIT_S.to_string(), "sh"])
        .arg(at("lab/host.sh"))
        .arg(dir.path())
        .args([&prefix, boot.cgroup.name()])
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    let _open = script.stdin.take();
    let status = script.wait()?;
    for entry in at("keep").read_dir().context("nothing was played")? {
        let path = entry?.path();
        fs::copy(&path, kept.join(path.file_name().unwrap_or_default()))?;
    }
    anyhow::ensure!(status.success(), "host.sh left cgroups behind: {status}");
    Ok(fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned())
}
