//! The fast counters: descriptors are opened once and read again with pread; after the first
//! sample nothing is allocated.

use crate::source::{Source, malformed, read_all};
use mw_model::{Look, Missing, NodeSample, OriginKind, Sample};
use mw_proc::error::ParseError;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Takes samples of one source.
#[derive(Debug)]
pub struct Sampler {
    kind: OriginKind,
    started: Instant,
    buffer: Vec<u8>,
    meminfo: Held,
    vmstat: Held,
    zoneinfo: Held,
    buddyinfo: Held,
    pressure_cpu: Held,
    pressure_memory: Held,
    pressure_io: Held,
    nodes: Vec<(u32, Held)>,
}

/// A kernel file that stays open, or why it could not be opened.
#[derive(Debug)]
pub(crate) struct Held {
    path: String,
    file: Result<OwnedFd, Missing>,
}

impl Held {
    pub(crate) fn open(source: &Source, path: impl Into<String>) -> Self {
        let path = path.into();
        let file = source.open(&path);
        Self { path, file }
    }

    /// Reads the file into `buffer` and lets `parse` fill `look` in place.
    pub(crate) fn refresh<T: Default>(
        &self,
        kind: OriginKind,
        buffer: &mut Vec<u8>,
        look: &mut Look<T>,
        parse: impl FnOnce(&mut T, &[u8]) -> Result<(), ParseError>,
    ) {
        let outcome = match &self.file {
            Ok(file) => read_all(file, buffer).map_err(|error| error.at(&self.path, kind)),
            Err(missing) if look.missing() == Some(missing) => return,
            Err(missing) => Err(missing.clone()),
        };
        if let Err(missing) = outcome {
            *look = Look::Missing(missing);
            return;
        }
        if look.seen().is_none() {
            *look = Look::Seen(T::default());
        }
        if let Look::Seen(value) = look
            && let Err(error) = parse(value, buffer)
        {
            *look = Look::Missing(malformed(&self.path, &error, kind));
        }
    }
}

impl Sampler {
    /// Opens the files of the fast counters.
    pub fn open(source: &Source, nodes: &[u32]) -> Self {
        let held = |path: &str| Held::open(source, path);
        let node = |id: &u32| {
            (*id, Held::open(source, format!("/sys/devices/system/node/node{id}/meminfo")))
        };
        Self {
            kind: source.kind(),
            started: Instant::now(),
            buffer: Vec::new(),
            meminfo: held("/proc/meminfo"),
            vmstat: held("/proc/vmstat"),
            zoneinfo: held("/proc/zoneinfo"),
            buddyinfo: held("/proc/buddyinfo"),
            pressure_cpu: held("/proc/pressure/cpu"),
            pressure_memory: held("/proc/pressure/memory"),
            pressure_io: held("/proc/pressure/io"),
            nodes: nodes.iter().map(node).collect(),
        }
    }

    /// How long ago a sample of this sampler was taken.
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
        for ((id, held), node) in self.nodes.iter().zip(&mut sample.nodes) {
            node.node = *id;
            held.refresh(kind, buffer, &mut node.meminfo, set);
        }
    }

    /// Takes only what can be read ten times a second for next to nothing: vmstat, buddyinfo and
    /// pressure. The rest of `sample` stays as it was.
    pub fn sample_fast(&mut self, sample: &mut Sample) {
        let (kind, buffer) = (self.kind, &mut self.buffer);
        sample.at_ms = self.started.elapsed().as_secs_f64() * 1000.0;
        self.vmstat.refresh(kind, buffer, &mut sample.vmstat, |v, b| v.parse_into(b));
        self.buddyinfo.refresh(kind, buffer, &mut sample.buddyinfo, |v, b| v.parse_into(b));
        for (held, look) in [
            (&self.pressure_cpu, &mut sample.pressure.cpu),
            (&self.pressure_memory, &mut sample.pressure.memory),
            (&self.pressure_io, &mut sample.pressure.io),
        ] {
            held.refresh(kind, buffer, look, |value, bytes| {
                *value = mw_proc::pressure::Pressure::parse(bytes)?;
                Ok(())
            });
        }
    }
}
