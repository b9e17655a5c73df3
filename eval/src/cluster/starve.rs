//! A real cluster (corosync, Pacemaker, PostgreSQL) of two guests, one of which writes more than its slow disk takes, while
//! a database has locked most of its memory: without a remedy, and with each of memwright's.

mod figures;
mod guests;
mod judge;
mod page;
mod played;

use super::{guest, phase};
use crate::workspace::target_dir;
use crate::{debian, packages};
use guests::Length;
use played::Played;
use std::path::PathBuf;

pub(crate) struct Choice {
    /// Duration of the flood under `memwright run --direct-io`.
    pub(crate) minutes: Option<u64>,
    /// Memory that is available when the database has locked its memory, in MiB.
    pub(crate) left: u64,
    pub(crate) program: Option<PathBuf>,
    /// Judge and write what was played last.
    pub(crate) again: bool,
    pub(crate) write: bool,
}

/// Memory that is available when the database has locked its memory.
pub(crate) const LEFT_MIB: u64 = 22;

/// For `ci --full`.
pub(crate) fn full() -> anyhow::Result<()> {
    run(&Choice { minutes: None, left: LEFT_MIB, program: None, again: false, write: false })
}

/// Promise (Fixing): In a real cluster whose node is flooded, no token is lost, no monitor fails and nothing is moved
/// under `memwright run --direct-io`, after `memwright iotune set`, with limits of the device, or in a group of its
/// own; without them the recorder reports the stall before the cluster reports a failure.
pub(crate) fn run(choice: &Choice) -> anyhow::Result<()> {
    packages::install(&[guest::PACKAGES, debian::PACKAGES].concat())?;
    let program = guest::program(choice.program.as_deref())?;
    let kept = target_dir().join("cluster/logs");
    if !choice.again {
        let nodes = {
            let _weight = guest::Weight::raised();
            guests::play(&program, &Length::new(choice.left, choice.minutes))?
        };
        nodes.keep(&kept)?;
    }
    let played = Played::read(&program, &kept)?;
    println!("{}", phase::table(&played.phases, &played.lines));
    let wrong = judge::wrong(&played);
    wrong.iter().for_each(|wrong| println!("FAILED: {wrong}"));
    if choice.write {
        page::write(&played, &wrong)?;
    }
    anyhow::ensure!(wrong.is_empty(), "{} of the cluster's promises do not hold", wrong.len());
    Ok(())
}
