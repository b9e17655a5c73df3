//! Delays of processes as the kernel accounts them (Documentation/accounting/taskstats.rst).

use crate::netlink::{ANSWER_BYTES, answer, attribute, request};
use mw_model::{Delays, Missing};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    sockopt,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

const WHAT: &str = "taskstats";
const ENABLED: &str = "/proc/sys/kernel/task_delayacct";
/// An answer comes at once, or not at all.
const TIMEOUT: Duration = Duration::from_millis(20);

/// `GENL_ID_CTRL`, which knows the numbers of all families.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const GET: u8 = 1;
const BY_PROCESS: u16 = 2;
const STATS: u16 = 3;
const STATS_OF_PROCESS: u16 = 5;
/// In `struct taskstats` of this version (kernel 6.14 before 6.14.9) each delay is followed by its
/// largest and its smallest; from version 16 on these are at the end.
const SPREAD: u16 = 15;
/// Of [`SPREAD`], what each delay before a field moves it by.
const SPREAD_BYTES: usize = 16;

/// Asks the kernel for the delays of processes.
#[derive(Debug)]
pub(crate) struct Taskstats {
    socket: OwnedFd,
    family: u16,
}

/// That delays of tasks are not accounted, which is usual, and how to turn it on. It is no part of
/// [`Tasks::missing`](crate::Tasks::missing): said once, it need not be said of every incident.
pub fn delays_off() -> Option<Missing> {
    let enabled = mw_sys::kernel_file::read_to_string(ENABLED).ok()?;
    (enabled.trim() == "0").then(|| {
        let why = "delays of tasks are not accounted: `sysctl kernel.task_delayacct=1` turns that \
                   on, as does the boot parameter `delayacct`";
        Missing::skipped(WHAT, why)
    })
}

impl Taskstats {
    /// Ready to ask; nothing where delays are not accounted, which [`delays_off`] says.
    pub(crate) fn open() -> Result<Option<Self>, Missing> {
        if delays_off().is_some() {
            return Ok(None);
        }
        let taskstats = Self::connect().map_err(|error| missing(&error))?;
        // Whether we may ask shows in the first answer.
        taskstats.ask(std::process::id()).map_err(|error| missing(&error))?;
        Ok(Some(taskstats))
    }

    fn connect() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::GENERIC))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(TIMEOUT))?;
        let request = request(CONTROL, GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0");
        let family = exchange(&socket, &request, |attributes| {
            Some(u16::from_ne_bytes(attribute(attributes, FAMILY_ID)?.try_into().ok()?))
        })?;
        Ok(Self { socket, family })
    }

    /// The delays of a process, all its threads together; `None` where it is gone.
    pub(crate) fn delays(&self, pid: u32) -> Option<Delays> {
        self.ask(pid).ok()
    }

    fn ask(&self, pid: u32) -> io::Result<Delays> {
        let request = request(self.family, GET, BY_PROCESS, &pid.to_ne_bytes());
        exchange(&self.socket, &request, |attributes| {
            delays(attribute(attribute(attributes, STATS_OF_PROCESS)?, STATS)?)
        })
    }
}

fn exchange<T>(
    socket: &OwnedFd,
    request: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<T> {
    let mut bytes = [0; ANSWER_BYTES];
    send(socket, request, SendFlags::empty())?;
    let (length, _) = recv(socket, &mut bytes, RecvFlags::empty())?;
    let attributes = answer(bytes.get(..length).unwrap_or_default());
    let attributes = attributes.map_err(io::Error::from_raw_os_error)?;
    read(attributes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn missing(error: &io::Error) -> Missing {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Missing::skipped(WHAT, "delays of tasks are not seen: needs CAP_NET_ADMIN")
        }
        io::ErrorKind::NotFound => Missing::absent(WHAT, "this kernel was built without it"),
        io::ErrorKind::InvalidData => {
            Missing::absent(WHAT, "this kernel lays its answer out in a way that is not known")
        }
        _ => Missing::failed(WHAT, error.to_string()),
    }
}

/// Reads `struct taskstats` (linux/taskstats.h), which grows at its end.
fn delays(stats: &[u8]) -> Option<Delays> {
    let version = u16::from_ne_bytes(stats.get(..2)?.try_into().ok()?);
    let us = |delays_before: usize, at: usize| {
        let at = if version == SPREAD { at + SPREAD_BYTES * delays_before } else { at };
        let bytes = stats.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        // What an older version does not have did not happen as far as it knows.
        bytes.map_or(0, |bytes| u64::from_ne_bytes(bytes) / 1000)
    };
    Some(Delays {
        cpu_us: us(0, 24),
        block_io_us: us(1, 40),
        swap_in_us: us(2, 56),
        free_pages_us: us(3, 320),
        thrashing_us: us(4, 336),
        compact_us: us(5, 360),
        write_copy_us: us(6, 408),
    })
}

/// The increase from one sample to the next.
pub(crate) fn since(now: Delays, before: Delays) -> Delays {
    Delays {
        cpu_us: now.cpu_us.saturating_sub(before.cpu_us),
        block_io_us: now.block_io_us.saturating_sub(before.block_io_us),
        swap_in_us: now.swap_in_us.saturating_sub(before.swap_in_us),
        free_pages_us: now.free_pages_us.saturating_sub(before.free_pages_us),
        thrashing_us: now.thrashing_us.saturating_sub(before.thrashing_us),
        compact_us: now.compact_us.saturating_sub(before.compact_us),
        write_copy_us: now.write_copy_us.saturating_sub(before.write_copy_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer of a version, each number its own offset in microseconds.
    fn stats(version: u16, bytes: usize) -> Vec<u8> {
        let mut stats: Vec<u8> =
            (0..bytes / 8).flat_map(|word| (8000 * word as u64).to_ne_bytes()).collect();
        stats[..2].copy_from_slice(&version.to_ne_bytes());
        stats
    }

    #[test]
    fn later_versions_have_more() {
        let new = delays(&stats(13, 416)).unwrap();
        assert_eq!((new.cpu_us, new.block_io_us, new.swap_in_us), (24, 40, 56));
        assert_eq!((new.free_pages_us, new.thrashing_us), (320, 336));
        assert_eq!((new.compact_us, new.write_copy_us), (360, 408));
        let old = delays(&stats(8, 328)).unwrap();
        assert_eq!((old.free_pages_us, old.thrashing_us, old.compact_us), (320, 0, 0));
    }

    #[test]
    fn version_15_has_each_delay_further_on() {
        let spread = delays(&stats(SPREAD, 560)).unwrap();
        assert_eq!((spread.cpu_us, spread.block_io_us, spread.swap_in_us), (24, 56, 88));
        assert_eq!((spread.free_pages_us, spread.thrashing_us), (368, 400));
        assert_eq!((spread.compact_us, spread.write_copy_us), (440, 504));
    }

    #[test]
    fn versions_to_come_are_read_as_far_as_they_are_known() {
        let known = delays(&stats(14, 432)).unwrap();
        for version in [16, 17, 40, u16::MAX] {
            assert_eq!(delays(&stats(version, 560 + 8 * usize::from(version))), Some(known));
        }
        assert_eq!(delays(&[]), None);
    }

    #[test]
    fn delays_are_differences() {
        let (a, b) = (delays(&stats(13, 416)).unwrap(), delays(&stats(8, 328)).unwrap());
        assert_eq!(since(a, b).thrashing_us, 336);
        assert_eq!(since(b, a), Delays::default(), "a counter that was set back");
    }
}
