//! QEMU's command line.

use std::path::Path;

use crate::case::machine::{GuestDisk, GuestMachine, NetworkLink};
use crate::vm::accel::Accel;

/// The files of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineFiles<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
    /// In the order of the machine's disks.
    pub(crate) disks: &'a [std::path::PathBuf],
    /// For the kernel's log and the output of the case.
    pub(crate) console: &'a Path,
    pub(crate) frames: &'a Path,
}

/// The initial file system stays in a ramfs, whose pages cannot be swapped out under the load. Mitigations of CPU
/// vulnerabilities cost a tenth of the time of an emulated kernel.
const KERNEL_PARAMETERS: &str = "console=ttyS0 rdinit=/init rootfstype=ramfs panic=-1 quiet \
    loglevel=5 no_timer_check mitigations=off";
/// Features that slow emulation down are off: five-level page tables, and `rep stosb` to clear memory, which
/// is emulated byte by byte.
const CPU_MODEL: &str = "max,la57=off,erms=off,fsrm=off";

/// QEMU's arguments for one run.
pub(crate) fn qemu_arguments(
    machine: &GuestMachine,
    accel: Accel,
    files: &MachineFiles<'_>,
) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
    add("-accel", accel.name().to_owned());
    add("-cpu", CPU_MODEL.to_owned());
    add("-m", format!("{}M", machine.memory_bytes >> 20));
    add("-smp", format!("{0},sockets={0}", machine.cpus));
    for (name, value) in numa_arguments(machine) {
        add(name, value);
    }
    add("-kernel", files.kernel.display().to_string());
    add("-initrd", files.initramfs.display().to_string());
    add("-append", format!("{KERNEL_PARAMETERS} {}", machine.append));
    add("-serial", format!("file:{}", files.console.display()));
    add("-serial", format!("file:{}", files.frames.display()));
    for (number, (disk, image)) in machine.disks.iter().zip(files.disks).enumerate() {
        add("-drive", drive_argument(disk, number, image));
        add("-device", format!("nvme,drive=d{number},serial=disk{number}"));
    }
    if machine.balloon_bytes.is_some() {
        add("-device", "virtio-balloon-pci".to_owned());
        add("-monitor", "stdio".to_owned());
    }
    if machine.has_watchdog {
        add("-device", "i6300esb".to_owned());
    }
    if let Some(link) = &machine.link {
        add("-netdev", netdev_argument(link));
        add(
            "-device",
            format!("virtio-net-pci,netdev=link,mac=52:54:00:00:00:{:02x}", link.number),
        );
    }
    args.extend(["-nodefaults", "-no-user-config"].map(str::to_owned));
    args.extend((!machine.reboots).then(|| "-no-reboot".to_owned()));
    args.extend(["-display", "none"].map(str::to_owned));
    args
}

fn numa_arguments(machine: &GuestMachine) -> Vec<(&'static str, String)> {
    if machine.nodes < 2 {
        return Vec::new();
    }
    let mut args = Vec::new();
    let node_mib = (machine.memory_bytes >> 20) / u64::from(machine.nodes);
    for node in 0..machine.nodes {
        args.push(("-object", format!("memory-backend-ram,id=m{node},size={node_mib}M")));
        args.push(("-numa", format!("node,nodeid={node},memdev=m{node}")));
    }
    for cpu in 0..machine.cpus {
        let node =
            if machine.cpus < machine.nodes { cpu } else { cpu * machine.nodes / machine.cpus };
        args.push(("-numa", format!("cpu,node-id={node},socket-id={cpu}")));
    }
    args
}

/// Datagrams: the two machines may start in any order, and what nobody receives is lost, as on a cable.
fn netdev_argument(link: &NetworkLink) -> String {
    let (local, remote) = (link.local.display(), link.remote.display());
    format!(
        "dgram,id=link,local.type=unix,local.path={local},remote.type=unix,remote.path={remote}"
    )
}

fn drive_argument(disk: &GuestDisk, number: usize, image: &Path) -> String {
    let mut drive =
        format!("if=none,id=d{number},format=raw,cache=unsafe,file={}", image.display());
    drive += match &disk.image {
        Some(_) if disk.is_shared => ",file.locking=off",
        Some(_) => ",snapshot=on",
        None => "",
    };
    for (name, limit) in [("read", disk.read_bytes_per_s), ("write", disk.write_bytes_per_s)] {
        if let Some(bytes) = limit {
            drive += &format!(",throttling.bps-{name}={bytes}");
        }
    }
    drive
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::machine::DiskFormat;
    use std::time::Duration;

    fn machine() -> GuestMachine {
        GuestMachine {
            memory_bytes: 2 << 30,
            cpus: 2,
            nodes: 1,
            disks: Vec::new(),
            balloon_bytes: None,
            reboots: false,
            has_watchdog: false,
            link: None,
            append: "psi=1".to_owned(),
            time_limit: Duration::from_secs(1),
        }
    }

    fn arguments(machine: &GuestMachine) -> String {
        let disks = vec![std::path::PathBuf::from("/t/d0"); machine.disks.len()];
        let path = Path::new("/t/x");
        let files = MachineFiles {
            kernel: path,
            initramfs: path,
            disks: &disks,
            console: path,
            frames: path,
        };
        qemu_arguments(machine, Accel::Tcg, &files).join(" ")
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
        let args = arguments(&GuestMachine { nodes: 2, ..machine() });
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
        let args = arguments(&GuestMachine { nodes: 3, ..machine() });
        assert!(args.contains("nodeid=2,memdev=m2"), "{args}");
        assert!(args.contains("cpu,node-id=1,socket-id=1") && !args.contains("cpu,node-id=2"));
    }

    #[test]
    fn a_machine_reboots_only_where_it_may() {
        assert!(arguments(&machine()).contains("-no-reboot"));
        assert!(!arguments(&GuestMachine { reboots: true, ..machine() }).contains("-no-reboot"));
    }

    #[test]
    fn disks_are_throttled_and_named() {
        let disk = GuestDisk {
            size_bytes: 1 << 30,
            format: DiskFormat::Swap,
            image: None,
            is_shared: false,
            read_bytes_per_s: None,
            write_bytes_per_s: Some(2_000_000),
        };
        let machine = GuestMachine { disks: vec![disk], ..machine() };
        let args = arguments(&machine);
        assert!(
            args.contains(
                "file=/t/d0,throttling.bps-write=2000000 -device nvme,drive=d0,serial=disk0"
            ),
            "{args}"
        );
        assert_eq!(machine.swap_disks(), ["disk0"]);
        assert!(!args.contains("snapshot"));
    }

    #[test]
    fn a_balloon_has_a_device_and_a_monitor() {
        assert!(!arguments(&machine()).contains("balloon"));
        let machine = GuestMachine { balloon_bytes: Some(512 << 20), ..machine() };
        assert!(arguments(&machine).contains("-device virtio-balloon-pci -monitor stdio"));
        assert_eq!(machine.monitor_commands(), "balloon 1536\n");
    }

    #[test]
    fn a_link_is_a_cable_with_two_ends() {
        assert!(!arguments(&machine()).contains("-netdev"));
        let link = NetworkLink { local: "/t/n1".into(), remote: "/t/n2".into(), number: 1 };
        let args = arguments(&GuestMachine { link: Some(link), ..machine() });
        assert!(args.contains("local.path=/t/n1,remote.type=unix,remote.path=/t/n2"), "{args}");
        assert!(args.contains("netdev=link,mac=52:54:00:00:00:01"), "{args}");
    }

    #[test]
    fn an_image_of_the_host_is_not_written() {
        let image = std::path::PathBuf::from("/images/data");
        let disk = GuestDisk {
            size_bytes: 1 << 30,
            format: DiskFormat::Ext4,
            image: Some(image.clone()),
            is_shared: false,
            read_bytes_per_s: None,
            write_bytes_per_s: None,
        };
        assert!(drive_argument(&disk, 0, &image).ends_with("file=/images/data,snapshot=on"));
        let disk = GuestDisk { is_shared: true, ..disk };
        assert!(drive_argument(&disk, 0, &image).ends_with("file=/images/data,file.locking=off"));
    }

    #[test]
    fn a_watchdog_is_a_device() {
        assert!(!arguments(&machine()).contains("i6300esb"));
        let machine = GuestMachine { has_watchdog: true, ..machine() };
        assert!(arguments(&machine).contains("-device i6300esb"));
    }
}
