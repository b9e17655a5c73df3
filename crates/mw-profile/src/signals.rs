//! Signals that end processes, as the kernel sends them: `signal:signal_generate` and `oom:mark_victim`.
//!
//! The filter lies in the kernel: SIGKILL that was delivered, of all processes; SIGTERM and SIGABRT only of those that are
//! watched. A signal to a process that is ending already is not delivered, so that nobody makes more records than he has
//! processes killed. `code` is `SI_KERNEL` where the kernel sends for itself (include/trace/events/signal.h,
//! `TP_STORE_SIGINFO`), and the current task of the record is the sender.

use crate::open::{cpus, raise_descriptors, refused, wake_bytes};
use crate::records::{PerfRecord, PerfSample, records};
use crate::tracefs::Tracefs;
use crate::tracepoint::{Field, TracepointFormat};
use mw_model::{FatalSignal, Missing};
use mw_sys::{PerfAttr, PerfEvent, PerfRing, PerfSource, PidNamespace, SamplePeriod};
use std::collections::HashMap;
use std::ffi::CString;
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Records of a CPU that wait to be read: some ninety.
const RING_BYTES: usize = 8 << 10;

/// SIGKILL and the marks of victims; SIGTERM and SIGABRT; names.
const EVENTS_OF_CPU: usize = 4;

/// Names of tasks that are kept.
const MAX_NAMES: usize = 4_096;

/// `SI_KERNEL` of sigaction(2).
const SI_KERNEL: i64 = 0x80;

/// Processes whose SIGTERM and SIGABRT are recorded.
const MAX_WATCHED: usize = 64;

const SIGNAL: &str = "signal/signal_generate";
const MARK: &str = "oom/mark_victim";
const KILLS: &std::ffi::CStr = c"sig==9 && result==0";

/// Records signals from when it was opened.
#[derive(Debug)]
pub struct SignalTracer {
    cpus: Vec<u32>,
    /// One for each CPU, each the owner of its ring.
    kills: Vec<PerfEvent>,
    marks: Vec<PerfEvent>,
    watched: Vec<PerfEvent>,
    rings: Vec<PerfRing>,
    /// New names of tasks, one event and ring for each CPU: kill(1) ends before its name can be read elsewhere.
    naming: Vec<PerfEvent>,
    naming_rings: Vec<PerfRing>,
    names: HashMap<u32, String>,
    decoder: SignalDecoder,
    is_mark: HashMap<u64, bool>,
    signal_id: u64,
    crossing: Vec<u8>,
}

/// Records since they were last taken, the earliest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignalEvents {
    pub signals: Vec<SentRecord>,
    /// Victims of the OOM killer: the thread, and the task in whose context it was chosen.
    pub victims: Vec<(u32, u32)>,
    /// Records that found no room.
    pub lost: u64,
}

/// A signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRecord {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    pub signal: FatalSignal,
    pub is_of_kernel: bool,
    /// A thread of the process.
    pub target: u32,
    /// Name of that thread.
    pub name: String,
    /// The thread that sent it, or in whose context it was sent.
    pub sender: u32,
    /// Name that the sender has taken since the tracer was opened.
    pub sender_name: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct SignalDecoder {
    signal: Field,
    code: Field,
    name: Field,
    target: Field,
    current: Field,
    marked: Option<(Field, Field)>,
}

impl SignalDecoder {
    fn new(signal: &TracepointFormat, mark: Option<&TracepointFormat>) -> Option<Self> {
        Some(Self {
            signal: signal.field("sig")?,
            code: signal.field("code")?,
            name: signal.field("comm")?,
            target: signal.field("pid")?,
            current: signal.field("common_pid")?,
            marked: mark.and_then(|mark| Some((mark.field("pid")?, mark.field("common_pid")?))),
        })
    }

    fn signal(&self, sample: &PerfSample<'_>) -> Option<SentRecord> {
        let record = sample.fields();
        let task = |field: Field| u32::try_from(field.read(record)?).ok();
        Some(SentRecord {
            time_ns: sample.time_ns,
            signal: FatalSignal::from_number(self.signal.read(record)?)?,
            is_of_kernel: self.code.read(record)? == SI_KERNEL,
            target: task(self.target)?,
            name: String::from_utf8_lossy(self.name.text(record)).into_owned(),
            sender: task(self.current)?,
            sender_name: None,
        })
    }

    fn victim(&self, sample: &PerfSample<'_>) -> Option<(u32, u32)> {
        let (pid, current) = self.marked?;
        let task = |field: Field| u32::try_from(field.read(sample.fields())?).ok();
        Some((task(pid)?, task(current)?))
    }
}

impl SignalTracer {
    /// Opens and enables the events.
    ///
    /// # Errors
    /// What this machine or the caller lacks, and what would make it work.
    pub fn open() -> Result<Self, Missing> {
        if PidNamespace::of_this_process().ok() != Some(PidNamespace::Initial) {
            let why = "the kernel numbers processes as the initial PID namespace does: run it on the host";
            return Err(Missing::skipped("who sends signals", why));
        }
        let tracefs = Tracefs::open()?;
        let format = tracefs.format(SIGNAL)?;
        // Without it the kernel's log tells of the OOM killer.
        let mark = tracefs.format(MARK).ok();
        let decoder = SignalDecoder::new(&format, mark.as_ref())
            .ok_or_else(|| Missing::absent(SIGNAL, "its fields are not known"))?;
        let cpus = cpus()?;
        raise_descriptors(cpus.len(), EVENTS_OF_CPU);
        let mut tracer = Self {
            kills: Vec::new(),
            marks: Vec::new(),
            watched: Vec::new(),
            rings: Vec::new(),
            naming: Vec::new(),
            naming_rings: Vec::new(),
            names: HashMap::new(),
            decoder,
            is_mark: HashMap::new(),
            signal_id: format.id,
            crossing: Vec::new(),
            cpus,
        };
        let opened = tracer.open_kills(mark.as_ref());
        opened.map_err(|error| refused("signals", &error)).map(|()| tracer)
    }

    fn open_kills(&mut self, mark: Option<&TracepointFormat>) -> io::Result<()> {
        for cpu in &self.cpus {
            let kill = PerfEvent::open(&point(self.signal_id), *cpu)?;
            kill.set_filter(KILLS)?;
            self.rings.push(PerfRing::map(&kill, ring_bytes())?);
            self.is_mark.insert(kill.id(), false);
            if let Some(mark) = mark {
                let mark = PerfEvent::open(&point(mark.id), *cpu)?;
                mark.record_into(&kill)?;
                self.is_mark.insert(mark.id(), true);
                mark.enable()?;
                self.marks.push(mark);
            }
            kill.enable()?;
            self.kills.push(kill);
            let naming = PerfEvent::open(&naming(), *cpu)?;
            self.naming_rings.push(PerfRing::map(&naming, ring_bytes())?);
            naming.enable()?;
            self.naming.push(naming);
        }
        Ok(())
    }

    /// Records SIGTERM and SIGABRT of these processes as well, and no longer of others.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn watch(&mut self, processes: &[u32]) -> io::Result<()> {
        // A filter cannot be replaced.
        for event in self.watched.drain(..) {
            self.is_mark.remove(&event.id());
        }
        let Some(filter) = watch_filter(processes) else { return Ok(()) };
        for (cpu, owner) in self.cpus.iter().zip(&self.kills) {
            let event = PerfEvent::open(&point(self.signal_id), *cpu)?;
            event.set_filter(&filter)?;
            event.record_into(owner)?;
            event.enable()?;
            self.is_mark.insert(event.id(), false);
            self.watched.push(event);
        }
        Ok(())
    }

    /// Descriptors that are readable when there is a record.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.kills.iter().chain(&self.naming).map(AsFd::as_fd)
    }

    /// Records since the last call.
    pub fn take(&mut self) -> SignalEvents {
        let mut events = SignalEvents::default();
        let Self { rings, crossing, decoder, is_mark, .. } = self;
        for ring in rings {
            ring.for_each(crossing, |bytes| {
                for record in records(bytes) {
                    match record {
                        PerfRecord::Sample(sample) => match is_mark.get(&sample.event) {
                            Some(true) => events.victims.extend(decoder.victim(&sample)),
                            Some(false) => events.signals.extend(decoder.signal(&sample)),
                            None => {}
                        },
                        PerfRecord::Lost { records, .. } => {
                            events.lost = events.lost.saturating_add(records);
                        }
                        _ => {}
                    }
                }
            });
        }
        events.signals.sort_by_key(|signal| signal.time_ns);
        // A name is taken before the signal is sent.
        self.learn_names();
        for signal in &mut events.signals {
            signal.sender_name = self.names.get(&signal.sender).cloned();
        }
        events
    }

    fn learn_names(&mut self) {
        let Self { naming_rings, names, crossing, .. } = self;
        for ring in naming_rings {
            ring.for_each(crossing, |bytes| {
                for record in records(bytes) {
                    let PerfRecord::Name { tid, name, .. } = record else { continue };
                    if names.len() >= MAX_NAMES {
                        names.clear();
                    }
                    names.insert(tid, String::from_utf8_lossy(name).into_owned());
                }
            });
        }
    }
}

fn point(id: u64) -> PerfAttr {
    PerfAttr {
        source: PerfSource::Tracepoint(id),
        period: SamplePeriod::Occurrences(1),
        stack_frames: None,
        user_stack: None,
        fields: true,
        user_mode: false,
        names: false,
        scheduling: false,
        mappings: false,
        // The sender may end at once.
        wake_bytes: 1,
    }
}

/// Names alone: no occurrence is recorded.
fn naming() -> PerfAttr {
    PerfAttr {
        source: PerfSource::MajorFaults,
        period: SamplePeriod::Occurrences(1 << 60),
        names: true,
        fields: false,
        wake_bytes: wake_bytes(ring_bytes()),
        ..point(0)
    }
}

fn ring_bytes() -> usize {
    RING_BYTES.max(rustix::param::page_size())
}

fn watch_filter(processes: &[u32]) -> Option<CString> {
    let mut ids = String::new();
    for pid in processes.iter().filter(|pid| **pid > 0).take(MAX_WATCHED) {
        let or = if ids.is_empty() { "" } else { " || " };
        let _ = write!(ids, "{or}pid=={pid}");
    }
    if ids.is_empty() {
        return None;
    }
    CString::new(format!("(sig==15 || sig==6) && result==0 && ({ids})")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    #[test]
    fn a_filter_names_the_watched_processes() {
        let filter = watch_filter(&[0, 7, 9]).unwrap();
        assert_eq!(filter.to_str(), Ok("(sig==15 || sig==6) && result==0 && (pid==7 || pid==9)"));
        assert_eq!(watch_filter(&[0]), None);
    }

    fn sleep() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    /// Records until there is one of this target.
    fn wait_for(tracer: &mut SignalTracer, target: u32) -> Vec<SentRecord> {
        let mut found = Vec::new();
        for _ in 0..100 {
            found.extend(tracer.take().signals);
            if found.iter().any(|signal| signal.target == target) {
                break;
            }
            let mut fds: Vec<PollFd<'_>> = tracer
                .descriptors()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
        }
        found.retain(|signal| signal.target == target);
        found
    }

    #[test]
    fn signals_have_their_sender() {
        let mut tracer = match SignalTracer::open() {
            Ok(tracer) => tracer,
            Err(missing) => return mw_test::skip(missing.to_string()),
        };
        let mut killed = sleep();
        killed.kill().unwrap();
        let records = wait_for(&mut tracer, killed.id());
        let [record] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!((record.signal, record.is_of_kernel), (FatalSignal::Kill, false));
        let status = std::fs::read_to_string(format!("/proc/{}/status", record.sender)).unwrap();
        assert!(status.contains(&format!("Tgid:\t{}\n", std::process::id())), "{status}");
        killed.wait().unwrap();
        // SIGTERM only of those that are watched.
        let (mut other, mut watched) = (sleep(), sleep());
        tracer.watch(&[watched.id()]).unwrap();
        for child in [&mut other, &mut watched] {
            let pid = rustix::process::Pid::from_child(child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        }
        assert_eq!(wait_for(&mut tracer, watched.id()).len(), 1);
        assert_eq!(tracer.take().signals.iter().filter(|of| of.target == other.id()).count(), 0);
        for child in [&mut other, &mut watched] {
            assert_eq!(child.wait().unwrap().signal(), Some(15));
        }
    }

    /// The kernel kills a process that used as much CPU time as it may.
    #[test]
    fn a_signal_of_the_kernel_is_told_apart() {
        let mut tracer = match SignalTracer::open() {
            Ok(tracer) => tracer,
            Err(missing) => return mw_test::skip(missing.to_string()),
        };
        let line = "ulimit -t 1; exec sh -c 'while :; do :; done'";
        let mut child = Command::new("sh").args(["-c", line]).spawn().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let records = wait_for(&mut tracer, child.id());
        let [record] = records.as_slice() else { panic!("{records:?}") };
        assert!(record.is_of_kernel && record.sender == child.id(), "{record:?}");
    }
}
