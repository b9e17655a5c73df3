//! Units of the system whose programs kill, and that say so in the journal.

use mw_kernel_log::KillingProgram::{
    self, ContainerRuntime, Earlyoom, Kubelet, Nohang, SystemdOomd,
};

/// Units, beside the manager, with the programs whose lines they write. k3s and rke2 are kubelet and runtime in one.
const UNITS: [(&str, &[KillingProgram]); 11] = [
    ("systemd-oomd.service", &[SystemdOomd]),
    ("earlyoom.service", &[Earlyoom]),
    ("nohang.service", &[Nohang]),
    ("nohang-desktop.service", &[Nohang]),
    ("kubelet.service", &[Kubelet]),
    ("k3s.service", &[Kubelet, ContainerRuntime]),
    ("k3s-agent.service", &[Kubelet, ContainerRuntime]),
    ("rke2-server.service", &[Kubelet, ContainerRuntime]),
    ("docker.service", &[ContainerRuntime]),
    ("containerd.service", &[ContainerRuntime]),
    ("crio.service", &[ContainerRuntime]),
];

/// The units whose lines tell of kills, beside those of the manager and the kernel.
pub fn kill_log_units() -> impl Iterator<Item = &'static str> {
    UNITS.iter().map(|(unit, _)| *unit)
}

/// The programs whose lines a unit writes.
pub(super) fn programs_of(unit: &str) -> &'static [KillingProgram] {
    UNITS.iter().find(|(known, _)| *known == unit).map_or(&[], |(_, programs)| programs)
}

/// Daemons that kill because of memory, by the name that their unit and their process have.
pub(super) fn daemons() -> impl Iterator<Item = (&'static str, KillingProgram)> {
    UNITS.iter().filter_map(|(unit, programs)| match programs {
        [program @ (SystemdOomd | Earlyoom | Nohang)] => {
            Some((unit.strip_suffix(".service")?, *program))
        }
        _ => None,
    })
}
