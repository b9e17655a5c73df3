//! Huge pages that are reserved for a measurement.

use anyhow::Context;
use mw_test::HugePages;
use std::path::Path;
use std::process::{Command, Stdio};

/// Reserves `pages` more of `page_bytes` each. Where the kernel does not find them at once, `memwright make-room` makes
/// room and gives it back first.
pub(crate) fn reserve(memwright: &Path, page_bytes: u64, pages: u64) -> anyhow::Result<HugePages> {
    let more = || HugePages::more(usize::try_from(page_bytes).ok()?, pages);
    if let Some(pages) = more() {
        return Ok(pages);
    }
    let state = tempfile::tempdir()?;
    let name = if page_bytes == 1 << 30 { "1G" } else { "2M" };
    let mut command = Command::new(memwright);
    command.arg("make-room").arg(format!("{}M,huge={name}", (page_bytes * pages) >> 20));
    command.arg("--state-dir").arg(state.path()).args(["--", "true"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("memwright make-room")?;
    more().with_context(|| format!("{pages} huge pages of {name} cannot be reserved"))
}
