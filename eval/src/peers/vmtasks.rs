//! The tables that the field report of vmtasks published, and ours in the same columns.

use super::place::{Place, THREADS, bench_row, part};
use mw_segment::PageSize;
use mw_test::measure::median;
use std::fmt::Write as _;

/// A row of the report: system, CPUs, before and after in ms for each GB.
type Published = (&'static str, u32, f64, f64);

const ISM: &[Published] = &[
    ("x4600", 32, 1386.0, 245.0),
    ("X7560", 64, 1016.0, 153.0),
    ("M9000", 512, 1196.0, 206.0),
    ("T5240", 128, 2506.0, 234.0),
    ("T4-2", 128, 1197.0, 107.0),
];
const DISM: &[Published] = &[
    ("x4600", 32, 1582.0, 265.0),
    ("X7560", 64, 1116.0, 158.0),
    ("M9000", 512, 1165.0, 152.0),
    ("T5240", 128, 2796.0, 198.0),
];

const SEGMENTS: [(&str, PageSize); 3] =
    [("ism", PageSize::Base), ("ism", PageSize::HUGE_2M), ("dism", PageSize::Base)];

/// Creation with the lock, and destruction, in milliseconds for each GiB.
#[derive(Debug, Default)]
struct Times {
    create: Vec<f64>,
    destroy: Vec<f64>,
}

impl Times {
    fn create(&self) -> f64 {
        median(self.create.clone())
    }

    fn destroy(&self) -> f64 {
        median(self.destroy.clone())
    }

    fn together(&self) -> f64 {
        median(self.create.iter().zip(&self.destroy).map(|(a, b)| a + b).collect())
    }
}

/// Measurements of each segment, by plain calls and by memwright.
#[derive(Debug, Default)]
pub(super) struct Vmtasks {
    measured: [(Times, Times); SEGMENTS.len()],
}

impl Vmtasks {
    pub(super) fn measure(&mut self, place: &mut Place) -> anyhow::Result<()> {
        for ((kind, page), (before, after)) in SEGMENTS.into_iter().zip(&mut self.measured) {
            let report = place.bench(kind, page)?;
            let plain = bench_row(report, "plain calls", PageSize::Base)?;
            let ours = bench_row(report, "memwright", page)?;
            for (times, row) in [(before, plain), (after, ours)] {
                times.create.push(part(&row, "create")? + part(&row, "lock")?);
                times.destroy.push(part(&row, "destroy")?);
            }
        }
        Ok(())
    }

    /// The report's tables with ours, as markdown.
    pub(super) fn text(&self) -> String {
        let mut text = String::from(
            "| segment | system | CPUs | before | after | speed-up |\n|---|---|---|---|---|---|\n",
        );
        for (name, published, kind) in [("ISM", ISM, "ism"), ("DISM", DISM, "dism")] {
            for (system, cpus, before, after) in published {
                let speedup = before / after;
                let _ = writeln!(
                    text,
                    "| {name} | {system} | {cpus} | {before} | {after} | {speedup:.1}x |"
                );
            }
            for ((_, page), (before, after)) in self.of(kind) {
                let (before, after) = (before.together(), after.together());
                let _ = writeln!(
                    text,
                    "| {name} | **memwright**, after on {page} pages | {THREADS} | {before:.0} | {after:.0} | {:.1}x |",
                    before / after
                );
            }
        }
        text + "\n" + &self.separated()
    }

    fn of(&self, kind: &str) -> impl Iterator<Item = (&(&'static str, PageSize), &(Times, Times))> {
        let segments = SEGMENTS.iter().zip(&self.measured);
        segments.filter(move |((of, _), _)| *of == kind)
    }

    /// Creation and destruction apart, of ISM.
    fn separated(&self) -> String {
        let mut text = String::from(
            "| ISM | create, before | after | destroy, before | after |\n|---|---|---|---|---|\n\
             | T4-2 | 702 | 64 | 495 | 43 |\n",
        );
        for ((_, page), (before, after)) in self.of("ism") {
            let _ = writeln!(
                text,
                "| **memwright**, after on {page} pages | {:.0} | {:.0} | {:.0} | {:.1} |",
                before.create(),
                after.create(),
                before.destroy(),
                after.destroy()
            );
        }
        text
    }
}
