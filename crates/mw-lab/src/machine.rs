//! What a virtual machine is made of, and QEMU's words for it.

use std::path::Path;
use std::time::Duration;

use crate::accel::Accel;

/// What a disk holds when the machine starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskFormat {
    /// Nothing.
    #[default]
    Raw,
    /// An empty ext4 file system.
    Ext4,
    /// Swap space, switched on before the case begins.
    Swap,
}

/// A disk; the guest sees the first as `/dev/disk0`, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Its size.
    pub size_bytes: u64,
    /// What it holds.
    pub format: DiskFormat,
    /// The most bytes it reads a second; `None`: as fast as it can.
    pub read_bytes_per_s: Option<u64>,
    /// The most bytes it writes a second; `None`: as fast as it can.
    pub write_bytes_per_s: Option<u64>,
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// All of its memory.
    pub memory_bytes: u64,
    /// Its CPUs, shared evenly among the nodes; where they are fewer, the last nodes have none.
    pub cpus: u32,
    /// Its NUMA nodes, of equal memory; 1 is a machine without NUMA.
    pub nodes: u32,
    /// Its disks.
    pub disks: Vec<Disk>,
    /// What the kernel's command line gets besides what the lab needs.
    pub append: String,
    /// After this it is killed, whatever it does.
    pub time_limit: Duration,
}

/// The files that one run of a machine uses.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    /// The kernel's image.
    pub kernel: &'a Path,
    /// The initial file system.
    pub initramfs: &'a Path,
    /// One image for each disk.
    pub disks: &'a [std::path::PathBuf],
    /// Gets the kernel's log and what the case prints.
    pub console: &'a Path,
    /// Gets the guest's frames.
    pub frames: &'a Path,
}

/// The initial file system stays in a ramfs, whose pages cannot be swapped out under the load.
const KERNEL_PARAMETERS: &str =
    "console=ttyS0 rdinit=/init rootfstype=ramfs panic=-1 quiet loglevel=5 no_timer_check";
/// What only makes the emulation slower is off: five-level page tables, and `rep stosb` as the way to
/// clear memory, which is emulated byte by byte.
const CPU_MODEL: &str = "max,la57=off,erms=off,fsrm=off";

impl Machine {
    /// QEMU's arguments for one run.
    pub fn qemu_arguments(&self, accel: Accel, files: &Files<'_>) -> Vec<String> {
        let mut args: Vec<String> = Vec::new();
        let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
        add("-accel", accel.name().to_owned());
        add("-cpu", CPU_MODEL.to_owned());
        add("-m", format!("{}M", self.memory_bytes >> 20));
        add("-smp", format!("{0},sockets={0}", self.cpus));
        for (name, value) in self.numa_arguments() {
            add(name, value);
        }
        add("-kernel", files.kernel.display().to_string());
        add("-initrd", files.initramfs.display().to_string());
        add("-append", format!("{KERNEL_PARAMETERS} {}", self.append));
        add("-serial", format!("file:{}", files.console.display()));
        add("-serial", format!("file:{}", files.frames.display()));
        for (number, (disk, image)) in self.disks.iter().zip(files.disks).enumerate() {
            add("-drive", disk.drive_argument(number, image));
            add("-device", format!("nvme,drive=d{number},serial=disk{number}"));
        }
        args.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned));
        args.extend(["-display", "none"].map(str::to_owned));
        args
    }

    fn numa_arguments(&self) -> Vec<(&'static str, String)> {
        if self.nodes < 2 {
            return Vec::new();
        }
        let mut args = Vec::new();
        let node_mib = (self.memory_bytes >> 20) / u64::from(self.nodes);
        for node in 0..self.nodes {
            args.push(("-object", format!("memory-backend-ram,id=m{node},size={node_mib}M")));
            args.push(("-numa", format!("node,nodeid={node},memdev=m{node}")));
        }
        for cpu in 0..self.cpus {
            let node = if self.cpus < self.nodes { cpu } else { cpu * self.nodes / self.cpus };
            args.push(("-numa", format!("cpu,node-id={node},socket-id={cpu}")));
        }
        args
    }

    /// The kernel modules without which the guest does not see its disks; most kernels have them
    /// built in.
    pub fn drivers(&self) -> Vec<&'static str> {
        let is_ext4 = |disk: &Disk| disk.format == DiskFormat::Ext4;
        let nvme = (!self.disks.is_empty()).then_some("nvme");
        nvme.into_iter().chain(self.disks.iter().any(is_ext4).then_some("ext4")).collect()
    }

    /// The kernel's names of the disks that hold swap space.
    pub fn swap_disks(&self) -> Vec<String> {
        let numbered = self.disks.iter().enumerate();
        let swap = numbered.filter(|(_, disk)| disk.format == DiskFormat::Swap);
        swap.map(|(number, _)| format!("disk{number}")).collect()
    }
}

impl Disk {
    fn drive_argument(&self, number: usize, image: &Path) -> String {
        let mut drive =
            format!("if=none,id=d{number},format=raw,cache=unsafe,file={}", image.display());
        for (name, limit) in [("read", self.read_bytes_per_s), ("write", self.write_bytes_per_s)] {
            if let Some(bytes) = limit {
                drive += &format!(",throttling.bps-{name}={bytes}");
            }
        }
        drive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            memory_bytes: 2 << 30,
            cpus: 2,
            nodes: 1,
            disks: Vec::new(),
            append: "psi=1".to_owned(),
            time_limit: Duration::from_secs(1),
        }
    }

    fn arguments(machine: &Machine) -> String {
        let disks = vec![std::path::PathBuf::from("/t/d0"); machine.disks.len()];
        let path = Path::new("/t/x");
        let files =
            Files { kernel: path, initramfs: path, disks: &disks, console: path, frames: path };
        machine.qemu_arguments(Accel::Tcg, &files).join(" ")
    }

    #[test]
    fn one_node_needs_no_numa() {
        let args = arguments(&machine());
        assert!(args.contains("-m 2048M -smp 2,sockets=2 -kernel"), "{args}");
        assert!(args.contains("psi=1"), "{args}");
        assert!(!args.contains("-numa"), "{args}");
    }

    #[test]
    fn nodes_share_memory_and_cpus() {
        let args = arguments(&Machine { nodes: 2, ..machine() });
        for want in [
            "-object memory-backend-ram,id=m0,size=1024M -numa node,nodeid=0,memdev=m0",
            "-object memory-backend-ram,id=m1,size=1024M -numa node,nodeid=1,memdev=m1",
            "-numa cpu,node-id=0,socket-id=0 -numa cpu,node-id=1,socket-id=1",
        ] {
            assert!(args.contains(want), "{args}");
        }
    }

    #[test]
    fn a_node_may_have_no_cpu() {
        let args = arguments(&Machine { nodes: 3, ..machine() });
        assert!(args.contains("nodeid=2,memdev=m2"), "{args}");
        assert!(args.contains("cpu,node-id=1,socket-id=1") && !args.contains("cpu,node-id=2"));
    }

    #[test]
    fn disks_are_throttled_and_named() {
        let disk = Disk {
            size_bytes: 1 << 30,
            format: DiskFormat::Swap,
            read_bytes_per_s: None,
            write_bytes_per_s: Some(2_000_000),
        };
        let machine = Machine { disks: vec![disk], ..machine() };
        let args = arguments(&machine);
        assert!(
            args.contains(
                "file=/t/d0,throttling.bps-write=2000000 -device nvme,drive=d0,serial=disk0"
            ),
            "{args}"
        );
        assert_eq!(machine.swap_disks(), ["disk0"]);
    }
}
