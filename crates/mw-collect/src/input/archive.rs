//! The kernel's files in a tar archive of another tool: below whatever directory it put them.

use super::links::Links;
use super::transcript;
use crate::capture::{CaptureError, MAX_CAPTURE_FILES, MAX_TREE_BYTES};
use crate::memory_tree::{MAX_PATH_BYTES, MemoryTree};
use crate::source::{MAX_FILE_BYTES, Source};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path};

/// Directories of the machine whose files are kept.
const KEPT: &[&str] = &[
    "proc/",
    "sys/",
    "memwright/",
    "etc/sysctl.conf",
    "etc/sysctl.d/",
    "run/sysctl.d/",
    "usr/lib/sysctl.d/",
    "usr/local/lib/sysctl.d/",
    "sos_commands/filesys/df_-al",
    "sos_commands/kernel/sysctl_-",
];

/// Files of a process that nobody reads and that are large.
const NOT_KEPT: &[&str] = &["smaps", "environ", "pagemap"];

/// Files of supportconfig, each with the contents of several.
const TRANSCRIPTS: &[&str] =
    &["memory.txt", "proc.txt", "env.txt", "basic-environment.txt", "sysfs.txt"];

/// The most directories of an archive that may be the root of a machine.
const MAX_ROOTS: usize = 64;

/// The most that an archive may unpack to: beyond it lie logs, and the time of who waits.
const MAX_UNPACKED_BYTES: u64 = 8 << 30;

/// True for the head of a tar archive.
pub(super) fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// The machine in an archive.
///
/// # Errors
/// The archive is damaged, or holds no machine or several.
pub(super) fn read(reader: impl Read, file: &Path) -> Result<Source, CaptureError> {
    let failed = |source| CaptureError::Io { path: file.to_owned(), source };
    let mut archive = tar::Archive::new(reader.take(MAX_UNPACKED_BYTES));
    let mut contents = ArchiveContents::default();
    for entry in archive.entries().map_err(failed)? {
        contents.add(&mut entry.map_err(failed)?).map_err(failed)?;
    }
    let (root, tree) = contents.machine(file)?;
    let name =
        if root.is_empty() { "an archive".to_owned() } else { format!("{root} of an archive") };
    Ok(Source::in_memory(tree, file)?.with_input(name))
}

/// Files that were kept, by the directory that is the root of their machine.
#[derive(Debug, Default)]
struct ArchiveContents {
    roots: BTreeMap<String, (MemoryTree, Links)>,
    files: usize,
}

impl ArchiveContents {
    fn add(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> std::io::Result<()> {
        let path = entry.path()?.into_owned();
        let is_plain = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
        if path.as_os_str().len() > MAX_PATH_BYTES || !path.components().all(is_plain) {
            return Ok(());
        }
        let path = path.to_string_lossy();
        let path = path.trim_start_matches("./");
        let Some((root, kept)) = kept(path) else { return Ok(()) };
        let kind = entry.header().entry_type();
        if kind.is_symlink() {
            let target = entry.link_name()?.map(|target| target.to_string_lossy().into_owned());
            if let (Some(target), Some((_, links))) = (target, self.root(root)) {
                links.add(&kept, &target);
            }
        }
        if !kind.is_file()
            || self.files >= MAX_CAPTURE_FILES
            || entry.size() > MAX_FILE_BYTES as u64
        {
            return Ok(());
        }
        let left = MAX_TREE_BYTES.saturating_sub(self.bytes());
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        bytes.shrink_to_fit();
        let Some((tree, _)) = self.root(root).filter(|_| bytes.len() <= left) else {
            return Ok(());
        };
        if TRANSCRIPTS.contains(&&*kept) {
            transcript::read_into(&String::from_utf8_lossy(&bytes), tree);
        } else {
            let _ = tree.insert(&kept, bytes);
        }
        self.files += 1;
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.roots.values().map(|(tree, _)| tree.bytes()).sum()
    }

    fn root(&mut self, root: &str) -> Option<&mut (MemoryTree, Links)> {
        let is_room = self.roots.len() < MAX_ROOTS || self.roots.contains_key(root);
        is_room.then(|| self.roots.entry(root.to_owned()).or_default())
    }

    /// The only machine, and the directory that is its root.
    fn machine(self, file: &Path) -> Result<(String, MemoryTree), CaptureError> {
        let mut machines: Vec<(String, MemoryTree)> = Vec::new();
        for (root, (mut tree, links)) in self.roots {
            links.follow(&mut tree, MAX_TREE_BYTES);
            if tree.file("proc/meminfo") == Ok(&[]) {
                return Err(CaptureError::Empty { path: file.to_owned() });
            }
            if tree.contradiction().is_none() && tree.file("proc/meminfo").is_ok() {
                machines.push((root, tree));
            }
        }
        // A copy within a machine's own files is not another machine.
        let depth = |root: &str| root.split('/').filter(|name| !name.is_empty()).count();
        let first = machines.iter().map(|(root, _)| depth(root)).min();
        machines.retain(|(root, _)| Some(depth(root)) == first);
        match machines.len() {
            1 => Ok(machines.remove(0)),
            0 => Err(CaptureError::Unknown { path: file.to_owned() }),
            _ => Err(CaptureError::Several {
                path: file.to_owned(),
                machines: machines.into_iter().map(|(root, _)| root).take(5).collect(),
            }),
        }
    }
}

/// The root of the machine and the path from there, for a file that is kept.
fn kept(path: &str) -> Option<(&str, String)> {
    let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    for start in starts {
        let (root, rest) = path.split_at_checked(start)?;
        let is_transcript = TRANSCRIPTS.contains(&rest);
        if is_transcript || KEPT.iter().any(|kept| rest.starts_with(kept)) {
            let name = rest.rsplit('/').next().unwrap_or(rest);
            let is_of_process = rest.starts_with("proc/") && NOT_KEPT.contains(&name);
            return (!is_of_process).then(|| (root.trim_end_matches('/'), rest.to_owned()));
        }
    }
    None
}
