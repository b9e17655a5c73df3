//! The blind trials: stalls that nobody tuned the recorder to, composed from a seed, played with real services in
//! virtual machines, and judged by what was injected.

mod boot;
mod calibrate;
mod condition;
mod figures;
mod former;
mod guest;
mod host;
mod host_cpus;
mod images;
mod judge;
mod page;
mod play;
mod played;
mod random;
mod results;
mod stage;

use crate::campaign;
use anyhow::Context;
use boot::{Boot, PLAYS_A_BOOT, TrialCgroup, TrialHost, TrialService};
use condition::TrialCondition;
use host_cpus::HostCpus;
use play::{Injection, Play};
use played::BootRecord;
use results::TrialRecord;
use stage::TrialStage;
use std::path::{Path, PathBuf};

/// From which share of its time on in which a guest waits for the host's CPUs it stalls by itself.
const HOST_BUSY_PERCENT: f64 = 10.0;

/// Default path of the results.
const RESULTS: &str = "trials/results.jsonl";

pub(crate) struct TrialSelection {
    pub(crate) seed: u64,
    pub(crate) count: u32,
    /// Only this play.
    pub(crate) only: Option<(u64, u32)>,
    /// The plays of this file of results.
    pub(crate) repeat: Option<PathBuf>,
    /// Composed of these conditions alone, where there are any.
    pub(crate) conditions: Vec<String>,
    pub(crate) results: Option<PathBuf>,
    pub(crate) program: Option<PathBuf>,
    pub(crate) jobs: usize,
    /// At native speed on this machine, and not in guests.
    pub(crate) on_host: bool,
}

/// `SEED:INDEX`.
pub(crate) fn parse_play(text: &str) -> anyhow::Result<(u64, u32)> {
    let (seed, index) = text.split_once(':').context("use SEED:INDEX, for example 7:12")?;
    Ok((seed.parse()?, index.parse()?))
}

/// Fits the confidence of causes to the results of the fit seeds.
pub(crate) fn calibrate() -> anyhow::Result<()> {
    calibrate::write(&results::read(&crate::workspace::root().join(page::FIT))?)
}

/// Writes eval/results/truth.md from the stored results.
pub(crate) fn report() -> anyhow::Result<()> {
    page::write()
}

pub(crate) fn run(choice: &TrialSelection) -> anyhow::Result<()> {
    let program = match &choice.program {
        Some(program) => program.clone(),
        None => crate::workspace::target_dir().join("debug/memwright"),
    };
    let target = crate::workspace::target_dir().join("trials");
    let path =
        choice.results.clone().unwrap_or_else(|| crate::workspace::target_dir().join(RESULTS));
    let stage = TrialStage::new(&program, target.join("logs"))?;
    let place = if choice.on_host { TrialHost::Host } else { TrialHost::Guest };
    let among = &choice.conditions;
    if let Some(name) = among.iter().find(|name| TrialCondition::named(name).is_none()) {
        anyhow::bail!("there is no condition {name} (accuracy/src/trials/condition.rs)");
    }
    let mut boots = match (choice.only, &choice.repeat) {
        (Some((seed, index)), _) => {
            let play = play::draw(place, seed, index, among).context("no condition suits it")?;
            vec![(Boot::of(place, seed, index), vec![play])]
        }
        (None, Some(former)) => boots_of(results::read(former)?),
        (None, None) => boots(place, choice.seed, choice.count, among),
    };
    if choice.on_host {
        boots.iter_mut().for_each(|(boot, _)| boot.cgroup = TrialCgroup::of_host());
    }
    // Plays on the host share its CPUs, and what version 2 hands to its children.
    let jobs = if choice.on_host { 1 } else { choice.jobs };
    campaign::each(boots, jobs, |(boot, plays)| {
        if let Err(error) = play_boot(&stage, &boot, &plays, &path) {
            eprintln!("{error:#}");
        }
    });
    Ok(())
}

/// Plays again what was diagnosed wrongly before: eval/results/truth.md has what is said now.
pub(crate) fn again(program: Option<PathBuf>) -> anyhow::Result<()> {
    let target = crate::workspace::target_dir();
    let program = program.unwrap_or_else(|| target.join("debug/memwright"));
    let stage = TrialStage::new(&program, target.join("trials/logs"))?;
    let path = crate::workspace::root().join(page::FORMER);
    play_boot(&stage, &former::boot(), &former::plays(), &path)
}

/// Two plays of which the recorder is sure, for CI: that plays are played and judged. A busy machine may disturb
/// them: they are repeated once.
pub(crate) fn quick() -> anyhow::Result<()> {
    let target = crate::workspace::target_dir();
    let stage = TrialStage::new(&target.join("debug/memwright"), target.join("trials/logs"))?;
    let boot = Boot {
        kernel: "6.12".to_owned(),
        cgroup: TrialCgroup::V2,
        services: vec![TrialService::App],
        ..Boot::of(TrialHost::Guest, 0, 0)
    };
    let plays = ["stop", "fail"].into_iter().zip(0..).map(|(name, index)| Play {
        seed: 0,
        index,
        service: TrialService::App,
        quiet_s: 3,
        hold_s: 3,
        conditions: vec![Injection { name: name.to_owned(), arguments: Vec::new() }],
        decoys: Vec::new(),
    });
    let plays: Vec<Play> = plays.collect();
    let are_right = || -> anyhow::Result<bool> {
        let records = judged_once_more(&stage, &boot, &plays)?;
        Ok(records.iter().all(|record| record.judged.verdict == judge::PlayVerdict::Right))
    };
    anyhow::ensure!(are_right()? || are_right()?, "not every cause was right, see above");
    Ok(())
}

/// New plays, whose results count nowhere: they are printed.
pub(crate) fn full() -> anyhow::Result<()> {
    const COUNT: u32 = 60;
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let results = crate::workspace::target_dir().join(format!("trials/ci-{seed}.jsonl"));
    run(&TrialSelection {
        seed,
        count: COUNT,
        only: None,
        repeat: None,
        conditions: Vec::new(),
        results: Some(results.clone()),
        program: None,
        jobs: 2,
        on_host: false,
    })?;
    for figure in figures::figures(&results::read(&results)?) {
        println!("{}: {} of {} ({})", figure.what, figure.count, figure.of, figure.goal);
    }
    Ok(())
}

fn boots(place: TrialHost, seed: u64, count: u32, among: &[String]) -> Vec<(Boot, Vec<Play>)> {
    let starts = (0..count).step_by(PLAYS_A_BOOT as usize);
    let of = |start: u32| {
        let indices = start..count.min(start + PLAYS_A_BOOT);
        indices.filter_map(|index| play::draw(place, seed, index, among)).collect::<Vec<Play>>()
    };
    let boots = starts.map(|start| (Boot::of(place, seed, start), of(start)));
    boots.filter(|(_, plays)| !plays.is_empty()).collect()
}

/// The boots and plays that results are of.
fn boots_of(records: Vec<TrialRecord>) -> Vec<(Boot, Vec<Play>)> {
    let mut boots: Vec<(Boot, Vec<Play>)> = Vec::new();
    for record in records {
        match boots.last_mut().filter(|(boot, _)| *boot == record.boot) {
            Some((_, plays)) => plays.push(record.play),
            None => boots.push((record.boot, vec![record.play])),
        }
    }
    boots
}

fn play_boot(
    stage: &TrialStage,
    boot: &Boot,
    plays: &[Play],
    results: &Path,
) -> anyhow::Result<()> {
    for mut record in judged_once_more(stage, boot, plays)? {
        let waited = record.host_waited_percent.filter(|percent| *percent > HOST_BUSY_PERCENT);
        if let Some(percent) = waited {
            let why = format!("it waited for the host's CPUs in {percent:.0}% of its time");
            println!("{}:{} Void: {why}", record.play.seed, record.play.index);
            record.judged.make_void(why);
        }
        campaign::append(results, &record)?;
    }
    Ok(())
}

/// [`judged`], once more where the guest does not come to its end: an emulated kernel of several CPUs sometimes panics
/// when it changes its own code, as for the first user of a tracepoint.
fn judged_once_more(
    stage: &TrialStage,
    boot: &Boot,
    plays: &[Play],
) -> anyhow::Result<Vec<TrialRecord>> {
    judged(stage, boot, plays).or_else(|error| {
        eprintln!("{error:#}: once more");
        judged(stage, boot, plays)
    })
}

fn judged(stage: &TrialStage, boot: &Boot, plays: &[Play]) -> anyhow::Result<Vec<TrialRecord>> {
    let kept = stage.logs(boot, plays.first().context("no plays")?)?;
    let host_cpus = HostCpus::watch();
    let release = match boot.place {
        TrialHost::Guest => guest::play(stage, boot, plays, &kept),
        TrialHost::Host => host::play(stage, boot, plays, &kept),
    };
    let release = release.with_context(|| kept.display().to_string())?;
    let host_waited_percent = host_cpus.waited_percent();
    let played = BootRecord::read(&kept, release).with_context(|| kept.display().to_string())?;
    let mut start_ms = played.start.as_ref().and_then(judge::start);
    let mut records = Vec::new();
    for play in plays {
        let times = played.plays.get(&play.index).cloned().unwrap_or_default();
        let judged = judge::judge(play, &times, &played.incidents);
        println!("{}", results::line(play, &judged));
        if let Some((incident, _)) = judge::incident_of(play, &times, &played.incidents) {
            let name = format!("incident.{}.json", play.index);
            std::fs::write(played.kept.join(name), serde_json::to_string_pretty(incident)?)?;
        }
        records.push(TrialRecord {
            boot: boot.clone(),
            play: play.clone(),
            release: played.release.clone(),
            judged,
            start_ms: start_ms.take(),
            host_waited_percent,
        });
    }
    Ok(records)
}
