//! Capabilities, limits, CPU time, and the machine.

use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::io;

/// A capability that memory operations need (capabilities(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Locking beyond `RLIMIT_MEMLOCK`, `SHM_LOCK`, huge pages for SysV segments.
    IpcLock,
    /// Mounting, reserved memory of strict overcommit, most of /sys.
    SysAdmin,
    SysResource,
}

impl Capability {
    fn set(self) -> CapabilitySet {
        match self {
            Self::IpcLock => CapabilitySet::IPC_LOCK,
            Self::SysAdmin => CapabilitySet::SYS_ADMIN,
            Self::SysResource => CapabilitySet::SYS_RESOURCE,
        }
    }
}

/// True if the capability is in this thread's effective set; false where that is unknown.
pub fn has_capability(capability: Capability) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability.set()))
}

/// Drops the capability for this thread permanently: effective, permitted and inheritable.
///
/// # Errors
/// capset(2)'s.
pub fn drop_capability(capability: Capability) -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.effective.remove(capability.set());
    sets.permitted.remove(capability.set());
    sets.inheritable.remove(capability.set());
    Ok(set_capabilities(None, sets)?)
}

/// The soft limit of locked memory in bytes; `None` is no limit (getrlimit(2)).
pub fn memlock_limit_bytes() -> Option<u64> {
    rustix::process::getrlimit(Resource::Memlock).current
}

/// Sets the soft limit of locked memory, within the hard limit.
///
/// # Errors
/// setrlimit(2)'s: `EINVAL` above the hard limit.
pub fn set_memlock_limit_bytes(bytes: u64) -> io::Result<()> {
    let hard = rustix::process::getrlimit(Resource::Memlock).maximum;
    let limit = Rlimit { current: Some(bytes), maximum: hard };
    Ok(rustix::process::setrlimit(Resource::Memlock, limit)?)
}

/// Lowers the soft limit of this process's private memory (RLIMIT_DATA), which all of its programs inherit.
///
/// # Errors
/// setrlimit(2)'s.
pub fn limit_data_bytes(bytes: u64) -> io::Result<()> {
    let had = rustix::process::getrlimit(Resource::Data);
    let current = had.current.map_or(bytes, |had| had.min(bytes));
    let limit = Rlimit { current: Some(current), maximum: had.maximum };
    Ok(rustix::process::setrlimit(Resource::Data, limit)?)
}

/// True if this is a virtual machine, by the CPU's flag; `None` on architectures without it (other than
/// x86).
pub fn under_hypervisor() -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    {
        /// CPUID leaf 1, ECX bit 31: set by hypervisors, never by hardware (Intel SDM volume 2,
        /// Linux `X86_FEATURE_HYPERVISOR`).
        const HYPERVISOR: u32 = 1 << 31;
        // SAFETY: every x86-64 CPU has the instruction and its leaf 1 (Intel SDM volume 2).
        #[allow(unsafe_code, unused_unsafe, reason = "unsafe before Rust 1.94")]
        let leaf = unsafe { std::arch::x86_64::__cpuid(1) };
        Some(leaf.ecx & HYPERVISOR != 0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The CPU time of this thread.
pub fn thread_time() -> std::time::Duration {
    cpu_time(rustix::time::ClockId::ThreadCPUTime)
}

/// The CPU time of all threads of this process.
pub fn process_time() -> std::time::Duration {
    cpu_time(rustix::time::ClockId::ProcessCPUTime)
}

fn cpu_time(clock: rustix::time::ClockId) -> std::time::Duration {
    let time = rustix::time::clock_gettime(clock);
    std::time::Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// The size of a base page in bytes.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_capability_is_gone_from_this_thread_alone() {
        let had = has_capability(Capability::IpcLock);
        std::thread::spawn(|| {
            drop_capability(Capability::IpcLock).unwrap();
            assert!(!has_capability(Capability::IpcLock));
        })
        .join()
        .unwrap();
        assert_eq!(has_capability(Capability::IpcLock), had);
    }

    #[test]
    fn a_base_page_is_a_power_of_two() {
        assert!(page_bytes().is_power_of_two());
    }
}
