//! The recorders: how each is started.

use super::group::Group;
use super::pcp;
use super::programs::{Programs, Recorder, log, spawn};
use crate::workspace;
use anyhow::Context;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Command of pt-stalk once a second: the cheapest thing that can trigger it.
const TRIGGER: &str = "trg_plugin() { read -r load rest < /proc/loadavg; echo \"$load\"; }\n";

/// Stands in for MySQL, which pt-stalk asks once, before it starts to watch.
const MYSQL: &str = "#!/bin/sh\necho 1\n";

/// Longest wait for Rezolus' agent to answer.
const AGENT_START: Duration = Duration::from_secs(60);

/// A recorder that is compared.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// Of its group and directory.
    pub(super) key: &'static str,
    /// True if it writes what it sees.
    pub(super) records: bool,
    /// Starts it in a group; what it keeps goes below the directory.
    pub(super) start: fn(&Programs, Group, &Path) -> anyhow::Result<Recorder>,
}

pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: "`memwright watch`",
        key: "watch",
        records: true,
        start: |programs, group, folder| memwright(programs, group, folder, &[]),
    },
    Peer {
        name: "`memwright watch --no-canary --no-profile`",
        key: "plain",
        records: true,
        start: |programs, group, folder| {
            memwright(programs, group, folder, &["--no-canary", "--no-profile"])
        },
    },
    Peer { name: "atop", key: "atop", records: true, start: atop },
    Peer { name: "sar (sadc)", key: "sadc", records: true, start: sadc },
    Peer { name: "pmlogger and pmcd", key: "pcp", records: true, start: pcp::start },
    Peer { name: "below", key: "below", records: true, start: below },
    Peer { name: "Rezolus", key: "rezolus", records: true, start: rezolus },
    Peer { name: "pt-stalk, not triggered", key: "stalk", records: false, start: pt_stalk },
    Peer { name: "a shell that only sleeps", key: "sleep", records: false, start: sleeper },
];

fn memwright(
    programs: &Programs,
    group: Group,
    folder: &Path,
    options: &[&str],
) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let mut command = group.enter(&programs.memwright);
    command.arg("watch").arg("--recording").arg(recording(&output)).args(options);
    let child = spawn(&mut command, folder)?;
    Ok(Recorder { group, output, children: vec![child] })
}

/// The recording in a memwright's output.
pub(super) fn recording(output: &Path) -> PathBuf {
    output.join("recording")
}

/// Without process accounting, which is the whole machine's to switch.
fn atop(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let mut command = group.enter(&programs.path("usr/bin/atop"));
    command.env("ATOPACCT", "").arg("-w").arg(output.join("raw")).arg("1");
    let child = programs.spawn(command, folder)?;
    Ok(Recorder { group, output, children: vec![child] })
}

fn sadc(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let mut command = group.enter(&programs.path("usr/lib/sysstat/sadc"));
    command.args(["-S", "ALL", "1"]).arg(output.join("sa"));
    let child = programs.spawn(command, folder)?;
    Ok(Recorder { group, output, children: vec![child] })
}

/// In a hierarchy of version 2, and without its statistics of exits, for which it needs tracefs.
fn below(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
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
fn rezolus(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
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
    while TcpStream::connect(address).is_err() {
        anyhow::ensure!(
            agent.try_wait()?.is_none() && begun.elapsed() < AGENT_START,
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

fn pt_stalk(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let output = folder.join("out");
    let trigger = folder.join("trigger");
    std::fs::write(&trigger, TRIGGER)?;
    for name in ["mysql", "mysqladmin"] {
        let path = folder.join(name);
        std::fs::write(&path, MYSQL)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    let mut command = group.enter(&programs.path("usr/bin/pt-stalk"));
    command.env("PATH", workspace::path_from(folder)?);
    command.arg("--function").arg(trigger).args(["--variable", "load", "--threshold", "1000000"]);
    command.args(["--interval", "1", "--dest"]).arg(&output).arg("--pid").arg(folder.join("pid"));
    let child = programs.spawn(command, folder)?;
    Ok(Recorder { group, output, children: vec![child] })
}

fn sleeper(_: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let mut command = group.enter(Path::new("sh"));
    command.args(["-c", "while :; do sleep 1; done"]);
    let child = spawn(&mut command, folder)?;
    Ok(Recorder { group, output: folder.join("out"), children: vec![child] })
}
