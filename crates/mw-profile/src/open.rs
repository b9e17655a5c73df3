//! Opening events on every CPU, and saying what may not be opened.

use crate::points::{Decoder, FLOOD, PointSpec, WAITS};
use crate::tracefs::Tracefs;
use crate::user_namespace;
use mw_model::Missing;
use mw_sys::{PerfAttr, PerfEvent, PerfRing, PerfSource, SamplePeriod};
use std::collections::HashMap;
use std::io;

const ONLINE: &str = "/sys/devices/system/cpu/online";
/// Frames of a stack; deeper ones lose their outermost.
const STACK_FRAMES: u16 = 48;
/// Memory of all rings together, two a CPU.
const RINGS_BYTES: usize = 6 << 20;
const MAX_STACK_RING_BYTES: usize = 128 << 10;
const MAX_POINT_RING_BYTES: usize = 64 << 10;
const MIN_RING_BYTES: usize = 8 << 10;
/// Descriptors that the rest of the process may want besides ours.
const SPARE_DESCRIPTORS: u64 = 256;

/// Source of a record.
#[derive(Debug, Clone)]
pub(crate) enum EventOrigin {
    /// The low rate that is always on.
    Baseline,
    /// The high rate of a stall.
    Stall,
    Point(Decoder),
    MajorFault,
}

/// Events that could be opened, all disabled.
#[derive(Debug, Default)]
pub(crate) struct EventSet {
    pub(crate) cpus: u32,
    pub(crate) baseline: Vec<PerfEvent>,
    pub(crate) stall: Vec<PerfEvent>,
    /// Major faults, and tasks' new names; each owns the ring that its CPU's tracepoints record into.
    pub(crate) faults: Vec<PerfEvent>,
    pub(crate) waits: Vec<PerfEvent>,
    pub(crate) flood: Vec<PerfEvent>,
}

/// Position of the records, and their meaning.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    pub(crate) stacks: Vec<PerfRing>,
    pub(crate) points: Vec<PerfRing>,
    /// By the id of the event.
    pub(crate) origins: HashMap<u64, EventOrigin>,
}

/// List of [`EventSet`] that an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Faults,
    Waits,
    Flood,
}

impl EventSet {
    fn list(&mut self, list: List) -> &mut Vec<PerfEvent> {
        match list {
            List::Faults => &mut self.faults,
            List::Waits => &mut self.waits,
            List::Flood => &mut self.flood,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    pub(crate) baseline_hz: u32,
    pub(crate) stall_hz: u32,
    pub(crate) flood_period: u64,
}

/// Opens what may be opened.
pub(crate) fn open(rates: Rates, missing: &mut Vec<Missing>) -> (EventSet, Rings) {
    let (mut opened, mut rings) = (EventSet::default(), Rings::default());
    let cpus = cpus().unwrap_or_else(|why| {
        missing.push(why);
        Vec::new()
    });
    raise_descriptors(cpus.len(), WAITS.len() + 4);
    let stacks = open_stacks(&mut opened, &mut rings, &cpus, rates);
    let points = open_points(
        &mut opened,
        &mut rings,
        &cpus,
        wanted(rates, WAITS.iter().chain([&FLOOD]), missing),
    );
    missing.extend([stacks, points].into_iter().filter_map(Result::err));
    (opened, rings)
}

/// Opens only the tracepoints of waits for the machine's memory, and that of the page cache: a cgroup at its own limit
/// would fill the rings with others.
///
/// # Errors
/// One of them may not be opened.
pub(crate) fn open_waits(rates: Rates) -> Result<(EventSet, Rings), Missing> {
    let (mut opened, mut rings) = (EventSet::default(), Rings::default());
    let (cpus, mut missing) = (cpus()?, Vec::new());
    raise_descriptors(cpus.len(), WAITS.len() + 2);
    let points = WAITS.iter().filter(|point| point.is_of_machine()).chain([&FLOOD]);
    let wanted = wanted(rates, points, &mut missing);
    // A kernel without one of the tracepoints has the others.
    let has_points = wanted.iter().any(|wanted| wanted.list == List::Waits);
    if let Some(missing) = missing.pop().filter(|_| !has_points) {
        return Err(missing);
    }
    open_points(&mut opened, &mut rings, &cpus, wanted)?;
    Ok((opened, rings))
}

pub(crate) fn cpus() -> Result<Vec<u32>, Missing> {
    let text =
        mw_sys::kernel_file::read(ONLINE).map_err(|e| Missing::failed(ONLINE, e.to_string()))?;
    mw_proc::cpulist::parse(&text).map_err(|e| Missing::failed(ONLINE, e.to_string()))
}

/// One descriptor an event and CPU can be more than the soft limit of 1,024.
pub(crate) fn raise_descriptors(cpus: usize, events: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = u64::try_from(cpus * events).unwrap_or(u64::MAX).saturating_add(SPARE_DESCRIPTORS);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let current = limit.maximum.map_or(needed, |maximum| needed.min(maximum));
        // What stays impossible is said where it is opened.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
    }
}

/// A power of two, at most `most`, so that all CPUs' rings stay within a share of the
/// memory.
pub(crate) fn ring_bytes(cpus: usize, share_bytes: usize, most: usize) -> usize {
    let each = (share_bytes / cpus.max(1)).clamp(MIN_RING_BYTES, most);
    1 << each.ilog2()
}

fn open_stacks(
    opened: &mut EventSet,
    rings: &mut Rings,
    cpus: &[u32],
    rates: Rates,
) -> Result<(), Missing> {
    let bytes = ring_bytes(cpus.len(), RINGS_BYTES / 3 * 2, MAX_STACK_RING_BYTES);
    let clock = |hz| PerfAttr {
        source: PerfSource::CpuClock,
        period: SamplePeriod::Hz(hz),
        stack_frames: Some(STACK_FRAMES),
        user_stack: None,
        fields: false,
        user_mode: false,
        names: false,
        scheduling: false,
        mappings: false,
        wake_bytes: wake_bytes(bytes),
    };
    let refused = |error: io::Error| refused("kernel stacks", &error);
    for cpu in cpus {
        let baseline = PerfEvent::open(&clock(rates.baseline_hz), *cpu).map_err(refused)?;
        let ring = PerfRing::map(&baseline, bytes).map_err(refused)?;
        let stall = PerfEvent::open(&clock(rates.stall_hz), *cpu).map_err(refused)?;
        stall.record_into(&baseline).map_err(refused)?;
        rings.origins.insert(baseline.id(), EventOrigin::Baseline);
        rings.origins.insert(stall.id(), EventOrigin::Stall);
        opened.baseline.push(baseline);
        opened.stall.push(stall);
        rings.stacks.push(ring);
        opened.cpus += 1;
    }
    Ok(())
}

/// Readers are woken when a ring is half full.
pub(crate) fn wake_bytes(ring_bytes: usize) -> u32 {
    u32::try_from(ring_bytes / 2).unwrap_or(u32::MAX)
}

/// An event to open on every CPU.
struct EventSpec {
    source: PerfSource,
    period: u64,
    origin: EventOrigin,
    list: List,
}

fn open_points(
    opened: &mut EventSet,
    rings: &mut Rings,
    cpus: &[u32],
    wanted: Vec<EventSpec>,
) -> Result<(), Missing> {
    let bytes = ring_bytes(cpus.len(), RINGS_BYTES / 3, MAX_POINT_RING_BYTES);
    for cpu in cpus {
        for wanted in &wanted {
            let attr = PerfAttr {
                source: wanted.source,
                period: SamplePeriod::Occurrences(wanted.period),
                stack_frames: None,
                user_stack: None,
                fields: matches!(wanted.source, PerfSource::Tracepoint(_)),
                user_mode: false,
                names: wanted.list == List::Faults,
                scheduling: false,
                mappings: false,
                wake_bytes: wake_bytes(bytes),
            };
            let owner = opened.faults.last().filter(|_| wanted.list != List::Faults);
            let (event, ring) = open_into(&attr, *cpu, owner, bytes)
                .map_err(|error| refused("waits and page cache", &error))?;
            rings.origins.insert(event.id(), wanted.origin.clone());
            rings.points.extend(ring);
            opened.list(wanted.list).push(event);
        }
    }
    Ok(())
}

/// Opens an event that records into the ring of `owner`, or into one of its own where there is
/// none yet.
fn open_into(
    attr: &PerfAttr,
    cpu: u32,
    owner: Option<&PerfEvent>,
    bytes: usize,
) -> io::Result<(PerfEvent, Option<PerfRing>)> {
    let event = PerfEvent::open(attr, cpu)?;
    match owner {
        Some(owner) => event.record_into(owner).map(|()| (event, None)),
        None => PerfRing::map(&event, bytes).map(|ring| (event, Some(ring))),
    }
}

/// Major faults, and the tracepoints that this kernel has.
fn wanted(
    rates: Rates,
    points: impl Iterator<Item = &'static PointSpec>,
    missing: &mut Vec<Missing>,
) -> Vec<EventSpec> {
    let mut wanted = vec![EventSpec {
        source: PerfSource::MajorFaults,
        period: 1,
        origin: EventOrigin::MajorFault,
        list: List::Faults,
    }];
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(why) => {
            missing.push(why);
            return wanted;
        }
    };
    for point in points {
        let (list, period) = match point.path == FLOOD.path {
            true => (List::Flood, rates.flood_period.max(1)),
            false => (List::Waits, 1),
        };
        match tracefs.format(point.path) {
            Ok(format) => wanted.push(EventSpec {
                source: PerfSource::Tracepoint(format.id),
                period,
                origin: EventOrigin::Point(Decoder::new(point, &format)),
                list,
            }),
            Err(why) => missing.push(why),
        }
    }
    wanted
}

/// Requirement of an event that the kernel refused.
pub(crate) fn refused(what: &str, error: &io::Error) -> Missing {
    let what = format!("perf_event_open ({what})");
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            user_namespace::refusal(&what, error).unwrap_or_else(|| {
                let needs = "needs root or CAP_PERFMON, or kernel.perf_event_paranoid = -1";
                Missing::skipped(what, format!("{error}: {needs}"))
            })
        }
        io::ErrorKind::Unsupported => Missing::absent(what, "this kernel was built without it"),
        _ if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            Missing::failed(
                what,
                format!("{error}: needs a higher limit (ulimit -n, LimitNOFILE=)"),
            )
        }
        _ => Missing::failed(what, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_share_the_memory() {
        for cpus in [1, 2, 48, 64, 500] {
            let stack = ring_bytes(cpus, RINGS_BYTES / 3 * 2, MAX_STACK_RING_BYTES);
            let point = ring_bytes(cpus, RINGS_BYTES / 3, MAX_POINT_RING_BYTES);
            assert!(stack.is_power_of_two() && point.is_power_of_two());
            assert!((MIN_RING_BYTES..=MAX_STACK_RING_BYTES).contains(&stack));
            assert!(cpus > 256 || cpus * (stack + point) <= RINGS_BYTES, "{cpus} processors");
        }
        assert_eq!(ring_bytes(2, RINGS_BYTES, MAX_STACK_RING_BYTES), MAX_STACK_RING_BYTES);
    }

    #[test]
    fn refusals_say_what_would_help() {
        let denied = refused("x", &io::Error::from_raw_os_error(13));
        assert!(denied.why.contains("CAP_PERFMON"), "{denied}");
        let many = refused("x", &rustix::io::Errno::MFILE.into());
        assert!(many.why.contains("LimitNOFILE"), "{many}");
    }
}
