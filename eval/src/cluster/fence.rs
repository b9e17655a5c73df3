//! A cluster of two guests with a replicated disk (DRBD) and fencing (sbd, a watchdog). The node whose memory is short is
//! fenced, the other one takes over, and the recording of the first one tells afterwards why.

mod judge;
mod page;
mod played;

use super::pair::{self, Setup};
use super::{guest, phase};
use crate::cluster::starve::LEFT_MIB;
use crate::workspace::target_dir;
use crate::{debian, packages};
use played::{Played, ROWS};
use std::path::PathBuf;
use std::time::Duration;

/// Increased where the root changes.
const VERSION: u32 = 1;
const INCLUDED: &str = "systemd,systemd-sysv,dbus,udev,kmod,libgcc-s1,procps,psmisc,iproute2,corosync,pacemaker,\
                        pacemaker-cli-utils,postgresql,resource-agents,sbd,cluster-glue,drbd-utils";
const ROOT_MIB: u64 = 1536;
/// The agent starts the cluster when the network is up, and the cluster starts PostgreSQL.
const NOT_AT_BOOT: &[&str] = &["corosync.service", "pacemaker.service", "postgresql.service"];

const HEALTHY_S: u64 = 60;
const DIRECT_S: u64 = 120;
/// At most: the node is to be fenced before.
const FLOOD_S: u64 = 600;
/// The number and size of the disk with the nodes' slots of sbd.
const FENCING: (usize, u64) = (3, 16 << 20);

const CASE: &str = "description = 'two nodes of a cluster with fencing'
[machine]
kernel = '6.12'
memory = '768M'
cpus = 1
append = 'psi=1 net.ifnames=0 systemd.show_status=0'
modules = ['failover', 'net_failover', 'virtio_net', 'watchdog', 'i6300esb', 'libcrc32c', 'lru_cache', 'drbd']
preload = true
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
[[variant.n1.machine.disks]]
size = '256M'
[[variant.n1.machine.disks]]
size = '16M'
[variant.n2]
how = 'at rest, and takes over'
[[variant.n2.machine.disks]]
size = '2G'
[[variant.n2.machine.disks]]
size = '64M'
[[variant.n2.machine.disks]]
size = '256M'
[[variant.n2.machine.disks]]
size = '16M'
";

pub(crate) struct Choice {
    pub(crate) program: Option<PathBuf>,
    /// Memory that is available when the database has locked its memory, in MiB.
    pub(crate) left: u64,
    /// Judge and write what was played last.
    pub(crate) again: bool,
    pub(crate) write: bool,
}

/// For `ci --full`.
pub(crate) fn full() -> anyhow::Result<()> {
    run(&Choice { program: None, left: LEFT_MIB, again: false, write: false })
}

/// Promise (Fixing): The recording of a node that is fenced in a stall tells after the reset that memory caused it:
/// it has the seconds before the reset but the last three, and the stall with its cause.
pub(crate) fn run(choice: &Choice) -> anyhow::Result<()> {
    packages::install(&[guest::PACKAGES, debian::PACKAGES].concat())?;
    let program = guest::program(choice.program.as_deref())?;
    let kept = target_dir().join("cluster/fence");
    if !choice.again {
        let _weight = guest::Weight::raised();
        pair::play(&program, &setup(choice.left)?)?.keep(&kept)?;
    }
    let played = Played::read(&program, &kept)?;
    println!("{}", phase::table(&played.phases, &played.lines));
    let wrong = judge::wrong(&played);
    wrong.iter().for_each(|wrong| println!("FAILED: {wrong}"));
    if choice.write {
        page::write(&played, &wrong)?;
    }
    anyhow::ensure!(wrong.is_empty(), "{} of the promises do not hold", wrong.len());
    Ok(())
}

fn setup(left_mib: u64) -> anyhow::Result<Setup<'static>> {
    let name = format!("fence-{VERSION}");
    Ok(Setup {
        case: CASE,
        folders: &["starved-cluster", "fenced-cluster"],
        plan: format!(
            "LEFT_MIB={left_mib}\nHEALTHY_S={HEALTHY_S}\nDIRECT_S={DIRECT_S}\nFLOOD_S={FLOOD_S}\nROWS={ROWS}\n"
        ),
        image: guest::image(&name, ROOT_MIB, INCLUDED, NOT_AT_BOOT)?,
        takes: Duration::from_secs(HEALTHY_S + DIRECT_S + FLOOD_S),
        shared: Some(FENCING),
        are_fenced: true,
    })
}
