//! Lines in which the kernel refuses something at a limit that is not the machine's memory.

use mw_memory::format_count;
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
}

/// Words of the kernel, and the limit that each is of.
const WORDS: [(&str, RefusalKind); 9] = [
    ("fork rejected by pids controller in ", RefusalKind::Tasks),
    ("swiotlb buffer is full", RefusalKind::BounceBuffers),
    ("Out of SW-IOMMU space", RefusalKind::BounceBuffers),
    ("too many orphaned sockets", RefusalKind::OrphanedSockets),
    ("Out of socket memory", RefusalKind::OrphanedSockets),
    ("consider tuning tcp_mem", RefusalKind::SocketMemory),
    ("VFS: file-max limit", RefusalKind::OpenFiles),
    ("table full, dropping packet", RefusalKind::TrackedConnections),
    ("hv_balloon: Memory hot add failed", RefusalKind::HotAdd),
];

/// Refusals at one limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LimitRefusal {
    lines: u64,
    /// The first cgroup or device that was refused.
    first: Option<String>,
    /// `32768 of 32768` slots of the first line, where it has them.
    slots: Option<String>,
}

/// Refusals of a log by limit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals(BTreeMap<RefusalKind, LimitRefusal>);

impl Refusals {
    /// Reads a line of the kernel; false if it refuses nothing.
    pub(crate) fn read(&mut self, message: &str) -> bool {
        let Some((words, kind)) = WORDS.iter().find(|(words, _)| message.contains(words)) else {
            return false;
        };
        let refusal = self.0.entry(*kind).or_default();
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
                _ => None,
            };
            let first = first.filter(|name| !name.is_empty());
            refusal.first = first.map(|name| name.chars().take(MAX_NAME_CHARS).collect());
            refusal.slots = slots(after);
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
                let slots =
                    refusal.slots.as_ref().map_or(String::new(), |s| format!(", {s} slots in use"));
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
        }
    }
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
