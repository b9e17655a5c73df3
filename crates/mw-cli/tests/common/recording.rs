//! A recording of this machine, with an incident.

use mw_collect::{DiskSampler, Sampler, Source, capture};
use mw_model::{Host, INCIDENT_SCHEMA, Incident, Layout, Profile, Stack, Table, Tick};
use mw_record::{Retention, Writer};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// 2023-11-14T22:14:00Z.
pub(crate) const START_MS: u64 = 1_700_000_040_000;

/// A recording of this machine: twenty real samples, said to be a second apart, a capture at the
/// tenth and an incident.
#[allow(dead_code, reason = "not every test that has this module wants a shared one")]
pub(crate) fn recording() -> &'static Path {
    static RECORDING: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = RECORDING.get_or_init(|| {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("recording.db");
        record(&path);
        (dir, path)
    });
    path
}

/// The same in a file of the caller's own.
#[allow(dead_code, reason = "not every test that has this module writes one")]
pub(crate) fn record(path: &Path) {
    let host = Host { name: "db1".to_owned(), memwright: "0.1.0".to_owned(), ..Host::default() };
    let writer = Writer::start(path, &host, Retention::default()).unwrap();
    let source = Source::live().unwrap();
    let (mut sampler, mut disks) = (Sampler::open(&source, &[0]), DiskSampler::open(&source));
    let (mut tick, mut row, mut layout) = (Tick::default(), Vec::new(), None);
    for at in 0..20 {
        sampler.sample(&mut tick.sample);
        disks.sample(&mut tick.disks);
        let layout = layout.get_or_insert_with(|| {
            let layout = Layout::from_tick(&tick);
            writer.layout(layout.names());
            layout
        });
        layout.write(&tick, &mut row);
        assert!(writer.offer(START_MS + at * 1000, &row));
    }
    let mut packed = Vec::new();
    capture::write(&source, false, &mut packed).unwrap();
    writer.keep_capture(START_MS + 10_000, packed);
    writer.keep_incident(incident()).unwrap();
}

fn incident() -> Incident {
    let stack = Stack { task: "mysqld".to_owned(), pid: 7, frames: vec![0, 1], samples: 40 };
    let functions = ["do_syscall_64", "compaction_alloc"].map(str::to_owned).to_vec();
    let profile = Profile { hz: 999, functions, stacks: vec![stack], ..Profile::default() };
    let mut table = Table::new(["vmstat.compact_stall"]);
    (0..30).for_each(|at| table.push(START_MS + at * 100, &[at]));
    Incident { schema: INCIDENT_SCHEMA, profile: Some(profile), table, ..Incident::default() }
}
