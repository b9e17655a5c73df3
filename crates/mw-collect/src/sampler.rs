//! The fast counters: descriptors are opened once and read again with pread; after the first
//! sample nothing is allocated.

use crate::source::{Source, malformed, read_all};
use mw_model::{Missing, NodeSample, OriginKind, Reading, Sample};
use mw_proc::error::ParseError;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Takes samples of one source.
#[derive(Debug)]
pub struct Sampler {
    kind: OriginKind,
    started: Instant,
    buffer: Vec<u8>,
    meminfo: OpenFile,
    vmstat: OpenFile,
    zoneinfo: OpenFile,
    buddyinfo: OpenFile,
    pressure_cpu: OpenFile,
    pressure_memory: OpenFile,
    pressure_io: OpenFile,
    nodes: Vec<(u32, OpenFile)>,
}

/// A kernel file that stays open, or why it could not be opened.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: String,
    file: Result<OwnedFd, Missing>,
}

impl OpenFile {
    pub(crate) fn open(source: &Source, path: impl Into<String>) -> Self {
        let path = path.into();
        let file = source.open(&path);
        Self { path, file }
    }

    /// Reads the file into `buffer` and lets `parse` fill `reading` in place.
    pub(crate) fn refresh<T: Default>(
        &self,
        kind: OriginKind,
        buffer: &mut Vec<u8>,
        reading: &mut Reading<T>,
        parse: impl FnOnce(&mut T, &[u8]) -> Result<(), ParseError>,
    ) {
        let outcome = match &self.file {
            Ok(file) => read_all(file, buffer).map_err(|error| error.at(&self.path, kind)),
            Err(missing) if reading.missing() == Some(missing) => return,
            Err(missing) => Err(missing.clone()),
        };
        if let Err(missing) = outcome {
            *reading = Reading::Missing(missing);
            return;
        }
        if reading.value().is_none() {
            *reading = Reading::Value(T::default());
        }
        if let Reading::Value(value) = reading
            && let Err(error) = parse(value, buffer)
        {
            *reading = Reading::Missing(malformed(&self.path, &error, kind));
        }
    }
}

impl Sampler {
    /// Opens the files of the fast counters.
    pub fn open(source: &Source, nodes: &[u32]) -> Self {
        let open_file = |path: &str| OpenFile::open(source, path);
        let node = |id: &u32| {
            (*id, OpenFile::open(source, format!("/sys/devices/system/node/node{id}/meminfo")))
        };
        Self {
            kind: source.kind(),
            started: Instant::now(),
            buffer: Vec::new(),
            meminfo: open_file("/proc/meminfo"),
            vmstat: open_file("/proc/vmstat"),
            zoneinfo: open_file("/proc/zoneinfo"),
            buddyinfo: open_file("/proc/buddyinfo"),
            pressure_cpu: open_file("/proc/pressure/cpu"),
            pressure_memory: open_file("/proc/pressure/memory"),
            pressure_io: open_file("/proc/pressure/io"),
            nodes: nodes.iter().map(node).collect(),
        }
    }

    /// Age of the last sample of this sampler.
    pub fn since(&self, sample: &Sample) -> Duration {
        self.started.elapsed().saturating_sub(Duration::from_secs_f64(sample.at_ms / 1000.0))
    }

    /// Takes a sample into `sample`, whose buffers are used again.
    pub fn sample(&mut self, sample: &mut Sample) {
        self.sample_fast(sample);
        let (kind, buffer) = (self.kind, &mut self.buffer);
        let set = |value: &mut _, bytes: &[u8]| {
            *value = mw_proc::meminfo::Meminfo::parse(bytes)?;
            Ok(())
        };
        self.meminfo.refresh(kind, buffer, &mut sample.meminfo, set);
        self.zoneinfo.refresh(kind, buffer, &mut sample.zoneinfo, |v, b| v.parse_into(b));
        sample.nodes.resize_with(self.nodes.len(), NodeSample::default);
        for ((id, open_file), node) in self.nodes.iter().zip(&mut sample.nodes) {
            node.node = *id;
            open_file.refresh(kind, buffer, &mut node.meminfo, set);
        }
    }

    /// Takes only what can be read ten times a second for next to nothing: vmstat, buddyinfo and
    /// pressure. The rest of `sample` stays as it was.
    pub fn sample_fast(&mut self, sample: &mut Sample) {
        let (kind, buffer) = (self.kind, &mut self.buffer);
        sample.at_ms = self.started.elapsed().as_secs_f64() * 1000.0;
        self.vmstat.refresh(kind, buffer, &mut sample.vmstat, |v, b| v.parse_into(b));
        self.buddyinfo.refresh(kind, buffer, &mut sample.buddyinfo, |v, b| v.parse_into(b));
        for (open_file, reading) in [
            (&self.pressure_cpu, &mut sample.pressure.cpu),
            (&self.pressure_memory, &mut sample.pressure.memory),
            (&self.pressure_io, &mut sample.pressure.io),
        ] {
            open_file.refresh(kind, buffer, reading, |value, bytes| {
                *value = mw_proc::pressure::Pressure::parse(bytes)?;
                Ok(())
            });
        }
    }
}
