//! Control groups: what all processes of a recorder use together, those that have ended included.

use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Script of [`Group::enter`]: the shell joins the group and becomes the program.
const JOIN: &str = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;

/// Ends with its standard input, which is this program's to hold: however this program ends, nothing of
/// the groups (`$1`) and of the directory (`$2`) is left.
const CLEAN: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
echo 1 > "$1/cgroup.kill"
for turn in 1 2 3 4 5 6 7 8 9 10; do
    rmdir "$1"/*/ "$1" 2> /dev/null && break
    sleep 0.2
done
rm -rf "$2"
"#;

/// The groups and the directory of a comparison; on dropping, all processes are killed and both removed.
pub(super) struct Workplace {
    groups: PathBuf,
    pub(super) folder: PathBuf,
    cleaner: Child,
}

impl Workplace {
    pub(super) fn new(cache: &Path) -> anyhow::Result<Self> {
        let name = format!("memwright-recorders-{}", std::process::id());
        let groups = mount()?.join(&name);
        let folder = cache.join(name);
        let cleaner = Command::new("sh")
            .args(["-c", CLEAN, "sh"])
            .args([&groups, &folder])
            .stdin(Stdio::piped())
            .spawn()
            .context("sh")?;
        let workplace = Self { groups, folder, cleaner };
        for path in [&workplace.groups, &workplace.folder] {
            std::fs::create_dir(path).with_context(|| format!("{}; be root", path.display()))?;
        }
        Ok(workplace)
    }

    /// A group of that name.
    pub(super) fn group(&self, name: &str) -> anyhow::Result<Group> {
        let path = self.groups.join(name);
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Group(path))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        drop(self.cleaner.stdin.take());
        if let Err(error) = self.cleaner.wait() {
            let _ = writeln!(std::io::stderr(), "{}: {error}", self.groups.display());
        }
    }
}

/// Mount point of groups of version 2: beside those of version 1 it counts CPU time too.
fn mount() -> anyhow::Result<PathBuf> {
    let mounts = crate::workspace::read(Path::new("/proc/self/mounts"))?;
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    lines
        .find(|line| line.get(2) == Some(&"cgroup2"))
        .and_then(|line| line.get(1).map(PathBuf::from))
        .context("no cgroup2 is mounted: mount -t cgroup2 none /sys/fs/cgroup/unified")
}

/// The group of one recorder.
pub(super) struct Group(PathBuf);

/// Use of the processes of a group at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) processes: usize,
    /// The sum of what each has resident: what they share counts for each.
    pub(super) resident_bytes: u64,
    /// Bytes that those that live now have had written to disks since they started.
    pub(super) written_bytes: u64,
}

impl Group {
    /// Mount point of the hierarchy that it belongs to.
    pub(super) fn mount(&self) -> Option<&Path> {
        self.0.parent()?.parent()
    }

    /// `program` with its arguments to come, to be run in the group.
    pub(super) fn enter(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", JOIN]).arg(&self.0).arg(program).stdin(Stdio::null());
        command
    }

    /// CPU time of all processes, those that have ended included, in microseconds.
    pub(super) fn cpu_us(&self) -> anyhow::Result<u64> {
        let path = self.0.join("cpu.stat");
        let text = crate::workspace::read(&path)?;
        usage_us(&text).with_context(|| format!("{}: no usage_usec", path.display()))
    }

    pub(super) fn usage(&self) -> anyhow::Result<Usage> {
        let pids = crate::workspace::read(&self.0.join("cgroup.procs"))?;
        let page = rustix::param::page_size() as u64;
        let mut usage = Usage::default();
        for pid in pids.lines() {
            // A process that has ended meanwhile uses nothing.
            let of = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
            let Some(pages) = of("statm").as_deref().and_then(resident_pages) else { continue };
            usage.processes += 1;
            usage.resident_bytes += pages * page;
            usage.written_bytes += of("io").as_deref().and_then(written_bytes).unwrap_or(0);
        }
        Ok(usage)
    }
}

fn usage_us(cpu_stat: &str) -> Option<u64> {
    cpu_stat.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse().ok())
}

fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

fn written_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read() {
        assert_eq!(usage_us("usage_usec 481602\nuser_usec 400000\n"), Some(481_602));
        assert_eq!(usage_us("user_usec 400000\n"), None);
        assert_eq!(resident_pages("2000 150 90 1 0 200 0\n"), Some(150));
        assert_eq!(written_bytes("wchar: 7\nwrite_bytes: 8192\n"), Some(8192));
    }
}
