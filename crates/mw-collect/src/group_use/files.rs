//! Reads the files of one group.

use super::hierarchy::{Controllers, MAX_GROUPS};
use mw_proc::ParseError;
use mw_proc::cgroup::{self, CpuMax, CpuStat, DeviceBytes, DeviceLimit, MemoryEvents, MemoryStat};
use mw_proc::number;
use mw_proc::pressure::Pressure;
use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom, fstat, openat, seek};
use rustix::io::{Errno, read as read_fd};
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

/// The largest file that is read: io.stat of a machine with a thousand disks is smaller.
const MAX_FILE_BYTES: usize = 256 << 10;
const FIRST_BYTES: usize = 16 << 10;
/// The most groups below one.
const MAX_CHILDREN: usize = MAX_GROUPS;
const NANOS_PER_MICRO: u64 = 1_000;

/// Files that are read again and again.
#[derive(Debug, Default)]
pub(super) struct ReadBuffers {
    text: Vec<u8>,
    entries: Vec<u8>,
    devices: Vec<DeviceBytes>,
}

/// The counters of a group.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CgroupCounters {
    pub(super) memory: Memory,
    pub(super) cpu: CpuStat,
    pub(super) cpu_pressure_us: Option<u64>,
    pub(super) io: Vec<DeviceBytes>,
    pub(super) frozen: bool,
}

/// Counters of the memory controller, and the waits that show that it may have counted since.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Memory {
    pub(super) pressure_us: Option<u64>,
    pub(super) io_pressure_us: Option<u64>,
    pub(super) refault_file: Option<u64>,
    pub(super) refault_anon: Option<u64>,
    pub(super) pgscan: Option<u64>,
    pub(super) events: MemoryEvents,
    pub(super) swap_high_events: Option<u64>,
    pub(super) dirty_bytes: Option<u64>,
    /// Anonymous memory and page cache.
    pub(super) held_bytes: Option<u64>,
}

/// The limits of a group, and how much memory it has.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct GroupLimits {
    pub(super) memory_max_bytes: Option<u64>,
    pub(super) memory_high_bytes: Option<u64>,
    pub(super) memory_swap_high_bytes: Option<u64>,
    pub(super) memory_current_bytes: Option<u64>,
    pub(super) cpu_max: CpuMax,
    pub(super) io_max: Vec<DeviceLimit>,
}

/// Reads what the hierarchy's controllers count of the group; a file that is not there changes nothing.
/// `before` is the group in the last sample.
pub(super) fn counters(
    dir: &OwnedFd,
    controllers: Controllers,
    before: Option<&Memory>,
    buffers: &mut ReadBuffers,
    into: &mut CgroupCounters,
) {
    let mut files = GroupFileReader { dir, text: &mut buffers.text };
    if controllers.unified {
        unified(&mut files, before, &mut buffers.devices, into);
    }
    if controllers.memory {
        memory_stat(&mut files, &mut into.memory);
        set(&mut into.memory.events.max, files.parse(c"memory.failcnt", number::parse_u64));
        let control = files.parse(c"memory.oom_control", cgroup::parse_oom_control);
        set(&mut into.memory.events.oom_kill, control.and_then(|control| control.oom_kill));
    }
    if controllers.cpu
        && let Some(stat) = files.parse(c"cpu.stat", CpuStat::parse)
    {
        set(&mut into.cpu.throttled_us, stat.throttled_us);
        set(&mut into.cpu.throttled_periods, stat.throttled_periods);
    }
    if controllers.cpuacct
        && let Some(usage_ns) = files.parse(c"cpuacct.usage", number::parse_u64)
    {
        into.cpu.usage_us = Some(usage_ns / NANOS_PER_MICRO);
    }
    if controllers.blkio {
        let devices = &mut buffers.devices;
        let mut bytes = |text: &[u8]| cgroup::parse_blkio_bytes(text, devices);
        let read = BLKIO_BYTES.into_iter().any(|name| files.parse(name, &mut bytes).is_some());
        if read {
            into.io.clone_from(devices);
        }
    }
    if controllers.freezer {
        let frozen = files.parse(c"freezer.state", cgroup::parse_freezer_state);
        into.frozen |= frozen.unwrap_or(false);
    }
}

/// With the groups below; some kernels count only the group itself.
const BLKIO_BYTES: [&CStr; 2] =
    [c"blkio.throttle.io_service_bytes_recursive", c"blkio.throttle.io_service_bytes"];

fn unified(
    files: &mut GroupFileReader<'_>,
    before: Option<&Memory>,
    devices: &mut Vec<DeviceBytes>,
    into: &mut CgroupCounters,
) {
    let mut pressure = |name| Some(files.parse(name, Pressure::parse)?.some.total_us);
    let memory_us = pressure(c"memory.pressure");
    let mut io_us = None;
    if memory_us.is_some() {
        into.cpu_pressure_us = pressure(c"cpu.pressure");
        io_us = pressure(c"io.pressure");
    }
    // Whoever reclaims waits for memory, and so does who reads again what was in use; who reads again what was not, as
    // after a write to memory.reclaim, waits for I/O alone. memory.stat is the dearest file.
    let is_as_before = |before: &&Memory| {
        memory_us.is_some() && before.pressure_us == memory_us && before.io_pressure_us == io_us
    };
    match before.filter(is_as_before) {
        Some(before) => into.memory = *before,
        None => memory_v2(files, &mut into.memory),
    }
    set(&mut into.memory.pressure_us, memory_us);
    set(&mut into.memory.io_pressure_us, io_us);
    if let Some(stat) = files.parse(c"cpu.stat", CpuStat::parse) {
        set(&mut into.cpu.usage_us, stat.usage_us);
        set(&mut into.cpu.throttled_us, stat.throttled_us);
        set(&mut into.cpu.throttled_periods, stat.throttled_periods);
    }
    if files.parse(c"io.stat", |text| cgroup::parse_io_stat(text, devices)).is_some() {
        into.io.clone_from(devices);
    }
    into.frozen |= files.parse(c"cgroup.events", cgroup::parse_frozen).unwrap_or(false);
}

fn memory_v2(files: &mut GroupFileReader<'_>, into: &mut Memory) {
    if memory_stat(files, into)
        && let Some(events) = files.parse(c"memory.events", MemoryEvents::parse)
    {
        let local = files.parse(c"memory.events.local", MemoryEvents::parse);
        into.events = local.map_or(events, |local| events.of_own_limits(local));
        let swap = files.parse(c"memory.swap.events", MemoryEvents::parse);
        set(&mut into.swap_high_events, swap.and_then(|swap| swap.high));
    }
}

/// Reads the limits that the hierarchy's controllers set.
pub(super) fn limits(
    dir: &OwnedFd,
    controllers: Controllers,
    buffers: &mut ReadBuffers,
    into: &mut GroupLimits,
) {
    let mut files = GroupFileReader { dir, text: &mut buffers.text };
    if controllers.unified {
        limit(&mut files, c"memory.max", &mut into.memory_max_bytes);
        limit(&mut files, c"memory.high", &mut into.memory_high_bytes);
        limit(&mut files, c"memory.swap.high", &mut into.memory_swap_high_bytes);
        let current = files.parse(c"memory.current", number::parse_u64);
        set(&mut into.memory_current_bytes, current);
        if let Some(max) = files.parse(c"cpu.max", CpuMax::parse) {
            into.cpu_max = max;
        }
        into.io_max.extend(files.parse(c"io.max", cgroup::parse_io_max).unwrap_or_default());
    }
    if controllers.memory {
        limit(&mut files, c"memory.limit_in_bytes", &mut into.memory_max_bytes);
        let current = files.parse(c"memory.usage_in_bytes", number::parse_u64);
        set(&mut into.memory_current_bytes, current);
    }
    if controllers.cpu
        && let Some(quota_us) = files.parse(c"cpu.cfs_quota_us", CpuMax::parse_quota)
    {
        let period_us = files.parse(c"cpu.cfs_period_us", number::parse_u64);
        into.cpu_max = CpuMax { quota_us, period_us };
    }
    if controllers.blkio {
        for (file, name) in [
            (c"blkio.throttle.read_bps_device", "rbps"),
            (c"blkio.throttle.write_bps_device", "wbps"),
            (c"blkio.throttle.read_iops_device", "riops"),
            (c"blkio.throttle.write_iops_device", "wiops"),
        ] {
            let limits = files.parse(file, |text| cgroup::parse_blkio_limit(text, name));
            into.io_max.extend(limits.unwrap_or_default());
        }
    }
}

/// True if the group has the memory controller.
fn memory_stat(files: &mut GroupFileReader<'_>, into: &mut Memory) -> bool {
    let Some(stat) = files.parse(c"memory.stat", MemoryStat::parse) else { return false };
    set(&mut into.refault_file, stat.refault_file_pages);
    set(&mut into.refault_anon, stat.refault_anon_pages);
    set(&mut into.pgscan, stat.scanned_pages);
    let unwritten = stat.file_dirty_bytes.zip(stat.file_writeback_bytes);
    let held = stat.anon_bytes.zip(stat.file_bytes);
    set(&mut into.held_bytes, held.map(|(anon, file)| anon.saturating_add(file)));
    set(&mut into.dirty_bytes, unwritten.map(|(dirty, written)| dirty.saturating_add(written)));
    true
}

fn limit(files: &mut GroupFileReader<'_>, name: &CStr, into: &mut Option<u64>) {
    set(into, files.parse(name, cgroup::parse_limit).flatten());
}

fn set(into: &mut Option<u64>, value: Option<u64>) {
    *into = value.or(*into);
}

/// The files of a group.
struct GroupFileReader<'a> {
    dir: &'a OwnedFd,
    text: &'a mut Vec<u8>,
}

impl GroupFileReader<'_> {
    fn parse<T>(
        &mut self,
        name: &CStr,
        parser: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Option<T> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = openat(self.dir, name, flags, Mode::empty()).ok()?;
        self.text.clear();
        self.text.reserve(FIRST_BYTES);
        while self.text.len() <= MAX_FILE_BYTES {
            self.text.reserve(1);
            match read_fd(&file, spare_capacity(self.text)) {
                Ok(0) => return parser(self.text).ok(),
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        None
    }
}

/// The names of the groups below one.
pub(super) fn children(dir: &OwnedFd, buffers: &mut ReadBuffers) -> Vec<CString> {
    let mut names = Vec::new();
    // The kernel counts the directories below in the links; not so every other file system.
    if fstat(dir).is_ok_and(|stat| stat.st_nlink == 2) {
        return names;
    }
    // The root's descriptor stays open, at the end of what was read before.
    let _ = seek(dir, SeekFrom::Start(0));
    buffers.entries.clear();
    buffers.entries.reserve(FIRST_BYTES);
    let mut entries = RawDir::new(dir, buffers.entries.spare_capacity_mut());
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name();
        let is_group = entry.file_type() == FileType::Directory && ![c".", c".."].contains(&name);
        if is_group && names.len() < MAX_CHILDREN {
            names.push(name.to_owned());
        }
    }
    names
}
