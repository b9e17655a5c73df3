//! /sys/block: the devices that dirty memory is written to, and what the kernel says of their speed
//! (/sys/kernel/debug/bdi, where debugfs is mounted).

use crate::source::Source;
use mw_model::{Disk, Missing};
use mw_proc::bdi::BdiStats;

/// The most devices that are looked at.
const MAX_DISKS: usize = 256;

/// Devices that no dirty page cache waits for.
const VIRTUAL: [&str; 4] = ["loop", "ram", "zram", "sr"];

pub(crate) fn collect(source: &Source) -> Result<Vec<Disk>, Missing> {
    Ok(names(source)?.into_iter().map(|name| disk(source, name)).collect())
}

/// The devices that dirty memory is written to.
pub(crate) fn names(source: &Source) -> Result<Vec<String>, Missing> {
    let mut names = source.list("/sys/block")?;
    names.retain(|name| !VIRTUAL.iter().any(|prefix| name.starts_with(prefix)));
    names.truncate(MAX_DISKS);
    Ok(names)
}

fn disk(source: &Source, name: String) -> Disk {
    let device = source
        .read(&format!("/sys/block/{name}/dev"))
        .map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
        .unwrap_or_default();
    Disk {
        rotational: source
            .number(&format!("/sys/block/{name}/queue/rotational"))
            .ok()
            .map(|n| n == 1),
        bdi: source.parse(&format!("/sys/kernel/debug/bdi/{device}/stats"), BdiStats::parse).ok(),
        max_ratio: source.number(&format!("/sys/class/bdi/{device}/max_ratio")).ok(),
        max_ratio_fine: source.number(&format!("/sys/class/bdi/{device}/max_ratio_fine")).ok(),
        strict_limit: source
            .number(&format!("/sys/class/bdi/{device}/strict_limit"))
            .ok()
            .map(|strict| strict != 0),
        read_ahead_bytes: source
            .number(&format!("/sys/block/{name}/queue/read_ahead_kb"))
            .ok()
            .map(|kib| kib.saturating_mul(1024)),
        name,
        device,
    }
}
