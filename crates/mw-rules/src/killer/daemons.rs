//! Daemons that kill because of memory.

use mw_kernel_log::KillingProgram;

/// Programs that are taken for what they are called, with the units in which they run.
pub(super) const DAEMONS: [(&str, KillingProgram); 4] = [
    ("systemd-oomd", KillingProgram::SystemdOomd),
    ("earlyoom", KillingProgram::Earlyoom),
    ("nohang", KillingProgram::Nohang),
    ("nohang-desktop", KillingProgram::Nohang),
];
