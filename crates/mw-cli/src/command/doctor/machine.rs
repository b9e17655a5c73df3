//! What is read of the machine to be judged.

use mw_model::Namespace;
use mw_sys::PidNamespace;
use rustix::io::Errno;

/// A file of the kernel, or why it could not be read.
pub(super) type File = Result<String, Errno>;

#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) is_root: bool,
    /// The effective capabilities, by their numbers.
    pub(super) capabilities: Option<u64>,
    /// As uname(2) has it.
    pub(super) kernel_release: String,
    /// Kind of this container.
    pub(super) container: Option<String>,
    pub(super) pid_namespace: Result<PidNamespace, String>,
    /// Those that are not the machine's first.
    pub(super) namespaces: Vec<Namespace>,
    pub(super) boot_loader: BootLoader,
    pub(super) mountinfo: File,
    pub(super) tracepoint: Tracepoint,
    /// An event of the profiler, opened.
    pub(super) perf_event: Result<(), Errno>,
    pub(super) perf_event_paranoid: File,
    /// Its beginning.
    pub(super) kallsyms: File,
    pub(super) kptr_restrict: File,
    pub(super) pressure: File,
    pub(super) task_delayacct: File,
    pub(super) extfrag: File,
    pub(super) cgroup_controllers: File,
    pub(super) cgroup_v1: File,
    pub(super) cachestat: Result<(), Errno>,
    /// Whether a setting of the kernel can be written.
    pub(super) settings: Result<(), Errno>,
    /// None is no limit.
    pub(super) memlock_bytes: Option<u64>,
    pub(super) clocksource: File,
    pub(super) clocksources: File,
    pub(super) service: Service,
}

/// An event of the scheduler in tracefs.
#[derive(Debug, Clone)]
pub(super) struct Tracepoint {
    /// Its number.
    pub(super) id: File,
    /// tracefs is not mounted, and was mounted for this process alone.
    pub(super) is_of_own_mount: bool,
}

/// State of memwright's own parts.
#[derive(Debug, Clone)]
pub(super) struct Service {
    /// The file that is read, or what is wrong with it.
    pub(super) configuration: Result<Configuration, String>,
    pub(super) preload_library: Result<String, String>,
    pub(super) recorder: Unit,
    pub(super) pool_server: Unit,
    /// Number of the server's pools, or the reason that it did not answer.
    pub(super) pools: Result<usize, String>,
    pub(super) recording: Recording,
}

#[derive(Debug, Clone)]
pub(super) struct Configuration {
    /// None where there is no file.
    pub(super) path: Option<String>,
    /// Pools that the server is to create, or that `run` is to use.
    pub(super) wants_pools: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Recording {
    pub(super) path: String,
    /// Of the file, or of the directory in which it is created.
    pub(super) writable: Result<(), Errno>,
    pub(super) free_bytes: Option<u64>,
    pub(super) size_bytes: u64,
    pub(super) max_bytes: u64,
}

/// A systemd unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unit {
    /// systemd does not run this machine.
    NoSystemd,
    NotInstalled,
    /// Installed, with what systemd calls its file and its activity.
    Installed {
        enabled: String,
        active: String,
        /// Failure, also of a unit that is started again and again.
        failure: Option<UnitFailure>,
    },
    Unknown(String),
}

/// The reason that a unit does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitFailure {
    /// systemd's result of the last start, and the exit status of the program; empty where it says neither.
    pub(super) result: String,
    /// The last lines of its journal, escaped.
    pub(super) log: Vec<String>,
}

/// The way to set boot parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BootLoader {
    Grubby,
    UpdateGrub,
    Other,
}
