//! Running programs that have the library loaded, and their control pages (`mw_iotune`).

use mw_iotune::{FLOOR_OFFSET, MAGIC, PAGE_BYTES, READ_AGAIN, Seen};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

const LIBRARY: &str = "libmemwright_preload.so";

/// The longest data of the library that is looked through for its page.
const DATA_MAX_BYTES: u64 = 1 << 20;

/// Processes that are looked at, as elsewhere.
const PROCESSES_MAX: usize = 65_536;

/// A running program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) id: u32,
    pub(super) name: String,
    /// What its page says; none where it may not be looked at.
    pub(super) seen: Option<Seen>,
}

/// All that have the library loaded.
pub(super) fn all() -> Vec<Program> {
    let ids = ids();
    ids.into_iter()
        .filter_map(|id| {
            let place = place(id, OpenOptions::new().read(true))?;
            let seen = place.ok().and_then(|place| Seen::parse(&place.page));
            // A fork that has transferred nothing yet has its parent's counts.
            let seen = seen.map(|mut seen| {
                if Some(seen.process) != own_id(id) {
                    for slot in &mut seen.slots {
                        (slot.cached, slot.uncached) = (0, 0);
                    }
                }
                seen
            });
            let name = std::fs::read(format!("/proc/{id}/comm")).unwrap_or_default();
            let name = String::from_utf8_lossy(&name).trim().to_owned();
            Some(Program { id, name, seen })
        })
        .collect()
}

/// Has all read the table again: how many were told, and how many could not be.
pub(super) fn tell() -> (usize, usize) {
    let both = |id| place(id, OpenOptions::new().read(true).write(true));
    let told = ids().into_iter().filter_map(both).map(|place| {
        let Place { memory, at, .. } = place?;
        memory.write_all_at(&READ_AGAIN.to_ne_bytes(), at.saturating_add(FLOOR_OFFSET as u64))
    });
    told.fold((0, 0), |(told, deaf), done| match done {
        Ok(()) => (told + 1, deaf),
        Err(_) => (told, deaf + 1),
    })
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
