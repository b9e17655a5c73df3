//! The kernel's memory state at one instant.

use crate::{
    Cgroups, Disk, GroupTasks, HugePool, HugepagesWanted, MapCounts, MemoryBlocks,
    MemoryFilesystem, Missing, Node, OomHistory, PageBlocks, Processes, Reading, Sysctl, Thp, Zram,
};
use mw_proc::arcstats::Arcstats;
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::cgroups::CgroupCount;
use mw_proc::dentry_state::DentryState;
use mw_proc::extfrag::Extfrag;
use mw_proc::inode_state::InodeState;
use mw_proc::key_users::KeyUser;
use mw_proc::limits::Rlimits;
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::Pressure;
use mw_proc::slabinfo::Slab;
use mw_proc::sockstat::Sockstat;
use mw_proc::swaps::Swap;
use mw_proc::sysvipc_sem::Semaphores;
use mw_proc::sysvipc_shm::ShmSegment;
use mw_proc::user_beancounters::Beancounter;
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::Vmstat;
use mw_proc::zoneinfo::Zoneinfo;

/// The state of a machine at one instant, as the kernel reports it.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Source.
    pub origin: Origin,
    /// The fast counters.
    pub sample: Sample,
    /// NUMA nodes, at least one.
    pub nodes: Reading<Vec<Node>>,
    /// Settings below /proc/sys/vm, and limits of /proc/sys/fs, kernel and net.
    pub sysctl: Sysctl,
    pub thp: Reading<Thp>,
    /// Huge page pools, one a size.
    pub hugepages: Reading<Vec<HugePool>>,
    /// Huge pages configured at boot or in sysctl files.
    pub hugepages_wanted: Reading<Vec<HugepagesWanted>>,
    pub swaps: Reading<Vec<Swap>>,
    /// Filesystems whose files are memory.
    pub filesystems: Reading<Vec<MemoryFilesystem>>,
    /// SysV shared memory segments.
    pub shm: Reading<Vec<ShmSegment>>,
    /// SysV semaphores.
    pub semaphores: Reading<Semaphores>,
    /// SysV message queues.
    pub message_queues: Reading<u64>,
    /// The limits of the calling process.
    pub limits: Reading<Rlimits>,
    /// A bounded number of processes.
    pub processes: Reading<Processes>,
    /// The mappings of processes that may be close to vm.max_map_count.
    pub map_counts: Reading<MapCounts>,
    /// The kernel's object caches; readable by root.
    pub slabs: Reading<Vec<Slab>>,
    /// Cached dentries.
    pub dentries: Reading<DentryState>,
    /// Cached inodes.
    pub inodes: Reading<InodeState>,
    /// The cache of ZFS.
    pub arc: Reading<Arcstats>,
    /// Buffers of sockets.
    pub sockets: Reading<Sockstat>,
    /// Tasks of the machine.
    pub tasks: Reading<u64>,
    /// Keys by user.
    pub keys: Reading<Vec<KeyUser>>,
    /// Limits of containers of OpenVZ.
    pub beancounters: Reading<Vec<Beancounter>>,
    pub cgroups: Reading<Cgroups>,
    /// Cgroups that have at least half of the tasks that their limit allows, the fullest first; a bounded number.
    pub task_limits: Reading<Vec<GroupTasks>>,
    /// Added memory that is offline.
    pub memory_blocks: Reading<MemoryBlocks>,
    /// How many groups the memory controller's hierarchy has; none where the kernel does not list it.
    pub memory_hierarchy: Reading<Option<CgroupCount>>,
    pub disks: Reading<Vec<Disk>>,
    /// The zram devices that are used as swap.
    pub zrams: Reading<Vec<Zram>>,
    /// The blocks of the requested huge page's size; collected only for a request that needs them.
    pub page_blocks: Reading<Vec<PageBlocks>>,
    /// The latest kills of the OOM killer in the kernel's log; read only where vmstat counts kills.
    pub oom_history: Reading<OomHistory>,
    /// The kernel's own unusable free space index, where debugfs is mounted.
    pub extfrag_unusable: Reading<Extfrag>,
}

/// The source of a snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origin {
    /// Live machine or captured tree.
    pub kind: OriginKind,
    /// `/` or the tree's directory.
    pub root: String,
    /// What another tool wrote or somebody pasted, from which the snapshot is: "the output of 'free' in MiB".
    pub input: Option<String>,
    /// Time of the snapshot, in milliseconds since 1970; unknown in a tree without it.
    pub taken_unix_ms: Option<u64>,
    pub kernel: Option<KernelVersion>,
    /// Size of a base page in bytes.
    pub page_bytes: u64,
    pub cpus: Option<u32>,
    pub uptime_s: Option<f64>,
    /// Capabilities that the calling process has over the whole machine, a bit each as in
    /// `CapEff` of /proc/self/status; none in a user namespace of its own, since the kernel asks the
    /// first namespace where limits of memory are concerned. Unknown in a tree that does not say.
    pub effective_capabilities: Option<u64>,
    /// Mapped memory of the calling process in bytes, which `RLIMIT_AS` limits.
    pub mapped_bytes: Option<u64>,
    /// The private writable part of it, which `RLIMIT_DATA` limits.
    pub data_bytes: Option<u64>,
    /// Nodes that the calling process may allocate from: `Mems_allowed_list` of /proc/self/status.
    pub memory_nodes: Option<Vec<u32>>,
    /// Nodes that the calling process's memory policy binds it to, if it does (set_mempolicy(2)); a request for a
    /// node does not follow it.
    pub policy_nodes: Option<Vec<u32>>,
    /// Memory that the calling process releases when it ends, in bytes: its anonymous memory and page tables.
    pub own_bytes: Option<u64>,
    /// Files of the kernel for which something else answers: another file that is mounted over them
    /// ([`crate::Absence::Masked`]), or lxcfs.
    pub replaced: Vec<Missing>,
}

/// Live machine or captured tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OriginKind {
    /// The running machine.
    #[default]
    Live,
    /// A tree captured elsewhere, by memwright or by sosreport.
    Tree,
}

/// The fast counters: cheap enough for ten readings a second, taken without allocating.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Time of the snapshot, in milliseconds of a clock that never goes back; only differences of it
    /// mean anything.
    pub at_ms: f64,
    /// /proc/meminfo.
    pub meminfo: Reading<Meminfo>,
    /// /proc/vmstat.
    pub vmstat: Reading<Vmstat>,
    /// /proc/zoneinfo.
    pub zoneinfo: Reading<Zoneinfo>,
    /// /proc/buddyinfo.
    pub buddyinfo: Reading<Buddyinfo>,
    /// /proc/pressure.
    pub pressure: Pressures,
    /// meminfo of every node.
    pub nodes: Vec<NodeSample>,
}

/// Pressure stall information of the whole machine.
#[derive(Debug, Clone, Default)]
pub struct Pressures {
    /// /proc/pressure/cpu.
    pub cpu: Reading<Pressure>,
    /// /proc/pressure/memory.
    pub memory: Reading<Pressure>,
    /// /proc/pressure/io.
    pub io: Reading<Pressure>,
}

/// The fast counters of one node.
#[derive(Debug, Clone, Default)]
pub struct NodeSample {
    pub node: u32,
    /// /sys/devices/system/node/nodeN/meminfo.
    pub meminfo: Reading<Meminfo>,
}
