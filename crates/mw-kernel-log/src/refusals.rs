//! Lines in which the kernel refuses something at a limit that is not the machine's memory.

use crate::word_table::WordTable;
use mw_memory::{format_bytes, format_count};
use std::collections::BTreeMap;

/// The most of a name that is kept.
const MAX_NAME_CHARS: usize = 120;

/// Limits that the kernel names when it refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusalKind {
    /// `pids.max` of a cgroup (kernel/cgroup/pids.c).
    Tasks,
    /// Bounce buffers of devices (kernel/dma/swiotlb.c).
    BounceBuffers,
    /// `net.ipv4.tcp_max_orphans`; before 3.3 the same line was written at `tcp_mem` (net/ipv4/tcp_timer.c).
    OrphanedSockets,
    /// `net.ipv4.tcp_mem`.
    SocketMemory,
    /// `fs.file-max`.
    OpenFiles,
    /// `net.netfilter.nf_conntrack_max`.
    TrackedConnections,
    /// Memory that Hyper-V gives a running guest (drivers/hv/hv_balloon.c).
    HotAdd,
    /// Overcommit (mm/util.c, `__vm_enough_memory()`), which logs its refusals since 6.0.
    Commit,
    /// `RLIMIT_DATA` (`may_expand_vm()`).
    DataSize,
    /// `net.ipv4.neigh.default.gc_thresh3` (net/core/neighbour.c).
    Neighbours,
    /// Per-CPU memory (mm/percpu.c).
    Percpu,
    /// The machine's memory: `out_of_memory()` first asks drivers, and i915 says that it freed nothing
    /// (drivers/gpu/drm/i915/gem/i915_gem_shrinker.c). A request without __GFP_FS has no process killed after that.
    Graphics,
}

/// Words of the kernel, and the limit that each is of.
static WORDS: WordTable<RefusalKind> = WordTable::new(&[
    ("fork rejected by pids controller in ", RefusalKind::Tasks),
    ("swiotlb buffer is full", RefusalKind::BounceBuffers),
    ("Out of SW-IOMMU space", RefusalKind::BounceBuffers),
    ("too many orphaned sockets", RefusalKind::OrphanedSockets),
    ("Out of socket memory", RefusalKind::OrphanedSockets),
    ("consider tuning tcp_mem", RefusalKind::SocketMemory),
    ("VFS: file-max limit", RefusalKind::OpenFiles),
    ("table full, dropping packet", RefusalKind::TrackedConnections),
    ("hv_balloon: Memory hot add failed", RefusalKind::HotAdd),
    ("not enough memory for the allocation", RefusalKind::Commit),
    ("no enough memory for the allocation", RefusalKind::Commit),
    (" exceed data ulimit ", RefusalKind::DataSize),
    ("neighbor table overflow", RefusalKind::Neighbours),
    ("Neighbour table overflow", RefusalKind::Neighbours),
    // Before 4.6 with PERCPU.
    ("percpu: allocation failed, size=", RefusalKind::Percpu),
    ("PERCPU: allocation failed, size=", RefusalKind::Percpu),
    ("Purging GPU memory, 0 pages freed", RefusalKind::Graphics),
]);

/// Refusals at one limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LimitRefusal {
    lines: u64,
    /// The first cgroup, device or program that was refused.
    first: Option<String>,
    /// Amount that the first line has: `32768 of 32768` slots, `48 GiB`.
    amount: Option<String>,
}

/// Refusals of a log by limit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(BTreeMap<RefusalKind, LimitRefusal>);

impl Refusals {
    /// Reads a line of the kernel; false if it refuses nothing.
    pub(crate) fn read(&mut self, message: &str) -> bool {
        let Some((words, kind)) = WORDS.find(message) else { return false };
        let refusal = self.0.entry(kind).or_default();
        refusal.lines = refusal.lines.saturating_add(1);
        if refusal.lines == 1 {
            let (before, after) = message.split_once(words).unwrap_or_default();
            let first = match kind {
                RefusalKind::Tasks => Some(after.trim()),
                // The older of the two lines has the device at its end.
                RefusalKind::BounceBuffers => after
                    .split_once(" at device ")
                    .map(|(_, device)| device)
                    .or_else(|| before.trim().strip_suffix(':')),
                RefusalKind::Commit => committing_program(before),
                RefusalKind::DataSize => mapping_program(before),
                _ => None,
            };
            let first = first.filter(|name| !name.is_empty());
            refusal.first = first.map(|name| name.chars().take(MAX_NAME_CHARS).collect());
            refusal.amount = match kind {
                RefusalKind::BounceBuffers => slots(after),
                RefusalKind::Commit => requested(before),
                RefusalKind::DataSize => data_size(before, after),
                _ => None,
            };
        }
        true
    }

    /// The limit that refused most often, in one line.
    pub(crate) fn headline(&self) -> Option<String> {
        let (kind, refusal) = self.0.iter().max_by_key(|(_, refusal)| refusal.lines)?;
        Some(format!("the kernel killed nothing: {}", kind.headline(refusal)))
    }

    /// A note for each limit.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(kind, refusal)| {
            format!("{}: {}", format_count(refusal.lines, "line"), kind.note(refusal))
        })
    }
}

impl RefusalKind {
    fn headline(self, refusal: &LimitRefusal) -> String {
        let first = refusal.first.as_deref();
        match self {
            Self::Tasks => format!(
                "fork was refused at the limit of tasks (pids.max) of {}",
                first.unwrap_or("a cgroup")
            ),
            Self::BounceBuffers => {
                let slots = refusal.amount.as_ref();
                let slots = slots.map_or(String::new(), |slots| format!(", {slots} slots in use"));
                format!(
                    "{} found no free bounce buffer (swiotlb){slots}",
                    first.unwrap_or("a device")
                )
            }
            Self::OrphanedSockets => {
                "TCP reset connections that their programs had closed (net.ipv4.tcp_max_orphans)"
                    .to_owned()
            }
            Self::SocketMemory => {
                "buffers of TCP sockets reached their limit (net.ipv4.tcp_mem)".to_owned()
            }
            Self::OpenFiles => "open files reached their limit (fs.file-max)".to_owned(),
            Self::TrackedConnections => {
                "packets were dropped at the limit of tracked connections (nf_conntrack_max)"
                    .to_owned()
            }
            Self::HotAdd => {
                "the guest could not add memory that Hyper-V gave it (hot add failed)".to_owned()
            }
            Self::Commit => format!(
                "overcommit refused {} {} in one request",
                first.unwrap_or("a program"),
                refusal.amount.as_deref().unwrap_or("memory")
            ),
            Self::DataSize => format!(
                "{} reached its limit of private memory (ulimit -d){}",
                first.unwrap_or("a program"),
                refusal.amount.as_ref().map_or(String::new(), |amount| format!(": {amount}"))
            ),
            Self::Neighbours => {
                "the table of network neighbours is full (neigh.default.gc_thresh3)".to_owned()
            }
            Self::Percpu => "an allocation of per-CPU memory failed".to_owned(),
            Self::Graphics => {
                "memory was used up, and the graphics driver (i915) had nothing to free".to_owned()
            }
        }
    }

    fn note(self, refusal: &LimitRefusal) -> String {
        let first = refusal.first.as_deref();
        match self {
            Self::Tasks => format!(
                "{} is at its limit of tasks (pids.max, TasksMax= of the unit), which is no limit of memory, whatever its \
                 programs print; raise it, or find what starts so many threads",
                first.unwrap_or("a cgroup")
            ),
            Self::BounceBuffers => format!(
                "{} could not map a buffer for DMA. A driver that does not unmap its buffers uses all up in time; swiotlb= at \
                 boot reserves more",
                first.unwrap_or("a device")
            ),
            Self::OrphanedSockets => "connections whose program has closed them wait for their peers; raise \
                 net.ipv4.tcp_max_orphans, or find who closes them with data unsent. Before Linux 3.3 the same line is written \
                 at net.ipv4.tcp_mem (mem of /proc/net/sockstat)"
                .to_owned(),
            Self::SocketMemory => "buffers of TCP sockets are at the third value of net.ipv4.tcp_mem; find the program (ss \
                 -tm), or raise it"
                .to_owned(),
            Self::OpenFiles => "open files are at fs.file-max; find the program that holds them, or raise it".to_owned(),
            Self::TrackedConnections => "connection tracking is full; raise net.netfilter.nf_conntrack_max, or find what \
                 opens the connections"
                .to_owned(),
            Self::HotAdd => "Hyper-V's dynamic memory gives the guest memory while it runs, and the guest could not add it \
                 (hv_balloon, hot add): it keeps the size that it was started with. Start it with its full memory, or switch \
                 dynamic memory off"
                .to_owned(),
            Self::Commit => "overcommit refuses a request that is larger than memory and swap together \
                 (vm.overcommit_memory=0), or beyond the commit limit (vm.overcommit_memory=2: CommitLimit of \
                 /proc/meminfo), however much memory is free; find why the program asks for so much at once: some size a \
                 table by their limit of open files (ulimit -n)"
                .to_owned(),
            Self::DataSize => format!(
                "private writable mappings of {} are limited by RLIMIT_DATA, touched or not, while memory is free; raise it \
                 (ulimit -d, LimitDATA= of the unit). The kernel logs the first of these only",
                first.unwrap_or("a program")
            ),
            Self::Neighbours => "packets to new neighbours fail with ENOBUFS although memory is free; raise \
                 net.ipv4.neigh.default.gc_thresh3, of IPv6 net.ipv6.neigh.default.gc_thresh3"
                .to_owned(),
            Self::Percpu => "each cgroup, BPF map and network device takes per-CPU memory on every CPU; modules have a part of \
                 fixed size (percpu_alloc= does not enlarge it)"
                .to_owned(),
            Self::Graphics => "each is a start of the OOM killer, which asks the graphics driver before it kills; the driver \
                 does not hold the memory. Where no kill follows, the requests may not use the file system (GFP_NOFS, GFP_NOIO: \
                 swap on a file system or a ZFS volume, network block devices), so that nobody ends and the machine may hang; \
                 find what grew before, and keep swap off such devices"
                .to_owned(),
        }
    }
}

/// `__vm_enough_memory: pid: 812, comm: NAME, bytes: 4096`: the name, which may have anything in it. Before 6.9 the size is
/// missing.
fn committing_program(before: &str) -> Option<&str> {
    let (_, rest) = before.split_once(", comm: ")?;
    let rest = rest.rsplit_once(", bytes: ").map_or(rest, |(name, _)| name);
    Some(rest.trim_end().trim_end_matches(','))
}

fn requested(before: &str) -> Option<String> {
    let (_, bytes) = before.rsplit_once(", bytes: ")?;
    Some(format_bytes(bytes.trim().parse().ok()?))
}

/// `mmap: NAME (812): VmData 8192`.
fn mapping_program(before: &str) -> Option<&str> {
    let (name, _) = before.rsplit_once(" (")?;
    Some(name.strip_prefix("mmap: ").unwrap_or(name))
}

fn data_size(before: &str, after: &str) -> Option<String> {
    let (_, size) = before.rsplit_once("VmData ")?;
    let limit = after.split('.').next()?;
    let bytes = |text: &str| Some(format_bytes(text.trim().parse().ok()?));
    Some(format!("{} of {}", bytes(size)?, bytes(limit)?))
}

/// `total 32768 (slots), used 32766 (slots)`.
fn slots(text: &str) -> Option<String> {
    let number = |key: &str| {
        let (_, after) = text.split_once(key)?;
        after.split(' ').next()?.parse::<u64>().ok()
    };
    Some(format!("{} of {}", number(", used ")?, number(", total ")?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Refusals {
        let mut refusals = Refusals::default();
        for line in lines {
            assert!(refusals.read(line), "{line}");
        }
        refusals
    }

    #[test]
    fn the_limit_is_named_with_who_met_it() {
        let tasks = read(&["cgroup: fork rejected by pids controller in /system.slice/ci.service"]);
        let headline = tasks.headline().unwrap();
        assert!(headline.ends_with("limit of tasks (pids.max) of /system.slice/ci.service"));
        let line = "nvme 0000:01:00.0: swiotlb buffer is full (sz: 4096 bytes), total 32768 (slots), used 32760 (slots)";
        let headline = read(&[line, line]).headline().unwrap();
        assert!(headline.contains("nvme 0000:01:00.0 found no free bounce buffer"), "{headline}");
        assert!(headline.ends_with("32760 of 32768 slots in use"), "{headline}");
        let old = read(&["DMA: Out of SW-IOMMU space for 65536 bytes at device 0000:03:00.0"]);
        assert!(old.headline().unwrap().contains("0000:03:00.0 found no free bounce buffer"));
    }

    #[test]
    fn a_refused_program_is_named_with_what_it_asked_for() {
        let headline = |line: &str| read(&[line]).headline().unwrap();
        let line = "__vm_enough_memory: pid: 7, comm: a, bytes: 1, bytes: 51539607552 not enough memory for the allocation";
        assert!(headline(line).ends_with("overcommit refused a, bytes: 1 48 GiB in one request"));
        let old =
            "__vm_enough_memory: pid: 7, comm: rpc.statd, no enough memory for the allocation";
        assert!(headline(old).ends_with("overcommit refused rpc.statd memory in one request"));
        let line = "mmap: a b (7): VmData 8760119296 exceed data ulimit 8589934592. Update limits or use boot option \
                    ignore_rlimit_data.";
        assert!(
            headline(line)
                .contains("a b reached its limit of private memory (ulimit -d): 8.2 GiB of 8 GiB")
        );
        let line = "neighbour: arp_cache: neighbor table overflow!";
        assert!(headline(line).contains("gc_thresh3"));
        let line =
            "percpu: allocation failed, size=8 align=8 atomic=0, alloc from reserved chunk failed";
        assert!(headline(line).contains("per-CPU memory"));
    }

    #[test]
    fn the_most_frequent_refusal_is_the_headline_and_each_has_a_note() {
        let both = read(&[
            "TCP: out of memory -- consider tuning tcp_mem",
            "TCP: too many orphaned sockets",
            "TCP: too many orphaned sockets",
        ]);
        assert!(both.headline().unwrap().contains("tcp_max_orphans"));
        assert_eq!(both.notes().count(), 2);
    }

    #[test]
    fn other_lines_refuse_nothing() {
        let mut refusals = Refusals::default();
        for line in ["swiotlb: Reserved memory: created", "hv_balloon: Using Dynamic Memory", ""] {
            assert!(!refusals.read(line), "{line}");
        }
        assert_eq!(refusals.headline(), None);
    }
}
