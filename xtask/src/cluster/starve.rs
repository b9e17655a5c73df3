//! A real cluster (corosync, Pacemaker, PostgreSQL) of two guests, one of which writes more than its slow disk takes, while
//! a database has locked most of its memory: without a remedy, and with each of memwright's.

mod figures;
mod guests;
mod judge;
mod lines;
mod page;
mod phase;

use crate::workspace::{output, read, target_dir};
use crate::{debian, packages};
use anyhow::Context;
use guests::Nodes;
use lines::Line;
use mw_lab::vm::qemu::RunEnd;
use mw_model::{IncidentRow, Table};
use mw_record::Recording;
use phase::Phase;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGES: &[(&str, &str)] = &[
    ("busybox-static", "/bin/busybox"),
    ("gcc", "/usr/bin/gcc"),
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
];

pub(crate) struct Choice {
    /// How long the flood goes on under `memwright run --direct-io`.
    pub(crate) minutes: Option<u64>,
    /// What is available when the database has locked its memory, in MiB.
    pub(crate) left: u64,
    pub(crate) program: Option<PathBuf>,
    /// Judge and write what was played last.
    pub(crate) again: bool,
    pub(crate) write: bool,
}

/// What is available when the database has locked its memory.
pub(crate) const LEFT_MIB: u64 = 22;

/// How much memory is left, and how long each phase takes.
struct Length {
    left_mib: u64,
    healthy_s: u64,
    flood_s: u64,
    direct_s: u64,
    limit_s: u64,
}

impl Length {
    fn new(choice: &Choice) -> Self {
        let direct_s = choice.minutes.map_or(120, |minutes| minutes * 60);
        Self { left_mib: choice.left, healthy_s: 60, flood_s: 150, direct_s, limit_s: 90 }
    }

    fn all_s(&self) -> u64 {
        self.healthy_s + self.flood_s + self.direct_s + 2 * self.limit_s
    }

    /// For the agent.
    fn plan(&self) -> String {
        let Self { left_mib, healthy_s, flood_s, direct_s, limit_s } = self;
        format!(
            "LEFT_MIB={left_mib}\nHEALTHY_S={healthy_s}\nFLOOD_S={flood_s}\nDIRECT_S={direct_s}\nLIMIT_S={limit_s}\n"
        )
    }
}

/// For `ci --full`.
pub(crate) fn full() -> anyhow::Result<()> {
    run(&Choice { minutes: None, left: LEFT_MIB, program: None, again: false, write: false })
}

pub(crate) fn run(choice: &Choice) -> anyhow::Result<()> {
    packages::install(&[PACKAGES, debian::PACKAGES].concat())?;
    let program = choice.program.clone();
    let program = program.unwrap_or_else(|| target_dir().join("debug/memwright")).canonicalize()?;
    let kept = target_dir().join("cluster/logs");
    if !choice.again {
        let nodes = {
            let _weight = Weight::raised();
            guests::play(&program, &Length::new(choice))?
        };
        keep(&nodes, &kept)?;
        for (name, run) in [("n1", &nodes.n1), ("n2", &nodes.n2)] {
            let said =
                ["failed", "outcome"].map(|frame| run.frames.text(frame).unwrap_or_default());
            let said = said.concat();
            anyhow::ensure!(
                run.ended == RunEnd::Done && said.is_empty(),
                "{name}: {:?}, {said}; its logs are in {}",
                run.ended,
                kept.display()
            );
        }
    }
    let played = Played::read(&program, &kept)?;
    println!("{}", page::table(&played));
    let wrong = judge::wrong(&played);
    wrong.iter().for_each(|wrong| println!("FAILED: {wrong}"));
    if choice.write {
        page::write(&played, &wrong)?;
    }
    anyhow::ensure!(wrong.is_empty(), "{} of the cluster's promises do not hold", wrong.len());
    Ok(())
}

/// QEMU competes with this machine's other sessions; a guest that does not run loses its token for no reason of its own.
struct Weight(String);

const AUTOGROUP: &str = "/proc/self/autogroup";

impl Weight {
    /// Of this session, until it is dropped. Where there are no groups of sessions, nothing is changed.
    fn raised() -> Self {
        let before = fs::read_to_string(AUTOGROUP).unwrap_or_default();
        let nice = before.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        let _ = fs::write(AUTOGROUP, "-15");
        Self(nice)
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        let _ = fs::write(AUTOGROUP, &self.0);
    }
}

/// Keeps what the nodes sent in a folder for each.
fn keep(nodes: &Nodes, kept: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(kept);
    for (name, run) in [("n1", &nodes.n1), ("n2", &nodes.n2)] {
        let dir = kept.join(name);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("console"), &run.console)?;
        for (file, contents) in &run.frames.files {
            fs::write(dir.join(file), contents)?;
        }
    }
    let loads: String =
        nodes.host_loads.iter().map(|(step, load)| format!("{step} {load}\n")).collect();
    fs::write(kept.join("loads"), loads)?;
    Ok(fs::write(kept.join("release"), &nodes.release)?)
}

/// What came back.
struct Played {
    /// The kernel's release.
    release: String,
    /// What the database left, in MiB.
    available: String,
    phases: Vec<Phase>,
    lines: Vec<Line>,
    incidents: Vec<IncidentRow>,
    /// What `memwright heartbeats` says of the logs of n1.
    heartbeats: String,
    /// What `memwright report` says of the first incident of the flood.
    report: String,
    /// Keys of corosync's statistics after the flood.
    schedmiss: String,
    /// The recording of n1.
    series: Table,
    /// Load averages of this machine.
    loads: String,
}

impl Played {
    fn read(program: &Path, kept: &Path) -> anyhow::Result<Self> {
        let n1 = kept.join("n1");
        let text = |path: PathBuf| read(&path);
        let mut phases = Vec::new();
        for phase in phase::PHASES {
            phases.push(Phase::parse(*phase, &text(n1.join(format!("{}.counters", phase.0)))?)?);
        }
        let mut lines = Vec::new();
        for (node, name) in
            [("n1", "corosync"), ("n1", "pacemaker"), ("n2", "corosync"), ("n2", "pacemaker")]
        {
            lines.extend(lines::of_log(node, &text(kept.join(node).join(format!("{name}.log")))?));
        }
        output(Command::new("gzip").args(["-dkf"]).arg(n1.join("recording.db.gz")))?;
        let recording = n1.join("recording.db");
        let memwright = |args: &[&str]| {
            let mut memwright = Command::new(program);
            let output = memwright.args(args).arg("--recording").arg(&recording).output()?;
            anyhow::Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let opened = Recording::open(&recording)?;
        let mut incidents = opened.incidents()?;
        incidents.sort_by_key(|incident| incident.started_unix_ms);
        let flood = phases.iter().find(|phase| phase.name == "flood").context("no flood")?;
        let warned = incidents.iter().find(|incident| judge::is_warning(flood, incident));
        let logs = ["corosync.log", "pacemaker.log"].map(|log| n1.join(log).display().to_string());
        let [corosync, pacemaker] = &logs;
        let heartbeats = memwright(&["heartbeats", "--log", corosync, "--log", pacemaker])?;
        let number = warned.map_or_else(|| "worst".to_owned(), |warned| warned.id.to_string());
        let report = memwright(&["report", &number, "--log", corosync, "--log", pacemaker])?;
        Ok(Self {
            release: text(kept.join("release"))?,
            available: text(n1.join("available"))?.trim().to_owned(),
            schedmiss: text(n1.join("flood.schedmiss")).unwrap_or_default(),
            series: opened.table(0, u64::MAX)?,
            loads: text(kept.join("loads"))?,
            phases,
            lines,
            incidents,
            heartbeats,
            report,
        })
    }

    /// The lines from the beginning of a phase to that of the next.
    fn lines_of(&self, number: usize) -> impl Iterator<Item = &Line> {
        let from_s = self.phases[number].from_s;
        let end_s =
            self.phases.get(number + 1).map_or(self.phases[number].to_s, |next| next.from_s);
        let mut lines: Vec<&Line> =
            self.lines.iter().filter(|line| line.after_s(from_s) < end_s - from_s).collect();
        lines.sort_by(|a, b| a.after_s(from_s).total_cmp(&b.after_s(from_s)));
        lines.into_iter()
    }
}
