//! State of the machine that is judged.

use mw_model::Namespace;
use mw_sys::PidNamespace;
use rustix::io::Errno;

/// Contents of a file of the kernel, or the error of reading it.
pub type FileText = Result<String, Errno>;

/// State of the kernel, of this process's privileges and of memwright's installation.
#[derive(Debug, Clone)]
pub struct HostFacts {
    pub is_root: bool,
    /// The effective capabilities, by their numbers.
    pub capabilities: Option<u64>,
    /// Release of the kernel, of uname(2).
    pub kernel_release: String,
    /// Kind of this container.
    pub container: Option<String>,
    pub pid_namespace: Result<PidNamespace, String>,
    /// Namespaces that are not the machine's first.
    pub namespaces: Vec<Namespace>,
    pub boot_loader: BootLoader,
    pub mountinfo: FileText,
    pub tracepoint: Tracepoint,
    /// An event of the profiler, opened.
    pub perf_event: Result<(), Errno>,
    pub perf_event_paranoid: FileText,
    /// Beginning of /proc/kallsyms.
    pub kallsyms: FileText,
    pub kptr_restrict: FileText,
    pub pressure: FileText,
    pub task_delayacct: FileText,
    pub extfrag: FileText,
    pub cgroup_controllers: FileText,
    pub cgroup_v1: FileText,
    pub cachestat: Result<(), Errno>,
    /// Right to write a setting of the kernel.
    pub settings: Result<(), Errno>,
    /// None is no limit.
    pub memlock_bytes: Option<u64>,
    pub clocksource: FileText,
    pub clocksources: FileText,
    pub installation: Installation,
}

/// An event of the scheduler in tracefs.
#[derive(Debug, Clone)]
pub struct Tracepoint {
    /// Number of the tracepoint.
    pub id: FileText,
    /// tracefs is not mounted, and was mounted for this process alone.
    pub is_of_own_mount: bool,
}

/// State of memwright's own parts.
#[derive(Debug, Clone)]
pub struct Installation {
    /// The file that is read, or what is wrong with it.
    pub configuration: Result<Configuration, String>,
    pub preload_library: Result<String, String>,
    pub recorder: UnitState,
    pub pool_server: UnitState,
    /// Number of the server's pools, or the reason that it did not answer.
    pub pools: Result<usize, String>,
    pub recording: RecordingFile,
}

#[derive(Debug, Clone)]
pub struct Configuration {
    /// None where there is no file.
    pub path: Option<String>,
    /// Pools that the server is to create, or that `run` is to use.
    pub wants_pools: bool,
}

#[derive(Debug, Clone)]
pub struct RecordingFile {
    pub path: String,
    /// Right to write the file, or the directory in which it is created.
    pub writable: Result<(), Errno>,
    pub free_bytes: Option<u64>,
    pub size_bytes: u64,
    pub max_bytes: u64,
}

/// A systemd unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitState {
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
pub struct UnitFailure {
    /// systemd's result of the last start, and the exit status of the program; empty where it says neither.
    pub result: String,
    /// The last lines of its journal, escaped.
    pub log: Vec<String>,
}

/// The way to set boot parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootLoader {
    Grubby,
    UpdateGrub,
    Other,
}
