//! `memwright iotune show`: what holds where, where that comes from, and what programs did.

use super::programs::{self, IotuneProgram};
use super::tables::{self, IotuneTable};
use crate::command::print_json;
use crate::{Exit, Failure, terminal};
use mw_iotune::{LIVE, LineSetting, SAVED, SeenSlot};
use mw_model::{format_bytes, visible};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// The version of what is printed as JSON.
pub(crate) const SCHEMA: u32 = 1;

/// Settings by path, their source, and what programs did.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct IotuneReport {
    /// The version of this format.
    schema: u32,
    /// The path that was asked for; none: all that have a setting.
    path: Option<String>,
    /// The paths that have a setting; of a path that was asked for, the one whose setting it has.
    paths: Vec<PathRow>,
    /// Transfers of the running programs that transferred anything.
    programs: Vec<ProgramTransfers>,
    /// Processes whose page could not be read: permission denied, or no response.
    not_looked_at: usize,
    /// Lines of the table that hold for nothing.
    wrong_lines: Vec<String>,
}

/// A path that has a setting.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct PathRow {
    /// A file or directory, with blanks as in /proc/mounts.
    path: String,
    /// From how many bytes on transfers go uncached; 0: none do; none: the size of `--direct-io`.
    discovered_direct_iosz: Option<u64>,
    /// True if reads do too; none: as by `--direct-io-reads`.
    discovered_direct_reads: Option<bool>,
    /// Source of the setting.
    source: SettingSource,
    /// Bytes that running programs moved through the page cache.
    cached_bytes: u64,
    /// Bytes that they kept out of it.
    uncached_bytes: u64,
    /// Bytes that were to leave the page cache and of which that is not known.
    unverified_bytes: u64,
}

/// Source of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum SettingSource {
    /// Of the table, until the next reboot.
    Set,
    /// Of the table, and saved.
    Saved,
}

/// Transfers of one program at and below one path.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct ProgramTransfers {
    /// Its process.
    pid: u32,
    /// Its name.
    program: String,
    /// The path of the setting; none: `--direct-io`.
    path: Option<String>,
    /// From how many bytes on its transfers go uncached.
    discovered_direct_iosz: u64,
    /// Bytes that it moved through the page cache.
    cached_bytes: u64,
    /// Bytes that it kept out of it.
    uncached_bytes: u64,
    /// Bytes that were to leave the page cache and of which that is not known.
    unverified_bytes: u64,
}

pub(super) fn run(path: Option<&Path>, json: bool) -> Result<Exit, Failure> {
    let path = path.map(tables::real).transpose()?;
    let shown = collect(path)?;
    if json {
        print_json(&shown)?;
    } else {
        terminal::print(&text(&shown));
    }
    Ok(Exit::Fine)
}

fn collect(path: Option<String>) -> Result<IotuneReport, Failure> {
    let table = IotuneTable::in_force()?;
    let saved = IotuneTable::read(SAVED)?.unwrap_or_default();
    let programs = programs::all();
    let not_looked_at = programs.iter().filter(|program| program.seen.is_none()).count();
    let mut settings = table.settings();
    if let Some(path) = &path {
        let text = table.text();
        let file = path.as_bytes();
        let held = mw_iotune::find(text.as_bytes(), &unescape(file));
        settings.retain(|(known, _)| held.is_some_and(|line| line.path == known.as_bytes()));
    }
    let did = did(&programs, &settings);
    let paths = settings.iter().map(|(path, setting)| row(path, setting, &saved, &did)).collect();
    let file = if Path::new(LIVE).exists() { LIVE } else { SAVED };
    let wrong = table.wrong().into_iter();
    let wrong_lines = wrong.map(|(number, why)| format!("{file} line {number}: {why}")).collect();
    Ok(IotuneReport { schema: SCHEMA, path, paths, programs: did, not_looked_at, wrong_lines })
}

/// A path as the kernel knows it.
fn unescape(path: &[u8]) -> Vec<u8> {
    mw_iotune::unescaped(path).collect()
}

/// Transfers of each program at and below these paths, and by `--direct-io`.
fn did(programs: &[IotuneProgram], settings: &[(String, LineSetting)]) -> Vec<ProgramTransfers> {
    let path_of = |slot: &SeenSlot| {
        if slot.key == mw_iotune::key(b"") {
            return Some(None);
        }
        let named = settings.iter().find(|(path, _)| mw_iotune::key(path.as_bytes()) == slot.key);
        named.map(|(path, _)| Some(path.clone()))
    };
    let of_program = |program: &IotuneProgram| {
        let slots = program.seen.iter().flat_map(|seen| seen.slots.clone());
        let did = slots.filter_map(|slot| {
            Some(ProgramTransfers {
                pid: program.id,
                program: program.name.clone(),
                path: path_of(&slot)?,
                discovered_direct_iosz: slot.size,
                cached_bytes: slot.cached,
                uncached_bytes: slot.uncached,
                unverified_bytes: slot.unverified,
            })
        });
        did.collect::<Vec<_>>()
    };
    let all = programs.iter().flat_map(of_program);
    let bytes =
        |did: &ProgramTransfers| [did.cached_bytes, did.uncached_bytes, did.unverified_bytes];
    all.filter(|did| bytes(did).iter().any(|bytes| *bytes > 0)).collect()
}

fn row(
    path: &str,
    setting: &LineSetting,
    saved: &IotuneTable,
    did: &[ProgramTransfers],
) -> PathRow {
    let source =
        if saved.get(path) == Some(*setting) { SettingSource::Saved } else { SettingSource::Set };
    let at = || did.iter().filter(|did| did.path.as_deref() == Some(path));
    // The numbers are what programs say: of any user, and whatever they like.
    let sum = |bytes: fn(&ProgramTransfers) -> u64| at().map(bytes).fold(0, u64::saturating_add);
    PathRow {
        path: path.to_owned(),
        discovered_direct_iosz: setting.size,
        discovered_direct_reads: setting.reads,
        source,
        cached_bytes: sum(|did| did.cached_bytes),
        uncached_bytes: sum(|did| did.uncached_bytes),
        unverified_bytes: sum(|did| did.unverified_bytes),
    }
}

/// `15 MiB uncached, 1 MiB not verified, 0 B cached`.
fn transfers(uncached: u64, unverified: u64, cached: u64) -> String {
    let not_verified = match unverified {
        0 => String::new(),
        bytes => format!(", {} not verified", format_bytes(bytes)),
    };
    format!("{} uncached{not_verified}, {} cached", format_bytes(uncached), format_bytes(cached))
}

fn text(shown: &IotuneReport) -> String {
    let mut text = verdict(shown);
    for row in &shown.paths {
        let setting =
            LineSetting { size: row.discovered_direct_iosz, reads: row.discovered_direct_reads };
        let source = match row.source {
            SettingSource::Set => "until the next reboot",
            SettingSource::Saved => "saved",
        };
        let _ = writeln!(text, "  {} {setting}   ({source})", visible::line(&row.path));
        let transfers = transfers(row.uncached_bytes, row.unverified_bytes, row.cached_bytes);
        let _ = writeln!(text, "     by running programs: {transfers}");
    }
    if !shown.programs.is_empty() {
        text += "\nRunning programs:\n";
    }
    for did in &shown.programs {
        let transfers = transfers(did.uncached_bytes, did.unverified_bytes, did.cached_bytes);
        let at = visible::line(did.path.as_deref().unwrap_or("--direct-io"));
        let (pid, name) = (did.pid, visible::line(&did.program));
        let size = format_bytes(did.discovered_direct_iosz);
        let _ = writeln!(text, "  {name} ({pid})   {at}, from {size} on: {transfers}");
    }
    if shown.not_looked_at > 0 {
        let count = shown.not_looked_at;
        let processes = if count == 1 { "process" } else { "processes" };
        let _ = writeln!(text, "\n{count} {processes} could not be examined.");
    }
    for wrong in &shown.wrong_lines {
        let _ = writeln!(text, "\nnot in force: {wrong}");
    }
    text
}

fn verdict(shown: &IotuneReport) -> String {
    match (&shown.path, shown.paths.as_slice()) {
        (Some(path), []) => {
            let path = visible::line(path);
            format!("{path} has no setting: cached, but for programs run with --direct-io.\n")
        }
        (Some(path), [row, ..]) => {
            let how = match row.discovered_direct_iosz {
                Some(0) => "is cached".to_owned(),
                Some(size) => format!("goes uncached from {} on", format_bytes(size)),
                None => "has the size of --direct-io".to_owned(),
            };
            let path = visible::line(path);
            format!("{path} {how}, in programs that have the library, by the setting of:\n")
        }
        (None, []) => "No path has a setting.\n".to_owned(),
        (None, [_]) => "1 path has a setting.\n".to_owned(),
        (None, rows) => format!("{} paths have settings.\n", rows.len()),
    }
}
