//! What all measurements ask of this machine.

use anyhow::Context;
use mw_sys::is_termination_requested;

/// Fails once the run is to end.
pub(super) fn go_on() -> anyhow::Result<()> {
    anyhow::ensure!(!is_termination_requested(), "interrupted");
    Ok(())
}

/// Memory that is available, in bytes.
pub(super) fn available_bytes() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("no MemAvailable")? << 10)
}
