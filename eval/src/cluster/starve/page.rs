//! eval/results/cluster.md.

use super::figures;
use super::played::Played;
use crate::ages;
use crate::cluster::lines::Says;
use crate::cluster::phase::{self, began_s};
use crate::cluster::recorded;
use crate::workspace::root;
use anyhow::Context;
use std::fmt::Write;
use std::fs;

const PAGE: &str = "eval/results/cluster.md";
const FOLDER: &str = "eval/results/cluster";

/// Lines of a phase that are shown.
const SHOWN: usize = 12;

const HEAD: &str = include_str!("page.md");

/// Writes the page and its figures; a run in which a promise did not hold, too.
pub(super) fn write(played: &Played, wrong: &[String]) -> anyhow::Result<()> {
    fs::create_dir_all(root().join(FOLDER)).context(FOLDER)?;
    for (name, drawing) in figures::draw(played)? {
        fs::write(root().join(FOLDER).join(name), drawing).context(name)?;
    }
    ages::write(PAGE, &page(played, wrong))?;
    println!("wrote {PAGE}");
    Ok(())
}

fn page(played: &Played, wrong: &[String]) -> String {
    let mut text = HEAD.to_owned();
    let loads = played.loads.lines().filter_map(|line| line.split_once(' '));
    let loads: Vec<String> = loads.map(|(step, load)| format!("{step} {load}")).collect();
    let _ = write!(
        text,
        "## The run\n\nLinux {}, emulated; the database has left {} MiB. Load averages of the host at the beginning of each \
         step: {}.\n\n{}\n",
        played.release,
        played.available,
        loads.join(", "),
        phase::table(&played.phases, &played.lines)
    );
    text += &recorded::pauses(played.of_pauses);
    text += &found(played);
    for wrong in wrong {
        let _ = writeln!(text, "**Does not hold:** {wrong}\n");
    }
    text += "![What the slow disk writes](cluster/throughput.svg)\n\n![Memory of the node with the flood](cluster/memory.svg)\n";
    if let Some(number) = played.phases.iter().position(|phase| phase.name == "flood") {
        text += &flood(played, number);
    }
    text
}

/// Effects of the flood, in sentences.
fn found(played: &Played) -> String {
    let Some(number) = played.phases.iter().position(|phase| phase.name == "flood") else {
        return String::new();
    };
    let count = |says: Says| played.lines_of(number).filter(|line| line.says == says).count();
    let mut text = match count(Says::Token) {
        0 => "In the flood corosync keeps its token: it runs with SCHED_RR 99 and has all its memory locked.".to_owned(),
        count => format!("In the flood corosync reports {count} times that it was late, or that it has not heard the other node."),
    };
    text += &match (count(Says::Failed), count(Says::Moved)) {
        (0, 0) => {
            " None of Pacemaker's monitors fails or times out, and nothing is moved.\n\n".to_owned()
        }
        (failed, moved) => format!(
            " Pacemaker is not locked in memory, and its agents are programs that are started anew each time: {failed} \
             operations failed or daemons were killed as unresponsive, and {moved} times a resource was restarted or \
             moved, or a node was taken for dead.\n\n"
        ),
    };
    text
}

fn flood(played: &Played, number: usize) -> String {
    let flood = &played.phases[number];
    let mut text = "\n## Reports of the flood\n\n".to_owned();
    let all: Vec<String> = played
        .lines_of(number)
        .map(|line| format!("{:6.1} s  {}  {}", line.after_s(flood.from_s), line.node, line.text))
        .collect();
    text += match all.len() {
        0 => "The cluster: nothing.\n",
        _ => "The cluster, with the seconds since the flood began:\n",
    };
    if !all.is_empty() {
        let _ = write!(text, "\n```\n{}\n```\n", all[..all.len().min(SHOWN)].join("\n"));
    }
    if all.len() > SHOWN {
        let _ = writeln!(text, "\nand {} lines more.", all.len() - SHOWN);
    }
    let cmap = if played.schedmiss.is_empty() { "none" } else { &played.schedmiss };
    let _ = write!(text, "\ncorosync's `stats.schedmiss`: {cmap}\n\nThe recorder:\n\n```\n");
    for incident in played.incidents.iter().filter(|incident| flood.is_warned_of(incident)) {
        let after_s = began_s(incident) - flood.from_s;
        let _ = writeln!(text, "{after_s:6.1} s  {}", incident.verdict);
    }
    let _ = write!(
        text,
        "```\n\n`memwright heartbeats`:\n\n```\n{}\n```\n\n`memwright report` of the first of them begins:\n\n```\n{}\n```\n",
        played.heartbeats.trim_end(),
        played.report.lines().take(SHOWN).collect::<Vec<_>>().join("\n")
    );
    text
}
