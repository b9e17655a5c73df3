//! The kinds of waits, and of work in the kernel.

use serde::{Deserialize, Serialize};

/// What a blocked task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    CgroupFrozen,
    CpuQuota,
    MemoryHigh,
    CgroupReclaim,
    SwapIn,
    Compaction,
    DirectReclaim,
    BackgroundReclaim,
    DirtyThrottling,
    Migration,
    Journal,
    Writeback,
    FileRead,
    FileWrite,
    Fuse,
    Nfs,
    Disk,
    Semaphore,
    Mutex,
    Sleep,
    Futex,
    Poll,
    Socket,
    Pipe,
    Child,
    Signal,
    Worker,
    Network,
    Unknown,
    /// Held back by a limit or weight of its cgroup (io.cost, io.latency). `io.max` delays the completion instead.
    IoLimit,
    /// A file system over the network that is not NFS: SMB, Ceph, 9p.
    RemoteFs,
    /// Completions of io_uring or of AIO.
    AsyncIo,
    Userfault,
    FileLock,
    Terminal,
    Rcu,
    /// Its core dump, or the other threads' exit.
    Exit,
}

/// What a running task does in the kernel, where that is no [`Wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelWork {
    Fork,
    /// The first write to a page that is shared since a fork.
    CopyOnWrite,
    /// Freeing an address space that nobody uses any more: its last task ended, or started another program.
    Exit,
    Unmap,
    Populate,
    PageFault,
    FileIo,
    Network,
    Other,
    /// Spinning for a lock that another CPU holds.
    LockContention,
    /// Waiting for other CPUs to answer an interrupt.
    OtherCpus,
}

impl Wait {
    /// The wait is for a resource, which ends the path; other waits are for another task.
    pub fn is_for_resource(self) -> bool {
        !self.is_for_task()
    }

    fn is_for_task(self) -> bool {
        matches!(
            self,
            Self::Journal
                | Self::Fuse
                | Self::Semaphore
                | Self::Mutex
                | Self::Futex
                | Self::Poll
                | Self::Socket
                | Self::Pipe
                | Self::Child
                | Self::Signal
                | Self::Worker
                | Self::AsyncIo
                | Self::Userfault
                | Self::FileLock
                | Self::Unknown
        )
    }

    /// In the kernel, for what another task holds or does.
    pub(crate) fn is_held_in_kernel(self) -> bool {
        matches!(
            self,
            Self::Journal
                | Self::Fuse
                | Self::Semaphore
                | Self::Mutex
                | Self::Userfault
                | Self::FileLock
                | Self::Worker
        )
    }

    /// What a task that runs does for itself, where others wait: to free memory, or to read it back from swap.
    pub(crate) fn is_memory_work(self) -> bool {
        matches!(
            self,
            Self::MemoryHigh
                | Self::CgroupReclaim
                | Self::Compaction
                | Self::DirectReclaim
                | Self::BackgroundReclaim
                | Self::SwapIn
                | Self::Migration
        )
    }

    /// Another thread of the process may hold what is waited for, or have it to do.
    pub(crate) fn is_lock(self) -> bool {
        matches!(
            self,
            Self::Semaphore | Self::Mutex | Self::Futex | Self::AsyncIo | Self::Userfault
        )
    }

    /// As a server waits for work, and a client for an answer.
    pub(crate) fn is_for_work(self) -> bool {
        matches!(self, Self::Poll | Self::Socket | Self::Pipe | Self::Signal | Self::AsyncIo)
    }

    /// The wait may have a time limit of the program's own.
    pub(crate) fn may_time_out(self) -> bool {
        matches!(
            self,
            Self::Futex | Self::Poll | Self::Socket | Self::Signal | Self::AsyncIo | Self::Unknown
        )
    }

    /// In words, to follow "waiting for" or "waiting in".
    pub fn label(self) -> &'static str {
        match self {
            Self::CgroupFrozen => "frozen by its cgroup",
            Self::CpuQuota => "throttled by the cgroup's CPU quota",
            Self::MemoryHigh => "throttled over the cgroup's memory.high",
            Self::CgroupReclaim => "reclaim within the cgroup",
            Self::SwapIn => "swap-in",
            Self::Compaction => "compaction",
            Self::DirectReclaim => "direct reclaim",
            Self::BackgroundReclaim => "background reclaim",
            Self::DirtyThrottling => "dirty throttling",
            Self::Migration => "page migration",
            Self::Journal => "the file system's journal",
            Self::Writeback => "writeback of a page",
            Self::FileRead => "file read from disk",
            Self::FileWrite => "file write to disk",
            Self::Fuse => "a FUSE daemon",
            Self::Nfs => "the NFS server",
            Self::Disk => "the disk",
            Self::Semaphore => "mmap_lock or another semaphore",
            Self::Mutex => "a kernel mutex",
            Self::Sleep => "sleep (its own timer)",
            Self::Futex => "a lock (futex or semaphore)",
            Self::Poll => "poll",
            Self::Socket => "a socket",
            Self::Pipe => "a pipe or message queue",
            Self::Child => "a child process",
            Self::Signal => "a signal",
            Self::Worker => "a kernel worker",
            Self::Network => "the network",
            Self::Unknown => "an unknown event",
            Self::IoLimit => "the cgroup's share of the disk",
            Self::RemoteFs => "a file server",
            Self::AsyncIo => "asynchronous I/O (io_uring or AIO)",
            Self::Userfault => "a userfaultfd handler",
            Self::FileLock => "a file lock",
            Self::Terminal => "the terminal",
            Self::Rcu => "an RCU grace period",
            Self::Exit => "a core dump or exit",
        }
    }
}

impl KernelWork {
    /// In words, to follow "running in the kernel:".
    pub fn label(self) -> &'static str {
        match self {
            Self::Fork => "fork (copying page tables)",
            Self::CopyOnWrite => "copying pages on write",
            Self::Exit => "freeing the memory of a process that ends",
            Self::Unmap => "unmapping memory",
            Self::Populate => "populating memory",
            Self::PageFault => "page faults",
            Self::FileIo => "file I/O",
            Self::Network => "network",
            Self::Other => "other work",
            Self::LockContention => "spinning for a lock",
            Self::OtherCpus => "waiting for other CPUs (TLB flush)",
        }
    }
}
