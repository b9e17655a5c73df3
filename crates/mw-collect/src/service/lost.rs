//! Processes that are told of from outside: whose service the killed one was, and who wrote to a file of the kernel.

use super::processes::{memberships, named, stat, unit};
use super::{KnownService, ServiceTracker};
use crate::collector::processes::memory_path;
use mw_model::{OomVictim, ServiceProcess, WriterProcess};

/// The process from which those of a service come, as it was once known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerProcess {
    pub process: ServiceProcess,
    started_ticks: u64,
}

impl FormerProcess {
    /// `started_ticks`: since boot, which tells it from a later one of its number.
    pub fn new(process: ServiceProcess, started_ticks: u64) -> Self {
        Self { process, started_ticks }
    }

    /// True if it still runs.
    pub fn runs(&self) -> bool {
        stat(self.process.pid).is_some_and(|stat| stat.started_ticks == self.started_ticks)
    }
}

impl ServiceTracker {
    /// The first process of this service as it is known, if the killed one was of it: one of those that are known,
    /// or one that has come since and has the name and the cgroup of one.
    pub fn former_of(&self, killed: &OomVictim) -> Option<FormerProcess> {
        let known = self.known.as_ref()?;
        let first = known.watched.first()?;
        let ServiceProcess { pid, name } = &killed.process;
        let is_known = *pid != 0 && known.pids().any(|known| known == *pid);
        (is_known || known.has_like(name, killed.cgroup.as_deref()))
            .then(|| FormerProcess::new(first.process.clone(), first.started_ticks))
    }
}

impl KnownService {
    fn has_like(&self, name: &str, cgroup: Option<&str>) -> bool {
        let own = self.service.cgroup.as_deref().filter(|own| *own != "/");
        own.is_some()
            && own == cgroup
            && self.service.processes.iter().any(|process| process.name == name)
    }
}

/// Further facts about a process that wrote to a file of the kernel, while it runs.
pub fn writer_process(process: &ServiceProcess) -> WriterProcess {
    let found = stat(process.pid).filter(|stat| process.pid != 0 && stat.name == process.name);
    let Some(found) = found else {
        return WriterProcess { process: process.clone(), ..WriterProcess::default() };
    };
    let groups = memberships(process.pid);
    WriterProcess {
        process: process.clone(),
        parent: named(found.parent),
        cgroup: memory_path(&groups),
        unit: unit(&groups),
    }
}
