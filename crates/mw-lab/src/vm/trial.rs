//! Whether hardware virtualisation works here.
//!
//! Software emulation works everywhere. Hardware virtualisation is many times faster, but a /dev/kvm that
//! can be opened may still kill a nested guest at once: a guest that does nothing is booted on it.

use std::path::Path;
use std::time::Duration;

use crate::case::machine::GuestMachine;
use crate::error::LabError;
use crate::vm::accel::Accel;
use crate::vm::guest::{self, GuestBase};
use crate::vm::kernel::GuestKernel;
use crate::vm::qemu::{self, RunEnd};

/// With working hardware virtualisation a guest boots in a second.
const TRIAL_LIMIT: Duration = Duration::from_secs(10);
const TRIAL_MEMORY_BYTES: u64 = 256 << 20;

/// Hardware virtualisation if a small guest with `kernel` boots on it, otherwise software emulation.
pub fn best_accel(base: &GuestBase, kernel: &GuestKernel) -> Result<Accel, LabError> {
    let device = std::fs::File::options().read(true).write(true).open(Path::new("/dev/kvm"));
    if device.is_err() {
        return Ok(Accel::Tcg);
    }
    let machine = GuestMachine {
        memory_bytes: TRIAL_MEMORY_BYTES,
        balloon_bytes: None,
        cpus: 2,
        nodes: 1,
        disks: Vec::new(),
        reboots: false,
        has_watchdog: false,
        link: None,
        append: String::new(),
        time_limit: TRIAL_LIMIT,
    };
    let image = guest::trial_image(base)?;
    let run = qemu::run(&machine, Accel::Kvm, &kernel.image, &image, &mut |_| true)?;
    Ok(if run.ended == RunEnd::Done { Accel::Kvm } else { Accel::Tcg })
}
