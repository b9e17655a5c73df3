//! What block devices have done: /proc/diskstats, through a descriptor that stays open.

use crate::collector::block;
use crate::sampler::OpenFile;
use crate::source::Source;
use mw_model::{DiskTick, OriginKind, Reading};
use mw_proc::diskstats::{self, SECTOR_BYTES};

/// The most devices that are followed: a recording has columns for each.
pub const MAX_FOLLOWED_DISKS: usize = 32;

/// Follows the block devices that there were when it was opened.
#[derive(Debug)]
pub struct DiskSampler {
    kind: OriginKind,
    diskstats: OpenFile,
    buffer: Vec<u8>,
    disks: Vec<DiskTick>,
}

impl DiskSampler {
    /// Finds the devices: whole ones that dirty memory is written to, [`MAX_FOLLOWED_DISKS`] at
    /// most; none where /sys/block cannot be read.
    pub fn open(source: &Source) -> Self {
        let names = block::names(source).unwrap_or_default();
        let disk = |name| DiskTick { name, ..DiskTick::default() };
        Self {
            kind: source.kind(),
            diskstats: OpenFile::open(source, "/proc/diskstats"),
            buffer: Vec::new(),
            disks: names.into_iter().take(MAX_FOLLOWED_DISKS).map(disk).collect(),
        }
    }

    /// The devices that are followed, as of the last sample.
    pub fn disks(&self) -> &[DiskTick] {
        &self.disks
    }

    /// Fills `ticks`, which has an entry for each device after the first sample. Later samples
    /// allocate nothing.
    pub fn sample(&mut self, ticks: &mut Vec<DiskTick>) {
        if ticks.len() != self.disks.len() {
            ticks.clone_from(&self.disks);
        }
        let mut reading = Reading::Value(());
        self.diskstats.refresh(self.kind, &mut self.buffer, &mut reading, |(), text| {
            diskstats::each(text, |disk| {
                if let Some(tick) = ticks.iter_mut().find(|tick| tick.name == disk.name) {
                    tick.read_bytes = disk.sectors_read.saturating_mul(SECTOR_BYTES);
                    tick.written_bytes = disk.sectors_written.saturating_mul(SECTOR_BYTES);
                    tick.busy_ms = disk.io_ms;
                    tick.in_flight = disk.in_flight;
                }
            })
        });
    }
}
