//! /proc/sys/vm, and limits of /proc/sys/fs, kernel and net; in a sosreport, its copy of
//! `sysctl -a`.

use crate::source::Source;
use mw_model::{OriginKind, Sysctl};
use mw_proc::sysctl;

/// The settings that rules and preflight look at. `vm.stat_refresh` is left out on purpose: reading
/// it interrupts every CPU.
pub(crate) const NAMES: &[&str] = &[
    "vm.admin_reserve_kbytes",
    "vm.compaction_proactiveness",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_ratio",
    "vm.extfrag_threshold",
    "vm.hugetlb_shm_group",
    "vm.max_map_count",
    "vm.min_free_kbytes",
    "vm.min_slab_ratio",
    "vm.min_unmapped_ratio",
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "vm.overcommit_kbytes",
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.panic_on_oom",
    "vm.swappiness",
    "vm.user_reserve_kbytes",
    "vm.vfs_cache_pressure",
    "vm.watermark_boost_factor",
    "vm.watermark_scale_factor",
    "vm.zone_reclaim_mode",
    "fs.aio-max-nr",
    "fs.aio-nr",
    "fs.file-nr",
    "fs.nr_open",
    "kernel.msgmni",
    "kernel.numa_balancing",
    "kernel.pid_max",
    "kernel.pty.max",
    "kernel.pty.nr",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.threads-max",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_mem",
    "net.ipv4.udp_mem",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_max",
];

const SOSREPORT_DUMPS: [&str; 2] =
    ["/sos_commands/kernel/sysctl_-a", "/sos_commands/kernel/sysctl_-A"];

pub(crate) fn collect(source: &Source) -> Sysctl {
    let read = |name: &&str| {
        let text = source.read(&Sysctl::path(name));
        let text = text.map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned());
        ((*name).to_owned(), text)
    };
    let mut settings = Sysctl { values: NAMES.iter().map(read).collect() };
    if source.kind() == OriginKind::Tree {
        add_dump(source, &mut settings);
    }
    settings
}

fn add_dump(source: &Source, settings: &mut Sysctl) {
    let dump = SOSREPORT_DUMPS.iter().find_map(|path| source.read(path).ok());
    for (name, value) in sysctl::parse_dump(&dump.unwrap_or_default()) {
        if let Some(text @ Err(_)) = settings.values.get_mut(&name) {
            *text = Ok(value);
        }
    }
}
