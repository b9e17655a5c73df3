//! Control groups that are there for a while.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const ROOT: &str = "/sys/fs/cgroup";

/// A cgroup. Dropping it makes this process leave it, and removes it once its other processes have ended.
#[derive(Debug)]
pub struct TestCgroup {
    above: PathBuf,
    path: PathBuf,
}

impl TestCgroup {
    /// One of version 1, for a test that writes its controller's own files.
    ///
    /// # Errors
    /// The hierarchy is not there, or not ours to change.
    pub fn new(controller: &str) -> io::Result<Self> {
        Self::below(Path::new(ROOT).join(controller))
    }

    /// One of version 2.
    ///
    /// # Errors
    /// There is no such hierarchy, or it is not ours to change.
    pub fn unified() -> io::Result<Self> {
        let beside = Path::new(ROOT).join("unified");
        Self::below(if beside.exists() { beside } else { ROOT.into() })
    }

    /// One with so much memory, of whichever version this machine has.
    ///
    /// # Errors
    /// There is none for memory, or it is not ours to change.
    pub fn with_memory(limit_bytes: u64) -> io::Result<Self> {
        let (group, file) = match Self::new("memory") {
            Ok(group) => (group, "memory.limit_in_bytes"),
            Err(_) => (Self::below(ROOT.into())?, "memory.max"),
        };
        fs::write(group.path.join(file), limit_bytes.to_string())?;
        Ok(group)
    }

    fn below(above: PathBuf) -> io::Result<Self> {
        // Tests of one program run at the same time.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = above.join(format!("memwright-test-{}-{number}", process::id()));
        // The directory of a hierarchy that is not mounted is an ordinary one.
        fs::metadata(above.join("cgroup.procs"))?;
        fs::create_dir(&path)?;
        Ok(Self { above, path })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that takes the numbers of the processes that are to be in it.
    #[must_use]
    pub fn members(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        let own = process::id().to_string();
        if fs::read_to_string(self.members()).is_ok_and(|all| all.lines().any(|pid| pid == own)) {
            let _ = fs::write(self.above.join("cgroup.procs"), own);
        }
        // The kernel empties the group of a process that was just killed a little later, and children of
        // its own may end after it.
        for _ in 0..500 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.path.display());
    }
}
