//! The virtual machine that a variant runs on.

use std::path::PathBuf;
use std::time::Duration;

/// The contents of a disk when the machine starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskFormat {
    #[default]
    Raw,
    /// An empty ext4 file system.
    Ext4,
    /// Swap space, activated before the case begins.
    Swap,
}

/// A disk; the guest sees the first as `/dev/disk0`, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestDisk {
    pub size_bytes: u64,
    pub format: DiskFormat,
    /// Contents, instead of those by `format`; the guest's writes are discarded at its end.
    pub image: Option<PathBuf>,
    /// True if the guest's writes go to `image`, as those of other machines do that run at the same time.
    pub is_shared: bool,
    /// `None`: not throttled.
    pub read_bytes_per_s: Option<u64>,
    /// `None`: not throttled.
    pub write_bytes_per_s: Option<u64>,
}

/// One end of a cable between two machines: QEMU's datagram sockets. The guest's interface needs the module `virtio_net`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkLink {
    pub local: PathBuf,
    pub remote: PathBuf,
    /// The last byte of the interface's address.
    pub number: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestMachine {
    pub memory_bytes: u64,
    /// Distributed evenly over the nodes; where there are fewer CPUs than nodes, the last nodes have none.
    pub cpus: u32,
    /// NUMA nodes, of equal memory; 1 is a machine without NUMA.
    pub nodes: u32,
    pub disks: Vec<GuestDisk>,
    /// Memory that the host takes once the guest has loaded `virtio_balloon`.
    pub balloon_bytes: Option<u64>,
    /// True if the guest may reboot; otherwise that ends the machine.
    pub reboots: bool,
    /// True if it has a watchdog (`i6300esb`), which resets it.
    pub has_watchdog: bool,
    /// The cable to another machine that runs at the same time.
    pub link: Option<NetworkLink>,
    /// Additional kernel parameters.
    pub append: String,
    /// The machine is killed after this time.
    pub time_limit: Duration,
}

impl GuestMachine {
    /// The kernel modules that the disks need; most kernels have them built in.
    pub fn drivers(&self) -> Vec<&'static str> {
        let is_ext4 = |disk: &GuestDisk| disk.format == DiskFormat::Ext4;
        let nvme = (!self.disks.is_empty()).then_some("nvme");
        nvme.into_iter().chain(self.disks.iter().any(is_ext4).then_some("ext4")).collect()
    }

    /// Commands of QEMU's monitor at the start.
    pub fn monitor_commands(&self) -> String {
        let left_mib = |balloon: u64| self.memory_bytes.saturating_sub(balloon) >> 20;
        self.balloon_bytes.map_or_else(String::new, |b| format!("balloon {}\n", left_mib(b)))
    }

    /// The kernel's names of the disks that hold swap space.
    pub fn swap_disks(&self) -> Vec<String> {
        let numbered = self.disks.iter().enumerate();
        let swap = numbered.filter(|(_, disk)| disk.format == DiskFormat::Swap);
        swap.map(|(number, _)| format!("disk{number}")).collect()
    }
}
