//! Switches of the kernel for folio sizes, changed for a while.

use std::fs;
use std::path::PathBuf;

const DIR: &str = "/sys/kernel/mm/transparent_hugepage";

/// The switches of folios from 16 KiB to 1 MiB. Dropped, they have their earlier values. Callers hold
/// [`alone`](crate::alone).
#[derive(Debug)]
pub struct FolioSwitchGuard {
    before: Vec<(PathBuf, String)>,
}

impl FolioSwitchGuard {
    /// Allows these sizes in KiB, for private memory and memfds that are advised to have them, and no
    /// other; none where the kernel has no such switches or they cannot be changed.
    #[must_use]
    pub fn only(kib: &[u64]) -> Option<Self> {
        let mut switches = Self { before: Vec::new() };
        for size in (4..=10).map(|order| 1 << order) {
            let value = |on| if kib.contains(&size) { on } else { "never" };
            switches.set(format!("{DIR}/hugepages-{size}kB/enabled").into(), value("madvise"))?;
            switches
                .set(format!("{DIR}/hugepages-{size}kB/shmem_enabled").into(), value("advise"))?;
        }
        Some(switches)
    }

    /// Forbids transparent huge pages of 2 MiB as well, where the kernel has switches for them.
    pub fn forbid_huge_pages(&mut self) {
        for file in ["enabled", "shmem_enabled"] {
            let _ = self.set(format!("{DIR}/hugepages-2048kB/{file}").into(), "never");
        }
    }

    fn set(&mut self, file: PathBuf, value: &str) -> Option<()> {
        let text = fs::read_to_string(&file).ok()?;
        let (_, rest) = text.split_once('[')?;
        let (before, _) = rest.split_once(']')?;
        fs::write(&file, value).ok()?;
        self.before.push((file, before.to_owned()));
        Some(())
    }
}

impl Drop for FolioSwitchGuard {
    fn drop(&mut self) {
        for (file, before) in &self.before {
            if let Err(error) = fs::write(file, before) {
                eprintln!("{} is not back at {before}: {error}", file.display());
            }
        }
    }
}
