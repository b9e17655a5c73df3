//! The two nodes: guests of the lab, joined by a cable, that continue with a Debian with corosync and Pacemaker.

use crate::cluster::guest;
use crate::cluster::pair::{self, Nodes, Setup};
use crate::cluster::phase::CALM;
use std::path::Path;
use std::time::Duration;

/// Increased where the root changes.
const VERSION: u32 = 1;
const INCLUDED: &str = "systemd,systemd-sysv,dbus,udev,kmod,libgcc-s1,procps,iproute2,corosync,\
                        pacemaker,pacemaker-cli-utils,postgresql,resource-agents";
const ROOT_MIB: u64 = 1536;
/// The agent starts the cluster when the network is up, and the cluster starts PostgreSQL.
const NOT_AT_BOOT: &[&str] = &["corosync.service", "pacemaker.service", "postgresql.service"];

const CASE: &str = "description = 'two nodes of a cluster'
[machine]
kernel = '6.12'
memory = '768M'
cpus = 1
append = 'psi=1 net.ifnames=0 systemd.show_status=0'
modules = ['failover', 'net_failover', 'virtio_net']
preload = true
[[machine.disks]]
size = '2G'
[expect]
no_finding = true
[variant.n1]
how = 'a slow disk, and the flood'
[[variant.n1.machine.disks]]
size = '2G'
[[variant.n1.machine.disks]]
size = '1G'
format = 'ext4'
write_bytes_per_s = 700000
[variant.n2]
how = 'at rest'
";

/// The phases in their order: their names in the agent's files, and for people.
pub(super) const PHASES: &[(&str, &str)] = &[
    (CALM, "no flood"),
    ("flood", "the flood, `dirty_ratio` 90"),
    ("direct-io", "the flood under `memwright run --direct-io 64k`"),
    ("iotune", "the flood under `memwright run`, `memwright iotune set` of 64k for its directory"),
    ("device", "the flood, `max_bytes` of the device 4 MiB, `strict_limit`"),
    ("group", "the flood in a group with `memory.high` 8 MiB"),
];

/// Memory that is left, and the duration of each phase.
pub(super) struct Length {
    left_mib: u64,
    healthy_s: u64,
    flood_s: u64,
    direct_s: u64,
    limit_s: u64,
}

impl Length {
    pub(super) fn new(left_mib: u64, minutes: Option<u64>) -> Self {
        let direct_s = minutes.map_or(120, |minutes| minutes * 60);
        Self { left_mib, healthy_s: 60, flood_s: 150, direct_s, limit_s: 90 }
    }

    fn all_s(&self) -> u64 {
        self.healthy_s + self.flood_s + self.direct_s + 3 * self.limit_s
    }

    /// For the agent.
    fn plan(&self) -> String {
        let Self { left_mib, healthy_s, flood_s, direct_s, limit_s } = self;
        format!(
            "LEFT_MIB={left_mib}\nHEALTHY_S={healthy_s}\nFLOOD_S={flood_s}\nDIRECT_S={direct_s}\nLIMIT_S={limit_s}\n"
        )
    }
}

/// Plays all phases.
pub(super) fn play(program: &Path, length: &Length) -> anyhow::Result<Nodes> {
    let image = guest::image(&format!("root-{VERSION}"), ROOT_MIB, INCLUDED, NOT_AT_BOOT)?;
    let setup = Setup {
        case: CASE,
        folders: &["starved-cluster"],
        plan: length.plan(),
        image,
        takes: Duration::from_secs(length.all_s()),
        shared: None,
        are_fenced: false,
    };
    pair::play(program, &setup)
}
