//! The kernel's alarm, set off by a real shortage of memory in a cgroup.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use mw_collect::probe::pressure::PressureTrigger;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const ROOT: &str = "/sys/fs/cgroup/memory";
/// Far less than the readers read.
const LIMIT: &str = "4M";
const FILE_BYTES: usize = 64 << 20;
const READERS: usize = 3;

/// Readers of a file that does not fit into their cgroup: each page takes reclaiming another.
struct Readers {
    processes: Vec<Child>,
    cgroup: PathBuf,
}

impl Readers {
    fn start(file: &Path) -> std::io::Result<Self> {
        let cgroup = Path::new(ROOT).join(format!("memwright-psi-{}", std::process::id()));
        fs::create_dir(&cgroup)?;
        let mut readers = Self { processes: Vec::new(), cgroup };
        fs::write(readers.cgroup.join("memory.limit_in_bytes"), LIMIT)?;
        let script = format!(
            "echo $$ > {}/cgroup.procs; exec 2>&-; while :; do cat {} > /dev/null; done",
            readers.cgroup.display(),
            file.display()
        );
        for _ in 0..READERS {
            readers.processes.push(Command::new("sh").args(["-c", &script]).spawn()?);
        }
        Ok(readers)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let begun = Instant::now();
        // A shell that is killed leaves its `cat` behind for a moment.
        while fs::remove_dir(&self.cgroup).is_err() && begun.elapsed() < Duration::from_secs(10) {
            for reader in &mut self.processes {
                let _ = reader.kill();
                let _ = reader.wait();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn it_fires_when_tasks_wait_for_memory() {
    let trigger = match PressureTrigger::open() {
        Ok(trigger) => trigger,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            return;
        }
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
        Err(error) => {
            eprintln!("skipped: no memory cgroup of version 1 can be made: {error}");
            return;
        }
    };
    let fired = trigger.fired(Duration::from_secs(20));
    drop(readers);
    let pressure = fs::read_to_string("/proc/pressure/memory").unwrap();
    assert!(fired, "{pressure}");
}
