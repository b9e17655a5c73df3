//! eval/results/fencing.md.

use super::played::Played;
use crate::ages;
use crate::cluster::lines::Says;
use crate::cluster::phase::{self, began_s};
use crate::cluster::recorded;
use std::fmt::Write;

const PAGE: &str = "eval/results/fencing.md";

/// Lines of each kind that are shown.
const SHOWN: usize = 14;

const HEAD: &str = include_str!("page.md");

/// Writes the page; a run in which a promise did not hold, too.
pub(super) fn write(played: &Played, wrong: &[String]) -> anyhow::Result<()> {
    ages::write(PAGE, &page(played, wrong))?;
    println!("wrote {PAGE}");
    Ok(())
}

fn page(played: &Played, wrong: &[String]) -> String {
    let mut text = HEAD.to_owned();
    let _ = write!(
        text,
        "## Before\n\nLinux {}, emulated; the database has left {} MiB.\n\n{}\n",
        played.release,
        played.available,
        phase::table(&played.phases, &played.lines)
    );
    text += &recorded::pauses(played.of_pauses);
    for wrong in wrong {
        let _ = writeln!(text, "**Does not hold:** {wrong}\n");
    }
    let _ = write!(text, "## The flood without a remedy\n\n{}\n", found(played));
    let lines: Vec<String> = played
        .of_flood()
        .map(|line| format!("{:6.1} s  {}  {}", line.after_s(played.flood_s), line.node, line.text))
        .collect();
    let more = lines.len().saturating_sub(SHOWN);
    let _ = write!(
        text,
        "The cluster, with the seconds since the flood began{}:\n\n```\n{}\n```\n\nThe recorder of n1:\n\n```\n",
        if more == 0 { String::new() } else { format!(" ({more} lines later are not shown)") },
        lines[..lines.len().min(SHOWN)].join("\n")
    );
    for incident in played.warned() {
        let after_s = began_s(incident) - played.flood_s;
        let _ = writeln!(text, "{after_s:6.1} s  {}", incident.verdict);
    }
    let _ = write!(
        text,
        "```\n\n## After the reset\n\n`memwright incidents` on n1:\n\n```\n{}\n```\n\n\
         `memwright heartbeats --log` of the logs of both nodes, beside the recording of n1:\n\n```\n{}\n```\n\n\
         `memwright report` of the last stall before the reset begins:\n\n```\n{}\n```\n",
        played.incidents_said.trim_end(),
        played.heartbeats.trim_end(),
        played.report.lines().take(SHOWN).collect::<Vec<_>>().join("\n")
    );
    text
}

/// Result of the flood, in sentences.
fn found(played: &Played) -> String {
    let after = |seconds: Option<f64>| {
        seconds.map_or_else(|| "never".to_owned(), |after_s| format!("after {after_s:.0} s"))
    };
    let lost =
        played.lost_s().map_or_else(|| "unknown".to_owned(), |lost_s| format!("{lost_s:.1} s"));
    format!(
        "The recorder reports a stall that memory caused {}, the cluster the first failure {}. n1 is to be fenced {}, is reset {}, \
         and the database runs on n2 {}, with {} entries. Of the time before the reset the recording lacks {lost}.\n",
        after(played.warned_s()),
        after(played.first(&[Says::Failed, Says::Unexpected])),
        after(played.first(&[Says::Fencing])),
        after(played.reset_s()),
        after(played.first(&[Says::TakenOver])),
        played.entries
    )
}
