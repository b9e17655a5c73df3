//! How the guest's instructions are carried out.
//!
//! Software emulation works everywhere and behaves alike everywhere. Hardware virtualisation is many
//! times faster, but that /dev/kvm is there does not say that it works: a guest in a guest may die
//! on it at once. So it is tried with a guest that only says that it is there.

use std::path::Path;
use std::time::Duration;

use crate::error::LabError;
use crate::guest::{self, Base};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::qemu::{self, Ended};

/// What carries out the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// QEMU's software emulation.
    Tcg,
    /// The kernel's hardware virtualisation.
    Kvm,
}

/// A guest on working hardware virtualisation is up in a second.
const TRIAL_LIMIT: Duration = Duration::from_secs(10);
const TRIAL_MEMORY_BYTES: u64 = 256 << 20;

impl Accel {
    /// As QEMU calls it.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Tcg => "tcg",
            Accel::Kvm => "kvm",
        }
    }

    /// Hardware virtualisation where a small guest with `kernel` comes up on it, or else software.
    pub fn best(base: &Base, kernel: &Kernel) -> Result<Accel, LabError> {
        let device = std::fs::File::options().read(true).write(true).open(Path::new("/dev/kvm"));
        if device.is_err() {
            return Ok(Accel::Tcg);
        }
        let machine = Machine {
            memory_bytes: TRIAL_MEMORY_BYTES,
            cpus: 2,
            nodes: 1,
            disks: Vec::new(),
            append: String::new(),
            time_limit: TRIAL_LIMIT,
        };
        let image = guest::trial_image(base)?;
        let run = qemu::run(&machine, Accel::Kvm, &kernel.image, &image, &mut |_| true)?;
        Ok(if run.ended == Ended::Done { Accel::Kvm } else { Accel::Tcg })
    }
}
