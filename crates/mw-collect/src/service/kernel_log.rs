//! What the kernel's log says of the end of processes, from /dev/kmsg.

use mw_proc::kmsg::{self, Message};
use mw_sys::{monotonic_ns, unix_ms};
use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// Messages that are kept, the latest.
const MAX_KEPT: usize = 256;
/// Records that are read at once: what the largest usual buffer holds.
const MAX_RECORDS: usize = 20_000;
/// A record is never longer (CONSOLE_EXT_LOG_MAX of the kernel).
const RECORD_BYTES: usize = 8192;

/// Follows the kernel's log from when it was opened.
#[derive(Debug)]
pub struct KernelLog {
    /// None where it may not be read.
    file: Option<OwnedFd>,
    kept: VecDeque<LoggedEnd>,
}

/// A message with its time.
#[derive(Debug, Clone)]
pub(super) struct LoggedEnd {
    pub(super) unix_ms: u64,
    pub(super) message: Message,
}

impl Default for KernelLog {
    fn default() -> Self {
        Self::open()
    }
}

impl KernelLog {
    /// Opens the log at its end. Where it may not be read (without `CAP_SYSLOG`), it stays empty.
    pub fn open() -> Self {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = open("/dev/kmsg", flags, Mode::empty()).ok();
        let file = file.filter(|file| seek(file, SeekFrom::End(0)).is_ok());
        Self { file, kept: VecDeque::new() }
    }

    /// Reads what came since the last call; what the buffer lost meanwhile is passed over.
    pub(super) fn read(&mut self) -> &VecDeque<LoggedEnd> {
        let Some(file) = &self.file else { return &self.kept };
        let mut bytes = [0; RECORD_BYTES];
        for _ in 0..MAX_RECORDS {
            let record = match rustix::io::read(file, &mut bytes) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(got) => kmsg::parse(bytes.get(..got).unwrap_or_default()),
                Err(Errno::PIPE | Errno::INTR) => continue,
                Err(_) => break,
            };
            let Some(record) = record else { continue };
            self.kept.push_back(LoggedEnd {
                unix_ms: logged_unix_ms(record.at_us),
                message: record.message,
            });
            if self.kept.len() > MAX_KEPT {
                self.kept.pop_front();
            }
        }
        &self.kept
    }
}

/// The time of day of a record: its clock is the monotonic one, but for corrections of a few milliseconds.
fn logged_unix_ms(at_us: u64) -> u64 {
    let ago_ns = monotonic_ns().saturating_sub(at_us.saturating_mul(1_000));
    unix_ms().saturating_sub(ago_ns / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_written_now_is_read() {
        let mut log = KernelLog::open();
        let line = "memwright test: Out of memory: Killed process 4000000000 (memwright-test) x\n";
        if log.file.is_none() || std::fs::write("/dev/kmsg", line).is_err() {
            return mw_test::skip("needs root");
        }
        let before = unix_ms();
        let is_it =
            |end: &&LoggedEnd| matches!(&end.message, Message::OomKill { pid: 4_000_000_000, .. });
        let logged_ms = log.read().iter().find(is_it).unwrap().unix_ms;
        assert!(logged_ms.abs_diff(before) < 5_000, "{logged_ms} {before}");
    }
}
