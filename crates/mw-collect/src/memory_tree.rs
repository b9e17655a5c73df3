//! A tree of files in memory: what a capture holds.
//!
//! A capture may come from anywhere. In a file system its few bytes could become hundreds of thousands of directories, which
//! somebody has to remove, also when the reader is killed, and its files would lie readable in /tmp.

use rustix::fs::{FileType, MemfdFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::os::fd::OwnedFd;

/// The longest path (PATH_MAX).
pub(crate) const MAX_PATH_BYTES: usize = 4096;

/// Files by their paths, without a leading slash. Directories are the beginnings of paths.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct MemoryTree {
    files: BTreeMap<String, Vec<u8>>,
    bytes: usize,
}

impl MemoryTree {
    /// Adds a file, or replaces it.
    ///
    /// # Errors
    /// Its path is no path of a file, or too long.
    pub fn insert(&mut self, path: &str, contents: Vec<u8>) -> Result<(), &'static str> {
        if path.len() > MAX_PATH_BYTES {
            return Err("its name is too long");
        }
        let path = plain(path);
        if path.is_empty() {
            return Err("no name");
        }
        self.remove(&path);
        self.bytes = self.bytes.saturating_add(path.len()).saturating_add(contents.len());
        self.files.insert(path, contents);
        Ok(())
    }

    /// Removes a file; false if there is none.
    pub fn remove(&mut self, path: &str) -> bool {
        let path = plain(path);
        let Some(contents) = self.files.remove(&path) else { return false };
        self.bytes = self.bytes.saturating_sub(path.len() + contents.len());
        true
    }

    /// All files, in the order of their paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, contents)| (path.as_str(), contents.as_slice()))
    }

    /// The file at this path, or the files below it, with the rest of their paths.
    pub(crate) fn files_at(&self, path: &str) -> impl Iterator<Item = (&str, &[u8])> {
        let path = plain(path);
        let from = (Bound::Included(path.clone()), Bound::Unbounded);
        let below = self.files.range(from).map_while(move |(file, contents)| {
            file.strip_prefix(&path).map(|rest| (rest, contents.as_slice()))
        });
        below.filter(|(rest, _)| rest.is_empty() || rest.starts_with('/'))
    }

    /// The size of all files and their paths.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A file that is a directory as well.
    pub(crate) fn contradiction(&self) -> Option<&str> {
        self.files.keys().map(String::as_str).find(|path| self.is_folder(path))
    }

    fn is_folder(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.first_from(&below).is_some_and(|first| first.starts_with(&below))
    }

    fn first_from(&self, from: &str) -> Option<&str> {
        let range = (Bound::Included(from), Bound::Unbounded);
        self.files.range::<str, _>(range).next().map(|(path, _)| path.as_str())
    }

    /// The contents of a file.
    ///
    /// # Errors
    /// As of open(2).
    pub fn file(&self, path: &str) -> Result<&[u8], Errno> {
        let path = plain(path);
        match self.files.get(&path) {
            Some(contents) => Ok(contents),
            None if self.is_folder(&path) => Err(Errno::ISDIR),
            None => Err(Errno::NOENT),
        }
    }

    /// A file for those who read descriptors.
    ///
    /// # Errors
    /// As of open(2) and memfd_create(2).
    pub(crate) fn open(&self, path: &str) -> Result<OwnedFd, Errno> {
        let mut contents = self.file(path)?;
        let file = rustix::fs::memfd_create("capture", MemfdFlags::CLOEXEC)?;
        let mut at = 0;
        while !contents.is_empty() {
            let written = rustix::io::pwrite(&file, contents, at)?;
            contents = contents.get(written..).unwrap_or_default();
            at += written as u64;
        }
        Ok(file)
    }

    /// The names in a directory and what they are, at most `max` and one.
    ///
    /// # Errors
    /// As of open(2).
    pub(crate) fn entries(
        &self,
        folder: &str,
        max: usize,
    ) -> Result<Vec<(String, FileType)>, Errno> {
        let folder = plain(folder);
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut entries = Vec::new();
        let mut from = prefix.clone();
        while let Some(path) = self.first_from(&from)
            && let Some(rest) = path.strip_prefix(&prefix)
            && entries.len() <= max
        {
            match rest.split_once('/') {
                Some((name, _)) => {
                    entries.push((name.to_owned(), FileType::Directory));
                    // The character behind the slash: what follows all that is below.
                    from = format!("{prefix}{name}0");
                }
                None => {
                    entries.push((rest.to_owned(), FileType::RegularFile));
                    from = format!("{path}\0");
                }
            }
        }
        match entries.is_empty() {
            true if self.files.contains_key(&folder) => Err(Errno::NOTDIR),
            true if !folder.is_empty() => Err(Errno::NOENT),
            _ => Ok(entries),
        }
    }
}

/// A path as it is stored: `..` leads no further up than the root.
fn plain(path: &str) -> String {
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> MemoryTree {
        let mut tree = MemoryTree::default();
        for path in paths {
            tree.insert(path, path.as_bytes().to_vec()).unwrap();
        }
        tree
    }

    fn names(tree: &MemoryTree, folder: &str) -> Result<Vec<String>, Errno> {
        let sign = |kind| if kind == FileType::Directory { "/" } else { "" };
        let entries = tree.entries(folder, 100)?;
        Ok(entries.into_iter().map(|(name, kind)| name + sign(kind)).collect())
    }

    #[test]
    fn folders_are_listed_as_in_a_file_system() {
        let tree =
            tree(&["proc/meminfo", "proc/1/status", "proc/1.5", "proc/10/status", "./sys/a/b"]);
        assert_eq!(names(&tree, "/").unwrap(), ["proc/", "sys/"]);
        assert_eq!(names(&tree, "/proc").unwrap(), ["1.5", "1/", "10/", "meminfo"]);
        assert_eq!(names(&tree, "/proc/1/../10/").unwrap(), ["status"]);
        assert_eq!(names(&tree, "proc/meminfo"), Err(Errno::NOTDIR));
        assert_eq!(names(&tree, "pro"), Err(Errno::NOENT));
        assert_eq!(tree.file("/../proc//1/status").unwrap(), b"proc/1/status");
        assert_eq!(tree.file("/proc/1"), Err(Errno::ISDIR));
        assert_eq!(tree.file("/proc/2"), Err(Errno::NOENT));
        assert_eq!(tree.contradiction(), None);
        assert_eq!(names(&MemoryTree::default(), "/"), Ok(Vec::new()));
    }

    #[test]
    fn a_file_can_be_read_by_its_descriptor() {
        let mut bytes = [0; 64];
        let file = tree(&["proc/self/maps"]).open("/proc/self/maps").unwrap();
        let read = rustix::io::read(&file, &mut bytes).unwrap();
        assert_eq!(&bytes[..read], b"proc/self/maps");
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let mut tree = tree(&["a", "a.b", "a0"]);
        assert_eq!(tree.contradiction(), None);
        tree.insert("a/b", Vec::new()).unwrap();
        assert_eq!(tree.contradiction(), Some("a"));
        assert!(tree.insert("/.", Vec::new()).is_err());
        assert!(tree.insert(&"a/".repeat(3000), Vec::new()).is_err());
    }

    #[test]
    fn a_file_that_comes_twice_counts_once() {
        let mut tree = tree(&["a"]);
        let before = tree.bytes();
        tree.insert("b", vec![0; 10]).unwrap();
        tree.insert("b", vec![0; 3]).unwrap();
        assert_eq!(tree.bytes(), before + 1 + 3);
        assert!(tree.remove("/b") && !tree.remove("b"));
        assert_eq!(tree.bytes(), before);
        assert_eq!(tree.files().collect::<Vec<_>>(), [("a", b"a".as_slice())]);
    }
}
