//! `memwright killed`: who killed a process, from the recording, the journal and the kernel's log.

use super::{DAY_MS, could_not_read};
use crate::args::{KilledArgs, TimeArg};
use crate::config::Config;
use crate::output::without_interruption;
use crate::{Exit, Failure, terminal};
use mw_collect::{JournalQuery, KernelLog, logged_victims, search_journal};
use mw_model::{JournalLine, KILLS_SCHEMA, KillList, OomVictim, ProcessKill};
use mw_record::Recording;
use mw_render::text;
use mw_rules::{
    KILL_LOG_WORDS, KillLogLine, complete_kill, kill_log_units, kill_of_oom, kills_of_lines,
};
use std::path::Path;
use std::time::Duration;

/// Time limit of the journal.
const JOURNAL_LIMIT: Duration = Duration::from_secs(30);

/// A line and a signal are of the same kill within so long.
const SAME_MS: u64 = 10_000;

/// Kills that are listed: the latest.
const MAX_KILLS: usize = 10_000;

pub(crate) fn run(args: &KilledArgs, config: &Config) -> Result<Exit, Failure> {
    let now = mw_sys::unix_ms();
    let since_unix_ms = TimeArg::since(args.since, now, DAY_MS);
    let mut list = KillList {
        schema: KILLS_SCHEMA,
        memwright: env!("CARGO_PKG_VERSION").to_owned(),
        since_unix_ms,
        ..KillList::default()
    };
    let (mut is_read, mut is_own) = (false, true);
    match recorded(args.recording.as_deref(), config, since_unix_ms) {
        Ok((kills, of_this_machine)) => {
            (list.kills, is_read, is_own) = (kills, true, of_this_machine);
        }
        // A recording that is named must be there.
        Err(failure) if args.recording.is_some() => return Err(failure),
        Err(failure) => list.notes.push(format!("no recording: {failure}")),
    }
    // The logs of this machine know nothing of another one.
    if is_own {
        is_read |= without_interruption(|| add_logged(&mut list, since_unix_ms, now))?;
    }
    if !is_read {
        return Err(Failure::new(Exit::CouldNotCheck, list.notes.join("; ")));
    }
    if let Some(process) = &args.process {
        list.kills.retain(|kill| is_of(kill, process));
    }
    list.kills.sort_by_key(|kill| kill.unix_ms);
    let beyond = list.kills.len().saturating_sub(MAX_KILLS);
    if beyond > 0 {
        list.kills.drain(..beyond);
        list.notes.push(format!("{beyond} earlier kills are not listed"));
    }
    list.summary = text::kill_summary(&list, args.process.as_deref(), now);
    if args.format.is_json() {
        super::print_json(&list)?;
    } else {
        terminal::print_page(&text::kills(&list, terminal::layout(false)));
    }
    Ok(Exit::Fine)
}

/// Kills of the recording, and whether it is of this machine.
fn recorded(
    named: Option<&Path>,
    config: &Config,
    since_unix_ms: u64,
) -> Result<(Vec<ProcessKill>, bool), Failure> {
    let recording: Recording = super::recording_without_rows(named, config)?;
    let names = rustix::system::uname();
    let is_own = names.nodename().to_string_lossy() == recording.host().name.as_str();
    let kills = recording.kills(since_unix_ms);
    Ok((kills.map_err(could_not_read)?, is_own))
}

/// Adds kills that only logs tell of, and reasons to those that were recorded; whether any log was read.
fn add_logged(list: &mut KillList, since: u64, until: u64) -> Result<bool, Failure> {
    let units: Vec<&str> = kill_log_units().collect();
    let query = JournalQuery {
        since_unix_ms: since,
        until_unix_ms: until,
        units: &units,
        words: &KILL_LOG_WORDS,
        time: JOURNAL_LIMIT,
    };
    let (mut lines, mut victims, mut is_read) = (Vec::new(), Vec::new(), false);
    match search_journal(query) {
        Ok(found) => {
            lines = found.lines.iter().filter_map(KillLogLine::parse).collect();
            victims = kernels_lines(&found.lines);
            list.notes.extend(found.not_read.into_iter().map(|part| format!("not read: {part}")));
            is_read = true;
        }
        Err(why) => list.notes.push(format!("no journal: {why}")),
    }
    match KernelLog::victims() {
        Ok(logged) => {
            let logged = logged.into_iter().filter(|victim| victim.last_unix_ms >= since);
            victims.extend(logged);
            is_read = true;
        }
        Err(missing) => list.notes.push(format!("no kernel log: {missing}")),
    }
    for kill in &mut list.kills {
        complete_kill(kill, &lines);
    }
    let logged = victims.iter().map(kill_of_oom).chain(kills_of_lines(&lines));
    for kill in logged {
        if !list.kills.iter().any(|known| is_same(known, &kill)) {
            list.kills.push(kill);
        }
    }
    Ok(is_read)
}

fn kernels_lines(lines: &[JournalLine]) -> Vec<OomVictim> {
    let of_kernel = lines.iter().filter(|line| line.is_of_kernel);
    logged_victims(of_kernel.map(|line| (line.unix_ms, line.message.as_str())))
}

/// True if a kill that a log tells of is one that is known. The line of a cgroup is of all its processes.
fn is_same(known: &ProcessKill, logged: &ProcessKill) -> bool {
    let (known_victim, victim) = (&known.victim, &logged.victim);
    let is_near = known.unix_ms.abs_diff(logged.unix_ms) <= SAME_MS;
    let is_same_process = victim.process.pid != 0
        && victim.process.pid == known_victim.process.pid
        && known.signal == logged.signal;
    let is_within = || match (&known_victim.cgroup, &victim.cgroup) {
        (Some(known), Some(cgroup)) => mw_model::is_cgroup_within(known, cgroup),
        _ => false,
    };
    let is_of_cgroup = victim.process.pid == 0 && known.killer == logged.killer && is_within();
    is_near && (is_same_process || is_of_cgroup)
}

/// True if a kill is of the process that is meant.
fn is_of(kill: &ProcessKill, process: &str) -> bool {
    let victim = &kill.victim;
    if let Ok(pid) = process.parse::<u32>() {
        return victim.process.pid == pid;
    }
    let stem = |unit: &String| unit == process || unit.strip_suffix(".service") == Some(process);
    victim.process.name == process
        || victim.unit.as_ref().is_some_and(stem)
        || victim.cgroup.as_ref().is_some_and(|path| {
            path.split('/').any(|part| part.contains(process) && !process.is_empty())
        })
}
