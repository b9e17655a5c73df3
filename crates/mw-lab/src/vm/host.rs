//! Whether this machine can run a guest: tools, memory and disk space.

use std::path::Path;

use crate::case::machine::GuestMachine;
use crate::error::LabError;

/// Programs that every run needs, and the packages that have them.
const TOOLS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("gcc", "gcc libc6-dev"),
    ("ldd", "libc-bin"),
    ("strip", "binutils"),
    ("setpriv", "util-linux"),
];

/// QEMU's own memory: translated code, images, itself.
const OVERHEAD_BYTES: u64 = 256 << 20;
/// Free space for temporary files that a guest needs to start.
const DISK_START_BYTES: u64 = 512 << 20;
/// A guest is ended when less than this is free.
const DISK_LEFT_BYTES: u64 = 128 << 20;

/// The error lists the missing tools, and the command that installs them.
pub fn require_tools() -> Result<(), LabError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<_> = std::env::split_paths(&path).collect();
    let is_there = |name: &str| dirs.iter().any(|dir| dir.join(name).is_file());
    let missing: Vec<_> = TOOLS.iter().filter(|(name, _)| !is_there(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = |of: fn(&(&'static str, &'static str)) -> &'static str, between: &str| {
        missing.iter().map(|tool| of(tool)).collect::<Vec<_>>().join(between)
    };
    Err(LabError::ProgramMissing { program: list(|t| t.0, "`, `"), package: list(|t| t.1, " ") })
}

/// The reason why `machine` cannot run here now; `None` if it can.
pub fn missing_resources(machine: &GuestMachine) -> Option<String> {
    let available = available_bytes(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let temp = std::env::temp_dir();
    memory_lacks(machine.memory_bytes, available).or_else(|| disk_lacks(&temp, free_bytes(&temp)))
}

fn memory_lacks(wanted: u64, available: Option<u64>) -> Option<String> {
    let needed = wanted.saturating_add(OVERHEAD_BYTES);
    let available = available.filter(|available| *available < needed)?;
    Some(format!(
        "the guest needs {} MiB of memory, {} MiB are available here",
        needed >> 20,
        available >> 20
    ))
}

fn disk_lacks(dir: &Path, free: Option<u64>) -> Option<String> {
    let free = free.filter(|free| *free < DISK_START_BYTES)?;
    Some(format!(
        "{} has {} MiB free and the guest's files need {}: make room, or name another directory in TMPDIR",
        dir.display(),
        free >> 20,
        DISK_START_BYTES >> 20
    ))
}

/// True if less than [`DISK_LEFT_BYTES`] are free in the file system of `dir`.
pub(crate) fn is_nearly_full(dir: &Path) -> bool {
    free_bytes(dir).is_some_and(|free| free < DISK_LEFT_BYTES)
}

fn free_bytes(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// `MemAvailable` of a text like /proc/meminfo.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let rest = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_said_with_both_numbers() {
        assert_eq!(memory_lacks(1 << 30, Some(2 << 30)), None);
        assert_eq!(memory_lacks(1 << 30, None), None);
        assert_eq!(
            memory_lacks(1 << 30, Some(1 << 30)).unwrap(),
            "the guest needs 1280 MiB of memory, 1024 MiB are available here"
        );
        assert!(memory_lacks(u64::MAX, Some(1 << 40)).is_some());
    }

    #[test]
    fn too_little_disk_is_said_with_what_to_do() {
        let check = |free| disk_lacks(Path::new("/tmp"), free);
        assert_eq!(check(Some(1 << 30)), None);
        let why = check(Some(100 << 20)).unwrap();
        assert!(why.contains("100 MiB free") && why.contains("TMPDIR"), "{why}");
    }

    #[test]
    fn available_memory_is_read() {
        assert_eq!(available_bytes("MemFree: 1 kB\nMemAvailable:   2 kB\n"), Some(2048));
        for broken in ["", "MemAvailable: x kB", "MemAvailable: 2"] {
            assert_eq!(available_bytes(broken), None, "{broken}");
        }
    }
}
