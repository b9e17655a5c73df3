//! The slower parts of a snapshot: what the machine has and how it is set.

use crate::{Missing, Step};
use mw_memory::HugePool;
use mw_proc::choice::Choice;
use mw_proc::mm_stat::MmStat;
use mw_proc::pressure::Pressure;
use mw_proc::{bdi, cgroup, limits, status};
use std::collections::{BTreeMap, BTreeSet};

/// One NUMA node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    pub id: u32,
    /// Its CPUs; empty for a node of memory alone.
    pub cpus: Vec<u32>,
    /// Its distances to all nodes in the order of their numbers; 10 is itself.
    pub distances: Vec<u64>,
    /// Its share of every huge page pool.
    pub hugepages: Vec<HugePool>,
}

/// Number of huge pages that were requested, on the boot line or in a sysctl file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HugepagesWanted {
    /// Source of the request: `/proc/cmdline` or `/etc/sysctl.d/10-db.conf`.
    pub source: String,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    pub pages: u64,
}

/// The values under /proc/sys that concern memory, by dotted name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sysctl {
    /// Dotted name to the file's text without its last newline, or why there is none.
    pub values: BTreeMap<String, Result<String, Missing>>,
}

impl Sysctl {
    /// Files that count what is in use and that nobody sets.
    const COUNTS: [&str; 4] =
        ["fs.aio-nr", "fs.file-nr", "kernel.pty.nr", "net.netfilter.nf_conntrack_count"];

    /// True for a file that counts what is in use, beside the settings.
    #[must_use]
    pub fn is_count(name: &str) -> bool {
        Self::COUNTS.contains(&name)
    }

    /// The text of one setting.
    ///
    /// # Errors
    /// Why the setting was not seen.
    pub fn text(&self, name: &str) -> Result<&str, Missing> {
        match self.values.get(name) {
            Some(Ok(text)) => Ok(text),
            Some(Err(missing)) => Err(missing.clone()),
            None => Err(Missing::skipped(Self::path(name), "not among what is collected")),
        }
    }

    /// A setting that is one number.
    ///
    /// # Errors
    /// Why the setting was not seen, or that it is not a number.
    pub fn number(&self, name: &str) -> Result<u64, Missing> {
        let text = self.text(name)?;
        text.trim()
            .parse()
            .map_err(|_| Missing::failed(Self::path(name), format!("'{text}' is not a number")))
    }

    /// The file of a setting: `vm.swappiness` is `/proc/sys/vm/swappiness`.
    pub fn path(name: &str) -> String {
        format!("/proc/sys/{}", name.replace('.', "/"))
    }
}

/// Settings of transparent huge pages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thp {
    /// `enabled` for pages of the PMD's size.
    pub enabled: Choice,
    /// `defrag`: what a fault does when there is no huge page.
    pub defrag: Choice,
    /// `hpage_pmd_size`, the size of a huge page in bytes; absent before 4.9.
    pub pmd_bytes: Option<u64>,
    /// `shmem_enabled`; absent before 4.8.
    pub shmem_enabled: Option<Choice>,
    /// The numbers under `khugepaged/`, by file name.
    pub khugepaged: BTreeMap<String, u64>,
    /// Further sizes (`hugepages-64kB`), since 6.8.
    pub sizes: Vec<ThpSize>,
}

/// Settings of one size of transparent huge pages.
#[derive(Debug, Clone, PartialEq)]
pub struct ThpSize {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// `enabled` of this size.
    pub enabled: Choice,
    /// `shmem_enabled` of this size; absent before 6.11.
    pub shmem_enabled: Option<Choice>,
}

/// A mounted filesystem whose files are memory: tmpfs, ramfs, devtmpfs, hugetlbfs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryFilesystem {
    pub target: String,
    pub fstype: String,
    /// True if it is mounted read-only.
    pub read_only: bool,
    pub options: Vec<String>,
    /// Size limit; `None` if there is no limit (ramfs) or it is unknown.
    pub size_bytes: Option<u64>,
    /// Memory that its files hold; `None` where the kernel does not count it (ramfs).
    pub used_bytes: Option<u64>,
    /// Limit of inodes; `None` if there is no limit.
    pub inodes: Option<u64>,
    pub inodes_used: Option<u64>,
}

/// The processes that were read: a bounded number, never all of a busy machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Processes {
    /// Number of processes.
    pub present: usize,
    /// Number of processes that were not read, because of the bound or the time limit.
    pub unseen: usize,
    /// Those that were read and have memory.
    pub list: Vec<Process>,
}

impl Processes {
    /// Whether all were read: a rule that finds nothing in a part has not passed.
    ///
    /// # Errors
    /// How many were not.
    pub fn whole(&self) -> Result<(), Missing> {
        if self.unseen == 0 {
            return Ok(());
        }
        let why = format!(
            "{} of {} processes could not be checked within the time limit",
            self.unseen, self.present
        );
        Err(Missing::skipped("/proc/PID/status", why))
    }
}

/// One process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    pub status: status::Status,
    /// Its limits, if they could be read; only for processes that lock or pin memory, have [`Process::open_files`] or have
    /// come close to a limit of mapped memory ([`crate::mapped_limit::reached_limit`]), and of people and of users with many
    /// tasks for the one with most threads.
    pub limits: Option<limits::Rlimits>,
    /// Its open files; only where they reach the limit ([`crate::open_files::reaches_limit`]).
    pub open_files: Option<u64>,
    /// Path of its memory cgroup, as /proc/PID/cgroup has it; only of the processes with most memory.
    pub memory_cgroup: Option<String>,
}

/// True if a user is a person and no service (`UID_MIN` of login.defs).
#[must_use]
pub fn is_person(uid: u32) -> bool {
    const FIRST: u32 = 1000;
    const NOBODY: u32 = 65534;
    (FIRST..NOBODY).contains(&uid)
}

/// Memory cgroups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cgroups {
    /// The hierarchy that has the memory controller.
    pub version: CgroupVersion,
    pub mount: String,
    /// Our own group and its ancestors, innermost first.
    pub own: Vec<Cgroup>,
    /// Groups with a limit, and those whose memory is protected: a bounded number.
    pub limited: Vec<Cgroup>,
    /// Limits of huge pages on our own group and its ancestors.
    pub hugetlb: Vec<HugetlbLimit>,
    /// True if some groups were not read, because of the bound or the time limit.
    pub truncated: bool,
    /// The lowest limit of the groups above those of `own`, where it is lower than theirs: they are
    /// outside of what is mounted here, and version 1 shows only the limit.
    pub limit_above_bytes: Option<u64>,
    /// The reason why limits of groups above those that the mount shows are not known: usual in a container of
    /// version 2, where they mostly have none.
    pub above_unseen: Option<Missing>,
    /// Groups that were removed and whose memory is still in use, of all controllers (version 2).
    pub dying: Option<u64>,
    /// `memory.swappiness` of the first groups below the root of version 1, by path: vm.swappiness is that of the root alone.
    pub swappiness: Vec<(String, u64)>,
    /// Limits on our own group that could not be determined.
    pub unseen: Vec<Missing>,
}

/// True if a cgroup is `of` or lies below it; nothing is said by the root, which all lie below.
#[must_use]
pub fn is_cgroup_within(path: &str, of: &str) -> bool {
    let rest = path.strip_prefix(of.trim_end_matches('/'));
    of != "/" && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// True for the path of a cgroup below another.
#[must_use]
pub fn is_cgroup_below(path: &str, of: &str) -> bool {
    path != of && (of == "/" || is_cgroup_within(path, of))
}

impl Cgroups {
    /// The path of a group's file.
    #[must_use]
    pub fn file(&self, group: &Cgroup, name: &str) -> String {
        format!("{}{}/{name}", self.mount, group.path.trim_end_matches('/'))
    }

    /// The groups that were read, each once: our own may be among those with a limit.
    pub fn each(&self) -> impl Iterator<Item = &Cgroup> {
        let mut seen = BTreeSet::new();
        let groups = self.own.iter().chain(&self.limited);
        groups.filter(move |group| seen.insert(group.path.as_str()))
    }

    /// The file of a limit of memory of a group.
    #[must_use]
    pub fn limit_file(&self, group: &Cgroup, limit_bytes: u64) -> &'static str {
        match self.version {
            CgroupVersion::V1 => "memory.limit_in_bytes",
            CgroupVersion::V2 if group.high_bytes == Some(limit_bytes) => "memory.high",
            CgroupVersion::V2 => "memory.max",
        }
    }

    /// Whether all were read: a rule that finds nothing in a part has not passed.
    ///
    /// # Errors
    /// That they were not.
    pub fn whole(&self) -> Result<(), Missing> {
        if !self.truncated {
            return Ok(());
        }
        let why = "some cgroups could not be checked within the limits of time and number";
        Err(Missing::skipped("/sys/fs/cgroup", why))
    }
}

/// Tasks of a cgroup with those below it, and their limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupTasks {
    /// The group's path below the root of its hierarchy.
    pub path: String,
    /// `pids.current`.
    pub tasks: u64,
    /// `pids.max`.
    pub limit: u64,
    /// The path of `pids.max`.
    pub file: String,
}

/// Limit of a cgroup's huge pages of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HugetlbLimit {
    /// The group's path below the hierarchy's root.
    pub path: String,
    pub page_bytes: u64,
    /// The name of the file, such as `hugetlb.2MB.max`.
    pub file: String,
    pub limit_bytes: u64,
    pub used_bytes: u64,
}

/// The cgroup hierarchy that has the memory controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Version 1, or a hybrid with memory in version 1.
    V1,
    /// Version 2.
    #[default]
    V2,
}

/// One memory cgroup.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cgroup {
    /// Its path below the hierarchy's root, `/` for the root itself.
    pub path: String,
    pub current_bytes: Option<u64>,
    /// `memory.max` or `memory.limit_in_bytes`; `None` is no limit.
    pub max_bytes: Option<u64>,
    /// `memory.high`; `None` is no limit.
    pub high_bytes: Option<u64>,
    /// `memory.min`: what reclaim leaves to it, as far as its ancestors protect it; 0 in version 1.
    pub min_bytes: u64,
    /// `memory.low`: what reclaim leaves to it while it finds memory elsewhere; 0 in version 1.
    pub low_bytes: u64,
    /// True if it is known to have no groups below it: looked at only where `min_bytes` protects something.
    pub is_leaf: bool,
    /// `memory.swap.max`; in version 1 `memory.memsw.limit_in_bytes`, the limit of memory and swap
    /// together. `None` is no limit, or a kernel that does not count swap by group.
    pub swap_max_bytes: Option<u64>,
    /// `memory.swap.high`, above which its tasks are throttled (kernel 5.8); `None` is no limit, or version 1.
    pub swap_high_bytes: Option<u64>,
    /// Memory that counts towards `swap_max_bytes`.
    pub swap_current_bytes: Option<u64>,
    /// Kernel memory charged to it, which version 1 tells in one number
    /// (`memory.kmem.usage_in_bytes`); in version 2 it is part of `stat`.
    pub kernel_bytes: Option<u64>,
    /// `memory.kmem.limit_in_bytes` of version 1 (before 5.16); `None` is no limit.
    pub kernel_limit_bytes: Option<u64>,
    /// How often that limit refused memory: `memory.kmem.failcnt`.
    pub kernel_failures: Option<u64>,
    pub stat: cgroup::MemoryStat,
    /// Time that its tasks waited for memory (`memory.pressure`): of groups of version 2 whose memory has reached
    /// memory.max.
    pub pressure: Option<Pressure>,
    /// Its events: of its own limits, and processes killed in it and below. Version 1 fills `max` (failcnt) and
    /// `oom_kill` alone.
    pub events: cgroup::MemoryEvents,
}

impl Cgroup {
    /// The lowest of its own limits of memory, above which it reclaims.
    #[must_use]
    pub fn lowest_limit_bytes(&self) -> Option<u64> {
        [self.max_bytes, self.high_bytes].into_iter().flatten().min()
    }
}

/// One block device that memory is written back to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disk {
    /// Its name, such as `nvme0n1`.
    pub name: String,
    /// `major:minor`.
    pub device: String,
    pub rotational: Option<bool>,
    /// The kernel's own estimate of its speed and its dirty memory, where debugfs is mounted.
    pub bdi: Option<bdi::BdiStats>,
    /// Share of the dirty limit that it may have, in percent.
    pub max_ratio: Option<u64>,
    /// The same in parts of a million (kernel 6.2).
    pub max_ratio_fine: Option<u64>,
    /// True if its share is a limit by itself; without, the kernel lets all writers run until the whole machine has much
    /// dirty (kernel 6.2).
    pub strict_limit: Option<bool>,
    /// The most that the kernel reads ahead of a program (`queue/read_ahead_kb`).
    pub read_ahead_bytes: Option<u64>,
}

impl Disk {
    /// The whole of the machine's dirty limit, in the unit of `max_ratio_fine`: parts per million.
    pub const WHOLE: u64 = 1_000_000;

    /// Its share of a dirty limit, in bytes.
    #[must_use]
    pub fn dirty_share_bytes(&self, limit_bytes: u64) -> u64 {
        let percent = self.max_ratio.map(|percent| percent.saturating_mul(Self::WHOLE / 100));
        let parts = self.max_ratio_fine.or(percent).unwrap_or(Self::WHOLE).min(Self::WHOLE);
        limit_bytes.saturating_mul(parts) / Self::WHOLE
    }

    /// Writes that give it a dirty limit of its own (kernel 6.2), in parts per million of the machine's: `max_ratio_fine`
    /// alone is none.
    #[must_use]
    pub fn limit_steps(&self, parts: u64) -> [Step; 2] {
        let setting = |name| format!("/sys/class/bdi/{}/{name}", self.device);
        [Step::write(setting("strict_limit"), 1), Step::write(setting("max_ratio_fine"), parts)]
    }
}

/// Blocks of memory behind the end of all zones that are offline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryBlocks {
    /// Size of a block; 0 where the kernel cannot add memory.
    pub block_bytes: u64,
    /// Their numbers, ascending: a bounded number.
    pub offline: Vec<u64>,
    /// `auto_online_blocks`: what the kernel does with added blocks (4.7 and later).
    pub auto_online: Option<String>,
}

/// A zram device, which keeps what is written to it in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zram {
    /// Such as `zram0`.
    pub name: String,
    /// Capacity, uncompressed: `disksize`.
    pub size_bytes: u64,
    pub mm_stat: MmStat,
}
