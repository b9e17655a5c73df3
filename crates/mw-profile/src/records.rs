//! Records as the kernel leaves them in a ring (perf_event_open(2), "MMAP layout"), taken apart
//! without trust: whatever the bytes, nothing panics and the walk ends.

use mw_sys::{RECORDED_REGISTERS, RecordedRegister};

const LOST: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const SWITCH_CPU_WIDE: u32 = 15;
const MMAP2: u32 = 10;
/// The task leaves the CPU (`PERF_RECORD_MISC_SWITCH_OUT`).
const SWITCH_OUT: u16 = 1 << 13;
/// execve(2) set the name (`PERF_RECORD_MISC_COMM_EXEC`).
const COMM_EXEC: u16 = 1 << 13;
/// The record names the file by a build id instead of a device and inode (`PERF_RECORD_MISC_MMAP_BUILD_ID`).
const MMAP_BUILD_ID: u16 = 1 << 14;
/// Task, time and event's id, at the end of what is no sample (`sample_id_all`).
const TRAILER_BYTES: usize = 24;
const HEADER_BYTES: usize = 8;
/// Values from here on mark where a stack changes between user, kernel and guest
/// (`PERF_CONTEXT_MAX`); they are no addresses.
const CONTEXT_MARKS: u64 = -4095_i64 as u64;
/// The user stack follows (`PERF_CONTEXT_USER`).
const CONTEXT_USER: u64 = -512_i64 as u64;
/// The task has no user mode (`PERF_SAMPLE_REGS_ABI_NONE`).
const ABI_NONE: u64 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PerfRecord<'a> {
    Sample(PerfSample<'a>),
    /// So many records found no room.
    Lost {
        records: u64,
        time_ns: Option<u64>,
    },
    /// A thread has another name.
    Name {
        tid: u32,
        name: &'a [u8],
        /// It is that of a program that execve(2) has started.
        is_exec: bool,
    },
    /// A process has mapped a file to execute it.
    Mapping(ExecutableMapping<'a>),
    /// A thread enters the CPU.
    SwitchIn {
        pid: u32,
        tid: u32,
        time_ns: u64,
    },
    /// A thread was created; it is the first of its process where `pid` and `tid` are the same.
    Fork {
        pid: u32,
        tid: u32,
        parent_tid: u32,
        time_ns: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExecutableMapping<'a> {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) file_offset: u64,
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) path: &'a [u8],
}

/// State of user mode in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserState<'a> {
    registers: &'a [u8],
    /// The stack from the stack pointer on.
    pub(crate) copy: &'a [u8],
}

impl UserState<'_> {
    /// Value of a register.
    pub(crate) fn register(&self, register: RecordedRegister) -> Option<u64> {
        let at = RECORDED_REGISTERS.iter().position(|recorded| *recorded == register)?;
        number(self.registers, at.checked_mul(8)?)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PerfSample<'a> {
    pub(crate) event: u64,
    /// The process, 0 on an idle CPU.
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    body: &'a [u8],
}

impl<'a> PerfSample<'a> {
    /// The addresses of its kernel stack, innermost first.
    pub(crate) fn stack(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.entries().take_while(|entry| *entry != CONTEXT_USER).filter(is_address)
    }

    /// The addresses of its user stack by frame pointers, innermost first.
    pub(crate) fn user_stack(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.entries().skip_while(|entry| *entry != CONTEXT_USER).filter(is_address)
    }

    /// The addresses and marks of its stacks.
    fn entries(&self) -> impl Iterator<Item = u64> + use<'a> {
        let (count, entries) = self.body.split_at_checked(8).unwrap_or_default();
        let count = number(count, 0).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        entries.chunks_exact(8).take(count).filter_map(|entry| number(entry, 0))
    }

    /// The registers and the copy of the user stack, of a sample without fields; none of a task without user mode.
    pub(crate) fn user_state(&self) -> Option<UserState<'a>> {
        let rest = self.after_stack();
        if number(rest, 0)? == ABI_NONE {
            return None;
        }
        let (registers, rest) = rest.get(8..)?.split_at_checked(RECORDED_REGISTERS.len() * 8)?;
        Some(UserState { registers, copy: copied(rest).unwrap_or_default() })
    }

    /// The fields of its tracepoint, laid out as the tracepoint's format says.
    pub(crate) fn fields(&self) -> &'a [u8] {
        raw(self.body)
    }

    /// The fields of its tracepoint, where it has a stack as well.
    pub(crate) fn fields_after_stack(&self) -> &'a [u8] {
        raw(self.after_stack())
    }

    fn after_stack(&self) -> &'a [u8] {
        let entries = number(self.body, 0).and_then(|count| usize::try_from(count).ok());
        let stack_bytes = entries.and_then(|count| count.checked_add(1)?.checked_mul(8));
        stack_bytes.and_then(|bytes| self.body.get(bytes..)).unwrap_or_default()
    }
}

fn is_address(entry: &u64) -> bool {
    *entry < CONTEXT_MARKS
}

/// The part of the copy of a stack that could be read: size of the room, the room, bytes that were read.
fn copied(bytes: &[u8]) -> Option<&[u8]> {
    let room = usize::try_from(number(bytes, 0)?).ok()?;
    let end = room.checked_add(8)?;
    let read = usize::try_from(number(bytes, end)?).ok()?;
    bytes.get(8..end)?.get(..read.min(room))
}

/// Bytes that follow their own length.
fn raw(body: &[u8]) -> &[u8] {
    let (size, fields) = body.split_at_checked(4).unwrap_or_default();
    let size = size.try_into().map_or(0, u32::from_ne_bytes) as usize;
    fields.get(..size).unwrap_or(fields)
}

/// The records of `bytes`, up to the first that is cut.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = PerfRecord<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            let kind = u32::from_ne_bytes(rest.get(..4)?.try_into().ok()?);
            let misc = u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?);
            let size = usize::from(u16::from_ne_bytes(rest.get(6..8)?.try_into().ok()?));
            let body = rest.get(HEADER_BYTES..size)?;
            rest = rest.get(size..)?;
            if let Some(record) = record(kind, misc, body) {
                return Some(record);
            }
        }
    })
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Option<PerfRecord<'_>> {
    match kind {
        SWITCH_CPU_WIDE if misc & SWITCH_OUT == 0 => switch_in(body),
        FORK => fork(body),
        SAMPLE => sample(body).map(PerfRecord::Sample),
        COMM => name(misc, body),
        MMAP2 => mapping(misc, body),
        LOST => lost(number(body, 8)?, body),
        LOST_SAMPLES => lost(number(body, 0)?, body),
        _ => None,
    }
}

fn name(misc: u16, body: &[u8]) -> Option<PerfRecord<'_>> {
    let tid = u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?);
    let name = body.get(8..)?.split(|byte| *byte == 0).next()?;
    Some(PerfRecord::Name { tid, name, is_exec: misc & COMM_EXEC != 0 })
}

fn mapping(misc: u16, body: &[u8]) -> Option<PerfRecord<'_>> {
    let [pid, _] = halves(number(body, 0)?);
    let is_by_number = misc & MMAP_BUILD_ID == 0;
    let device = halves(number(body, 32)?);
    Some(PerfRecord::Mapping(ExecutableMapping {
        pid,
        start: number(body, 8)?,
        bytes: number(body, 16)?,
        file_offset: number(body, 24)?,
        device: if is_by_number { (device[0], device[1]) } else { (0, 0) },
        inode: if is_by_number { number(body, 40)? } else { 0 },
        path: body.get(64..)?.split(|byte| *byte == 0).next()?,
    }))
}

fn switch_in(body: &[u8]) -> Option<PerfRecord<'_>> {
    let trailer = trailer(body)?;
    let [pid, tid] = halves(number(trailer, 0)?);
    Some(PerfRecord::SwitchIn { pid, tid, time_ns: number(trailer, 8)? })
}

fn lost(records: u64, body: &[u8]) -> Option<PerfRecord<'_>> {
    let time_ns = trailer(body).and_then(|trailer| number(trailer, 8));
    Some(PerfRecord::Lost { records, time_ns })
}

fn trailer(body: &[u8]) -> Option<&[u8]> {
    body.get(body.len().checked_sub(TRAILER_BYTES)?..)
}

fn fork(body: &[u8]) -> Option<PerfRecord<'_>> {
    let ([pid, _], [tid, parent_tid]) = (halves(number(body, 0)?), halves(number(body, 8)?));
    Some(PerfRecord::Fork { pid, tid, parent_tid, time_ns: number(body, 16)? })
}

/// The two numbers of 32 bits that lie in these 8 bytes.
fn halves(number: u64) -> [u32; 2] {
    let bytes = number.to_ne_bytes();
    let half =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [half(0), half(4)]
}

fn sample(body: &[u8]) -> Option<PerfSample<'_>> {
    let [pid, tid] = halves(number(body, 8)?);
    Some(PerfSample {
        event: number(body, 0)?,
        pid,
        tid,
        time_ns: number(body, 16)?,
        body: body.get(24..)?,
    })
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEADER_BYTES + body.len()).unwrap();
        [&kind.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes(), body].concat()
    }

    fn numbers(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    const TASK: u64 = 41 | 42 << 32;

    #[test]
    fn a_sample_with_its_stack() {
        let marks = [-128_i64 as u64, 0xffff_ffff_8100_0010, 0xffff_ffff_8200_0020];
        let body = numbers(&[[7, TASK, 99, 3].as_slice(), &marks].concat());
        let ring = [
            bytes(16, &[0; 16]),
            bytes(SAMPLE, &body),
            bytes(LOST, &numbers(&[7, 5, TASK, 123, 7])),
        ];
        let ring = ring.concat();
        let found: Vec<_> = records(&ring).collect();
        let [PerfRecord::Sample(sample), PerfRecord::Lost { records: 5, time_ns: Some(123) }] =
            found[..]
        else {
            unreachable!("{found:?}");
        };
        assert_eq!((sample.event, sample.pid, sample.tid, sample.time_ns), (7, 41, 42, 99));
        assert_eq!(sample.stack().collect::<Vec<_>>(), marks[1..]);
    }

    #[test]
    fn a_sample_with_its_fields() {
        let mut body = numbers(&[7, TASK, 99]);
        body.extend([&4_u32.to_ne_bytes()[..], &[1, 2, 3, 4], &[0; 4]].concat());
        let ring = bytes(SAMPLE, &body);
        let Some(PerfRecord::Sample(sample)) = records(&ring).next() else { unreachable!() };
        assert_eq!(sample.fields(), [1, 2, 3, 4]);
    }

    #[test]
    fn a_sample_with_its_user_stack() {
        let chain = [6, -128_i64 as u64, 0xffff_ffff_8100_0010, CONTEXT_USER, 11, 12, 13];
        let mut body = numbers(&[&[7, TASK, 99], &chain[..]].concat());
        let registers: Vec<u64> = (0..RECORDED_REGISTERS.len() as u64).collect();
        body.extend(numbers(&[&[2], &registers[..], &[16, 21, 22, 8]].concat()));
        let ring = bytes(SAMPLE, &body);
        let Some(PerfRecord::Sample(sample)) = records(&ring).next() else { unreachable!() };
        assert_eq!(sample.stack().collect::<Vec<_>>(), [0xffff_ffff_8100_0010]);
        assert_eq!(sample.user_stack().collect::<Vec<_>>(), [11, 12, 13]);
        let state = sample.user_state().unwrap();
        assert_eq!(state.copy, 21_u64.to_ne_bytes());
        let last = registers.last().copied();
        assert_eq!(state.register(RecordedRegister::InstructionPointer), last);
    }

    #[test]
    fn a_file_that_is_executed() {
        let mut body = numbers(&[TASK, 0x1000, 0x2000, 0x3000, 8 | 1 << 32, 77, 0, 5]);
        body.extend(b"/bin/dd\0");
        body.extend([0; TRAILER_BYTES]);
        let ring = bytes(MMAP2, &body);
        let Some(PerfRecord::Mapping(mapping)) = records(&ring).next() else { unreachable!() };
        assert_eq!((mapping.pid, mapping.start, mapping.bytes), (41, 0x1000, 0x2000));
        assert_eq!((mapping.device, mapping.inode, mapping.path), ((8, 1), 77, &b"/bin/dd"[..]));
    }

    #[test]
    fn a_new_name() {
        let ring = bytes(COMM, &[&numbers(&[TASK])[..], b"dd\0\0\0\0\0\0"].concat());
        let named = PerfRecord::Name { tid: 42, name: b"dd", is_exec: false };
        assert_eq!(records(&ring).next(), Some(named));
    }

    #[test]
    fn a_record_that_is_cut_ends_the_walk() {
        let whole = bytes(LOST, &numbers(&[1, 2]));
        let cut = [&whole[..], &whole[..20]].concat();
        assert_eq!(
            records(&cut).collect::<Vec<_>>(),
            [PerfRecord::Lost { records: 2, time_ns: None }]
        );
        assert_eq!(records(&bytes(LOST, &[0; 4])).count(), 0);
        assert_eq!(records(&[0; 64]).count(), 0, "a size of zero");
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked(ring in proptest::collection::vec(any::<u8>(), 0..2048)) {
            for record in records(&ring) {
                if let PerfRecord::Sample(sample) = record {
                    prop_assert!(sample.stack().count() <= ring.len() / 8);
                    prop_assert!(sample.fields().len() <= ring.len());
                    let copied = sample.user_state().map_or(0, |of| of.copy.len());
                    prop_assert!(copied <= ring.len());
                }
            }
        }

        /// Sizes and kinds that are plausible reach deeper than noise does.
        #[test]
        fn any_bodies_are_walked(
            bodies in proptest::collection::vec(
                (0_u32..20, proptest::collection::vec(any::<u8>(), 0..200)), 0..20)
        ) {
            let ring: Vec<u8> = bodies.iter().flat_map(|(kind, body)| bytes(*kind, body)).collect();
            for record in records(&ring) {
                if let PerfRecord::Sample(sample) = record {
                    prop_assert!(sample.stack().count() <= ring.len() / 8);
                    prop_assert!(sample.fields().len() <= ring.len());
                    let copied = sample.user_state().map_or(0, |of| of.copy.len());
                    prop_assert!(copied <= ring.len());
                }
            }
        }
    }
}
