//! Whether CPUs are idle, asked again and again by a thread that works in the background. It keeps its
//! priority: a thread of low priority that waits for a busy CPU while it holds the mmap lock would stop the
//! whole process, and would delay the end of the process.

use crate::cgroup;
use mw_sys::{DirectFile, read_file};

/// The CPUs, and how many threads want them.
#[derive(Debug)]
pub struct CpuLoad {
    /// None if it must be assumed that all CPUs are busy.
    loadavg: Option<DirectFile>,
    cpus: usize,
    preemptions: u64,
}

impl CpuLoad {
    /// Opens /proc/loadavg. Under a CPU quota, which this thread would take from the others, the CPUs count
    /// as busy.
    #[must_use]
    pub fn open() -> Self {
        let online = read_file("/sys/devices/system/cpu/online").ok();
        let online = online.and_then(|text| mw_proc::cpulist::parse(&text).ok());
        let loadavg = DirectFile::open("/proc/loadavg").ok();
        Self {
            loadavg: loadavg.filter(|_| cgroup::cpu_quota().is_none()),
            cpus: online.map_or(1, |cpus| cpus.len()),
            preemptions: mw_sys::preemptions(),
        }
    }

    /// True if another thread may wait for the CPU of this one: more threads are runnable than there are CPUs,
    /// or this thread has been preempted since the last call. It allocates nothing.
    pub fn is_busy(&mut self) -> bool {
        let preemptions = mw_sys::preemptions();
        let is_preempted = std::mem::replace(&mut self.preemptions, preemptions) != preemptions;
        let mut text = [0_u8; 64];
        let read =
            self.loadavg.as_ref().and_then(|file| rustix::io::pread(file, &mut text, 0).ok());
        let runnable = read.and_then(|length| runnable(text.get(..length)?));
        is_preempted || runnable.is_none_or(|runnable| runnable > self.cpus)
    }
}

/// The runnable threads in the text of /proc/loadavg, the reading one included.
fn runnable(text: &[u8]) -> Option<usize> {
    let field = text.split(|byte| *byte == b' ').nth(3)?;
    let runnable = field.split(|byte| *byte == b'/').next()?;
    std::str::from_utf8(runnable).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runnable_threads_are_counted() {
        assert_eq!(runnable(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable(b"0.20 0.18 0.12"), None);
        let own = read_file("/proc/loadavg").unwrap();
        assert!(runnable(&own).unwrap() >= 1);
    }

    #[test]
    fn without_loadavg_the_cpus_count_as_busy() {
        let mut load = CpuLoad { loadavg: None, ..CpuLoad::open() };
        assert!(load.is_busy());
    }
}
