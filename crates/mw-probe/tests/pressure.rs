//! The kernel's alarm, set off by a real shortage of memory in a cgroup.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use mw_probe::pressure::PressureTrigger;
use mw_test::TestCgroup;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// Far less than the readers read.
const LIMIT_BYTES: u64 = 4 << 20;
const FILE_BYTES: usize = 64 << 20;
const READERS: usize = 3;

/// Readers of a file that does not fit into their cgroup: each page takes reclaiming another.
struct Readers {
    processes: Vec<Child>,
    cgroup: TestCgroup,
}

impl Readers {
    fn start(file: &Path) -> std::io::Result<Self> {
        let cgroup = TestCgroup::with_memory(LIMIT_BYTES)?;
        let mut readers = Self { processes: Vec::new(), cgroup };
        let script = format!(
            "echo $$ > {}; exec 2>&-; while :; do cat {} > /dev/null; done",
            readers.cgroup.members().display(),
            file.display()
        );
        for _ in 0..READERS {
            readers.processes.push(Command::new("sh").args(["-c", &script]).spawn()?);
        }
        Ok(readers)
    }
}

impl Drop for Readers {
    /// A shell that is killed leaves its `cat` behind for a moment, for which the cgroup waits.
    fn drop(&mut self) {
        for reader in &mut self.processes {
            let _ = reader.kill();
            let _ = reader.wait();
        }
    }
}

#[test]
fn it_fires_when_tasks_wait_for_memory() {
    let trigger = match PressureTrigger::open() {
        Ok(trigger) => trigger,
        Err(missing) => return mw_test::skip(missing),
    };
    // Not in the page cache already, where it would belong to another cgroup: written around it.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = folder.path().join("file");
    fs::write(&file, vec![1; FILE_BYTES]).unwrap();
    let written = fs::File::open(&file).unwrap();
    written.sync_all().unwrap();
    rustix::fs::fadvise(&written, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let readers = match Readers::start(&file) {
        Ok(readers) => readers,
        Err(error) => return mw_test::skip(format!("no memory cgroup: {error}")),
    };
    let fired = trigger.fired(Duration::from_secs(20));
    drop(readers);
    let pressure = fs::read_to_string("/proc/pressure/memory").unwrap();
    assert!(fired, "{pressure}");
}
