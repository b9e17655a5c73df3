//! Real cluster software that is stopped: each prints its own line about a late heartbeat, `memwright heartbeats` finds it,
//! and does not put it down to memory.

pub(crate) mod fence;
mod guest;
mod lines;
mod pair;
mod phase;
mod recorded;
pub(crate) mod software;
pub(crate) mod starve;

use crate::packages;
use crate::workspace::target_dir;
use anyhow::{Context, ensure};
use mw_test::ChildGuard;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Action {
    /// Stop real software on this machine
    Stop,
    /// Two guests, one of which is flooded
    Starve,
    /// Two guests that share a replicated disk; one of them is flooded until it is fenced
    Fence,
    /// A guest with etcd, Redis Sentinel, keepalived, Patroni, Galera, ZooKeeper and corosync, which is flooded
    StarveSoftware,
}

const PACKAGES: &[(&str, &str)] = &[
    ("corosync", "/usr/sbin/corosync"),
    ("etcd-server", "/usr/bin/etcd"),
    ("galera-4", "/usr/lib/galera/libgalera_smm.so"),
    ("iproute2", "/usr/sbin/ip"),
    ("keepalived", "/usr/sbin/keepalived"),
    ("mariadb-server", "/usr/sbin/mariadbd"),
    ("patroni", "/usr/bin/patroni"),
    ("postgresql", "/usr/share/doc/postgresql"),
    ("procps", "/usr/bin/pkill"),
    ("zookeeper", "/usr/share/zookeeper/bin/zkServer.sh"),
];

/// As `memwright heartbeats` names it, and what starts, stops and continues it: with DIR for its files and LOG for its log,
/// in namespaces of its own, whose end is that of all its processes.
const SOFTWARE: &[(&str, &str)] = &[
    ("corosync", include_str!("cluster/corosync.sh")),
    ("etcd", include_str!("cluster/etcd.sh")),
    ("Galera", include_str!("cluster/galera.sh")),
    ("JVM", include_str!("cluster/zookeeper.sh")),
    ("keepalived", include_str!("cluster/keepalived.sh")),
    ("Patroni", include_str!("cluster/patroni.sh")),
];

const LIMIT: &str = "180";

/// Incidents of the recorder before the first line.
const RECORDED: Duration = Duration::from_secs(5);

pub(crate) fn run(program: Option<PathBuf>) -> anyhow::Result<()> {
    packages::install(PACKAGES)?;
    let program = program.unwrap_or_else(|| target_dir().join("debug/memwright"));
    ensure!(program.exists(), "no {}; cargo build --workspace makes it", program.display());
    let dir = tempfile::tempdir()?;
    // Users of their own work below it.
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
    let recording = dir.path().join("recording.db");
    let mut watch = Command::new(&program);
    watch.args(["watch", "--recording"]).arg(&recording);
    let _watch = ChildGuard(watch.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    std::thread::sleep(RECORDED);
    for (name, script) in SOFTWARE {
        let said = one(&program, &dir.path().join(name), &recording, script)?;
        let first = said.lines().next().unwrap_or_default();
        println!("{name}: {first}");
        ensure!(said.contains(&format!("  {name}")), "{name} is not among its lines:\n{said}");
        ensure!(!said.contains("memory caused"), "{name}: memory is blamed:\n{said}");
        ensure!(!said.contains("without a recording"), "{name} is not recorded:\n{said}");
    }
    Ok(())
}

/// Output of `memwright heartbeats` for the log.
fn one(program: &Path, dir: &Path, recording: &Path, script: &str) -> anyhow::Result<String> {
    std::fs::create_dir(dir)?;
    let log = dir.join("log");
    let mut software = Command::new("timeout");
    software.args(["--kill-after=5", LIMIT, "unshare", "--mount", "--net", "--pid", "--fork"]);
    software.args(["--kill-child", "--mount-proc", "sh", "-c", script]);
    software.env("DIR", dir).env("LOG", &log).stdin(Stdio::null());
    let ended = software.output().context("unshare")?;
    ensure!(
        ended.status.success() && log.exists(),
        "{}: {}\n{}",
        dir.display(),
        ended.status,
        String::from_utf8_lossy(&ended.stderr)
    );
    let mut heartbeats = Command::new(program);
    heartbeats.args(["heartbeats", "--since", "10 min ago", "--log"]).arg(&log);
    let output = heartbeats.arg("--recording").arg(recording).output().context("memwright")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
