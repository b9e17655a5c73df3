//! What the recorder costs, beside the recorders of Debian and of crates.io: all of them at once, each looking
//! once a second, each in a control group of its own.

mod crates;
mod group;
mod measure;
mod page;
mod pcp;
mod peers;
mod programs;
mod recording;

use crate::workspace::target_dir;
use anyhow::Context;
use group::Workplace;
use measure::Measured;
use peers::{PEERS, Peer};
use programs::{Programs, Recorder};
use std::time::Duration;

/// Shortest duration of a measurement: a second is what they take for one sample.
const SECONDS: std::ops::RangeInclusive<u64> = 10..=7200;

/// Before measuring: all have started, opened their files and looked a few times.
const WARM_UP: Duration = Duration::from_secs(15);

/// Measures for `seconds`; `write` keeps the table.
pub(crate) fn run(seconds: u64, write: bool) -> anyhow::Result<()> {
    anyhow::ensure!(SECONDS.contains(&seconds), "--seconds is from 10 to 7200");
    let cache = target_dir().join("recorders");
    let programs = Programs::get(&cache)?;
    let workplace = Workplace::new(&cache)?;
    let mut recorders = Vec::new();
    for peer in PEERS {
        recorders.push(start(peer, &programs, &workplace).context(peer.name)?);
    }
    println!("== {} recorders, {seconds} s", recorders.len());
    std::thread::sleep(WARM_UP);
    still_run(&mut recorders, &workplace)?;
    let measured = measure::all(&mut recorders, Duration::from_secs(seconds))?;
    still_run(&mut recorders, &workplace)?;
    for (peer, measured) in PEERS.iter().zip(&measured) {
        let idle = peer.records && measured.written_bytes == 0;
        anyhow::ensure!(!idle, "{} has recorded nothing", peer.name);
    }
    finish(&mut recorders, measured, seconds, write)
}

fn start(peer: &Peer, programs: &Programs, workplace: &Workplace) -> anyhow::Result<Recorder> {
    let folder = workplace.folder.join(peer.key);
    std::fs::create_dir_all(folder.join("out"))?;
    (peer.start)(programs, workplace.group(peer.key)?, &folder)
}

/// Recorders that ended early were not measured, and nobody's figures stand for them.
fn still_run(recorders: &mut [Recorder], workplace: &Workplace) -> anyhow::Result<()> {
    for (peer, recorder) in PEERS.iter().zip(recorders) {
        if !recorder.runs()? {
            let log = programs::log(&workplace.folder.join(peer.key));
            anyhow::bail!("{} has ended: {}", peer.name, crate::workspace::read(&log)?.trim());
        }
    }
    Ok(())
}

fn finish(
    recorders: &mut [Recorder],
    mut measured: Vec<Measured>,
    seconds: u64,
    write: bool,
) -> anyhow::Result<()> {
    for (recorder, measured) in recorders.iter_mut().zip(&mut measured) {
        recorder.end()?;
        let path = peers::recording(&recorder.output);
        if path.exists() {
            measured.recording = Some(recording::read(&path, &measured.window_ms)?);
        }
    }
    let table = page::table(&measured, seconds);
    println!("{table}");
    if write { page::write(&table) } else { Ok(()) }
}
