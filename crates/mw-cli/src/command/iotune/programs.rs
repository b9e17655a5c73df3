//! Running programs that have the library loaded, and their control pages (`mw_iotune`).

use mw_iotune::environment::LIBRARY;
use mw_iotune::{ControlSnapshot, FLOOR_OFFSET, MAGIC, PAGE_BYTES, READ_AGAIN};
use mw_sys::HelperThread;
use mw_sys::kernel_file;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The longest data of the library that is looked through for its page.
const DATA_MAX_BYTES: u64 = 1 << 20;

/// Processes that are looked at, as elsewhere.
const PROCESSES_MAX: usize = 65_536;

/// Time limit of one process. It may have its memory backed by a page-fault handler or by a file
/// system that never responds.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct IotuneProgram {
    pub(super) id: u32,
    pub(super) name: String,
    /// Contents of its page; none where it cannot be read.
    pub(super) seen: Option<ControlSnapshot>,
}

/// All that have loaded the library, and those that did not respond.
pub(super) fn all() -> Vec<IotuneProgram> {
    let unresponsive = |id| Some(IotuneProgram { id, name: String::new(), seen: None });
    each(program)
        .into_iter()
        .filter_map(|(id, found)| found.unwrap_or_else(|| unresponsive(id)))
        .collect()
}

/// A process; `None` if it has not loaded the library.
fn program(id: u32) -> Option<IotuneProgram> {
    let page = page_of(id, OpenOptions::new().read(true))?;
    let mut seen = page.ok().and_then(|page| ControlSnapshot::parse(&page.bytes));
    if let Some(seen) = &mut seen
        && Some(seen.process) != own_id(id)
    {
        // A child process that has transferred nothing yet has its parent's counts.
        for slot in &mut seen.slots {
            (slot.cached, slot.uncached, slot.unverified) = (0, 0, 0);
        }
    }
    let name = mw_sys::kernel_file::read(format!("/proc/{id}/comm")).unwrap_or_default();
    Some(IotuneProgram { id, name: String::from_utf8_lossy(&name).trim().to_owned(), seen })
}

/// Has all programs read the table again: how many were notified, and how many could not be.
pub(super) fn notify() -> (usize, usize) {
    let notified =
        each(notify_one).into_iter().filter_map(|(_, notified)| notified.unwrap_or(Some(false)));
    notified.fold(
        (0, 0),
        |(done, failed), is_done| {
            if is_done { (done + 1, failed) } else { (done, failed + 1) }
        },
    )
}

/// True if a process was notified; `None` if it has not loaded the library.
fn notify_one(id: u32) -> Option<bool> {
    let page = page_of(id, OpenOptions::new().read(true).write(true))?;
    let write = |ControlPage { memory, at, .. }: ControlPage| {
        memory.write_all_at(&READ_AGAIN.to_ne_bytes(), at.saturating_add(FLOOR_OFFSET as u64))
    };
    Some(page.and_then(write).is_ok())
}

/// Runs `work` for each process; `None` for one that does not respond, and for the rest if too many
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
    let ids = mw_sys::kernel_file::read_numbers("/proc").into_iter().flatten();
    ids.take(PROCESSES_MAX).collect()
}

/// The page of a program.
struct ControlPage {
    /// The memory in which the page was found: were another program started in the process since,
    /// that would have memory of its own, which is not written to (proc_pid_mem(5)).
    memory: File,
    at: u64,
    bytes: Vec<u8>,
}

/// Finds the page of a process in its memory; `None` if the library is not loaded.
fn page_of(id: u32, how: &OpenOptions) -> Option<std::io::Result<ControlPage>> {
    let maps = BufReader::new(kernel_file::open(format!("/proc/{id}/maps")).ok()?);
    let mut data = maps.lines().map_while(Result::ok).filter(|line| line.ends_with(LIBRARY));
    let range = data.find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        rest.starts_with("rw-p").then_some((address(from)?, address(to)?))
    });
    let (from, to) = range?;
    let find = || {
        let memory = kernel_file::open_with(format!("/proc/{id}/mem"), how)?;
        let mut bytes = vec![0; PAGE_BYTES];
        for at in (from..to.min(from.saturating_add(DATA_MAX_BYTES))).step_by(PAGE_BYTES) {
            memory.read_exact_at(&mut bytes, at)?;
            if bytes.starts_with(&MAGIC) {
                return Ok(ControlPage { memory, at, bytes });
            }
        }
        Err(std::io::Error::other("an older library, without such a page"))
    };
    Some(find())
}

/// The process number in its own PID namespace.
fn own_id(id: u32) -> Option<u64> {
    let mut status = String::new();
    kernel_file::open(format!("/proc/{id}/status")).ok()?.read_to_string(&mut status).ok()?;
    let line = status.lines().find(|line| line.starts_with("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}
