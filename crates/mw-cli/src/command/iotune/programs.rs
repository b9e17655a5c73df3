//! Running programs that have the library loaded, and their control pages (`mw_iotune`).

use mw_iotune::environment::LIBRARY;
use mw_iotune::{FLOOR_OFFSET, MAGIC, PAGE_BYTES, READ_AGAIN, Seen};
use mw_sys::HelperThread;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The longest data of the library that is looked through for its page.
const DATA_MAX_BYTES: u64 = 1 << 20;

/// Processes that are looked at, as elsewhere.
const PROCESSES_MAX: usize = 65_536;

/// How long one process is waited for. It may have its memory backed by a page-fault handler or by a file
/// system that never responds.
const PATIENCE: Duration = Duration::from_secs(1);

/// A running program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) id: u32,
    pub(super) name: String,
    /// What its page says; none where it cannot be read.
    pub(super) seen: Option<Seen>,
}

/// All that have loaded the library, and those that did not respond.
pub(super) fn all() -> Vec<Program> {
    let unresponsive = |id| Some(Program { id, name: String::new(), seen: None });
    each(program)
        .into_iter()
        .filter_map(|(id, found)| found.unwrap_or_else(|| unresponsive(id)))
        .collect()
}

/// What one process is; none if it has not loaded the library.
fn program(id: u32) -> Option<Program> {
    let place = place(id, OpenOptions::new().read(true))?;
    let mut seen = place.ok().and_then(|place| Seen::parse(&place.page));
    if let Some(seen) = &mut seen
        && Some(seen.process) != own_id(id)
    {
        // A child process that has transferred nothing yet has its parent's counts.
        for slot in &mut seen.slots {
            (slot.cached, slot.uncached, slot.unverified) = (0, 0, 0);
        }
    }
    let name = std::fs::read(format!("/proc/{id}/comm")).unwrap_or_default();
    Some(Program { id, name: String::from_utf8_lossy(&name).trim().to_owned(), seen })
}

/// Has all programs read the table again: how many were told, and how many could not be.
pub(super) fn tell() -> (usize, usize) {
    let told = each(tell_one).into_iter().filter_map(|(_, told)| told.unwrap_or(Some(false)));
    told.fold((0, 0), |(told, deaf), done| if done { (told + 1, deaf) } else { (told, deaf + 1) })
}

/// Whether a process was told; none if it has not loaded the library.
fn tell_one(id: u32) -> Option<bool> {
    let place = place(id, OpenOptions::new().read(true).write(true))?;
    let write = |Place { memory, at, .. }: Place| {
        memory.write_all_at(&READ_AGAIN.to_ne_bytes(), at.saturating_add(FLOOR_OFFSET as u64))
    };
    Some(place.and_then(write).is_ok())
}

/// Does something with each process; none for one that does not respond, and for the rest where too many
/// do not.
fn each<A: Send + 'static>(work: fn(u32) -> A) -> Vec<(u32, Option<A>)> {
    let ids = ids();
    let questions: Vec<(u32, ())> = ids.iter().map(|id| (*id, ())).collect();
    match HelperThread::new(PATIENCE, move |id, ()| work(id)) {
        Ok(mut helper) => ids.into_iter().zip(helper.run(&questions)).collect(),
        Err(_) => ids.into_iter().map(|id| (id, None)).collect(),
    }
}

fn ids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    names.take(PROCESSES_MAX).collect()
}

/// Where a program has its page.
struct Place {
    /// The memory in which the page was found: were another program started in the process since,
    /// that would have memory of its own, which is not written to (proc_pid_mem(5)).
    memory: File,
    at: u64,
    page: Vec<u8>,
}

/// Where a process has its page, in its memory opened so; none where the library is not loaded.
fn place(id: u32, how: &OpenOptions) -> Option<std::io::Result<Place>> {
    let maps = BufReader::new(File::open(format!("/proc/{id}/maps")).ok()?);
    let mut data = maps.lines().map_while(Result::ok).filter(|line| line.ends_with(LIBRARY));
    let range = data.find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        rest.starts_with("rw-p").then_some((address(from)?, address(to)?))
    });
    let (from, to) = range?;
    let find = || {
        let memory = how.open(format!("/proc/{id}/mem"))?;
        let mut page = vec![0; PAGE_BYTES];
        for at in (from..to.min(from.saturating_add(DATA_MAX_BYTES))).step_by(PAGE_BYTES) {
            memory.read_exact_at(&mut page, at)?;
            if page.starts_with(&MAGIC) {
                return Ok(Place { memory, at, page });
            }
        }
        Err(std::io::Error::other("an older library, without such a page"))
    };
    Some(find())
}

/// The number that a process knows itself by.
fn own_id(id: u32) -> Option<u64> {
    let mut status = String::new();
    File::open(format!("/proc/{id}/status")).ok()?.read_to_string(&mut status).ok()?;
    let line = status.lines().find(|line| line.starts_with("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}
