//! Lines of the kernel that are no report: it refuses something at a limit that is not the machine's memory, or memory
//! itself is faulty.

use crate::word_table::WordTable;
use mw_memory::{format_bytes, format_count};
use std::collections::BTreeMap;

/// The most of a name that is kept.
const MAX_NAME_CHARS: usize = 120;

/// Limits that the kernel names when it refuses, and faults of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KernelWarning {
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
    /// Memory that was plugged in beside the boundary of a block (mm/memory_hotplug.c, `check_hotplug_memory_range()`).
    UnalignedRange,
    /// Errors that the memory controller corrected (drivers/edac/edac_mc.c).
    CorrectedErrors,
    /// Errors that it could not correct (the same, and mm/memory-failure.c).
    UncorrectedErrors,
    /// Entries of page tables, or pages, that cannot be (mm/memory.c, `print_bad_pte()`; mm/page_alloc.c, `bad_page()`).
    CorruptPages,
}

/// Words of the kernel, and the warning that each is of.
static WORDS: WordTable<KernelWarning> = WordTable::new(&[
    ("fork rejected by pids controller in ", KernelWarning::Tasks),
    ("swiotlb buffer is full", KernelWarning::BounceBuffers),
    ("Out of SW-IOMMU space", KernelWarning::BounceBuffers),
    ("too many orphaned sockets", KernelWarning::OrphanedSockets),
    ("Out of socket memory", KernelWarning::OrphanedSockets),
    ("consider tuning tcp_mem", KernelWarning::SocketMemory),
    ("VFS: file-max limit", KernelWarning::OpenFiles),
    ("table full, dropping packet", KernelWarning::TrackedConnections),
    ("hv_balloon: Memory hot add failed", KernelWarning::HotAdd),
    ("not enough memory for the allocation", KernelWarning::Commit),
    ("no enough memory for the allocation", KernelWarning::Commit),
    (" exceed data ulimit ", KernelWarning::DataSize),
    ("neighbor table overflow", KernelWarning::Neighbours),
    ("Neighbour table overflow", KernelWarning::Neighbours),
    // Before 4.6 with PERCPU.
    ("percpu: allocation failed, size=", KernelWarning::Percpu),
    ("PERCPU: allocation failed, size=", KernelWarning::Percpu),
    ("Purging GPU memory, 0 pages freed", KernelWarning::Graphics),
    ("unaligned hotplug range: start ", KernelWarning::UnalignedRange),
    (" CE error on ", KernelWarning::CorrectedErrors),
    (" CE memory ", KernelWarning::CorrectedErrors),
    (" CE page ", KernelWarning::CorrectedErrors),
    (" UE error on ", KernelWarning::UncorrectedErrors),
    (" UE memory ", KernelWarning::UncorrectedErrors),
    (" UE page ", KernelWarning::UncorrectedErrors),
    ("Memory failure: 0x", KernelWarning::UncorrectedErrors),
    ("Bad page map in process ", KernelWarning::CorruptPages),
    ("Bad page state in process ", KernelWarning::CorruptPages),
    ("Bad swap file entry ", KernelWarning::CorruptPages),
    ("Bad swap offset entry ", KernelWarning::CorruptPages),
]);

/// Lines of one warning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct WarningLines {
    count: u64,
    /// The first cgroup, device or program that was refused, the first module or address that is faulty.
    first: Option<String>,
    /// Amount that the first line has: `32768 of 32768` slots, `48 GiB`.
    amount: Option<String>,
}

/// Warnings of a log by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelWarnings(BTreeMap<KernelWarning, WarningLines>);

impl KernelWarnings {
    /// Reads a line of the kernel; false if it is none of the warnings.
    pub(crate) fn read(&mut self, message: &str) -> bool {
        let Some((words, kind)) = WORDS.find(message) else { return false };
        let lines = self.0.entry(kind).or_default();
        lines.count = lines.count.saturating_add(1);
        if lines.count == 1 {
            let (before, after) = message.split_once(words).unwrap_or_default();
            let first = match kind {
                KernelWarning::Tasks => Some(after.trim()),
                // The older of the two lines has the device at its end.
                KernelWarning::BounceBuffers => after
                    .split_once(" at device ")
                    .map(|(_, device)| device)
                    .or_else(|| before.trim().strip_suffix(':')),
                KernelWarning::Commit => committing_program(before),
                KernelWarning::DataSize => mapping_program(before),
                KernelWarning::UnalignedRange => after.split(',').next(),
                KernelWarning::CorrectedErrors | KernelWarning::UncorrectedErrors => {
                    memory_module(words, after)
                }
                _ => None,
            };
            let first = first.filter(|name| !name.is_empty());
            lines.first = first.map(|name| name.chars().take(MAX_NAME_CHARS).collect());
            lines.amount = match kind {
                KernelWarning::BounceBuffers => slots(after),
                KernelWarning::Commit => requested(before),
                KernelWarning::DataSize => data_size(before, after),
                KernelWarning::UnalignedRange => block_size(before),
                _ => None,
            };
        }
        true
    }

    /// The most frequent warning, in one line.
    pub(crate) fn headline(&self) -> Option<String> {
        let (kind, lines) = self.0.iter().max_by_key(|(_, lines)| lines.count)?;
        Some(format!("the kernel killed nothing: {}", kind.headline(lines)))
    }

    /// A note for each warning.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(kind, lines)| {
            format!("{}: {}", format_count(lines.count, "line"), kind.note(lines))
        })
    }
}

impl KernelWarning {
    fn headline(self, lines: &WarningLines) -> String {
        let first = lines.first.as_deref();
        match self {
            Self::Tasks => format!(
                "fork was refused at the limit of tasks (pids.max) of {}",
                first.unwrap_or("a cgroup")
            ),
            Self::BounceBuffers => {
                let slots = lines.amount.as_ref();
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
                lines.amount.as_deref().unwrap_or("memory")
            ),
            Self::DataSize => format!(
                "{} reached its limit of private memory (ulimit -d){}",
                first.unwrap_or("a program"),
                lines.amount.as_ref().map_or(String::new(), |amount| format!(": {amount}"))
            ),
            Self::Neighbours => {
                "the table of network neighbours is full (neigh.default.gc_thresh3)".to_owned()
            }
            Self::Percpu => "an allocation of per-CPU memory failed".to_owned(),
            Self::Graphics => {
                "memory was used up, and the graphics driver (i915) had nothing to free".to_owned()
            }
            Self::UnalignedRange => format!(
                "memory that was plugged in was refused: it does not begin on a boundary of {}",
                lines.amount.as_deref().unwrap_or("a block")
            ),
            Self::CorrectedErrors => {
                format!("the hardware corrected memory errors at {}", first.unwrap_or("a module"))
            }
            Self::UncorrectedErrors => format!(
                "memory is faulty: errors at {} could not be corrected",
                first.unwrap_or("a module")
            ),
            Self::CorruptPages => {
                "memory holds wrong bits: entries of page tables or pages are corrupt".to_owned()
            }
        }
    }

    fn note(self, lines: &WarningLines) -> String {
        let first = lines.first.as_deref();
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
            Self::UnalignedRange => format!(
                "the kernel adds memory in whole blocks, each at a multiple of its size; the hypervisor put this at {}. Align it \
                 there, or use a kernel with smaller blocks (arm64 with 4 KiB pages: 128 MiB since 5.12, 1 GiB before)",
                first.unwrap_or("another address")
            ),
            Self::CorrectedErrors => format!(
                "nothing is lost and memory is not short; {} is failing: replace it before errors cannot be corrected \
                 (edac-util, ras-mc-ctl --summary count them)",
                first.unwrap_or("the module")
            ),
            Self::UncorrectedErrors => "the kernel takes such pages out of use and kills who has them; replace the module. More \
                 memory or other settings do not help"
                .to_owned(),
            Self::CorruptPages => "the hardware is faulty or overclocked, or a driver writes where it must not; test the memory \
                 (memtest86+) at its normal speed. Memory is not short"
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

/// `CPU#0Channel#2_DIMM#0 (channel:2 slot:0 …)`, `read error on DIMM_A1 (…)`, `0x0, offset 0x0, …, label "DIMM_A1"`.
fn memory_module<'a>(words: &str, after: &'a str) -> Option<&'a str> {
    let label = match after.split_once("label \"") {
        Some((_, rest)) => rest.split('"').next()?,
        None if words.ends_with(" on ") => after,
        None => after.split_once(" on ")?.1,
    };
    label.split(" (").next().map(str::trim)
}

/// `Block size [0x40000000] unaligned …`.
fn block_size(before: &str) -> Option<String> {
    let (_, rest) = before.split_once("[0x")?;
    let digits = rest.split(']').next()?;
    Some(format_bytes(u64::from_str_radix(digits, 16).ok()?))
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

    fn read(lines: &[&str]) -> KernelWarnings {
        let mut warnings = KernelWarnings::default();
        for line in lines {
            assert!(warnings.read(line), "{line}");
        }
        warnings
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
    fn faults_of_memory_name_the_module_and_the_block() {
        let headline = |line: &str| read(&[line]).headline().unwrap();
        for line in [
            "EDAC MC0: 4 CE error on DIMM#0 (channel:2 slot:0 page:0x0 offset:0x0)",
            "EDAC MC0: 1 CE memory read error on DIMM#0 (channel:0 slot:0)",
            "EDAC MC1: CE page 0x1, offset 0x0, grain 8, row 4, channel 1, label \"DIMM#0\": amd64",
        ] {
            assert!(headline(line).ends_with("corrected memory errors at DIMM#0"), "{line}");
        }
        let line = "Memory failure: 0x12345: recovery action for dirty LRU page: Recovered";
        assert!(headline(line).contains("memory is faulty"));
        let line =
            "Block size [0x40000000] unaligned hotplug range: start 0xc8000000, size 0x40000000";
        assert!(headline(line).ends_with("a boundary of 1 GiB"));
        assert!(read(&[line]).notes().next().unwrap().contains("put this at 0xc8000000. "));
        let line = "BUG: Bad page map in process a  pte:806a0000 pmd:387c2831";
        assert!(headline(line).contains("wrong bits"));
    }

    #[test]
    fn other_lines_refuse_nothing() {
        let mut warnings = KernelWarnings::default();
        for line in ["swiotlb: Reserved memory: created", "hv_balloon: Using Dynamic Memory", ""] {
            assert!(!warnings.read(line), "{line}");
        }
        assert_eq!(warnings.headline(), None);
    }
}
