//! How memory is created: by this process, by the library, by a program, or by `memwright bench`, which
//! re-enacts what cannot be run here.

use super::program::{Programs, Run};
use super::row::{Row, Sample};
use anyhow::Context;
use mw_segment::{Kind, Options, PageSize};
use mw_sys::{Region, ThpAdvice, memfd_page_flags};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Threads of every method that has a choice.
pub(super) const THREADS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    Private,
    Shared,
}

impl Memory {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Shared => "shared",
        }
    }
}

pub(super) enum Method {
    /// mmap(2), and one thread that writes.
    Stores,
    /// mmap(2) and mlock(2).
    Mlock,
    /// `mlockall(MCL_CURRENT | MCL_FUTURE)`, then mmap(2).
    MlockAll,
    Library,
    /// A program, without the memory and with it: the difference counts.
    Program(fn(&Place, with: bool) -> anyhow::Result<Run>),
    /// A row of `memwright bench`.
    Bench(&'static str),
}

/// Where and how much is measured.
pub(super) struct Place {
    pub(super) programs: Programs,
    pub(super) mib: u64,
    /// Reports of `memwright bench` in this round, by kind and page size.
    reports: BTreeMap<(&'static str, String), Value>,
    other_cpus: Vec<f64>,
}

impl Place {
    pub(super) fn new(cache: &Path, mib: u64) -> anyhow::Result<Self> {
        let programs = Programs::get(cache)?;
        Ok(Self { programs, mib, reports: BTreeMap::new(), other_cpus: Vec::new() })
    }

    pub(super) fn begin_round(&mut self) {
        self.reports.clear();
    }

    pub(super) fn other_cpus(&self) -> Vec<f64> {
        self.other_cpus.clone()
    }

    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.mib << 20).unwrap_or(usize::MAX)
    }

    fn per_gib(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1000.0 * 1024.0 / self.mib as f64
    }

    /// Touches and frees as much memory as the next method takes, so that the host of a virtual machine has
    /// backed it. The kernel allocates first what was freed last.
    pub(super) fn touch_memory(&self, page: PageSize) -> anyhow::Result<()> {
        let page = if page.is_hugetlb() { PageSize::Thp } else { page };
        let options = Options::new(self.bytes()).kind(Kind::Anon).page_size(page).lenient(true);
        drop(options.create()?);
        Ok(())
    }

    pub(super) fn measure(&mut self, row: &Row) -> anyhow::Result<Sample> {
        match &row.method {
            Method::Stores | Method::Mlock | Method::MlockAll => self.own(row),
            Method::Library => self.library(row),
            Method::Program(run) => {
                let without = run(self, false)?.measure()?;
                let with = run(self, true)?.measure()?;
                Ok(Sample {
                    create: self.per_gib(with.populated.saturating_sub(without.populated)),
                    destroy: self.per_gib(with.ended.saturating_sub(without.ended)),
                })
            }
            Method::Bench(way) => {
                let kind = match row.memory {
                    Memory::Private => "anon",
                    Memory::Shared => "memfd",
                };
                let measured = bench_row(self.bench(kind, row.page)?, way, row.page)?;
                Ok(Sample {
                    create: part(&measured, "create")? + part(&measured, "lock")?,
                    destroy: part(&measured, "destroy")?,
                })
            }
        }
    }

    /// The report of `memwright bench` on one kind of memory; measured once in a round.
    pub(super) fn bench(&mut self, kind: &'static str, page: PageSize) -> anyhow::Result<&Value> {
        let key = (kind, page.name());
        if !self.reports.contains_key(&key) {
            let mut command = Command::new(&self.programs.memwright);
            command.args(["bench", "--json", "--rounds", "1", "--kind", kind]);
            command.args(["--page", &key.1, "--threads", &THREADS.to_string()]);
            command.arg("--size").arg(format!("{}M", self.mib));
            let report: Value = serde_json::from_str(&crate::workspace::output(&mut command)?)?;
            self.other_cpus.extend(report["others_processors"].as_f64());
            self.reports.insert(key.clone(), report);
        }
        self.reports.get(&key).context("no report")
    }

    fn own(&self, row: &Row) -> anyhow::Result<Sample> {
        let start = Instant::now();
        if matches!(row.method, Method::MlockAll) {
            mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?;
        }
        let mapped = self.map(row);
        let created = start.elapsed();
        let start = Instant::now();
        drop(mapped?);
        let destroyed = start.elapsed();
        if matches!(row.method, Method::MlockAll) {
            munlockall()?;
        }
        Ok(Sample { create: self.per_gib(created), destroy: self.per_gib(destroyed) })
    }

    fn map(&self, row: &Row) -> anyhow::Result<(Region, Option<OwnedFd>)> {
        let (bytes, page) = (self.bytes(), row.page);
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

    fn library(&self, row: &Row) -> anyhow::Result<Sample> {
        let kind = match row.memory {
            Memory::Private => Kind::Anon,
            Memory::Shared => Kind::Memfd,
        };
        let options = Options::new(self.bytes()).kind(kind).page_size(row.page).locked(row.locked);
        let start = Instant::now();
        let segment = options.workers(row.threads).create()?;
        let created = start.elapsed();
        Ok(Sample { create: self.per_gib(created), destroy: self.per_gib(segment.destroy()) })
    }
}

/// The row of a report of `memwright bench` whose name is `way` and the page size.
pub(super) fn bench_row(report: &Value, way: &str, page: PageSize) -> anyhow::Result<Value> {
    let name = format!("{way} {page}");
    let mut rows = report["rows"].as_array().into_iter().flatten();
    let row = rows.find(|row| row["way"] == name.as_str());
    let absent = report["absent"].as_array().into_iter().flatten();
    let mut reasons = absent.filter(|row| row["way"] == name.as_str());
    let reason = reasons.next().map(|row| row["why"].as_str().unwrap_or_default().to_owned());
    row.cloned().with_context(|| reason.unwrap_or_else(|| format!("no row {name:?}")))
}

/// The time of a step in a row of `memwright bench`, in milliseconds for each GiB.
pub(super) fn part(row: &Value, step: &str) -> anyhow::Result<f64> {
    let value = &row[format!("{step}_ms_per_gib")]["median"];
    value.as_f64().with_context(|| format!("no time of step {step:?}"))
}
