//! Operations on large memory, repeated in a process of their own. Every step is printed as `NAME BEGIN END`, in
//! nanoseconds of the monotonic clock.

use super::server::PoolServer;
use crate::huge_pages;
use anyhow::Context;
use clap::ValueEnum;
use mw_segment::{Options, PageSize, SegmentKind};
use mw_sys::{Region, is_termination_requested, memfd_page_flags, monotonic_ns};
use mw_test::HugePages;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
const BYTES: usize = 1024 * MIB;
const HUGE_BYTES: usize = 2 * MIB;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// Nothing
    Idle,
    /// Private base pages by the library
    Create,
    /// Private base pages by one thread that writes
    CreatePlain,
    /// A locked memfd of base pages by the library
    Lock,
    /// A locked memfd of base pages by mlock(2)
    LockPlain,
    /// A memfd of 2 MiB pages by the library
    Huge,
    /// A memfd of 2 MiB pages by one thread that writes
    HugePlain,
    /// 2 MiB pages of a pool
    Attach,
    /// `memwright make-room`
    MakeRoom,
    /// A write to nr_hugepages
    MakeRoomPlain,
}

pub(super) fn repeat(
    operation: Operation,
    memwright: &Path,
    duration: Duration,
) -> anyhow::Result<()> {
    let huge = [Operation::Huge, Operation::HugePlain].contains(&operation);
    let pages = (BYTES / HUGE_BYTES) as u64;
    let reserve = || huge_pages::reserve(memwright, HUGE_BYTES as u64, pages);
    let _pages = huge.then(reserve).transpose()?;
    let is_attach = operation == Operation::Attach;
    let serve = || {
        let start = |gib| PoolServer::start(memwright, HUGE_BYTES as u64, gib * BYTES as u64);
        start(4).or_else(|_| start(1))
    };
    let server = is_attach.then(serve).transpose()?;
    let until = Instant::now() + duration;
    let again = || Instant::now() < until && !is_termination_requested();
    while again() {
        match operation {
            Operation::Idle => step("idle", || std::thread::sleep(Duration::from_millis(100))),
            Operation::Create => segment(SegmentKind::Anon, PageSize::Base, false)?,
            Operation::Lock => segment(SegmentKind::Memfd, PageSize::Base, true)?,
            Operation::Huge => segment(SegmentKind::Memfd, PageSize::HUGE_2M, false)?,
            Operation::CreatePlain | Operation::LockPlain | Operation::HugePlain => {
                let mapped = step("create", || plain(operation))?;
                step("destroy", || drop(mapped));
            }
            Operation::Attach => pooled(server.as_ref().context("no huge pages")?)?,
            Operation::MakeRoom => room(memwright)?,
            Operation::MakeRoomPlain => {
                let pages = step("create", || HugePages::more(HUGE_BYTES, pages));
                drop(pages.context("no huge pages")?);
            }
        }
    }
    Ok(())
}

fn step<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let begin = monotonic_ns();
    let result = work();
    println!("{name} {begin} {}", monotonic_ns());
    result
}

fn segment(kind: SegmentKind, page: PageSize, locked: bool) -> anyhow::Result<()> {
    let options = Options::new(BYTES).kind(kind).page_size(page).locked(locked);
    let segment = step("create", || options.create())?;
    step("destroy", || segment.destroy());
    Ok(())
}

fn plain(operation: Operation) -> anyhow::Result<(Region, Option<OwnedFd>)> {
    let page = match operation {
        Operation::CreatePlain => {
            let region = Region::anonymous(BYTES, PageSize::Base)?;
            region.zero(0..BYTES)?;
            return Ok((region, None));
        }
        Operation::HugePlain => PageSize::HUGE_2M,
        _ => PageSize::Base,
    };
    let file = memfd_create("ceilings", MemfdFlags::CLOEXEC | memfd_page_flags(page))?;
    ftruncate(&file, BYTES as u64)?;
    let granule = page.hugetlb_bytes().unwrap_or_else(mw_sys::page_bytes);
    let region = Region::reserve(BYTES, granule, granule)?;
    region.map_file(0..BYTES, file.as_fd(), 0)?;
    if operation == Operation::LockPlain {
        region.lock(0..BYTES)?;
    } else {
        region.zero(0..BYTES)?;
    }
    Ok((region, Some(file)))
}

fn pooled(server: &PoolServer) -> anyhow::Result<()> {
    let memory = step("create", || server.attach(server.bytes()))?;
    step("destroy", || drop(memory));
    step("zeroing by the server", || server.until_ready())
}

/// Gives the pages back when its command has ended.
fn room(memwright: &Path) -> anyhow::Result<()> {
    let state = tempfile::tempdir()?;
    let mut command = Command::new(memwright);
    command.arg("make-room").arg(format!("{}M,huge=2M", BYTES / MIB));
    command.arg("--state-dir").arg(state.path()).args(["--", "true"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = step("create", || command.status())?;
    anyhow::ensure!(status.success(), "memwright make-room: {status}");
    Ok(())
}
