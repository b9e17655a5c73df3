//! Looks at the kernel's memory: passive collectors, one a kernel file, and active probes.
//!
//! Everything enters here, from a running machine or a captured tree, and leaves as a
//! [`mw_model::Snapshot`]. [`Sampler`] reads the fast counters through descriptors that stay open;
//! [`snapshot`] adds the slower parts; [`window`] takes two samples, so that rates can be computed;
//! [`SizeCollector`] reads who holds how much.
//! Nothing here writes to the kernel.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod calibrate;
pub mod capture;
mod collector;
mod cpu_use;
mod disks;
mod group_use;
mod held_files;
mod hints;
mod holders;
pub mod input;
mod journal;
mod judged;
mod kernel_log;
mod lxcfs;
mod masked;
mod memory_tree;
mod namespaces;
mod node_ranges;
mod own;
mod page_blocks;
mod page_flags;
mod redact;
mod sampler;
pub mod service;
mod sizes;
mod source;
mod spread;
pub mod text_archive;

pub use cpu_use::CpuSample;
pub use disks::{DiskSampler, MAX_FOLLOWED_DISKS};
pub use group_use::{GroupSample, GroupSampler, MAX_GROUPS, MAX_USES};
pub use held_files::{SequentialFile, clean_bytes_before, sequential_files};
pub use holders::holders;
pub use journal::{
    JournalEntries, JournalLines, JournalQuery, JournalSearch, read_journal, search_journal,
};
pub use kernel_log::{KernelLog, LoggedDrop, LoggedEvents, LoggedKill, logged_victims};
pub use memory_tree::MemoryTree;
pub use namespaces::nested_namespaces;
pub use node_ranges::{NodeRange, movable_ranges};
pub use own::OwnMemory;
pub use page_blocks::{page_blocks, page_blocks_up_to};
pub use sampler::Sampler;
pub use sizes::SizeCollector;
pub use source::{MAX_DIR_ENTRIES, MAX_FILE_BYTES, Source, SourceError};

use collector::{
    block, cgroup, hugepages, map_count, memory_blocks, mounts, node, processes, sysctl, sysvipc,
    transparent_hugepage, zram,
};
use mw_model::{Missing, Origin, OriginKind, Snapshot, Waiters, Window, derived};
use mw_proc::arcstats::Arcstats;
use mw_proc::dentry_state::DentryState;
use mw_proc::extfrag::Extfrag;
use mw_proc::inode_state::InodeState;
use mw_proc::limits::Rlimits;
use mw_proc::meminfo::Meminfo;
use mw_proc::sockstat::Sockstat;
use mw_proc::status::Status;
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::{Counter, Vmstat};
use std::time::Duration;

/// The shortest time between the two samples of a window of the running machine: long enough for the
/// scan rates of a reclaim storm to show, short enough for `check` to stay below 30 ms.
pub const MIN_WINDOW: Duration = Duration::from_millis(10);

pub fn snapshot(source: &Source) -> Snapshot {
    collect(source).1
}

/// Collects a snapshot with two samples of the fast counters: on a running machine at least [`MIN_WINDOW`] apart, and a
/// second where the kernel reclaimed, compacted or swapped meanwhile, so that a burst is told from a condition; as far
/// apart as in the capture for a captured tree.
pub fn window(source: &Source) -> Window {
    window_of(source, MIN_WINDOW)
}

/// [`window`], with at least `span` between the samples of a running machine.
pub fn window_of(source: &Source, span: Duration) -> Window {
    let not_watched = || Missing::skipped("tracepoints", "nobody watches who waits");
    window_watched(source, span, |left| {
        std::thread::sleep(left);
        Err(not_watched())
    })
}

/// [`window_of`], with who waits for memory where tasks of the running machine reclaim or compact directly: `watch` takes
/// the time that it is given.
pub fn window_watched(
    source: &Source,
    span: Duration,
    watch: impl FnOnce(Duration) -> Result<Waiters, Missing>,
) -> Window {
    let (mut sampler, now) = collect(source);
    if !source.is_running() {
        let earlier = capture::earlier_sample(source, &now.sample);
        return Window::since(earlier, now);
    }
    let mut window = Window::since([now.sample.clone()], now);
    std::thread::sleep(left(&sampler, &window, span));
    sampler.sample(&mut window.now.sample);
    if !window.has_work() || window.is_sustained() {
        return window;
    }
    let sustained = Duration::from_secs_f64(Window::SUSTAINED_MS / 1000.0);
    if window.has_direct_work() {
        window.waiters = watch(left(&sampler, &window, sustained)).into();
    }
    // Where nothing could be watched, no time has passed.
    std::thread::sleep(left(&sampler, &window, sustained));
    sampler.sample(&mut window.now.sample);
    window
}

/// The time until `span` has passed since the first sample.
fn left(sampler: &Sampler, window: &Window, span: Duration) -> Duration {
    let passed = window.earlier.first().map_or(Duration::ZERO, |first| sampler.since(first));
    span.saturating_sub(passed)
}

/// Takes what changes while memory is moved and reclaimed into a snapshot: the fast counters and the pools.
pub fn refresh(source: &Source, sampler: &mut Sampler, snapshot: &mut Snapshot) {
    sampler.sample(&mut snapshot.sample);
    snapshot.nodes = node::collect(source).into();
    snapshot.hugepages = hugepages::collect(source).into();
}

/// The NUMA nodes; none if the kernel does not report them.
pub fn nodes(source: &Source) -> Vec<u32> {
    node::collect(source).iter().flatten().map(|node| node.id).collect()
}

/// A snapshot, and the sampler for a second sample of the fast counters.
fn collect(source: &Source) -> (Sampler, Snapshot) {
    let (sampler, mut snapshot) = free_memory(source);
    fill(source, &mut snapshot);
    (sampler, snapshot)
}

/// A snapshot of what tells how much memory is free and in which blocks, without who holds the rest; with the
/// sampler for [`refresh`].
pub fn free_memory(source: &Source) -> (Sampler, Snapshot) {
    let nodes = node::collect(source);
    let ids: Vec<u32> = nodes.iter().flatten().map(|node| node.id).collect();
    let mut snapshot =
        Snapshot { origin: origin(source), nodes: nodes.into(), ..Snapshot::default() };
    let mut sampler = Sampler::open(source, &ids);
    sampler.sample(&mut snapshot.sample);
    snapshot.thp = transparent_hugepage::collect(source).into();
    snapshot.hugepages = hugepages::collect(source).into();
    (sampler, snapshot)
}

fn fill(source: &Source, snapshot: &mut Snapshot) {
    snapshot.sysctl = sysctl::collect(source);
    let page_bytes = derived::default_pool_page_bytes(snapshot);
    snapshot.hugepages_wanted = hugepages::wanted(source, page_bytes).into();
    snapshot.swaps = source.reading("/proc/swaps", mw_proc::swaps::parse);
    snapshot.zrams = zram::collect(source, &snapshot.swaps).into();
    snapshot.filesystems = mounts::collect(source).into();
    snapshot.shm = source.reading("/proc/sysvipc/shm", mw_proc::sysvipc_shm::parse);
    (snapshot.semaphores, snapshot.message_queues) = sysvipc::collect(source);
    snapshot.limits = source.reading("/proc/self/limits", Rlimits::parse);
    snapshot.processes = processes::collect(source).into();
    snapshot.slabs = source.reading("/proc/slabinfo", mw_proc::slabinfo::parse);
    let known = map_count::CollectedCounts {
        sysctl: &snapshot.sysctl,
        slabs: snapshot.slabs.value().map(Vec::as_slice),
        processes: &snapshot.processes,
        page_bytes: snapshot.origin.page_bytes,
    };
    snapshot.map_counts = map_count::collect(source, &known).into();
    snapshot.dentries = source.reading("/proc/sys/fs/dentry-state", DentryState::parse);
    snapshot.inodes = source.reading("/proc/sys/fs/inode-state", InodeState::parse);
    snapshot.arc = source.reading("/proc/spl/kstat/zfs/arcstats", Arcstats::parse);
    snapshot.sockets = source.reading("/proc/net/sockstat", Sockstat::parse);
    snapshot.tasks = source.reading("/proc/loadavg", mw_proc::loadavg::parse_tasks);
    snapshot.keys = source.reading("/proc/key-users", mw_proc::key_users::parse);
    snapshot.beancounters =
        source.reading("/proc/user_beancounters", mw_proc::user_beancounters::parse);
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let page_bytes: Vec<u64> = pools.iter().map(|pool| pool.page_bytes).collect();
    snapshot.cgroups = cgroup::collect(source, &page_bytes).into();
    snapshot.task_limits = cgroup::task_limits(source).into();
    snapshot.memory_hierarchy = source.reading("/proc/cgroups", mw_proc::cgroups::parse_memory);
    let blocks =
        snapshot.sample.zoneinfo.required().and_then(|zoneinfo| {
            memory_blocks::collect(source, zoneinfo, snapshot.origin.page_bytes)
        });
    snapshot.memory_blocks = blocks.into();
    snapshot.disks = block::collect(source).into();
    snapshot.page_blocks = judged::page_blocks(source, snapshot).into();
    snapshot.oom_history = judged::oom_history(source, &snapshot.sample).into();
    snapshot.extfrag_unusable =
        source.reading("/sys/kernel/debug/extfrag/unusable_index", |bytes| {
            let mut extfrag = Extfrag::default();
            extfrag.parse_into(bytes)?;
            Ok(extfrag)
        });
}

/// Sizes of a base page that kernels have.
const PAGE_BYTES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

fn origin(source: &Source) -> Origin {
    let live = source.kind() == OriginKind::Live;
    let own = source.parse("/proc/self/status", Status::parse).unwrap_or_default();
    let page_bytes = || {
        let said = source.number(capture::PAGE_SIZE).ok();
        let said = said.filter(|bytes| PAGE_BYTES.contains(bytes));
        said.or_else(|| counted_page_bytes(source)).unwrap_or(derived::USUAL_PAGE_BYTES)
    };
    Origin {
        kind: source.kind(),
        root: source.root().display().to_string(),
        input: source.input().map(str::to_owned),
        taken_unix_ms: if source.is_running() {
            capture::now_unix_ms()
        } else {
            source.number(capture::CLOCK).ok()
        },
        kernel: source
            .parse("/proc/sys/kernel/osrelease", KernelVersion::parse)
            .or_else(|_| source.parse("/proc/version", KernelVersion::parse))
            .ok(),
        page_bytes: if source.is_running() {
            rustix::param::page_size() as u64
        } else {
            page_bytes()
        },
        cpus: source
            .parse("/sys/devices/system/cpu/online", mw_proc::cpulist::parse)
            .ok()
            .and_then(|cpus| u32::try_from(cpus.len()).ok()),
        effective_capabilities: match in_first_user_namespace(source) {
            Some(false) => own.effective_capabilities.map(|_| 0),
            _ => own.effective_capabilities,
        },
        mapped_bytes: own.vm_size_bytes,
        data_bytes: own.vm_data_bytes,
        replaced: if live { masked::replaced() } else { lxcfs::replaced_in_tree(source) },
        memory_nodes: own
            .mems_allowed_list
            .and_then(|list| mw_proc::cpulist::parse(list.as_bytes()).ok()),
        policy_nodes: if live { mw_sys::bound_nodes().ok().flatten() } else { None },
        own_bytes: own.rss_anon_bytes.zip(own.vm_pte_bytes).map(|(anon, tables)| anon + tables),
        uptime_s: source.parse("/proc/uptime", mw_proc::uptime::parse).ok(),
    }
}

/// The size of a base page of a tree that does not say it, such as a sosreport. The kernel reports mapped page cache in
/// KiB (meminfo) and in pages (vmstat). The files were read one after the other; sizes differ by a factor of four.
fn counted_page_bytes(source: &Source) -> Option<u64> {
    let bytes = source.parse("/proc/meminfo", Meminfo::parse).ok()?.mapped_bytes?;
    let mut vmstat = Vmstat::default();
    vmstat.parse_into(&source.read("/proc/vmstat").ok()?).ok()?;
    let each = bytes.checked_div(vmstat.get(Counter::NrMapped)?)?;
    PAGE_BYTES.into_iter().find(|page| (page / 2..page * 2).contains(&each))
}

/// True if this process is in the user namespace that the machine started with, where that can be
/// told. That one, and by convention no other, maps all users to themselves in one line (as
/// systemd's `running_in_userns` goes by).
fn in_first_user_namespace(source: &Source) -> Option<bool> {
    let map = source.read("/proc/self/uid_map").ok()?;
    let map = String::from_utf8_lossy(&map).into_owned();
    Some(map.split_whitespace().eq(["0", "0", "4294967295"]))
}
