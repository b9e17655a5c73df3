//! Events of the kernel's performance monitor, for one CPU each and all tasks (perf_event_open(2)).
//!
//! Only software clocks and tracepoints, which work on every machine, virtual ones included.

use perf_event_open_sys as sys;
use perf_event_open_sys::bindings;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerfSource {
    /// The CPU's clock, idle time included.
    CpuClock,
    /// Page faults that waited for a device.
    MajorFaults,
    /// The tracepoint of this id, as `events/SYSTEM/NAME/id` of tracefs says.
    Tracepoint(u64),
}

/// Rate at which an event writes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplePeriod {
    Hz(u32),
    Occurrences(u64),
}

/// Contents of an event's records, and their rate.
///
/// Records hold, in this order: the event's id, the task, the time (`CLOCK_MONOTONIC`), then the
/// stack, the tracepoint's fields, and the registers and the stack of user mode if they were requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfAttr {
    pub source: PerfSource,
    /// Rate at which it writes records.
    pub period: SamplePeriod,
    /// Records the kernel stack up to this many frames; then only events in the kernel count.
    pub stack_frames: Option<u16>,
    /// Records the user stack behind the kernel's, by frame pointers, within the same number of frames; and the
    /// registers of user mode, by which it can be unwound.
    pub user_stack: Option<UserStackCopy>,
    /// Records the fields of a tracepoint.
    pub fields: bool,
    /// Also counts what happens in user mode, where the kernel's stack is empty.
    pub user_mode: bool,
    /// Also writes a record when a task changes its name (`PERF_RECORD_COMM`).
    pub names: bool,
    /// Also writes a record when a task is created (`PERF_RECORD_FORK`) and when one enters or leaves the CPU
    /// (`PERF_RECORD_SWITCH_CPU_WIDE`). These end with the task, the time and the event's id.
    pub scheduling: bool,
    /// Also writes a record when a task maps a file to execute it (`PERF_RECORD_MMAP2`), and marks those of names that
    /// execve(2) set.
    pub mappings: bool,
    /// The reader is woken when the ring holds this many bytes.
    pub wake_bytes: u32,
}

/// Bytes that are copied from the top of the user stack: a multiple of 8; none where it is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserStackCopy(pub u16);

/// Registers of user mode that are recorded (arch/*/include/uapi/asm/perf_regs.h), in the order of
/// [`RecordedRegister`].
#[cfg(target_arch = "x86_64")]
const USER_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
#[cfg(target_arch = "aarch64")]
const USER_REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const USER_REGISTERS: u64 = 0;

/// A register of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedRegister {
    FramePointer,
    /// The return address of a function that has called no other.
    Link,
    StackPointer,
    InstructionPointer,
}

/// The registers that a record with a user stack has, in this order.
pub const RECORDED_REGISTERS: &[RecordedRegister] = if cfg!(target_arch = "x86_64") {
    &[
        RecordedRegister::FramePointer,
        RecordedRegister::StackPointer,
        RecordedRegister::InstructionPointer,
    ]
} else if cfg!(target_arch = "aarch64") {
    &[
        RecordedRegister::FramePointer,
        RecordedRegister::Link,
        RecordedRegister::StackPointer,
        RecordedRegister::InstructionPointer,
    ]
} else {
    &[]
};

impl PerfAttr {
    fn raw(&self) -> io::Result<bindings::perf_event_attr> {
        let (kind, config) = match self.source {
            PerfSource::CpuClock => {
                (bindings::PERF_TYPE_SOFTWARE, bindings::PERF_COUNT_SW_CPU_CLOCK)
            }
            PerfSource::MajorFaults => {
                (bindings::PERF_TYPE_SOFTWARE, bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ)
            }
            PerfSource::Tracepoint(_) => (bindings::PERF_TYPE_TRACEPOINT, 0),
        };
        let mut raw = bindings::perf_event_attr {
            type_: kind,
            size: u32::try_from(size_of::<bindings::perf_event_attr>())
                .map_err(io::Error::other)?,
            config: match self.source {
                PerfSource::Tracepoint(id) => id,
                _ => u64::from(config),
            },
            sample_type: self.sample_type(),
            clockid: libc::CLOCK_MONOTONIC,
            sample_max_stack: self.stack_frames.unwrap_or(0),
            ..bindings::perf_event_attr::default()
        };
        match self.period {
            SamplePeriod::Hz(hz) => {
                raw.set_freq(1);
                raw.__bindgen_anon_1.sample_freq = u64::from(hz);
            }
            SamplePeriod::Occurrences(period) => raw.__bindgen_anon_1.sample_period = period,
        }
        raw.__bindgen_anon_2.wakeup_watermark = self.wake_bytes;
        raw.set_watermark(1);
        raw.set_disabled(1);
        raw.set_use_clockid(1);
        raw.set_comm(u64::from(self.names));
        raw.set_exclude_hv(1);
        raw.set_exclude_callchain_user(u64::from(self.user_stack.is_none()));
        if let Some(UserStackCopy(bytes)) = self.user_stack {
            raw.sample_regs_user = USER_REGISTERS;
            raw.sample_stack_user = u32::from(bytes);
        }
        raw.set_mmap(u64::from(self.mappings));
        raw.set_mmap2(u64::from(self.mappings));
        raw.set_comm_exec(u64::from(self.mappings));
        raw.set_exclude_user(u64::from(self.stack_frames.is_some() && !self.user_mode));
        raw.set_task(u64::from(self.scheduling));
        raw.set_context_switch(u64::from(self.scheduling));
        raw.set_sample_id_all(u64::from(self.scheduling));
        Ok(raw)
    }

    fn sample_type(&self) -> u64 {
        let stack = if self.stack_frames.is_some() { bindings::PERF_SAMPLE_CALLCHAIN } else { 0 };
        let fields = if self.fields { bindings::PERF_SAMPLE_RAW } else { 0 };
        let of_user = match self.user_stack {
            Some(UserStackCopy(0)) => bindings::PERF_SAMPLE_REGS_USER,
            Some(_) => bindings::PERF_SAMPLE_REGS_USER | bindings::PERF_SAMPLE_STACK_USER,
            None => 0,
        };
        u64::from(
            bindings::PERF_SAMPLE_IDENTIFIER
                | bindings::PERF_SAMPLE_TID
                | bindings::PERF_SAMPLE_TIME
                | stack
                | fields
                | of_user,
        )
    }
}

/// An event on one CPU, off until it is enabled.
#[derive(Debug)]
pub struct PerfEvent {
    fd: OwnedFd,
    id: u64,
}

impl PerfEvent {
    /// Opens an event on `cpu`, disabled.
    ///
    /// # Errors
    /// perf_event_open(2)'s: `EACCES` and `EPERM` without the privilege (`CAP_PERFMON`, or
    /// `kernel.perf_event_paranoid` below 0), `EMFILE` beyond `RLIMIT_NOFILE`, `ENODEV` where the
    /// CPU is offline, `ENOENT` for an unknown tracepoint.
    pub fn open(attr: &PerfAttr, cpu: u32) -> io::Result<Self> {
        let mut raw = attr.raw()?;
        let cpu = i32::try_from(cpu).map_err(io::Error::other)?;
        let flags = libc::c_ulong::from(bindings::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: `raw` is a whole attribute that says its size, alive over the call, which
        // changes nothing else of this process (perf_event_open(2)).
        #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
        let fd = unsafe { sys::perf_event_open(&raw mut raw, -1, cpu, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor, which nobody else knows.
        #[allow(unsafe_code, reason = "the call returns a plain number")]
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let id = id(&fd)?;
        Ok(Self { fd, id })
    }

    /// The id that its records carry.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Turns it on; no change where it is on already.
    ///
    /// # Errors
    /// ioctl(2)'s.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the request takes a number (perf_event_open(2), PERF_EVENT_IOC_ENABLE).
        #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
        done(unsafe { sys::ioctls::ENABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Turns it off.
    ///
    /// # Errors
    /// ioctl(2)'s.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: the request takes a number (perf_event_open(2), PERF_EVENT_IOC_DISABLE).
        #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
        done(unsafe { sys::ioctls::DISABLE(self.fd.as_raw_fd(), 0) })
    }

    /// Has the kernel record only occurrences of a tracepoint whose fields match, such as `sig==9 && result==0`.
    ///
    /// # Errors
    /// ioctl(2)'s: `EINVAL` for a field that the tracepoint does not have, `EEXIST` where it has a filter already.
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        let text = filter.as_ptr().cast_mut();
        // SAFETY: the request reads a text that ends with NUL, and is alive over the call (perf_event_open(2),
        // PERF_EVENT_IOC_SET_FILTER).
        #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
        done(unsafe { sys::ioctls::SET_FILTER(self.fd.as_raw_fd(), text) })
    }

    /// Sends its records to the ring of another event of the same CPU.
    ///
    /// # Errors
    /// `EINVAL` where that event is of another CPU or has no ring.
    pub fn record_into(&self, owner: &Self) -> io::Result<()> {
        let owner = owner.fd.as_raw_fd();
        // SAFETY: the request takes a descriptor, which is open over the call
        // (perf_event_open(2), PERF_EVENT_IOC_SET_OUTPUT).
        #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
        done(unsafe { sys::ioctls::SET_OUTPUT(self.fd.as_raw_fd(), owner) })
    }
}

impl AsFd for PerfEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn id(fd: &OwnedFd) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: the request writes one number of 64 bits to where the pointer leads
    // (perf_event_open(2), PERF_EVENT_IOC_ID).
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    done(unsafe { sys::ioctls::ID(fd.as_raw_fd(), &raw mut id) })?;
    Ok(id)
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
