//! Captures the kernel's memory state of the running machine, to be looked at elsewhere.
//!
//! # Format
//! A zstd-compressed tar of one tree: the files under their own paths (`proc/meminfo`), and below
//! `memwright/` what is no file on the machine: `statfs` (usage of memory filesystems), `map_counts`
//! (how many mappings processes have that may have too many), `open_files` (how many files processes have open that
//! reach their limit), `page_blocks` (what the blocks of fragmented memory consist of), `oom_history` (the latest kills),
//! `page_size`, `clock_unix_ms`, and `earlier/` with the fast counters as they were `interval_ms` milliseconds
//! before, so that rates can be computed. Only the files named here are captured; no
//! process's environment or command line is ever read, and of the boot line only what concerns
//! memory is kept. Readers ignore files that they do not know, so an older memwright reads a newer
//! capture.

use crate::collector::{
    cgroup, map_count, memory_blocks, mounts, open_files, processes, sysctl, sysvipc,
};
use crate::judged;
use crate::memory_tree::{MAX_PATH_BYTES, MemoryTree};
use crate::redact::Redactor;
use crate::source::{MAX_FILE_BYTES, Source, SourceError};
use mw_model::{
    Absence, MapCounts, Missing, OriginKind, Processes, Reading, Sample, Snapshot, Sysctl,
};
use mw_proc::vmstat::Vmstat;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval between the two samples of a capture.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// The most that a capture may hold, packed into it or unpacked from it.
pub const MAX_CAPTURE_BYTES: usize = 64 << 20;

/// The most files that a capture may hold.
pub const MAX_CAPTURE_FILES: usize = 20_000;

/// The most processes that are captured: those that hold or lock the most.
const MAX_PROCESSES: usize = 64;

/// Of which so many at most for their mappings.
const MAX_MANY_MAPPINGS: usize = 8;

/// Of which so many at most for their open files.
const MAX_AT_FILE_LIMIT: usize = 8;

const ZSTD_LEVEL: i32 = 9;

pub(crate) const PAGE_SIZE: &str = "/memwright/page_size";
pub(crate) const CLOCK: &str = "/memwright/clock_unix_ms";
const INTERVAL_MS: &str = "/memwright/interval_ms";
const EARLIER: &str = "/memwright/earlier";
const EARLIER_FILES: [&str; 2] = ["/proc/vmstat", "/proc/meminfo"];

/// Files that are captured unchanged; a `*` stands for every name of a directory.
const FILES: &[&str] = &[
    "/proc/meminfo",
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/proc/buddyinfo",
    "/proc/slabinfo",
    "/proc/uptime",
    "/proc/net/sockstat",
    "/proc/loadavg",
    "/proc/cgroups",
    "/proc/key-users",
    "/proc/user_beancounters",
    "/proc/spl/kstat/zfs/arcstats",
    "/proc/version",
    "/proc/pressure/*",
    sysvipc::MESSAGE_QUEUES,
    sysvipc::SEMAPHORES,
    "/proc/sysvipc/shm",
    "/proc/self/limits",
    "/proc/self/status",
    "/proc/sys/fs/dentry-state",
    "/proc/sys/fs/inode-state",
    "/proc/self/uid_map",
    "/proc/sys/kernel/osrelease",
    "/sys/block/*/dev",
    "/sys/block/*/disksize",
    "/sys/block/*/mm_stat",
    "/sys/block/*/queue/read_ahead_kb",
    "/sys/block/*/queue/rotational",
    "/sys/class/bdi/*/max_ratio",
    "/sys/class/bdi/*/max_ratio_fine",
    "/sys/class/bdi/*/strict_limit",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/node/*/cpulist",
    "/sys/devices/system/node/*/distance",
    "/sys/devices/system/node/*/meminfo",
    "/sys/devices/system/node/*/hugepages/*/free_hugepages",
    "/sys/devices/system/node/*/hugepages/*/nr_hugepages",
    "/sys/devices/system/node/*/hugepages/*/surplus_hugepages",
    "/sys/kernel/debug/bdi/*/stats",
    "/sys/kernel/debug/extfrag/*",
    "/sys/kernel/mm/hugepages/*/free_hugepages",
    "/sys/kernel/mm/hugepages/*/nr_hugepages",
    "/sys/kernel/mm/hugepages/*/nr_overcommit_hugepages",
    "/sys/kernel/mm/hugepages/*/resv_hugepages",
    "/sys/kernel/mm/hugepages/*/surplus_hugepages",
    "/sys/kernel/mm/transparent_hugepage/*",
    "/sys/kernel/mm/transparent_hugepage/*/*",
];

/// Files of settings, of which only the lines that concern memory are captured.
const SETTINGS: &[&str] = &[
    "/etc/sysctl.conf",
    "/etc/sysctl.d/*",
    "/run/sysctl.d/*",
    "/usr/lib/sysctl.d/*",
    "/usr/local/lib/sysctl.d/*",
];

/// Boot parameters that concern memory; the others are not captured.
const BOOT_PARAMETERS: &[&str] = &[
    "cgroup_disable",
    "cgroup_enable",
    "cma",
    "crashkernel",
    "default_hugepagesz",
    "deferred_init",
    "hugepages",
    "hugepagesz",
    "hugetlb_cma",
    "kernelcore",
    "mem",
    "movablecore",
    "numa",
    "numa_balancing",
    "psi",
    "swapaccount",
    "systemd.unified_cgroup_hierarchy",
    "transparent_hugepage",
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureSummary {
    pub files: usize,
    /// Their size in bytes before compression.
    pub bytes: usize,
    /// Files that are there but could not be read, each with why.
    pub missing: Vec<Missing>,
}

pub(crate) fn now_unix_ms() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

/// Writes the state of the running machine to `out` as a compressed tree; takes [`INTERVAL`].
/// With `redact`, paths that people chose (mounts, swap files, cgroups) are replaced by numbers,
/// the same path by the same number.
///
/// # Errors
/// `out` cannot be written.
pub fn write(source: &Source, redact: bool, out: impl Write) -> io::Result<CaptureSummary> {
    let mut archive = Archive::new(out)?;
    let mut redactor = Redactor::new(redact);
    let started = std::time::Instant::now();
    for path in EARLIER_FILES {
        archive.copy(source, path, &format!("{EARLIER}{path}"))?;
    }
    std::thread::sleep(INTERVAL);
    archive.add(INTERVAL_MS, format!("{}\n", started.elapsed().as_millis()).as_bytes())?;
    for path in FILES.iter().flat_map(|pattern| expand(source, pattern)) {
        archive.copy(source, &path, &path)?;
    }
    for name in sysctl::NAMES {
        let path = Sysctl::path(name);
        archive.copy(source, &path, &path)?;
    }
    for path in SETTINGS.iter().flat_map(|pattern| expand(source, pattern)) {
        archive.transform(source, &path, memory_settings)?;
    }
    archive.transform(source, "/proc/cmdline", boot_parameters)?;
    archive.transform(source, "/proc/mounts", |text| redactor.mounts(text))?;
    archive.transform(source, "/proc/swaps", |text| redactor.swaps(text))?;
    archive.transform(source, "/proc/self/cgroup", |text| {
        redactor.self_cgroup(&cgroup::as_mounted(source, text))
    })?;
    add_filesystems(source, &mut archive, &mut redactor)?;
    add_cgroups(source, &mut archive, &mut redactor)?;
    add_processes(source, &mut archive)?;
    let snapshot = judged::snapshot(source);
    add_memory_blocks(source, &snapshot, &mut archive)?;
    add_judged(source, &snapshot, &mut archive)?;
    archive.add(PAGE_SIZE, format!("{}\n", rustix::param::page_size()).as_bytes())?;
    if let Some(now) = now_unix_ms() {
        archive.add(CLOCK, format!("{now}\n").as_bytes())?;
    }
    archive.finish()
}

fn add_filesystems<W: Write>(
    source: &Source,
    archive: &mut Archive<W>,
    redactor: &mut Redactor,
) -> io::Result<()> {
    let Ok(mut filesystems) = mounts::collect(source) else { return Ok(()) };
    for filesystem in &mut filesystems {
        filesystem.target = redactor.mount(&filesystem.target);
    }
    archive.add(mounts::STATFS, mounts::write_statfs(&filesystems).as_bytes())
}

fn add_memory_blocks<W: Write>(
    source: &Source,
    snapshot: &Snapshot,
    archive: &mut Archive<W>,
) -> io::Result<()> {
    let blocks =
        snapshot.sample.zoneinfo.required().and_then(|zoneinfo| {
            memory_blocks::collect(source, zoneinfo, snapshot.origin.page_bytes)
        });
    let Ok(blocks) = blocks else { return Ok(()) };
    for path in memory_blocks::files(&blocks) {
        archive.copy(source, &path, &path)?;
    }
    Ok(())
}

fn add_judged<W: Write>(
    source: &Source,
    snapshot: &Snapshot,
    archive: &mut Archive<W>,
) -> io::Result<()> {
    if let Ok(blocks) = judged::page_blocks(source, snapshot) {
        archive.add(judged::PAGE_BLOCKS, judged::write_page_blocks(&blocks).as_bytes())?;
    }
    if let Ok(history) = judged::oom_history(source, &snapshot.sample) {
        archive.add(judged::OOM_HISTORY, judged::write_oom_history(&history).as_bytes())?;
    }
    Ok(())
}

fn add_cgroups<W: Write>(
    source: &Source,
    archive: &mut Archive<W>,
    redactor: &mut Redactor,
) -> io::Result<()> {
    let files = cgroup::files(source).unwrap_or_default();
    for file in files.into_iter().chain(cgroup::task_files(source)) {
        let to = format!("{}{}/{}", file.mount, redactor.group(&file.group), file.name);
        archive.copy(source, &format!("{}{}/{}", file.mount, file.group, file.name), &to)?;
    }
    Ok(())
}

fn add_processes<W: Write>(source: &Source, archive: &mut Archive<W>) -> io::Result<()> {
    let Ok(mut processes) = processes::collect(source) else { return Ok(()) };
    let counts = map_counts(source, &processes);
    if let Ok(counts) = &counts {
        archive.add(map_count::MAP_COUNTS, map_count::write(counts).as_bytes())?;
    }
    let many_mappings = most_mappings(counts.unwrap_or_default());
    archive.add(open_files::OPEN_FILES, open_files::write(&processes.list).as_bytes())?;
    let mut at_file_limit: Vec<u32> = processes
        .list
        .iter()
        .filter(|of| of.open_files.is_some())
        .filter_map(|of| of.status.pid)
        .collect();
    at_file_limit.truncate(MAX_AT_FILE_LIMIT);
    processes.list.sort_by_key(|process| {
        let status = &process.status;
        let is_listed = |pids: &[u32]| status.pid.is_some_and(|pid| pids.contains(&pid));
        let has_many = is_listed(&many_mappings) || is_listed(&at_file_limit);
        let held = status.vm_rss_bytes.unwrap_or(0);
        std::cmp::Reverse((has_many, held.saturating_add(status.vm_lck_bytes.unwrap_or(0))))
    });
    for process in processes.list.iter().take(MAX_PROCESSES) {
        let Some(pid) = process.status.pid else { continue };
        for file in ["status", "limits", "cgroup"] {
            let path = format!("/proc/{pid}/{file}");
            archive.copy(source, &path, &path)?;
        }
    }
    Ok(())
}

fn map_counts(source: &Source, processes: &Processes) -> Result<MapCounts, Missing> {
    let slabs = source.parse("/proc/slabinfo", mw_proc::slabinfo::parse).ok();
    let known = map_count::CollectedCounts {
        sysctl: &sysctl::collect(source),
        slabs: slabs.as_deref(),
        processes: &Reading::Value(processes.clone()),
        page_bytes: rustix::param::page_size() as u64,
    };
    map_count::collect(source, &known)
}

/// The processes with the most mappings, of those that were counted.
fn most_mappings(mut counts: MapCounts) -> Vec<u32> {
    counts.list.sort_by_key(|count| std::cmp::Reverse(count.mappings));
    counts.list.iter().map(|count| count.pid).take(MAX_MANY_MAPPINGS).collect()
}

/// The paths that a pattern stands for, those that are there.
fn expand(source: &Source, pattern: &str) -> Vec<String> {
    let Some((dir, rest)) = pattern.split_once("/*") else { return vec![pattern.to_owned()] };
    let names = source.list(dir).unwrap_or_default();
    names.iter().flat_map(|name| expand(source, &format!("{dir}/{name}{rest}"))).collect()
}

fn memory_settings(text: &str) -> String {
    let concerns = |line: &&str| {
        let key = line.trim_start_matches(['-', ' ', '\t']).replace('/', ".");
        sysctl::NAMES.iter().any(|name| key.starts_with(name))
    };
    text.lines().filter(concerns).flat_map(|line| [line, "\n"]).collect()
}

fn boot_parameters(text: &str) -> String {
    let concerns = |word: &&str| BOOT_PARAMETERS.contains(&word.split('=').next().unwrap_or(word));
    let kept: Vec<&str> = text.split_whitespace().filter(concerns).collect();
    kept.join(" ") + "\n"
}

/// The archive that is being written.
struct Archive<W: Write> {
    tar: tar::Builder<zstd::Encoder<'static, W>>,
    captured: CaptureSummary,
}

impl<W: Write> Archive<W> {
    fn new(out: W) -> io::Result<Self> {
        let tar = tar::Builder::new(zstd::Encoder::new(out, ZSTD_LEVEL)?);
        Ok(Self { tar, captured: CaptureSummary::default() })
    }

    /// Copies a file; one that is not there is left out, one that could not be read is counted.
    fn copy(&mut self, source: &Source, path: &str, to: &str) -> io::Result<()> {
        match source.read(path) {
            Ok(bytes) => self.add(to, &bytes),
            Err(missing) => self.skip(missing),
        }
    }

    /// Copies a text file through `change`.
    fn transform(
        &mut self,
        source: &Source,
        path: &str,
        change: impl FnOnce(&str) -> String,
    ) -> io::Result<()> {
        match source.read(path) {
            Ok(bytes) => self.add(path, change(&String::from_utf8_lossy(&bytes)).as_bytes()),
            Err(missing) => self.skip(missing),
        }
    }

    fn skip(&mut self, missing: Missing) -> io::Result<()> {
        if matches!(missing.absence, Absence::Skipped | Absence::Masked) {
            self.captured.missing.push(missing);
        }
        Ok(())
    }

    fn add(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let bytes_after = self.captured.bytes.saturating_add(bytes.len());
        if bytes_after > MAX_CAPTURE_BYTES || self.captured.files == MAX_CAPTURE_FILES {
            return self.skip(Missing::skipped(path, "the capture is full"));
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        self.tar.append_data(&mut header, path.trim_start_matches('/'), bytes)?;
        self.captured.files += 1;
        self.captured.bytes = bytes_after;
        Ok(())
    }

    fn finish(self) -> io::Result<CaptureSummary> {
        self.tar.into_inner()?.finish()?.flush()?;
        Ok(self.captured)
    }
}

/// The largest window of the compression: that of the usual levels, so that a reader needs no more memory.
const MAX_WINDOW_LOG: u32 = 25;

/// Bytes that the archive adds to a file, on average at most: its head, its name and the padding of the last block.
const ENTRY_BYTES: usize = 2 << 10;

/// The most bytes that the files of a tree and their paths have.
pub(crate) const MAX_TREE_BYTES: usize = MAX_CAPTURE_BYTES + (16 << 20);

/// Redaction of the name of an entry.
const MAX_ENTRY_CHARS: usize = 300;

/// A capture that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It cannot be read.
    #[error(
        "{path}: {source} (expected: a file of 'memwright capture', a text archive or a directory)"
    )]
    Io { path: PathBuf, source: io::Error },
    /// It holds something that no capture holds.
    #[error("{path}: {entry}: {problem}; 'memwright capture' writes no such thing")]
    Hostile {
        path: PathBuf,
        /// The entry of the archive.
        entry: String,
        /// Kind of its error.
        problem: &'static str,
    },
    /// It is a text archive that cannot be understood, or whose base cannot.
    #[error("{path}: {problem}")]
    Text { path: PathBuf, problem: String },
    /// Nothing in it is known.
    #[error(
        "{path}: no file of /proc in it that is known (expected: what 'memwright capture' wrote, a sosreport, a supportconfig, \
         /proc/meminfo and others by cat, or a directory with proc/)"
    )]
    Unknown { path: PathBuf },
    /// The kernel gives files of /proc a size of 0, by which tar goes.
    #[error(
        "{path}: proc/meminfo in it is empty; tar stores files of /proc without their contents; copy them with cp -r first"
    )]
    Empty { path: PathBuf },
    /// An archive of several machines.
    #[error(
        "{path}: files of several machines, in {}; unpack it, and give the directory of one",
        machines.join(", ")
    )]
    Several {
        path: PathBuf,
        /// The directories of some of them.
        machines: Vec<String>,
    },
    #[error(transparent)]
    NoTree(#[from] SourceError),
}

/// The machine of a capture that `reader` delivers; `capture` is its name for messages.
///
/// # Errors
/// As of [`tree`]; it holds neither proc nor sys.
pub fn read(reader: impl Read, capture: &Path) -> Result<Source, CaptureError> {
    Ok(Source::in_memory(tree(reader, capture)?, capture)?)
}

/// The files of a capture, in memory.
///
/// # Errors
/// It is no capture, or holds links, paths that lead out of the tree, or more than [`MAX_CAPTURE_BYTES`].
pub fn tree(reader: impl Read, capture: &Path) -> Result<MemoryTree, CaptureError> {
    let failed = |source| CaptureError::Io { path: capture.to_owned(), source };
    let hostile = |entry: &str, problem| CaptureError::Hostile {
        path: capture.to_owned(),
        entry: entry.chars().take(MAX_ENTRY_CHARS).collect(),
        problem,
    };
    let mut decoder = zstd::Decoder::new(reader).map_err(failed)?;
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
    let most = (MAX_CAPTURE_BYTES + MAX_CAPTURE_FILES * ENTRY_BYTES) as u64;
    let mut archive = tar::Archive::new(decoder.take(most));
    let mut tree = MemoryTree::default();
    for (count, entry) in archive.entries().map_err(failed)?.enumerate() {
        let mut entry = entry.map_err(failed)?;
        let path = entry.path().map_err(failed)?.into_owned();
        let name = path.to_string_lossy();
        match entry.header().entry_type() {
            tar::EntryType::Directory => continue,
            tar::EntryType::Regular => {}
            _ => return Err(hostile(&name, "neither a file nor a directory")),
        }
        if path.as_os_str().len() > MAX_PATH_BYTES {
            return Err(hostile(&name, "its name is too long"));
        }
        if count >= MAX_CAPTURE_FILES || entry.size() > MAX_FILE_BYTES as u64 {
            return Err(hostile(&name, "too large"));
        }
        let inside = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
        if !path.components().all(inside) {
            return Err(hostile(&name, "leads out of the directory"));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(failed)?;
        bytes.shrink_to_fit();
        tree.insert(&name, bytes).map_err(|problem| hostile(&name, problem))?;
        if tree.bytes() > MAX_TREE_BYTES {
            return Err(hostile(&name, "too large with those before it"));
        }
    }
    if let Some(path) = tree.contradiction() {
        return Err(hostile(path, "a file and a directory"));
    }
    Ok(tree)
}

/// The first look of a capture, with what it holds of the fast counters.
pub(crate) fn earlier_sample(source: &Source, now: &Sample) -> Option<Sample> {
    debug_assert_eq!(source.kind(), OriginKind::Tree);
    let interval_ms = source.number(INTERVAL_MS).ok()? as f64;
    let vmstat = source.reading(&format!("{EARLIER}/proc/vmstat"), |bytes| {
        let mut vmstat = Vmstat::default();
        vmstat.parse_into(bytes)?;
        Ok(vmstat)
    });
    let meminfo =
        source.reading(&format!("{EARLIER}/proc/meminfo"), mw_proc::meminfo::Meminfo::parse);
    if let Reading::Missing(_) = vmstat {
        return None;
    }
    Some(Sample { at_ms: now.at_ms - interval_ms, vmstat, meminfo, ..Sample::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_boot_parameters_of_memory_are_kept() {
        let line = "root=/dev/vda rd.luks.key=SECRET hugepages=4 psi=1 token=hugepages";
        assert_eq!(boot_parameters(line), "hugepages=4 psi=1\n");
    }

    #[test]
    fn only_settings_of_memory_are_kept() {
        let text = "# hello\nvm.swappiness = 1\nnet.secret=2\n-vm/dirty_ratio=3\n";
        assert_eq!(memory_settings(text), "vm.swappiness = 1\n-vm/dirty_ratio=3\n");
    }
}
