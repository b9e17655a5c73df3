//! Who holds how much memory: the largest processes, cgroups, slab caches and tmpfs, as they are recorded once
//! a minute.
//!
//! Page cache and whatever else reclaim frees is left out: a cache that grows is not a leak. So is the shared
//! memory of processes, which would count in each that maps it; it counts in its tmpfs and its cgroup.

use crate::collector::{cgroup, mounts, processes};
use crate::source::Source;
use mw_memory::MachineMemory;
use mw_model::{HolderSize, MemoryFilesystem, Process, SizedHolder};
use mw_proc::cgroup::MemoryStat;
use mw_proc::meminfo::Meminfo;
use mw_proc::slabinfo;
use std::cmp::Reverse;
use std::time::Duration;

/// The most of a kind that are recorded.
const MAX_PROCESSES: usize = 32;
const MAX_CGROUPS: usize = 48;
const MAX_SLAB_CACHES: usize = 16;
const MAX_TMPFS: usize = 16;

/// Smallest size that is recorded.
const MIN_BYTES: u64 = 4 << 20;

/// A tmpfs below it is a marker, not storage.
const MIN_TMPFS_BYTES: u64 = 1 << 20;

/// CPU time that reading the cgroups may take.
const CGROUP_BUDGET: Duration = Duration::from_millis(8);

/// Samples from one with slab caches to the next: to list them the kernel counts free objects under locks.
const SAMPLES_PER_SLABINFO: u32 = 10;

/// Caches that shrink on demand, where /sys/kernel/slab does not tell.
const RECLAIMABLE_CACHES: [&str; 4] = ["dentry", "buffer_head", "radix_tree_node", "xfs_inode"];

/// Collects sizes again and again.
#[derive(Debug)]
pub struct SizeCollector {
    source: Source,
    page_bytes: u64,
    samples: u32,
    /// The largest processes of the last sample, which are read first: on a machine with very many, the
    /// oldest would never be read.
    largest: Vec<u32>,
}

impl SizeCollector {
    #[must_use]
    pub fn new(source: Source) -> Self {
        let page_bytes = rustix::param::page_size() as u64;
        Self { source, page_bytes, samples: 0, largest: Vec::new() }
    }

    /// Source of its files.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The sizes now; what cannot be read is left out. It takes a few milliseconds.
    pub fn collect(&mut self) -> Vec<HolderSize> {
        let mut sizes = machine(&self.source);
        sizes.extend(self.processes());
        sizes.extend(cgroups(&self.source));
        sizes.extend(tmpfs(&self.source));
        if self.samples.is_multiple_of(SAMPLES_PER_SLABINFO) {
            sizes.extend(self.slab_caches());
        }
        self.samples = self.samples.wrapping_add(1);
        sizes
    }

    fn processes(&mut self) -> Vec<HolderSize> {
        let Ok(read) = processes::collect_first(&self.source, &self.largest) else {
            return Vec::new();
        };
        let of = |process: &Process| {
            let status = &process.status;
            let anon = status.rss_anon_bytes?.saturating_add(status.vm_swap_bytes.unwrap_or(0));
            Some((anon, (status.pid?, status.name.clone())))
        };
        let largest = largest(read.list.iter().filter_map(of), MAX_PROCESSES);
        self.largest = largest.iter().map(|(_, (pid, _))| *pid).collect();
        let started = processes::started_ticks(&self.source, &self.largest);
        let named = largest.into_iter().zip(started);
        let size = |((bytes, (pid, name)), started): ((u64, (u32, String)), Option<u64>)| {
            let holder = SizedHolder::Process { pid, started_ticks: started?, name };
            Some(HolderSize { holder, bytes, limit_bytes: None })
        };
        named.filter_map(size).collect()
    }

    fn slab_caches(&self) -> Vec<HolderSize> {
        let Ok(caches) = self.source.parse("/proc/slabinfo", slabinfo::parse) else {
            return Vec::new();
        };
        let sized = caches.into_iter().map(|cache| (cache.bytes(self.page_bytes), cache.name));
        let mut large = largest(sized, usize::MAX);
        large.retain(|(_, name)| !is_reclaimable(&self.source, name));
        large.truncate(MAX_SLAB_CACHES);
        let size = |(bytes, name)| HolderSize {
            holder: SizedHolder::SlabCache { name },
            bytes,
            limit_bytes: None,
        };
        large.into_iter().map(size).collect()
    }
}

/// The largest, in descending order, of at least [`MIN_BYTES`].
fn largest<T>(sized: impl Iterator<Item = (u64, T)>, at_most: usize) -> Vec<(u64, T)> {
    let mut sized: Vec<(u64, T)> = sized.filter(|(bytes, _)| *bytes >= MIN_BYTES).collect();
    sized.sort_by_key(|(bytes, _)| Reverse(*bytes));
    sized.truncate(at_most);
    sized
}

fn machine(source: &Source) -> Vec<HolderSize> {
    let Ok(meminfo) = source.parse("/proc/meminfo", Meminfo::parse) else { return Vec::new() };
    let total = meminfo.mem_total_bytes;
    let used = total.zip(MachineMemory::of_meminfo(&meminfo).available_bytes());
    let used = used.map(|(total, available)| total.saturating_sub(available));
    let of = |holder, bytes: Option<u64>, limit_bytes| {
        bytes.map(|bytes| HolderSize { holder, bytes, limit_bytes })
    };
    [
        of(SizedHolder::Machine, used, total),
        of(SizedHolder::SharedMemory, meminfo.shmem_bytes, None),
        of(SizedHolder::PageTables, meminfo.page_tables_bytes, None),
        of(SizedHolder::UnreclaimableSlab, meminfo.sunreclaim_bytes, None),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn cgroups(source: &Source) -> Vec<HolderSize> {
    let Ok(groups) = cgroup::memories_within(source, CGROUP_BUDGET) else { return Vec::new() };
    let below_root = groups.list.into_iter().filter(|group| group.path != "/");
    let held = below_root.map(|group| (unreclaimable_bytes(&group.stat), group.path));
    let largest = largest(held, MAX_CGROUPS);
    let paths: Vec<&str> = largest.iter().map(|(_, path)| path.as_str()).collect();
    let limits = cgroup::limits(source, &paths);
    let size = |((bytes, path), limit_bytes)| HolderSize {
        holder: SizedHolder::Cgroup { path },
        bytes,
        limit_bytes,
    };
    largest.into_iter().zip(limits).map(size).collect()
}

/// Part of a cgroup's memory that no reclaim frees without swap.
fn unreclaimable_bytes(stat: &MemoryStat) -> u64 {
    let parts = [
        stat.anon_bytes,
        stat.shmem_bytes,
        stat.slab_unreclaimable_bytes,
        stat.kernel_stack_bytes,
        stat.pagetables_bytes,
        stat.sock_bytes,
    ];
    parts.into_iter().flatten().fold(0, u64::saturating_add)
}

fn tmpfs(source: &Source) -> Vec<HolderSize> {
    let Ok(filesystems) = mounts::collect(source) else { return Vec::new() };
    let of = |filesystem: MemoryFilesystem| {
        let bytes = filesystem.used_bytes.filter(|bytes| *bytes >= MIN_TMPFS_BYTES)?;
        let is_tmpfs = filesystem.fstype == "tmpfs" && !filesystem.read_only;
        let holder = SizedHolder::Tmpfs { target: filesystem.target };
        is_tmpfs.then_some(HolderSize { holder, bytes, limit_bytes: filesystem.size_bytes })
    };
    let mut sizes: Vec<HolderSize> = filesystems.into_iter().filter_map(of).collect();
    sizes.sort_by_key(|size| Reverse(size.bytes));
    sizes.truncate(MAX_TMPFS);
    sizes
}

fn is_reclaimable(source: &Source, cache: &str) -> bool {
    match source.number(&format!("/sys/kernel/slab/{cache}/reclaim_account")) {
        Ok(is_reclaimable) => is_reclaimable > 0,
        Err(_) => RECLAIMABLE_CACHES.contains(&cache) || cache.ends_with("inode_cache"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn this_machine_is_sized_within_milliseconds() {
        let mut collector = SizeCollector::new(Source::live().unwrap());
        let held = vec![1_u8; 64 << 20];
        let begun = Instant::now();
        let sizes = collector.collect();
        let took = begun.elapsed();
        assert_eq!(held.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 64 << 20);
        let find = |is_it: &dyn Fn(&SizedHolder) -> bool| sizes.iter().find(|s| is_it(&s.holder));
        let machine = find(&|holder| *holder == SizedHolder::Machine).unwrap();
        assert!(machine.limit_bytes.is_some_and(|limit| limit > machine.bytes));
        let own = std::process::id();
        let is_own = |holder: &SizedHolder| matches!(holder, SizedHolder::Process { pid, .. } if *pid == own);
        assert!(find(&is_own).unwrap().bytes > 64 << 20);
        assert!(collector.largest.contains(&own));
        // A hundred times as long as on an idle machine.
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert!(sizes.len() <= 4 + MAX_PROCESSES + MAX_CGROUPS + MAX_SLAB_CACHES + MAX_TMPFS);
    }

    #[test]
    #[ignore = "a measurement"]
    fn cost_of_a_sample() {
        let mut collector = SizeCollector::new(Source::live().unwrap());
        for _ in 0..12 {
            let (begun, cpu) = (Instant::now(), mw_sys::thread_time());
            let count = collector.collect().len();
            let cpu = mw_sys::thread_time() - cpu;
            println!("{count} holders in {:?}, {cpu:?} of it on this thread", begun.elapsed());
        }
    }

    #[test]
    fn groups_mounts_and_caches_of_a_tree_are_sized() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "proc/mounts",
            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n",
        );
        write("proc/self/cgroup", "0::/\n");
        write("memwright/statfs", "/dev/shm 1073741824 2097152 100 1\n");
        write("sys/fs/cgroup/cgroup.controllers", "memory\n");
        write("sys/fs/cgroup/memory.stat", "anon 99999999\n");
        let stat = "anon 8000000\nfile 90000000\nshmem 1000000\nslab_reclaimable 5000000\n\
                    slab_unreclaimable 500\npagetables 96\n";
        write("sys/fs/cgroup/app/memory.stat", stat);
        write("sys/fs/cgroup/app/memory.max", "16777216\n");
        write("sys/fs/cgroup/small/memory.stat", "anon 4096\n");
        let cache = |name: &str, slabs: u64| {
            format!("{name} 1 1 64 64 1 : tunables 0 0 0 : slabdata {slabs} {slabs} 0\n")
        };
        let heading = "slabinfo - version: 2.1\n# name\n";
        let caches = [cache("dentry", 9000), cache("kmalloc-64", 8000), cache("task", 1)].concat();
        write("proc/slabinfo", &format!("{heading}{caches}"));
        let mut collector = SizeCollector::new(Source::tree(root.path()).unwrap());
        collector.page_bytes = 4096;
        let shown = |sizes: Vec<HolderSize>| -> Vec<(String, u64, Option<u64>)> {
            sizes.into_iter().map(|s| (s.holder.to_string(), s.bytes, s.limit_bytes)).collect()
        };
        let group = ("cgroup./app".to_owned(), 9_000_596, Some(16 << 20));
        let shm = ("tmpfs./dev/shm".to_owned(), 2 << 20, Some(1 << 30));
        let cache = ("slab.kmalloc-64".to_owned(), 8000 * 4096, None);
        assert_eq!(shown(collector.collect()), [group.clone(), shm.clone(), cache]);
        assert_eq!(shown(collector.collect()), [group, shm], "slabinfo is not read every time");
    }
}
