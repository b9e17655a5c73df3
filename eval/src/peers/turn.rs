//! One turn of a row: its memory is created and destroyed once.

use super::method::{Memory, Method};
use super::place::{Place, bench_row, part};
use super::row::{Row, Sample};
use mw_segment::{Options, SegmentKind};
use mw_sys::{Region, ThpAdvice, memfd_page_flags};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// Measures a row once more; one that failed before is skipped.
pub(super) fn take(row: &mut Row, place: &mut Place) -> anyhow::Result<()> {
    if row.missing.is_some() {
        return Ok(());
    }
    place.touch_memory(row.page)?;
    match measure(row, place) {
        Ok(sample) => row.samples.push(sample),
        Err(error) => {
            eprintln!("{}: {error:#}", row.name);
            row.missing = Some(format!("{error:#}"));
        }
    }
    Ok(())
}

fn measure(row: &Row, place: &mut Place) -> anyhow::Result<Sample> {
    match &row.method {
        Method::Stores | Method::Mlock | Method::MlockAll => own(row, place),
        Method::Library => library(row, place),
        Method::Program(run) => {
            let without = run(place, false)?.measure()?;
            let with = run(place, true)?.measure()?;
            Ok(Sample {
                create: place.per_gib(with.populated.saturating_sub(without.populated)),
                destroy: place.per_gib(with.ended.saturating_sub(without.ended)),
            })
        }
        Method::Bench(way) => {
            let kind = match row.memory {
                Memory::Private => "anon",
                Memory::Shared => "memfd",
            };
            let measured = bench_row(place.bench(kind, row.page)?, way, row.page)?;
            Ok(Sample {
                create: part(&measured, "create")? + part(&measured, "lock")?,
                destroy: part(&measured, "destroy")?,
            })
        }
    }
}

fn own(row: &Row, place: &Place) -> anyhow::Result<Sample> {
    let start = Instant::now();
    if matches!(row.method, Method::MlockAll) {
        mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?;
    }
    let mapped = map(row, place);
    let created = start.elapsed();
    let start = Instant::now();
    drop(mapped?);
    let destroyed = start.elapsed();
    if matches!(row.method, Method::MlockAll) {
        munlockall()?;
    }
    Ok(Sample { create: place.per_gib(created), destroy: place.per_gib(destroyed) })
}

fn map(row: &Row, place: &Place) -> anyhow::Result<(Region, Option<OwnedFd>)> {
    let (bytes, page) = (place.bytes(), row.page);
    let (region, file) = match row.memory {
        Memory::Private => (Region::anonymous(bytes, page)?, None),
        Memory::Shared => {
            let flags = MemfdFlags::CLOEXEC | memfd_page_flags(page);
            let file = memfd_create("peers", flags)?;
            ftruncate(&file, bytes as u64)?;
            let granule = page.hugetlb_bytes().unwrap_or_else(mw_sys::page_bytes);
            let region = Region::reserve(bytes, granule, granule)?;
            region.map_file(0..bytes, file.as_fd(), 0)?;
            // Fails on a kernel without transparent huge pages, which has nothing to decline.
            let _ = region.advise_thp(ThpAdvice::Disable);
            (region, Some(file))
        }
    };
    match row.method {
        Method::Mlock => region.lock(0..bytes)?,
        // The kernel has populated it already.
        Method::MlockAll => {}
        _ => region.zero(0..bytes)?,
    }
    Ok((region, file))
}

fn library(row: &Row, place: &Place) -> anyhow::Result<Sample> {
    let kind = match row.memory {
        Memory::Private => SegmentKind::Anon,
        Memory::Shared => SegmentKind::Memfd,
    };
    let options = Options::new(place.bytes()).kind(kind).page_size(row.page).locked(row.locked);
    let start = Instant::now();
    let segment = options.workers(row.threads).create()?;
    let created = start.elapsed();
    Ok(Sample { create: place.per_gib(created), destroy: place.per_gib(segment.destroy()) })
}
