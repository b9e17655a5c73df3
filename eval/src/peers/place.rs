//! Where memory is measured, and the reports of `memwright bench` in a round.

use super::program::Programs;
use anyhow::Context;
use mw_segment::{Options, PageSize, SegmentKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Threads of every method that has a choice.
pub(super) const THREADS: usize = 2;

/// Memory and size of a measurement.
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

    pub(super) fn per_gib(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1000.0 * 1024.0 / self.mib as f64
    }

    /// Touches and frees as much memory as the next method takes, so that the host of a virtual machine has
    /// backed it. The kernel allocates first what was freed last.
    pub(super) fn touch_memory(&self, page: PageSize) -> anyhow::Result<()> {
        let page = if page.is_hugetlb() { PageSize::Thp } else { page };
        let options =
            Options::new(self.bytes()).kind(SegmentKind::Anon).page_size(page).lenient(true);
        drop(options.create()?);
        Ok(())
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
