//! Symbolic links of an archive, resolved within it: `proc/mounts` of a sosreport leads to `self/mounts`, and `proc/self`
//! to a process.

use crate::memory_tree::MemoryTree;
use std::collections::BTreeMap;

/// The most links of an archive that are kept.
const MAX_LINKS: usize = 20_000;

/// The most links on the way to one file, as in the kernel (MAXSYMLINKS is 40; nothing of /proc and /sys needs more).
const MAX_STEPS: usize = 8;

/// The most files that are taken over through one link of a directory.
const MAX_FILES_OF_A_LINK: usize = 256;

/// Targets of links by the links' paths, both from the root of the tree.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<String, String>);

impl Links {
    /// Keeps a link. An absolute target begins at the root of the machine.
    pub(super) fn add(&mut self, path: &str, target: &str) {
        if self.0.len() < MAX_LINKS {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let target = match target.strip_prefix('/') {
                Some(absolute) => absolute.to_owned(),
                None => format!("{folder}/{target}"),
            };
            self.0.insert(path.to_owned(), target);
        }
    }

    /// Gives the files behind the links the links' paths, as long as the files of `tree` have at most `max_bytes`.
    pub(super) fn follow(&self, tree: &mut MemoryTree, max_bytes: usize) {
        for (path, contents) in self.copies(tree, max_bytes.saturating_sub(tree.bytes())) {
            let _ = tree.insert(&path, contents);
        }
    }

    /// Files behind the links that are not in the archive themselves, with so many bytes at most.
    fn copies(&self, tree: &MemoryTree, mut left: usize) -> Vec<(String, Vec<u8>)> {
        let mut copies = Vec::new();
        for (link, target) in &self.0 {
            let Some(target) = self.resolved(target) else { continue };
            for (rest, contents) in tree.files_at(&target).take(MAX_FILES_OF_A_LINK) {
                let path = format!("{link}{rest}");
                if tree.file(&path).is_err() {
                    match left.checked_sub(path.len().saturating_add(contents.len())) {
                        Some(rest) => left = rest,
                        None => return copies,
                    }
                    copies.push((path, contents.to_vec()));
                }
            }
        }
        copies
    }

    /// The path without links; none where they lead in a circle.
    fn resolved(&self, path: &str) -> Option<String> {
        let mut path = path.to_owned();
        for _ in 0..MAX_STEPS {
            match self.step(&path) {
                Some(next) => path = next,
                None => return Some(path),
            }
        }
        None
    }

    /// The path with its first link replaced.
    fn step(&self, path: &str) -> Option<String> {
        let mut names: Vec<&str> = Vec::new();
        let mut rest = path.split('/');
        while let Some(name) = rest.next() {
            match name {
                "" | "." => continue,
                ".." => {
                    names.pop();
                    continue;
                }
                name => names.push(name),
            }
            if let Some(target) = self.0.get(&names.join("/")) {
                let rest: Vec<&str> = rest.collect();
                return Some(format!("{target}/{}", rest.join("/")));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_links_are_followed_and_circles_lead_nowhere() {
        let mut tree = MemoryTree::default();
        tree.insert("proc/7/mounts", b"m".to_vec()).unwrap();
        tree.insert("sys/devices/d/size", b"8".to_vec()).unwrap();
        let mut links = Links::default();
        links.add("proc/mounts", "self/mounts");
        links.add("proc/self", "7");
        links.add("sys/block/d", "../devices/d");
        links.add("proc/a", "b");
        links.add("proc/b", "a");
        links.add("sys/up", "../../../proc/7");
        links.follow(&mut tree, 1 << 20);
        assert_eq!(tree.file("proc/mounts"), Ok(&b"m"[..]));
        assert_eq!(tree.file("proc/self/mounts"), Ok(&b"m"[..]));
        assert_eq!(tree.file("sys/block/d/size"), Ok(&b"8"[..]));
        assert_eq!(tree.file("sys/up/mounts"), Ok(&b"m"[..]));
        assert!(tree.file("proc/a").is_err());
    }

    #[test]
    fn what_links_add_is_bounded() {
        let mut tree = MemoryTree::default();
        tree.insert("proc/large", vec![0; 1000]).unwrap();
        let mut links = Links::default();
        for number in 0..100 {
            links.add(&format!("proc/link{number}"), "large");
        }
        links.follow(&mut tree, 10_000);
        assert!(tree.bytes() <= 10_000, "{}", tree.bytes());
        assert!(tree.file("proc/link0").is_ok());
    }

    #[test]
    fn a_link_to_a_directory_adds_no_more_than_a_link_to_a_file() {
        let mut tree = MemoryTree::default();
        for number in 0..20 {
            tree.insert(&format!("sys/devices/d/file{number}"), vec![0; 1000]).unwrap();
        }
        let limit = tree.bytes() + 5000;
        let mut links = Links::default();
        links.add("sys/block/d", "../devices/d");
        links.follow(&mut tree, limit);
        assert!(tree.bytes() <= limit, "{} of {limit}", tree.bytes());
        assert!(tree.file("sys/block/d/file0").is_ok());
    }
}
