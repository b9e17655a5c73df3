//! Machines that are made up, as the files that they would have.

use super::{answer, measured};
use mw_model::{
    Cgroup, Cgroups, HugePool, Node, NodeSample, Preflight, Reading, Request, Snapshot, Sysctl,
    Thp, Window,
};
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::choice::Choice;
use mw_proc::limits::Rlimits;
use mw_proc::meminfo::Meminfo;
use mw_proc::version::KernelVersion;
use mw_proc::zoneinfo::Zoneinfo;
use std::fmt::Write;

/// A node of the machines that are made up here, in MiB.
#[derive(Clone, Copy, Default)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) file: u64,
    pub(super) dirty: u64,
    pub(super) anon: u64,
    pub(super) shmem: u64,
}

impl Memory {
    fn lines(&self, prefix: &str) -> String {
        let mut text = String::new();
        for (name, mib) in [
            ("MemTotal", self.total),
            ("MemFree", self.free),
            ("Active(file)", self.file / 2),
            ("Inactive(file)", self.file - self.file / 2),
            ("Active(anon)", self.anon),
            ("Inactive(anon)", self.shmem),
            ("AnonPages", self.anon),
            ("Shmem", self.shmem),
            ("Dirty", self.dirty),
            ("Writeback", 0),
        ] {
            writeln!(text, "{prefix}{name}: {} kB", mib << 10).unwrap();
        }
        text
    }

    /// One zone with watermarks of 64, 80 and 96 MiB, its free memory in blocks of 4 MiB.
    fn zone(&self, node: usize) -> String {
        let pages = |mib: u64| mib << 8;
        format!(
            "Node {node}, zone Normal\n  pages free {}\n        min {}\n        low {}\n        high {}\n\
             \x20       spanned {total}\n        present {total}\n        managed {total}\n\
             \x20       protection: (0, 0)\n  pagesets\n  node_unreclaimable:  0\n  start_pfn: 1\n",
            pages(self.free),
            pages(64),
            pages(80),
            pages(96),
            total = pages(self.total),
        )
    }

    fn buddy(&self, node: usize) -> String {
        format!("Node {node}, zone Normal 0 0 0 0 0 0 0 0 0 0 {}\n", self.free / 4)
    }
}

pub(super) struct Machine {
    nodes: Vec<Memory>,
    swap_mib: u64,
    pub(super) snapshot: Snapshot,
}

impl Machine {
    pub(super) fn new(nodes: &[Memory]) -> Self {
        let mut snapshot = Snapshot::default();
        snapshot.origin.page_bytes = 4096;
        snapshot.origin.kernel = Some(KernelVersion::new(6, 1, 0));
        snapshot.origin.effective_capabilities = Some(0);
        let machine = Self { nodes: nodes.to_vec(), swap_mib: 0, snapshot };
        machine
            .sysctl("vm.overcommit_memory", "0")
            .limits("Max locked memory  unlimited unlimited bytes\n")
            .groups(Vec::new())
            .thp("always [madvise] never", "always defer defer+madvise [madvise] never")
    }

    pub(super) fn sysctl(mut self, name: &str, value: &str) -> Self {
        set(&mut self.snapshot.sysctl, name, value);
        self
    }

    pub(super) fn limits(mut self, text: &str) -> Self {
        self.snapshot.limits = Reading::Value(Rlimits::parse(text.as_bytes()).unwrap());
        self
    }

    pub(super) fn groups(mut self, own: Vec<Cgroup>) -> Self {
        self.snapshot.cgroups = Reading::Value(Cgroups { own, ..Cgroups::default() });
        self
    }

    pub(super) fn thp(mut self, enabled: &str, defrag: &str) -> Self {
        let choice = |text: &str| Choice::parse(text.as_bytes()).unwrap();
        let thp = Thp { enabled: choice(enabled), defrag: choice(defrag), ..Thp::default() };
        self.snapshot.thp = Reading::Value(thp);
        self
    }

    pub(super) fn pool(mut self, pool: HugePool) -> Self {
        self.snapshot.hugepages = Reading::Value(vec![pool]);
        self
    }

    pub(super) fn swap(mut self, mib: u64) -> Self {
        self.swap_mib = mib;
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Snapshot)) -> Self {
        change(&mut self.snapshot);
        self
    }

    /// The machine with its files, as text that the parsers read.
    pub(super) fn build(mut self) -> Self {
        let sum = self.nodes.iter().fold(Memory::default(), |a, b| Memory {
            total: a.total + b.total,
            free: a.free + b.free,
            file: a.file + b.file,
            dirty: a.dirty + b.dirty,
            anon: a.anon + b.anon,
            shmem: a.shmem + b.shmem,
        });
        let kib = self.swap_mib << 10;
        let meminfo = format!(
            "{}SwapTotal: {kib} kB\nSwapFree: {kib} kB\nHugepagesize: 2048 kB\n\
             CommitLimit: {} kB\nCommitted_AS: {} kB\n",
            sum.lines(""),
            (sum.total << 10) / 2,
            (sum.total << 10) / 8
        );
        let sample = &mut self.snapshot.sample;
        sample.meminfo = Reading::Value(Meminfo::parse(meminfo.as_bytes()).unwrap());
        let nodes = || self.nodes.iter().enumerate();
        let mut zoneinfo = Zoneinfo::default();
        let zones: String = nodes().map(|(id, node)| node.zone(id)).collect();
        zoneinfo.parse_into(zones.as_bytes()).unwrap();
        sample.zoneinfo = Reading::Value(zoneinfo);
        let mut buddyinfo = Buddyinfo::default();
        let zones: String = nodes().map(|(id, node)| node.buddy(id)).collect();
        buddyinfo.parse_into(zones.as_bytes()).unwrap();
        sample.buddyinfo = Reading::Value(buddyinfo);
        let node_file = |(id, node): (usize, &Memory)| NodeSample {
            node: u32::try_from(id).unwrap(),
            meminfo: Reading::Value(
                Meminfo::parse(node.lines(&format!("Node {id} ")).as_bytes()).unwrap(),
            ),
        };
        sample.nodes = nodes().map(node_file).collect();
        let node = |(id, _)| Node { id: u32::try_from(id).unwrap(), ..Node::default() };
        if self.snapshot.nodes.value().is_none() {
            self.snapshot.nodes = Reading::Value(nodes().map(node).collect());
        }
        self
    }

    pub(super) fn ask(self, request: &str) -> Preflight {
        self.build().ask_as_it_is(request)
    }

    pub(super) fn ask_as_it_is(self, request: &str) -> Preflight {
        let request: Request = request.parse().unwrap();
        answer(&Window::new(self.snapshot), &request, Some(&measured())).unwrap()
    }
}

fn set(sysctl: &mut Sysctl, name: &str, value: &str) {
    sysctl.values.insert(name.to_owned(), Ok(value.to_owned()));
}
