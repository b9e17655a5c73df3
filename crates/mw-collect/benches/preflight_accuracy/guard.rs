//! Changes of the machine that are put back, also on panic.

use crate::Failure;
use std::fs;
use std::path::{Path, PathBuf};

/// A huge page pool made larger for a while.
pub(crate) struct Pool {
    file: PathBuf,
    before: u64,
    /// Pages in the pool now.
    pub(crate) pages: u64,
    /// Whoever changes the machine in a test or bench locks this folder.
    _alone: fs::File,
}

impl Pool {
    /// Adds `pages` to the pool of `page_bytes`; the kernel may have made fewer.
    pub(crate) fn grow(page_bytes: u64, pages: u64) -> Result<Self, Failure> {
        let dir = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", page_bytes >> 10);
        let file = Path::new(&dir).join("nr_hugepages");
        let alone = fs::File::open("/proc/sys/vm")?;
        rustix::fs::flock(&alone, rustix::fs::FlockOperation::LockExclusive)?;
        let before = number(&file)?;
        let mut pool = Self { file, before, pages: before, _alone: alone };
        fs::write(&pool.file, (before + pages).to_string())?;
        pool.pages = number(&pool.file)?;
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, self.before.to_string()) {
            eprintln!("{} is not back at {}: {error}", self.file.display(), self.before);
        }
    }
}

fn number(file: &Path) -> Result<u64, Failure> {
    Ok(fs::read_to_string(file)?.trim().parse()?)
}

/// A memory cgroup below our own, with a limit.
pub(crate) struct Group {
    /// Its directory.
    pub(crate) dir: PathBuf,
}

impl Group {
    /// Makes the group.
    pub(crate) fn limited(limit_bytes: u64) -> Result<Self, Failure> {
        let membership = fs::read_to_string("/proc/self/cgroup")?;
        let v1 = membership.lines().find_map(|line| line.split_once(":memory:"));
        let v2 = membership.lines().find_map(|line| line.strip_prefix("0::"));
        let (own, file) = match (v1, v2) {
            (Some((_, path)), _) => {
                (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes")
            }
            (None, Some(path)) => (format!("/sys/fs/cgroup{path}"), "memory.max"),
            (None, None) => return Err("no memory cgroup".into()),
        };
        let dir = Path::new(&own).join(format!("memwright-accuracy-{}", std::process::id()));
        fs::create_dir(&dir)?;
        let group = Self { dir };
        fs::write(group.dir.join(file), limit_bytes.to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel empties the group of a process that was just killed a little later.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.dir.display());
    }
}
